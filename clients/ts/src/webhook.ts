import type { WebhookEvent } from './types.js'

/** The webhook's signature is invalid, or its timestamp is out of tolerance. */
export class WebhookSignatureError extends Error {
  override name = 'WebhookSignatureError'
}

/** The headers of a request: of `fetch`, of node's `http`, or a plain object with names in lower case. */
export type WebhookHeaders = Headers | Record<string, string | string[] | undefined>

export interface WebhookOptions {
  /** Maximum difference in seconds between the webhook's timestamp and the local clock. 300 by default. */
  toleranceSeconds?: number | undefined
}

const defaultTolerance = 300

/**
 * Verifies a webhook according to Standard Webhooks, and returns its JSON. Pass the raw `body`: parsing and serializing it changes the
 * signature. During a rotation, pass both secrets.
 *
 * A webhook may arrive several times with the same `webhook-id`: skip the ones you have seen.
 *
 * @throws WebhookSignatureError if no signature matches a secret within the tolerance
 * @throws TypeError if a secret does not have the form `whsec_…`
 */
export async function verifyWebhook<T = WebhookEvent>(
  headers: WebhookHeaders, body: string | Uint8Array, secret: string | readonly string[], options: WebhookOptions = {},
): Promise<T> {
  const id = header(headers, 'webhook-id')
  const timestamp = header(headers, 'webhook-timestamp')
  const signatures = header(headers, 'webhook-signature').split(/\s+/)
  const keys = await Promise.all([secret].flat().map(keyOf))
  const age = Math.abs(Date.now() / 1000 - Number(timestamp))
  if (!id || !/^\d{1,15}$/.test(timestamp) || !(age <= (options.toleranceSeconds ?? defaultTolerance))) {
    throw new WebhookSignatureError('the webhook has no id, or its timestamp is out of tolerance')
  }
  const payload = typeof body === 'string' ? new TextEncoder().encode(body) : body
  const signed = concat(new TextEncoder().encode(`${id}.${timestamp}.`), payload)
  for (const key of keys) {
    for (const signature of signatures) {
      const mac = signature.startsWith('v1,') ? decode(signature.slice(3)) : undefined
      if (mac && await crypto.subtle.verify('HMAC', key, mac, signed)) {
        return JSON.parse(new TextDecoder().decode(payload)) as T
      }
    }
  }
  throw new WebhookSignatureError('the webhook was not signed with this secret, or was changed')
}

function header(headers: WebhookHeaders, name: string): string {
  const value = headers instanceof Headers ? headers.get(name) : headers[name]
  return (Array.isArray(value) ? value.join(' ') : value) ?? ''
}

function keyOf(secret: string): Promise<CryptoKey> {
  const bytes = decode(secret.replace(/^whsec_/, ''))
  if (!bytes?.length) throw new TypeError('the secret of the webhook is not of the form whsec_…')
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
}

/** The bytes of Base64 text; undefined if it is invalid. */
function decode(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))
  } catch {
    return undefined
  }
}

function concat(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(a.length + b.length)
  out.set(a)
  out.set(b, a.length)
  return out
}
