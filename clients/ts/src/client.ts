import { Account } from './account.js'
import { Files } from './files.js'
import { Keys } from './keys.js'
import { Texts } from './texts.js'
import { Transport, type CallOptions, type Result } from './transport.js'
import type { Profile } from './types.js'
import { Webhooks } from './webhooks.js'

/** How a client works. */
export interface ClientOptions {
  /** Without it only quick pastes can be made, and changed with their `manageToken`. */
  apiKey?: string | undefined
  /** `session` of a log-in, where there is no API key. Whoever has it can do what the account can. */
  session?: string | undefined
  /** Where the service is, such as `https://paste.example`. `http://127.0.0.1:8080` by default, where `make run` listens. */
  baseUrl?: string | URL | undefined
  /** Longest time of a call in milliseconds, with its retries. 120,000 by default. Uploads and downloads have no such limit. */
  timeoutMs?: number | undefined
  /**
   * How often a call is repeated at most: after a connection that broke, and after 502, 503, 504, `idempotency_in_flight` and
   * `quota_held`. It waits between two attempts, longer each time and as long as Retry-After says. No other answer is asked
   * for again. 4 by default; 0: each call is sent once.
   */
  retries?: number | undefined
  /** In place of the global one, for a proxy, certificates or tests. */
  fetch?: typeof fetch | undefined
  /** Sent with each call to `baseUrl`. */
  headers?: Record<string, string> | undefined
}

export interface Credentials {
  email: string
  /** 8 to 128 characters. */
  password: string
}

/** What a log-in opens. It is good for 30 days. */
export interface Session extends Profile {
  /** Calls with the session. */
  quire: Quire
  /** For `session` of a client. Absent in a browser, which keeps it to itself and sends it to its own origin. */
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
 * One method is one operation of the API, and at most one charge: each write and each metered read gets an `Idempotency-Key`,
 * under which it is repeated when the connection breaks or the service can't answer.
 */
export class Quire {
  /** Up to 4 MiB, with an account of the tiers Pro and Max. */
  readonly pastes: Texts
  /** Up to 256 KiB, with an account or without. */
  readonly quickPastes: Texts
  /** Up to 50 MB, with an account of the tiers Pro and Max. */
  readonly files: Files
  /** Usage, bills, sessions and settings of the account. */
  readonly account: Account
  /** API keys of the account. They want a session. */
  readonly keys: Keys
  /** Webhooks of the account. They want a session. */
  readonly webhooks: Webhooks

  /** Nothing is sent. @throws TypeError for an option that is wrong */
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
    this.pastes = new Texts(transport, '/api/dev/pastes')
    this.quickPastes = new Texts(transport, '/api/dev/paste-lite')
    this.files = new Files(transport)
    this.account = new Account(transport)
    this.keys = new Keys(transport)
    this.webhooks = new Webhooks(transport)
  }

  /** Makes an account of the tier Free, and opens a session. It has no API key yet: `keys.regenerateDefault` makes it. */
  static register(credentials: Credentials, options: Omit<ClientOptions, 'apiKey' | 'session'> = {}, call?: CallOptions): Promise<Result<Session>> {
    return open('/api/users/register', credentials, options, call)
  }

  /** Opens a session. It fails with an UnauthorizedError where no account has that email and password. */
  static logIn(credentials: Credentials, options: Omit<ClientOptions, 'apiKey' | 'session'> = {}, call?: CallOptions): Promise<Result<Session>> {
    return open('/api/users/login', credentials, options, call)
  }
}

async function open(path: string, { email, password }: Credentials, options: ClientOptions, call?: CallOptions): Promise<Result<Session>> {
  const { account } = new Quire(options)
  const { session, profile } = await account.open(path, { email, password }, call)
  return { ...profile, session, quire: new Quire({ ...options, session }) }
}

function checkBaseUrl(value: string | URL): string {
  const text = String(value)
  let url: URL | undefined
  try {
    url = new URL(text)
  } catch {
    // The error below says what is wanted.
  }
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash || url.username || url.password) {
    throw new TypeError(`${JSON.stringify(text)} is no baseUrl: it takes http or https, a host, and perhaps a path`)
  }
  return url.href.replace(/\/+$/, '')
}

/** The value of a header. It is not in the error, since it is a secret. */
function checkSecret(name: string, value: string | undefined): string | undefined {
  if (value !== undefined && !/^[!-~]+$/.test(value)) throw new TypeError(`${name} is empty, or has a character that none has`)
  return value
}

function checkCount(name: string, value: number): number {
  if (typeof value !== 'number' || !(value >= 0)) throw new TypeError(`${name} is a number from 0 on, not ${String(value)}`)
  return value
}
