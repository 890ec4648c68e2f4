import type { Meta } from './transport.js'

/** A page of a list. */
export interface Page<T> extends Meta {
  items: T[]
  /** For `cursor` of the page after this one; `null` for the last page. */
  nextCursor: string | null
  hasMore: boolean
}

/**
 * A list that is read page by page, as far as you go through it:
 *
 * ```ts
 * for await (const paste of quire.pastes.list({ tag: 'ci' })) console.log(paste.title)
 * ```
 *
 * Nothing is sent before that. Each way through it begins at its first page.
 */
export class List<T> implements AsyncIterable<T> {
  readonly #read: (cursor: string | undefined) => Promise<Page<T>>
  readonly #cursor: string | undefined

  /** Lists are made by the methods of a client. */
  constructor(cursor: string | undefined, read: (cursor: string | undefined) => Promise<Page<T>>) {
    this.#cursor = cursor
    this.#read = read
  }

  /** The first page alone. Its `nextCursor` begins a list with the page after it. */
  page(): Promise<Page<T>> {
    return this.#read(this.#cursor)
  }

  /** All pages, one after the other. */
  async *pages(): AsyncGenerator<Page<T>, void, undefined> {
    let cursor = this.#cursor
    for (;;) {
      const page = await this.#read(cursor)
      yield page
      if (page.nextCursor === null) return
      cursor = page.nextCursor
    }
  }

  /** All items, one after the other. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const page of this.pages()) yield* page.items
  }
}
