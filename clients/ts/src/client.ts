import { Account } from './account.js'
import { Files } from './files.js'
import { Keys } from './keys.js'
import { Pastes } from './pastes.js'
import { Transport, type CallOptions, type Result } from './transport.js'
import type { Profile } from './types.js'
import { Webhooks } from './webhooks.js'

/** Options of a client. */
export interface ClientOptions {
  /** Without it the client can only create quick pastes, and edit them with their `manageToken`. */
  apiKey?: string | undefined
  /** `session` of a log-in, used without an API key. Anyone with it can act as the account. */
  session?: string | undefined
  /** URL of the service, such as `https://paste.example`. Defaults to `http://127.0.0.1:8080`, where `make run` listens. */
  baseUrl?: string | URL | undefined
  /** Timeout of a call in milliseconds, including retries. 120,000 by default. Uploads and downloads have none. */
  timeoutMs?: number | undefined
  /**
   * Maximum number of retries: after connection failures, 502, 503, 504, `idempotency_in_flight` and `quota_held`, with exponential
   * backoff and jitter, honoring Retry-After. No other answer is retried. 4 by default; 0 disables retries.
   */
  retries?: number | undefined
  /** Replaces the global `fetch`, for a proxy, certificates or tests. */
  fetch?: typeof fetch | undefined
  /** Sent with each call to `baseUrl`. */
  headers?: Record<string, string> | undefined
}

export interface Credentials {
  email: string
  /** 8 to 128 characters. */
  password: string
}

/** Result of a log-in. The session expires after 30 days. */
export interface Session extends Profile {
  /** A client with the session. */
  quire: Quire
  /** For `session` of a client. Absent in a browser, which keeps the cookie and sends it to its origin. */
  session: string | undefined
}

const defaultBaseUrl = 'http://127.0.0.1:8080'
const defaultTimeoutMs = 120_000
const defaultRetries = 4

/**
 * A client of one service, with one API key.
 *
 * ```ts
 * const quire = new Quire({ apiKey: process.env.QUIRE_API_KEY, baseUrl: 'https://paste.example' })
 * const { url, remaining } = await quire.quickPastes.create({ content: 'hello' })
 * ```
 *
 * Each method is one operation of the API, charged at most once: each write and each metered read gets an `Idempotency-Key`, under
 * which it is retried when the connection breaks or the service is unavailable.
 */
export class Quire {
  readonly #transport: Transport
  /** Up to 4 MB, with an account of the tiers Pro and Max. */
  readonly pastes: Pastes
  /** Up to 256 KB, with an account or without. */
  readonly quickPastes: Pastes
  /** Up to 50 MB, with an account of the tiers Pro and Max. */
  readonly files: Files
  /** Usage, bills, sessions and settings of the account. */
  readonly account: Account
  /** API keys of the account. Requires a session. */
  readonly keys: Keys
  /** Webhooks of the account. Requires a session. */
  readonly webhooks: Webhooks

  /** Sends nothing. @throws TypeError for an invalid option */
  constructor(options: ClientOptions = {}) {
    const transport = new Transport({
      baseUrl: checkBaseUrl(options.baseUrl ?? defaultBaseUrl),
      fetch: options.fetch ?? ((...args) => fetch(...args)),
      headers: options.headers ?? {},
      apiKey: checkSecret('apiKey', options.apiKey),
      session: checkSecret('session', options.session),
      timeoutMs: checkCount('timeoutMs', options.timeoutMs ?? defaultTimeoutMs),
      retries: checkCount('retries', options.retries ?? defaultRetries),
    })
    this.#transport = transport
    this.pastes = new Pastes(transport, '/api/dev/pastes')
    this.quickPastes = new Pastes(transport, '/api/dev/paste-lite')
    this.files = new Files(transport)
    this.account = new Account(transport)
    this.keys = new Keys(transport)
    this.webhooks = new Webhooks(transport)
  }

  /** The receipt with the greatest number among this client's answers, refusals and failures included. Keep it for `account.verifyReceipts`. */
  get newestReceipt(): string | undefined {
    return this.#transport.newestReceipt
  }

  /** Creates an account on the Free plan and opens a session. It has no API key yet: `keys.regenerateDefault` creates it. */
  static register(credentials: Credentials, options: Omit<ClientOptions, 'apiKey' | 'session'> = {}, call?: CallOptions): Promise<Result<Session>> {
    return open('/api/users/register', credentials, options, call)
  }

  /**
   * Opens a session. Fails with an UnauthorizedError if the email or password is wrong, and with `deletion_scheduled` if the
   * account is scheduled for deletion: `cancelDeletion` keeps it.
   */
  static logIn(credentials: Credentials & { cancelDeletion?: boolean }, options: Omit<ClientOptions, 'apiKey' | 'session'> = {}, call?: CallOptions): Promise<Result<Session>> {
    return open('/api/users/login', credentials, options, call)
  }
}

async function open(path: string, { email, password, cancelDeletion }: Credentials & { cancelDeletion?: boolean }, options: ClientOptions, call?: CallOptions): Promise<Result<Session>> {
  const { account } = new Quire(options)
  const { session, profile } = await account.open(path, { email, password, cancelDeletion }, call)
  return { ...profile, session, quire: new Quire({ ...options, session }) }
}

function checkBaseUrl(value: string | URL): string {
  const text = String(value)
  let url: URL | undefined
  try {
    url = new URL(text)
  } catch {
    // The error below says what is expected.
  }
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash || url.username || url.password) {
    throw new TypeError(`${JSON.stringify(text)} is no baseUrl: it takes http or https, a host, and perhaps a path`)
  }
  return url.href.replace(/\/+$/, '')
}

/** A header value. The error does not contain it, since it is a secret. */
function checkSecret(name: string, value: string | undefined): string | undefined {
  if (value !== undefined && !/^[!-~]+$/.test(value)) throw new TypeError(`${name} is empty, or has a character that none has`)
  return value
}

function checkCount(name: string, value: number): number {
  if (typeof value !== 'number' || !(value >= 0)) throw new TypeError(`${name} is a number from 0 on, not ${String(value)}`)
  return value
}
