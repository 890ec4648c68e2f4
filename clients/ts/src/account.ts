import { InvalidError, NotFoundError } from './errors.js'
import type { List } from './list.js'
import { listOf, segment } from './pastes.js'
import { EntriesNotKeptError, Verification, type VerifiedReceipts } from './receipts.js'
import { sleep, type CallOptions, type IdempotentOptions, type Result, type Transport } from './transport.js'
import type {
  AccountEvents, AccountPlan, DaysQuery, DeletedAccount, EventsQuery, Explanation, ExportState, LedgerEntry, LedgerFilter, Payment, PaymentsQuery, PriceBook,
  Prices, Profile, Purchase, Receipts, ReceiptsQuery, RecentRequest, RequestFilter, SessionHead, SpendingCapChange, Statement, TopUp, TopUpChange, UpdatedSpendingCap, Usage, UsageDays,
} from './types.js'

const path = '/api/users/user'
const pollMs = 1000
const maxEntries = 1000

/** The account of the API key or session. These calls are not metered. */
export class Account {
  readonly #transport: Transport

  /** @internal Created by a client. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** The account. */
  profile(options?: CallOptions): Promise<Result<Profile>> {
    return this.#get('', options)
  }

  /** The plans and prices. Needs no API key. */
  prices(options?: CallOptions): Promise<Result<Prices>> {
    return this.#transport.json({ method: 'GET', path: '/api/prices', options })
  }

  /** A past, present or upcoming price book. Needs no API key. */
  priceBook(id: string, options?: CallOptions): Promise<Result<{ book: PriceBook }>> {
    return this.#transport.json({ method: 'GET', path: `/api/prices/${segment(id)}`, options })
  }

  /** The plan, and what pays for it. */
  plan(options?: CallOptions): Promise<Result<AccountPlan>> {
    return this.#get('/plan', options)
  }

  /**
   * Opens a page to pay for credits or a plan on, or changes the plan at the end of the paid period. An API key with scopes needs
   * `payments.checkout`, and can only open pages. Where payments are not taken online, the error has the code `payments_not_configured`.
   */
  checkout(order: Purchase, options?: IdempotentOptions): Promise<Result<{ url: string; effectiveAt: string | null }>> {
    return this.#transport.json({ method: 'POST', path: `${path}/checkout`, json: order, idempotent: true, options })
  }

  /** Sets automatic top-ups; `credits: "0"` turns them off. Requires a session. */
  setTopUp(rule: TopUpChange, options?: IdempotentOptions): Promise<Result<{ topUp: TopUp | null }>> {
    return this.#transport.json({ method: 'PUT', path: `${path}/top-up`, json: rule, idempotent: true, options })
  }

  /** Payments, newest first. */
  payments(query: PaymentsQuery = {}, options?: CallOptions): List<Payment> {
    return listOf(this.#transport, `${path}/payments`, 'payments', query, options)
  }

  /** This month's usage. */
  usage(options?: CallOptions): Promise<Result<Usage>> {
    return this.#get('/dev-usage', options)
  }

  /** Usage by day, quota key and API key. */
  usageByDay(query: DaysQuery = {}, options?: CallOptions): Promise<Result<UsageDays>> {
    return this.#get('/usage', options, query)
  }

  /** Changes of the balance, newest first. */
  ledger(filter: LedgerFilter = {}, options?: CallOptions): List<LedgerEntry> {
    return listOf(this.#transport, `${path}/credits`, 'entries', filter, options)
  }

  /** The statement of a month, such as `"2026-11"`. */
  statement(period: string, options?: CallOptions): Promise<Result<Statement>> {
    return this.#get(`/statements/${segment(period)}`, options)
  }

  /** A page of the account's chain of entries, in order, from the first that is kept. Call `verifyReceipts` to check receipts that you kept. */
  receipts(query: ReceiptsQuery = {}, options?: CallOptions): Promise<Result<Receipts>> {
    return this.#get('/receipts', options, query)
  }

  /**
   * Fetches the entries after a receipt that you kept, and recomputes the chain from their bytes: up to each newer receipt that you have, and
   * to the newest one of the service. Throws a ReceiptError for what does not fit, and an EntriesNotKeptError for entries that are gone. That
   * an entry was right when it was made follows from the journal, not from receipts. @throws TypeError for what is not a receipt
   */
  async verifyReceipts(kept: string, newer: readonly string[] = [], options?: CallOptions): Promise<VerifiedReceipts> {
    const chain = new Verification(kept, newer)
    for (;;) {
      const page = await this.receipts({ after: chain.number, limit: maxEntries }, options).catch((error) => {
        // A proxy's 404 has no code.
        if (error instanceof NotFoundError && error.code === 'not_found') throw new EntriesNotKeptError(chain.number + 1, error)
        if (error instanceof InvalidError && error.field === 'after') throw chain.fault(chain.number, 'the service has no such entry')
        throw error
      })
      if (chain.add(page)) return { entries: chain.entries, newest: page.newest ?? '' }
    }
  }

  /** The latest metered requests, newest first: at most 10,000, of 30 days unless the operator chose another retention. */
  requests(filter: RequestFilter = {}, options?: CallOptions): List<RecentRequest> {
    return listOf(this.#transport, `${path}/requests`, 'requests', filter, options)
  }

  /**
   * The account's events since `after`, oldest first, without a webhook. Pass `last` as `after` of the next call. `wait` enables long
   * polling.
   */
  events(query: EventsQuery = {}, options?: CallOptions): Promise<Result<AccountEvents>> {
    return this.#get('/events', options, query)
  }

  /** How a request was billed. An old request takes a while: the call polls until the service has found it. */
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

  /** Sets the spending cap; `amount: null` removes it. Requires a session. */
  setSpendingCap(cap: SpendingCapChange, options?: IdempotentOptions): Promise<Result<UpdatedSpendingCap>> {
    return this.#transport.json({ method: 'PUT', path: `${path}/spending-cap`, json: cap, idempotent: true, options })
  }

  /** Requests an archive of everything the account owns, or returns the one in progress. Requires a session. */
  createExport(options?: IdempotentOptions): Promise<Result<{ export: ExportState }>> {
    return this.#transport.json({ method: 'POST', path: `${path}/export`, idempotent: true, options })
  }

  /** State of the archive; once ready, with a link that works for an hour. Requires a session. */
  export(options?: CallOptions): Promise<Result<{ export: ExportState }>> {
    return this.#get('/export', options)
  }

  /** The most recently used sessions. Requires a session. */
  sessions(options?: CallOptions): Promise<Result<{ sessions: SessionHead[] }>> {
    return this.#get('/sessions', options)
  }

  /** Ends a session. Requires a session. */
  endSession(id: string, options?: IdempotentOptions): Promise<Result<object>> {
    return this.#transport.json({ method: 'DELETE', path: `${path}/sessions/${segment(id)}`, idempotent: true, options })
  }

  /** Ends all sessions of the account, including this one. */
  endAllSessions(options?: IdempotentOptions): Promise<Result<object>> {
    return this.#transport.json({ method: 'DELETE', path: `${path}/sessions`, idempotent: true, options })
  }

  /** Ends this session. */
  logOut(options?: IdempotentOptions): Promise<Result<object>> {
    return this.#transport.json({ method: 'POST', path: '/api/users/logout', idempotent: true, options })
  }

  /** Changes the password and ends the other sessions. Requires a session. */
  changePassword(change: { currentPassword: string, password: string }, options?: IdempotentOptions): Promise<Result<object>> {
    return this.#transport.json({ method: 'PUT', path: `${path}/password`, json: change, idempotent: true, options })
  }

  /** Changes the email. Requires a session. */
  changeEmail(change: { currentPassword: string, email: string }, options?: IdempotentOptions): Promise<Result<object>> {
    return this.#transport.json({ method: 'PUT', path: `${path}/email`, json: change, idempotent: true, options })
  }

  /** Deletes the account, its documents and files. For 14 days a log-in with `cancelDeletion` keeps the account. Requires a session. */
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
