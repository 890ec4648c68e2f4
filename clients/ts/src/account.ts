import type { List } from './list.js'
import { listOf, segment } from './texts.js'
import { sleep, type CallOptions, type IdempotentOptions, type Result, type Transport } from './transport.js'
import type {
  AccountEvents, DaysQuery, DeletedAccount, EventsQuery, Explanation, ExportState, LedgerEntry, LedgerFilter, Profile, RecentRequest,
  RequestFilter, SessionHead, SetSpendingCap, SpendingCapChange, Statement, Usage, UsageDays,
} from './types.js'

const path = '/api/users/user'
const pollMs = 1000

/** The account of the API key or session. These calls are not metered. */
export class Account {
  readonly #transport: Transport

  /** It is made by a client. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Who the account is. */
  profile(options?: CallOptions): Promise<Result<Profile>> {
    return this.#get('', options)
  }

  /** What is used, left and paid this month. */
  usage(options?: CallOptions): Promise<Result<Usage>> {
    return this.#get('/dev-usage', options)
  }

  /** What was used on each day, by quota key and API key. */
  usageByDay(query: DaysQuery = {}, options?: CallOptions): Promise<Result<UsageDays>> {
    return this.#get('/usage', options, query)
  }

  /** What changed the balance of credits, the newest first. */
  ledger(filter: LedgerFilter = {}, options?: CallOptions): List<LedgerEntry> {
    return listOf(this.#transport, `${path}/credits`, 'entries', filter, options)
  }

  /** The bill of a month, such as `"2026-11"`. */
  statement(period: string, options?: CallOptions): Promise<Result<Statement>> {
    return this.#get(`/statements/${segment(period)}`, options)
  }

  /** The last metered requests, the newest first: 1,000 of 48 hours at most. */
  requests(filter: RequestFilter = {}, options?: CallOptions): List<RecentRequest> {
    return listOf(this.#transport, `${path}/requests`, 'requests', filter, options)
  }

  /**
   * What webhooks are told of, also without one: the events after one, the oldest first. `last` is `after` of the next call. With
   * `wait` the call waits for one.
   */
  events(query: EventsQuery = {}, options?: CallOptions): Promise<Result<AccountEvents>> {
    return this.#get('/events', options, query)
  }

  /** How a request was decided and charged. An old request takes a while: the call waits until the service has found it. */
  async explain(requestId: string, options?: CallOptions): Promise<Result<{ request: Explanation }>> {
    const until = Date.now() + (options?.timeoutMs ?? Infinity)
    for (;;) {
      const { request, ...meta } = await this.#get<{ request?: Explanation }>(`/requests/${segment(requestId)}`, {
        ...options, ...options?.timeoutMs === undefined ? {} : { timeoutMs: Math.max(1, until - Date.now()) },
      })
      if (request) return { request, ...meta }
      await sleep(pollMs, options?.signal)
    }
  }

  /** Limits what requests take from the credits; `amount: null` takes the limit away. It wants a session. */
  setSpendingCap(cap: SpendingCapChange, options?: IdempotentOptions): Promise<Result<SetSpendingCap>> {
    return this.#transport.json({ method: 'PUT', path: `${path}/spending-cap`, json: cap, idempotent: true, options })
  }

  /** Has an archive made of all that the account owns, or tells of the one that is being made. It wants a session. */
  makeExport(options?: IdempotentOptions): Promise<Result<{ export: ExportState }>> {
    return this.#transport.json({ method: 'POST', path: `${path}/export`, idempotent: true, options })
  }

  /** How far the archive is; once it is ready, with a link that is good for an hour. It wants a session. */
  export(options?: CallOptions): Promise<Result<{ export: ExportState }>> {
    return this.#get('/export', options)
  }

  /** The sessions that were used last. It wants a session. */
  sessions(options?: CallOptions): Promise<Result<{ sessions: SessionHead[] }>> {
    return this.#get('/sessions', options)
  }

  /** Ends a session. It wants a session. */
  endSession(id: string, options?: IdempotentOptions): Promise<Result<object>> {
    return this.#transport.json({ method: 'DELETE', path: `${path}/sessions/${segment(id)}`, idempotent: true, options })
  }

  /** Ends all sessions of the account, the one that calls this too. */
  endAllSessions(options?: IdempotentOptions): Promise<Result<object>> {
    return this.#transport.json({ method: 'DELETE', path: `${path}/sessions`, idempotent: true, options })
  }

  /** Ends the session that calls this. */
  logOut(options?: IdempotentOptions): Promise<Result<object>> {
    return this.#transport.json({ method: 'POST', path: '/api/users/logout', idempotent: true, options })
  }

  /** Sets another password, which ends the other sessions. It wants a session. */
  changePassword(change: { currentPassword: string, password: string }, options?: IdempotentOptions): Promise<Result<object>> {
    return this.#transport.json({ method: 'PUT', path: `${path}/password`, json: change, idempotent: true, options })
  }

  /** Sets another email address. It wants a session. */
  changeEmail(change: { currentPassword: string, email: string }, options?: IdempotentOptions): Promise<Result<object>> {
    return this.#transport.json({ method: 'PUT', path: `${path}/email`, json: change, idempotent: true, options })
  }

  /** Deletes the account, its documents and files. For 14 days a log-in takes that back. It wants a session. */
  delete(currentPassword: string, options?: IdempotentOptions): Promise<Result<DeletedAccount>> {
    return this.#transport.json({ method: 'DELETE', path, json: { currentPassword }, idempotent: true, options })
  }

  /** @internal Sends a registration or a log-in: `Quire.register` and `Quire.logIn`. */
  async open(path: string, credentials: object, options?: CallOptions): Promise<{ session: string | undefined, profile: Result<Profile> }> {
    let session: string | undefined
    const profile = await this.#transport.json<Profile>(
      { method: 'POST', path, json: credentials, idempotent: true, anonymous: true, options },
      (headers) => { session = headers.getSetCookie?.()[0]?.split(';')[0] },
    )
    return { session, profile }
  }

  #get<T extends object>(below: string, options: CallOptions | undefined, query?: object): Promise<Result<T>> {
    return this.#transport.json({ method: 'GET', path: path + below, query, options })
  }
}
