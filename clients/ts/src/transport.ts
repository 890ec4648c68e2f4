import { ApiError, ConnectionError, QuireError, TimeoutError, failureOf } from './errors.js'
import { receiptForm } from './receipts.js'

/** Options of every method. */
export interface CallOptions {
  /** Aborts the call, its retries and its waits. The call then fails with the signal's `reason`. */
  signal?: AbortSignal | undefined
  /** Timeout of the call in milliseconds, including retries; `Infinity` for none. 120,000 by default. */
  timeoutMs?: number | undefined
}

/** Options of a call that is charged at most once. */
export interface IdempotentOptions extends CallOptions {
  /**
   * Replaces the random one: a write retried under it within 24 hours, even by another process, is carried out once.
   * 1 to 128 printable ASCII characters.
   */
  idempotencyKey?: string | undefined
}

/** What paid for a call. */
export type ChargeSource = 'quota' | 'credits' | 'none'

/** Metadata of every result. */
export interface Meta {
  /** Free calls left this month under the call's quota key; 0 if the next one uses credits, -1 if unlimited. */
  remaining: number
  /** For `account.explain`. */
  requestId: string
  /** What paid for the call; absent if it is not metered. */
  chargeSource?: ChargeSource | undefined
  /** Credits that the call cost, such as `"0.000500"`. See `parseCredits` for sums. */
  cost: string
  /** Balance after the call; absent unless credits paid. */
  balance?: string | undefined
  /** `<n>.<hash>`: commits to all n account entries up to this call; absent if it is unmetered, keyless, refused or replayed. */
  receipt?: string | undefined
  /** Replayed under the `idempotencyKey`: nothing was charged again. */
  replayed: boolean
}

/** The content of a response, and its metadata. */
export type Result<T> = T & Meta

/** Settings of a client's transport. */
export interface Settings {
  baseUrl: string
  fetch: typeof fetch
  headers: Record<string, string>
  apiKey: string | undefined
  session: string | undefined
  timeoutMs: number
  retries: number
}

/** One call. It may be sent several times. */
export interface Call {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Relative to `baseUrl`, or an absolute URL, which gets no API key. */
  path: string | URL
  query?: object | undefined
  headers?: Record<string, string | undefined>
  /** It is sent as JSON. */
  json?: unknown
  /** Returns the body of an attempt, which is closed after it. `length` in bytes, if known. */
  body?: (attempt: Attempt) => { body: Sendable, length?: number | undefined }
  /** No API key and no session are sent. */
  anonymous?: boolean
  /** A write or a metered read: its attempts share an `Idempotency-Key`. */
  idempotent?: boolean
  /** `timeoutMs` has no default: the call continues while bytes move. */
  transfer?: boolean
  options?: IdempotentOptions | undefined
}

/** What each attempt of a call sends. */
interface Request {
  address: string
  headers: Record<string, string>
  text: string | undefined
}

/** Bodies that every `fetch` accepts. */
export type Sendable = Blob | ReadableStream<Uint8Array>

const firstPauseMs = 100
const longestPauseMs = 10_000
/** The longest Retry-After that a call waits for. A longer one is up to the caller. */
const longestRetryAfterMs = 60_000
/** Timeout of an attempt without any transferred byte. The service answers sooner, even a long poll. */
const silenceMs = 60_000
/** A body sent as a whole shows no progress. The service gives up on slower ones. */
const slowestBytesPerMs = 16
/** Maximum size of a JSON response: a paste of 4 MB with every byte escaped. */
const longestAnswerBytes = 26 * 2 ** 20
const longestTimerMs = 2 ** 31 - 1

/** Sends calls and retries them. */
export class Transport {
  readonly #settings: Settings
  /** The receipt with the greatest number among the answers. */
  newestReceipt: string | undefined

  constructor(settings: Settings) {
    this.#settings = settings
  }

  /** Sends a call and returns the JSON of its response, without `success`. */
  async json<T extends object>(call: Call, headers?: (headers: Headers) => void): Promise<Result<T>> {
    return this.send(call, async (response, attempt) => {
      const body = await readText(response, attempt, longestAnswerBytes)
      const { success: _, ...content } = parseAnswer(body) as T & { success: boolean }
      headers?.(response.headers)
      return { ...content as T, ...metaOf(response.headers, content) }
    })
  }

  /**
   * Sends a call until it succeeds, fails permanently, or runs out of retries. `read` reads the response of a success; it is retried as
   * well if it throws a ConnectionError.
   */
  async send<T>(call: Call, read: (response: Response, attempt: Attempt) => Promise<T>): Promise<T> {
    const { signal, timeoutMs = call.transfer ? Infinity : this.#settings.timeoutMs } = call.options ?? {}
    const until = Date.now() + timeoutMs
    const request = this.#request(call)
    let pause = firstPauseMs
    let last: unknown
    for (let sent = 0; ; sent++) {
      const attempt = new Attempt(signal, until, last)
      try {
        const out = await read(await this.#fetch(call, request, attempt), attempt)
        if (!attempt.kept) attempt.end()
        return out
      } catch (error) {
        last = attempt.failure ?? error
        attempt.end()
        attempt.fail(last) // where it still sends
      }
      const wait = repeatableAfterMs(last)
      // Jitter, so that clients that failed together don't retry together.
      const waitMs = Math.max(wait ?? 0, 0) + pause / 2 + Math.random() * pause / 2
      pause = Math.min(2 * pause, longestPauseMs)
      if (wait === undefined || sent >= this.#settings.retries || wait > longestRetryAfterMs || Date.now() + waitMs >= until) throw last
      await sleep(waitMs, signal)
    }
  }

  /** The parts of a request that all attempts share. */
  #request(call: Call): Request {
    const { apiKey, session, headers: own, baseUrl } = this.#settings
    const ours = typeof call.path === 'string'
    const headers: Record<string, string> = { ...ours ? own : {} }
    if (ours && !call.anonymous) {
      if (apiKey !== undefined) headers['x-api-key'] = apiKey
      else if (session !== undefined) headers.cookie = session
    }
    if (call.idempotent) headers['idempotency-key'] = call.options?.idempotencyKey ?? newIdempotencyKey()
    if (call.json !== undefined) headers['content-type'] = 'application/json'
    for (const [name, value] of Object.entries(call.headers ?? {})) if (value !== undefined) headers[name] = value
    const address = new URL(ours ? baseUrl + call.path : call.path)
    for (const [name, value] of Object.entries(call.query ?? {})) {
      if (value !== undefined && value !== null) address.searchParams.set(name, value instanceof Date ? value.toISOString() : String(value))
    }
    return { address: address.href, headers, text: call.json === undefined ? undefined : JSON.stringify(call.json) }
  }

  #seeReceipt(text: string | null): void {
    if (text && receiptForm.test(text) && parseInt(text) > parseInt(this.newestReceipt ?? '0')) this.newestReceipt = text
  }

  async #fetch(call: Call, { address, headers, text }: Request, attempt: Attempt): Promise<Response> {
    attempt.signal.throwIfAborted()
    const init: RequestInit & { duplex?: 'half' } = {
      method: call.method,
      headers,
      signal: attempt.signal,
      redirect: 'manual', // a redirect would take the API key to another host
    }
    const { body = text, length = text?.length } = call.body?.(attempt) ?? {}
    if (body !== undefined) init.body = body
    if (body instanceof ReadableStream) init.duplex = 'half'
    attempt.moved((length ?? 0) / slowestBytesPerMs)
    let response: Response
    try {
      const { fetch } = this.#settings
      response = await fetch(address, init)
    } catch (error) {
      throw new ConnectionError(`${call.method} ${address} failed: ${reasonOf(error)}`, { cause: error })
    }
    attempt.moved()
    this.#seeReceipt(response.headers.get('x-receipt'))
    if (response.ok) return response
    if (response.type === 'opaqueredirect' || response.status >= 300 && response.status < 400 && response.status !== 304) {
      await response.body?.cancel()
      throw new QuireError(`${address} redirects to ${response.headers.get('location') ?? 'another address'}: use that as baseUrl`)
    }
    throw failureOf(response.status, response.headers, await readText(response, attempt, 2 ** 16).catch(() => ''))
  }
}

/** One attempt of a call. It ends on the caller's signal, the call's timeout, or silence of the connection. */
export class Attempt {
  readonly #controller = new AbortController()
  readonly #caller: AbortSignal | undefined
  readonly #abort = () => this.fail(this.#caller?.reason)
  readonly #until: number
  /** Why the previous attempt failed. */
  readonly last: unknown
  #kept = false
  #timer: ReturnType<typeof setTimeout> | undefined
  #failed: { reason: unknown } | undefined

  constructor(caller: AbortSignal | undefined, until: number, last: unknown) {
    this.#caller = caller
    this.#until = until
    this.last = last
    if (caller?.aborted) this.#abort()
    caller?.addEventListener('abort', this.#abort)
    this.moved()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Why the attempt was aborted. It takes precedence over the error of `fetch`. */
  get failure(): unknown {
    return this.#failed?.reason
  }

  get kept(): boolean {
    return this.#kept
  }

  /** The response is read after `send` has returned, and its reader ends the attempt. */
  keep(): void {
    this.#kept = true
  }

  /** Ends the attempt with an error. */
  fail(reason: unknown): void {
    if (this.#failed) return
    this.#failed = { reason }
    this.#controller.abort(reason)
  }

  /** Bytes have moved. The next ones may take `silenceMs`, and extraMs more. */
  moved(extraMs = 0): void {
    if (this.#failed) return
    clearTimeout(this.#timer)
    const left = this.#until - Date.now()
    const silence = silenceMs + extraMs
    this.#timer = setTimeout(() => {
      this.fail(left <= silence
        ? new TimeoutError('the call was not answered within its timeoutMs', { cause: this.last })
        : new ConnectionError(`no byte has moved for ${Math.round(silence / 1000)} seconds`))
    }, Math.min(Math.max(left, 0), silence, longestTimerMs))
  }

  /** Suspends the silence timeout while the caller is busy. */
  idle(): void {
    clearTimeout(this.#timer)
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#caller?.removeEventListener('abort', this.#abort)
  }
}

/** A random 128-bit key. crypto.randomUUID is missing in pages without TLS. */
export function newIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Milliseconds until a retry may succeed; undefined if a retry does not help. */
function repeatableAfterMs(error: unknown): number | undefined {
  if (error instanceof ConnectionError) return isFinal(error.cause) ? undefined : 0
  if (!(error instanceof ApiError)) return undefined
  const again = error.code === 'idempotency_in_flight' || error.code === 'quota_held' || [502, 503, 504].includes(error.status)
  return again ? error.retryAfterMs ?? 0 : undefined
}

/** Codes of node, Deno and Bun for unknown hosts, invalid certificates and invalid addresses. */
const finalCodes = /^(ENOTFOUND|ERR_(TLS|SSL|INVALID)|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|UND_ERR_(INVALID|NOT_SUPPORTED)|ConnectionRefusedByPolicy)/

function isFinal(error: unknown): boolean {
  for (let e = error, depth = 0; e instanceof Error && depth < 5; e = e.cause, depth++) {
    if ('code' in e && finalCodes.test(String(e.code))) return true
  }
  return false
}

/** The most specific message of an error: its innermost cause's. */
function reasonOf(error: unknown): string {
  let e = error
  for (let depth = 0; e instanceof Error && e.cause instanceof Error && depth < 5; depth++) e = e.cause
  return e instanceof Error ? e.message || String((e as { code?: unknown }).code ?? e.name) : String(e)
}

async function readText(response: Response, attempt: Attempt, longestBytes: number): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  for await (const chunk of chunksOf(response, attempt)) {
    bytes += chunk.length
    if (bytes > longestBytes) throw new QuireError(`the answer has more than ${longestBytes} bytes`)
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}

/** The bytes of a response. A broken connection is a ConnectionError. Leaving the loop closes the response. */
export async function* chunksOf(response: Response, attempt: Attempt): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = response.body?.getReader()
  if (!reader) return
  try {
    for (;;) {
      let read: ReadableStreamReadResult<Uint8Array>
      try {
        attempt.moved()
        read = await reader.read()
      } catch (error) {
        throw attempt.failure ?? new ConnectionError(`the answer broke off: ${reasonOf(error)}`, { cause: error })
      }
      if (read.done) return
      attempt.idle()
      yield read.value
    }
  } finally {
    attempt.idle()
    reader.cancel().catch(() => {}) // it broke before
  }
}

function parseAnswer(body: string): unknown {
  try {
    const content: unknown = JSON.parse(body)
    if (content && typeof content === 'object') return content
  } catch {
    // Some runtimes end the body of a broken connection as if it were complete.
  }
  throw new ConnectionError(`the response is not JSON from the API: ${JSON.stringify(body.slice(0, 80))}`)
}

/** A response's metadata. Without JSON, `remaining` is in a header. */
export function metaOf(headers: Headers, content: object = {}): Meta {
  const remaining = 'remaining' in content ? content.remaining : undefined
  return {
    remaining: typeof remaining === 'number' ? remaining : Number(headers.get('x-quota-remaining') ?? -1),
    requestId: headers.get('x-request-id') ?? '',
    chargeSource: (headers.get('x-charge-source') ?? undefined) as ChargeSource | undefined,
    cost: headers.get('x-credits-cost') ?? '0.000000',
    balance: headers.get('x-credits-balance') ?? undefined,
    receipt: headers.get('x-receipt') ?? undefined,
    replayed: headers.get('idempotency-replayed') === 'true',
  }
}

/** Waits, or fails with the reason of the signal. */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const abort = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort)
      resolve()
    }, ms)
    signal?.addEventListener('abort', abort, { once: true })
  })
}
