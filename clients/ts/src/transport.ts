import { ApiError, ConnectionError, QuireError, TimeoutError, failureOf } from './errors.js'

/** What each method takes. */
export interface CallOptions {
  /** Ends the call, its retries and its waits. The call then fails with the signal's `reason`. */
  signal?: AbortSignal | undefined
  /** Longest time of the whole call in milliseconds, with its retries; `Infinity`: no limit. 120,000 by default. */
  timeoutMs?: number | undefined
}

/** What a call that is charged at most once takes. */
export interface IdempotentOptions extends CallOptions {
  /**
   * In place of a drawn one: a write that is repeated under it within 24 hours, by another process too, is carried out once.
   * 1 to 128 printable ASCII characters.
   */
  idempotencyKey?: string | undefined
}

/** What paid for a call. */
export type ChargeSource = 'quota' | 'credits' | 'none'

/** What every result tells beside its content. */
export interface Meta {
  /** Free calls left this month under the call's quota key; 0: the next one is paid from credits, -1: unlimited. */
  remaining: number
  /** By which the call is explained. */
  requestId: string
  /** What paid for the call; absent where it is not metered. */
  chargeSource?: ChargeSource | undefined
  /** Credits that the call cost, such as `"0.000500"`. See `parseCredits` for sums. */
  cost: string
  /** Credits that are left after the call; absent where credits did not pay. */
  balance?: string | undefined
  /** The answer of the first call with this `idempotencyKey`: nothing was charged again. */
  replayed: boolean
}

/** The content of an answer, and what it tells about the call. */
export type Result<T> = T & Meta

/** How a client sends. */
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
  /** Below `baseUrl`, or a whole address, which gets no API key. */
  path: string | URL
  query?: object | undefined
  headers?: Record<string, string | undefined>
  /** It is sent as JSON. */
  json?: unknown
  /** Makes the body of an attempt. It is closed when the attempt has ended. `length` in bytes, if it is known. */
  body?: (attempt: Attempt) => { body: Sendable, length?: number | undefined }
  /** No API key and no session are sent. */
  anonymous?: boolean
  /** A write, or a read that is charged: `Idempotency-Key` says to the service which attempts are one call. */
  idempotent?: boolean
  /** `timeoutMs` has no default: the call goes on as long as bytes move. */
  transfer?: boolean
  options?: IdempotentOptions | undefined
}

/** What each attempt of a call sends. */
interface Request {
  address: string
  headers: Record<string, string>
  text: string | undefined
}

/** Bodies that every `fetch` takes. */
export type Sendable = Blob | ReadableStream<Uint8Array>

const firstPauseMs = 100
const longestPauseMs = 10_000
/** The longest Retry-After that a call waits for. A longer one is for the caller to decide about. */
const longestRetryAfterMs = 60_000
/** An attempt in which no byte moves for so long has failed. The service answers sooner, also a call that waits for an event. */
const silenceMs = 60_000
/** A body that is sent at once shows no progress. The service gives up slower ones. */
const slowestBytesPerMs = 16
/** The largest JSON answer that is read: a paste of 4 MiB, each byte of it escaped. */
const longestAnswerBytes = 26 * 2 ** 20
const longestTimerMs = 2 ** 31 - 1

/** Sends calls, and repeats those that may be repeated. */
export class Transport {
  readonly #settings: Settings

  constructor(settings: Settings) {
    this.#settings = settings
  }

  /** Sends a call and returns the JSON of its answer, without `success`. */
  async json<T extends object>(call: Call, headers?: (headers: Headers) => void): Promise<Result<T>> {
    return this.send(call, async (response, attempt) => {
      const body = await readText(response, attempt, longestAnswerBytes)
      const { success: _, ...content } = parseAnswer(body) as T & { success: boolean }
      headers?.(response.headers)
      return { ...content as T, ...metaOf(response.headers, content) }
    })
  }

  /**
   * Sends a call until it succeeds, fails for good, or may not be repeated any more. `read` reads the answer of a success;
   * it may be repeated as well, if it throws a ConnectionError.
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
      // A part of the pause is drawn, so that clients that failed together do not come back together.
      const waitMs = Math.max(wait ?? 0, 0) + pause / 2 + Math.random() * pause / 2
      pause = Math.min(2 * pause, longestPauseMs)
      if (wait === undefined || sent >= this.#settings.retries || wait > longestRetryAfterMs || Date.now() + waitMs >= until) throw last
      await sleep(waitMs, signal)
    }
  }

  /** The parts of a call's request that are the same for each attempt. */
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
    if (response.ok) return response
    if (response.type === 'opaqueredirect' || response.status >= 300 && response.status < 400 && response.status !== 304) {
      await response.body?.cancel()
      throw new QuireError(`${address} redirects to ${response.headers.get('location') ?? 'another address'}: use that as baseUrl`)
    }
    throw failureOf(response.status, response.headers, await readText(response, attempt, 2 ** 16).catch(() => ''))
  }
}

/** One sending of a call. It ends with the caller's signal, the call's time, or a silence of the connection. */
export class Attempt {
  readonly #controller = new AbortController()
  readonly #caller: AbortSignal | undefined
  readonly #abort = () => this.fail(this.#caller?.reason)
  readonly #until: number
  /** Why the attempt before failed. */
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

  /** Why the attempt was ended before its time. It counts more than what `fetch` makes of it. */
  get failure(): unknown {
    return this.#failed?.reason
  }

  get kept(): boolean {
    return this.#kept
  }

  /** The answer is read after `send` has returned. Whoever reads it ends the attempt. */
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

  /** No byte is waited for: the caller is busy. */
  idle(): void {
    clearTimeout(this.#timer)
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#caller?.removeEventListener('abort', this.#abort)
  }
}

/** Draws a key of 128 bits. crypto.randomUUID is missing in pages without TLS. */
export function newIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Milliseconds after which the same request may succeed; undefined where it does not help to send it again. */
function repeatableAfterMs(error: unknown): number | undefined {
  if (error instanceof ConnectionError) return isFinal(error.cause) ? undefined : 0
  if (!(error instanceof ApiError)) return undefined
  const again = error.code === 'idempotency_in_flight' || error.code === 'quota_held' || [502, 503, 504].includes(error.status)
  return again ? error.retryAfterMs ?? 0 : undefined
}

/** Codes of node, Deno and Bun for a name that does not exist and for certificates and addresses that are wrong. */
const finalCodes = /^(ENOTFOUND|ERR_(TLS|SSL|INVALID)|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|UND_ERR_(INVALID|NOT_SUPPORTED)|ConnectionRefusedByPolicy)/

function isFinal(error: unknown): boolean {
  for (let e = error, depth = 0; e instanceof Error && depth < 5; e = e.cause, depth++) {
    if ('code' in e && finalCodes.test(String(e.code))) return true
  }
  return false
}

/** The words of an error that say most: those of its innermost cause. */
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

/** The bytes of an answer. A break of the connection is a ConnectionError. Leaving the loop closes the answer. */
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
    // Some runtimes end the body of a broken connection as if it were whole.
  }
  throw new ConnectionError(`the answer is no JSON of the service: ${JSON.stringify(body.slice(0, 80))}`)
}

/** What an answer tells about its call. One that is not JSON has `remaining` in a header. */
export function metaOf(headers: Headers, content: object = {}): Meta {
  const remaining = 'remaining' in content ? content.remaining : undefined
  return {
    remaining: typeof remaining === 'number' ? remaining : Number(headers.get('x-quota-remaining') ?? -1),
    requestId: headers.get('x-request-id') ?? '',
    chargeSource: (headers.get('x-charge-source') ?? undefined) as ChargeSource | undefined,
    cost: headers.get('x-credits-cost') ?? '0.000000',
    balance: headers.get('x-credits-balance') ?? undefined,
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
