import { List, type Page } from './list.js'
import type { Call, CallOptions, IdempotentOptions, Result, Transport } from './transport.js'
import type { CreatedPaste, Deleted, NewPaste, Paste, PasteChange, PasteFilter, PasteHead, PasteVersion, UpdatedPaste, VersionFilter } from './types.js'

/** Options of a read. */
export interface ReadOptions extends IdempotentOptions {
  /** An earlier version, from 1. Only the owner may read it. */
  version?: number | undefined
  /** Of a protected document. */
  password?: string | undefined
  /** Fails with a NotModifiedError if the document still has this version. */
  ifNotVersion?: number | undefined
}

/** Options of an edit. */
export interface ChangeOptions extends IdempotentOptions {
  /** Fails with a VersionMismatchError unless the document has this version. */
  ifVersion?: number | undefined
  /** Of a quick paste created without an API key. The call does not send the client's API key. */
  manageToken?: string | undefined
}

/** Pastes, or quick pastes. */
export class Pastes {
  readonly #transport: Transport
  readonly #path: string

  /** @internal Created by a client. */
  constructor(transport: Transport, path: string) {
    this.#transport = transport
    this.#path = path
  }

  /** Creates a paste. */
  create(paste: NewPaste, options?: IdempotentOptions): Promise<Result<CreatedPaste>> {
    return this.#transport.json({ method: 'POST', path: `${this.#path}/create`, json: paste, idempotent: true, options })
  }

  /** Reads a paste. The first read of a burn-after-read paste by anyone but its owner is the last one. */
  async get(id: string, options: ReadOptions = {}): Promise<Result<Paste>> {
    const { paste, ...meta } = await this.#transport.json<{ paste: Paste }>({
      method: 'GET', path: this.#item('get', id), query: { version: options.version }, idempotent: true, options,
      headers: { 'if-none-match': tag(options.ifNotVersion), 'x-paste-password': options.password },
    })
    return { ...paste, ...meta }
  }

  /** Edits a paste. At least one field is required. Every version stays readable to the owner. */
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

  /** A paste's versions, newest first, without their content. Only the owner may list them. It is not metered. */
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

/** A path segment. An empty or dot segment would change the path. */
export function segment(id: string): string {
  if (/^\.{0,2}$/.test(id)) throw new TypeError(`${JSON.stringify(id)} is no id`)
  return encodeURIComponent(id)
}

function tag(version: number | undefined): string | undefined {
  return version === undefined ? undefined : `"${version}"`
}

/** A list whose pages have their items in the named member. */
export function listOf<T>(
  transport: Transport, path: string, member: string, filter: { cursor?: string }, options: CallOptions | undefined,
): List<T> {
  return new List(filter.cursor, async (cursor) => {
    const { [member]: items, ...page } = await transport.json<Record<string, unknown>>({ method: 'GET', path, query: { ...filter, cursor }, options })
    return { ...page, items } as unknown as Page<T> // by the API's description
  })
}
