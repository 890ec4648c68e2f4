import { segment } from './texts.js'
import type { CallOptions, IdempotentOptions, Meta, Result, Transport } from './transport.js'
import type { Key, KeyChange, MadeKey, NewKey, RegeneratedKey, RotatedKey } from './types.js'

const path = '/api/users/user/keys'

/** API keys of the account. These calls want a session: see `Quire.logIn`. They are not metered. */
export class Keys {
  readonly #transport: Transport

  /** It is made by a client. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** The account's keys, with those of the last that have ended. */
  list(options?: CallOptions): Promise<Result<{ keys: Key[] }>> {
    return this.#transport.json({ method: 'GET', path, options })
  }

  /** Makes a key. `apiKey` is shown only here. */
  create(key: NewKey, options?: IdempotentOptions): Promise<Result<MadeKey>> {
    return this.#transport.json({ method: 'POST', path, json: key, idempotent: true, options })
  }

  /** Changes a key's name and rules. */
  update(id: string, change: KeyChange, options?: IdempotentOptions): Promise<Result<Key>> {
    return this.#key({ method: 'PUT', path: `${path}/${segment(id)}`, json: change, idempotent: true, options })
  }

  /** Ends a key. Once this has answered, no call is admitted with it. */
  revoke(id: string, options?: IdempotentOptions): Promise<Result<Key>> {
    return this.#key({ method: 'DELETE', path: `${path}/${segment(id)}`, idempotent: true, options })
  }

  /**
   * Replaces a key by one with the same rules. Both are good for the time of `overlap`, such as `"24h"` or `"7d"`, 7 days at most.
   * `apiKey` is shown only here.
   */
  rotate(id: string, overlap: string, options?: IdempotentOptions): Promise<Result<RotatedKey>> {
    return this.#transport.json({ method: 'POST', path: `${path}/${segment(id)}/rotate`, json: { overlap }, idempotent: true, options })
  }

  /** Replaces the default key at once: no call is admitted with the old one any more. `apiKey` is shown only here. */
  regenerateDefault(options?: IdempotentOptions): Promise<Result<RegeneratedKey>> {
    return this.#transport.json({ method: 'POST', path: '/api/users/user/dev-key/regenerate', idempotent: true, options })
  }

  async #key(call: Parameters<Transport['json']>[0]): Promise<Result<Key>> {
    const { key, ...meta } = await this.#transport.json<{ key: Key } & Meta>(call)
    return { ...key, ...meta }
  }
}
