import type { List } from './list.js'
import { listOf, segment } from './texts.js'
import type { Call, CallOptions, IdempotentOptions, Meta, Result, Transport } from './transport.js'
import type { Delivery, MadeWebhook, NewWebhook, RotatedSecret, StartedDelivery, Webhook, WebhookChange } from './types.js'

const path = '/api/users/user/webhooks'

/** Webhooks of the account. These calls want a session: see `Quire.logIn`. `verifyWebhook` checks what a webhook receives. */
export class Webhooks {
  readonly #transport: Transport

  /** It is made by a client. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** The account's webhooks, in the order in which they were made. */
  list(options?: CallOptions): Promise<Result<{ webhooks: Webhook[] }>> {
    return this.#transport.json({ method: 'GET', path, options })
  }

  /** Makes a webhook. `secret` is shown only here. */
  create(webhook: NewWebhook, options?: IdempotentOptions): Promise<Result<MadeWebhook>> {
    return this.#transport.json({ method: 'POST', path, json: webhook, idempotent: true, options })
  }

  /** Reads a webhook. */
  get(id: string, options?: CallOptions): Promise<Result<Webhook>> {
    return this.#webhook({ method: 'GET', path: `${path}/${segment(id)}`, options })
  }

  /** Changes a webhook. An absent field stays as it is. */
  update(id: string, change: WebhookChange, options?: IdempotentOptions): Promise<Result<Webhook>> {
    return this.#webhook({ method: 'PUT', path: `${path}/${segment(id)}`, json: change, idempotent: true, options })
  }

  /** Deletes a webhook. */
  delete(id: string, options?: IdempotentOptions): Promise<Result<{ id: string }>> {
    return this.#transport.json({ method: 'DELETE', path: `${path}/${segment(id)}`, idempotent: true, options })
  }

  /** Replaces a webhook's secret. Until `previousSecretExpiresAt` the one of before signs too. `secret` is shown only here. */
  rotateSecret(id: string, options?: IdempotentOptions): Promise<Result<RotatedSecret>> {
    return this.#post(id, '/rotate-secret', options)
  }

  /** Sends an event of the type `webhook.test`. */
  test(id: string, options?: IdempotentOptions): Promise<Result<StartedDelivery>> {
    return this.#post(id, '/test', options)
  }

  /** The events of a webhook and what became of them, the newest first. */
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
