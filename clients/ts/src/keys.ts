import { segment } from './pastes.js'
import type { CallOptions, IdempotentOptions, Meta, Result, Transport } from './transport.js'
import type { Key, KeyChange, CreatedKey, NewKey, RegeneratedKey, RotatedKey } from './types.js'

const path = '/api/users/user/keys'

/** API keys of the account. These calls require a session: see `Quire.logIn`. They are not metered. */
export class Keys {
  readonly #transport: Transport

  /** @internal Created by a client. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** The account's keys, including the latest revoked and expired ones. */
  list(options?: CallOptions): Promise<Result<{ keys: Key[] }>> {
    return this.#transport.json({ method: 'GET', path, options })
  }

  /** Creates a key. `apiKey` is shown only here. */
  create(key: NewKey, options?: IdempotentOptions): Promise<Result<CreatedKey>> {
    return this.#transport.json({ method: 'POST', path, json: key, idempotent: true, options })
  }

  /** Edits a key's name and rules. */
  update(id: string, change: KeyChange, options?: IdempotentOptions): Promise<Result<Key & { capCleared?: boolean }>> {
    return this.#key({ method: 'PUT', path: `${path}/${segment(id)}`, json: change, idempotent: true, options })
  }

  /** Revokes a key. Once this has answered, calls with the key are refused. */
  revoke(id: string, options?: IdempotentOptions): Promise<Result<Key>> {
    return this.#key({ method: 'DELETE', path: `${path}/${segment(id)}`, idempotent: true, options })
  }

  /**
   * Rotates a key: creates one with the same rules. Both are valid during `overlap`, such as `"24h"` or `"7d"`, at most 7 days.
   * `apiKey` is shown only here.
   */
  rotate(id: string, overlap: string, options?: IdempotentOptions): Promise<Result<RotatedKey>> {
    return this.#transport.json({ method: 'POST', path: `${path}/${segment(id)}/rotate`, json: { overlap }, idempotent: true, options })
  }

  /** Replaces the default key immediately: calls with the old one are refused. `apiKey` is shown only here. */
  regenerateDefault(options?: IdempotentOptions): Promise<Result<RegeneratedKey>> {
    return this.#transport.json({ method: 'POST', path: '/api/users/user/dev-key/regenerate', idempotent: true, options })
  }

  async #key(call: Parameters<Transport['json']>[0]): Promise<Result<Key>> {
    const { key, ...meta } = await this.#transport.json<{ key: Key } & Meta>(call)
    return { ...key, ...meta }
  }
}
