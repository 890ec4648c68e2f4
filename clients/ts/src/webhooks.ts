import type { List } from './list.js'
import { listOf, segment } from './pastes.js'
import type { Call, CallOptions, IdempotentOptions, Meta, Result, Transport } from './transport.js'
import type { Delivery, CreatedWebhook, NewWebhook, RotatedSecret, StartedDelivery, Webhook, WebhookChange } from './types.js'

const path = '/api/users/user/webhooks'

/** Webhooks of the account. These calls require a session: see `Quire.logIn`. Receivers use `verifyWebhook`. */
export class Webhooks {
  readonly #transport: Transport

  /** @internal Created by a client. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** The account's webhooks, in order of creation. */
  list(options?: CallOptions): Promise<Result<{ webhooks: Webhook[] }>> {
    return this.#transport.json({ method: 'GET', path, options })
  }

  /** Creates a webhook. `secret` is shown only here. */
  create(webhook: NewWebhook, options?: IdempotentOptions): Promise<Result<CreatedWebhook>> {
    return this.#transport.json({ method: 'POST', path, json: webhook, idempotent: true, options })
  }

  /** Reads a webhook. */
  get(id: string, options?: CallOptions): Promise<Result<Webhook>> {
    return this.#webhook({ method: 'GET', path: `${path}/${segment(id)}`, options })
  }

  /** Edits a webhook. An absent field stays unchanged. */
  update(id: string, change: WebhookChange, options?: IdempotentOptions): Promise<Result<Webhook>> {
    return this.#webhook({ method: 'PUT', path: `${path}/${segment(id)}`, json: change, idempotent: true, options })
  }

  /** Deletes a webhook. */
  delete(id: string, options?: IdempotentOptions): Promise<Result<{ id: string }>> {
    return this.#transport.json({ method: 'DELETE', path: `${path}/${segment(id)}`, idempotent: true, options })
  }

  /** Rotates a webhook's secret. The old one stays valid until `previousSecretExpiresAt`. `secret` is shown only here. */
  rotateSecret(id: string, options?: IdempotentOptions): Promise<Result<RotatedSecret>> {
    return this.#post(id, '/rotate-secret', options)
  }

  /** Sends an event of the type `webhook.test`. */
  test(id: string, options?: IdempotentOptions): Promise<Result<StartedDelivery>> {
    return this.#post(id, '/test', options)
  }

  /** The deliveries of a webhook, newest first. */
  deliveries(id: string, page: { limit?: number, cursor?: string } = {}, options?: CallOptions): List<Delivery> {
    return listOf(this.#transport, `${path}/${segment(id)}/deliveries`, 'deliveries', page, options)
  }

  /** Sends an event again. */
  replay(id: string, delivery: string, options?: IdempotentOptions): Promise<Result<{ delivery: Delivery }>> {
    return this.#post(id, `/deliveries/${segment(delivery)}/replay`, options)
  }

  #post<T extends object>(id: string, below: string, options: IdempotentOptions | undefined): Promise<Result<T>> {
    return this.#transport.json({ method: 'POST', path: `${path}/${segment(id)}${below}`, idempotent: true, options })
  }

  async #webhook(call: Call): Promise<Result<Webhook>> {
    const { webhook, ...meta } = await this.#transport.json<{ webhook: Webhook } & Meta>(call)
    return { ...webhook, ...meta }
  }
}
