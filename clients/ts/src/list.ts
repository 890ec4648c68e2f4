import type { Meta } from './transport.js'

/** A page of a list. */
export interface Page<T> extends Meta {
  items: T[]
  /** `cursor` of the next page; `null` on the last page. */
  nextCursor: string | null
  hasMore: boolean
}

/**
 * A list that is fetched page by page, on demand:
 *
 * ```ts
 * for await (const paste of quire.pastes.list({ tag: 'ci' })) console.log(paste.title)
 * ```
 *
 * Nothing is sent before that. Each iteration starts at the first page.
 */
export class List<T> implements AsyncIterable<T> {
  readonly #read: (cursor: string | undefined) => Promise<Page<T>>
  readonly #cursor: string | undefined

  /** @internal Created by the methods of a client. */
  constructor(cursor: string | undefined, read: (cursor: string | undefined) => Promise<Page<T>>) {
    this.#cursor = cursor
    this.#read = read
  }

  /** The first page only. Its `nextCursor` starts a list at the next page. */
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
