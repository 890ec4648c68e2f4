import { List, type Page } from './list.js'
import type { Call, CallOptions, IdempotentOptions, Result, Transport } from './transport.js'
import type { CreatedPaste, Deleted, NewPaste, Paste, PasteChange, PasteFilter, PasteHead, PasteVersion, UpdatedPaste, VersionFilter } from './types.js'

/** What a read of a paste takes. */
export interface ReadOptions extends IdempotentOptions {
  /** An earlier version, from 1. Only the owner may read it. */
  version?: number | undefined
  /** Of a document that has one. */
  password?: string | undefined
  /** Reads the document only if it has another version by now. Otherwise the call fails with a NotModifiedError. */
  ifNotVersion?: number | undefined
}

/** What a change of a paste takes. */
export interface ChangeOptions extends IdempotentOptions {
  /** Changes the document only while it has this version. Otherwise the call fails with a VersionMismatchError. */
  ifVersion?: number | undefined
  /** Of a quick paste that was made without an API key. The call is sent without the client's API key. */
  manageToken?: string | undefined
}

/** Pastes, or quick pastes. */
export class Texts {
  readonly #transport: Transport
  readonly #path: string

  /** It is made by a client. */
  constructor(transport: Transport, path: string) {
    this.#transport = transport
    this.#path = path
  }

  /** Makes a paste. */
  create(paste: NewPaste, options?: IdempotentOptions): Promise<Result<CreatedPaste>> {
    return this.#transport.json({ method: 'POST', path: `${this.#path}/create`, json: paste, idempotent: true, options })
  }

  /** Reads a paste. The first read of one that burns after reading, by somebody other than its owner, is the last. */
  async get(id: string, options: ReadOptions = {}): Promise<Result<Paste>> {
    const { paste, ...meta } = await this.#transport.json<{ paste: Paste }>({
      method: 'GET', path: this.#item('get', id), query: { version: options.version }, idempotent: true, options,
      headers: { 'if-none-match': tag(options.ifNotVersion), 'x-paste-password': options.password },
    })
    return { ...paste, ...meta }
  }

  /** Changes a paste. At least one field is needed. Every version stays readable to the owner. */
  update(id: string, change: PasteChange, options?: ChangeOptions): Promise<Result<UpdatedPaste>> {
    return this.#transport.json({ ...this.#change('PUT', 'update', id, options), json: change })
  }

  /** Deletes a paste with all its versions. */
  delete(id: string, options?: ChangeOptions): Promise<Result<Deleted>> {
    return this.#transport.json(this.#change('DELETE', 'delete', id, options))
  }

  /** The account's own pastes, without their content. It is not metered. */
  list(filter: PasteFilter = {}, options?: CallOptions): List<PasteHead> {
    return listOf(this.#transport, `${this.#path}/list`, 'pastes', filter, options)
  }

  /** A paste's versions, the newest first, without their content. Only the owner may list them. It is not metered. */
  versions(id: string, filter: VersionFilter = {}, options?: CallOptions): List<PasteVersion> {
    return listOf(this.#transport, this.#item('versions', id), 'versions', filter, options)
  }

  #item(operation: string, id: string): string {
    return `${this.#path}/${operation}/${segment(id)}`
  }

  #change(method: 'PUT' | 'DELETE', operation: string, id: string, options: ChangeOptions = {}): Call {
    return {
      method, path: this.#item(operation, id), idempotent: true, options, anonymous: options.manageToken !== undefined,
      headers: { 'if-match': tag(options.ifVersion), 'x-manage-token': options.manageToken },
    }
  }
}

/** A part of a path. One that is empty or of dots would be another path. */
export function segment(id: string): string {
  if (/^\.{0,2}$/.test(id)) throw new TypeError(`${JSON.stringify(id)} is no id`)
  return encodeURIComponent(id)
}

function tag(version: number | undefined): string | undefined {
  return version === undefined ? undefined : `"${version}"`
}

/** A list whose pages have their items in a member of this name. */
export function listOf<T>(
  transport: Transport, path: string, member: string, filter: { cursor?: string }, options: CallOptions | undefined,
): List<T> {
  return new List(filter.cursor, async (cursor) => {
    const { [member]: items, ...page } = await transport.json<Record<string, unknown>>({ method: 'GET', path, query: { ...filter, cursor }, options })
    return { ...page, items } as unknown as Page<T> // by the API's description
  })
}
