/** Everything that this client throws by itself. An abort by your own signal is thrown as its `reason`. */
export class QuireError extends Error {
  override name = 'QuireError'
}

/** The service is unreachable, or the connection broke before the full response arrived. See `cause`. */
export class ConnectionError extends QuireError {
  override name = 'ConnectionError'
}

/** The call timed out after `timeoutMs`. A write may have been carried out. `cause` is the last failure, if any. */
export class TimeoutError extends QuireError {
  override name = 'TimeoutError'
}

/** The transferred bytes do not match the SHA-256 of the service. */
export class ChecksumError extends QuireError {
  override name = 'ChecksumError'
}

/** The document still has the version of `ifNotVersion`. The call cost nothing. */
export class NotModifiedError extends QuireError {
  override name = 'NotModifiedError'
}

/** Error codes of the service. More may be added: handle unknown ones by `status`. */
export type ErrorCode =
  | 'malformed' | 'unknown_field' | 'invalid_field' | 'invalid_cursor'
  | 'api_key_required' | 'invalid_api_key' | 'manage_token_required' | 'admin_token_required' | 'session_required'
  | 'invalid_credentials'
  | 'invalid_manage_token' | 'not_owner' | 'wrong_password' | 'key_scope' | 'account_suspended' | 'account_quarantined' | 'cross_origin'
  | 'confirmation_required'
  | 'not_found' | 'method_not_allowed' | 'request_timeout'
  | 'idempotency_in_flight' | 'too_many_keys' | 'too_many_webhooks' | 'email_taken' | 'deletion_scheduled' | 'name_taken' | 'insufficient_credits' | 'not_refundable' | 'payment_mismatch' | 'plan_current' | 'payments_not_configured' | 'price_book_conflict'
  | 'version_mismatch' | 'too_large' | 'unsupported_media_type' | 'range_not_satisfiable' | 'idempotency_mismatch'
  | 'quota_exhausted' | 'quota_held' | 'key_quota_exhausted' | 'spending_cap_reached' | 'plan_upgrade_required'
  | 'anonymous_limit' | 'registration_limit' | 'too_many_failures' | 'rate_limited'
  | 'headers_too_large' | 'internal' | 'unavailable' | 'outcome_unknown'
  | (string & {})

/** Fields of an error. */
export interface Failure {
  /** HTTP status, such as 404. */
  readonly status: number
  /** Reason for programs. Empty if a proxy answered instead of the service. */
  readonly code: ErrorCode
  /** Reason for people. */
  readonly reason: string
  /** The field, query parameter or header with the error, if any. */
  readonly field?: string | undefined
  /** What you may have meant. */
  readonly suggestion?: string | undefined
  /** Of a refused call. */
  readonly quotaKey?: string | undefined
  /** The limit that was reached or exceeded; sizes in bytes. */
  readonly limit?: number | undefined
  /** When a retry may succeed. Absent if waiting does not help. */
  readonly resetAt?: Date | undefined
  /** With the code `deletion_scheduled`: when the account will be deleted. */
  readonly deletesAt?: Date | undefined
  /** Page to upgrade the plan. */
  readonly upgradeUrl?: string | undefined
  /** URL of the code's documentation. */
  readonly docs?: string | undefined
  /** For `account.explain`, and for the operator to look up the call. */
  readonly requestId?: string | undefined
  /** Milliseconds until a retry may succeed. Absent if not known. */
  readonly retryAfterMs?: number | undefined
}

/**
 * An error response of the service. It costs nothing. Branch on `code`, or with `instanceof` on a subclass, such as
 * {@link QuotaExhaustedError}.
 */
export class ApiError extends QuireError implements Failure {
  override name = 'ApiError'
  readonly status: number
  readonly code: ErrorCode
  readonly reason: string
  readonly field: string | undefined
  readonly suggestion: string | undefined
  readonly quotaKey: string | undefined
  readonly limit: number | undefined
  readonly resetAt: Date | undefined
  readonly deletesAt: Date | undefined
  readonly upgradeUrl: string | undefined
  readonly docs: string | undefined
  readonly requestId: string | undefined
  readonly retryAfterMs: number | undefined

  constructor(failure: Failure) {
    const { status, code, reason, requestId, suggestion } = failure
    const about = [status, code, requestId && `request ${requestId}`].filter(Boolean).join(', ')
    super(`${reason} (${about})${suggestion ? `: ${suggestion}` : ''}`)
    this.status = status
    this.code = code
    this.reason = reason
    this.field = failure.field
    this.suggestion = suggestion
    this.quotaKey = failure.quotaKey
    this.limit = failure.limit
    this.resetAt = failure.resetAt
    this.deletesAt = failure.deletesAt
    this.upgradeUrl = failure.upgradeUrl
    this.docs = failure.docs
    this.requestId = requestId
    this.retryAfterMs = failure.retryAfterMs
  }
}

/** The monthly quota, or the limit of keyless calls, is exhausted. It resets at `resetAt`. */
export class QuotaExhaustedError extends ApiError {
  override name = 'QuotaExhaustedError'
}

/** The API key's own monthly limit is reached. It resets at `resetAt`. */
export class KeyQuotaExhaustedError extends ApiError {
  override name = 'KeyQuotaExhaustedError'
}

/** The spending cap of the account or key is reached until `resetAt`, which is absent for a total cap. */
export class SpendingCapReachedError extends ApiError {
  override name = 'SpendingCapReachedError'
}

/** The plan does not include the endpoint. Waiting does not help. */
export class PlanUpgradeRequiredError extends ApiError {
  override name = 'PlanUpgradeRequiredError'
}

/** Too many calls, or too many failures, in a short time. Retry after `retryAfterMs`. */
export class RateLimitedError extends ApiError {
  override name = 'RateLimitedError'
}

/** The API key, session or token is missing, wrong, or no longer valid. */
export class UnauthorizedError extends ApiError {
  override name = 'UnauthorizedError'
}

/** The caller is not allowed to do that. */
export class ForbiddenError extends ApiError {
  override name = 'ForbiddenError'
}

/** No such document, or the caller has no access. */
export class NotFoundError extends ApiError {
  override name = 'NotFoundError'
}

/** The call conflicts with existing state: a call in flight, an email that is taken. */
export class ConflictError extends ApiError {
  override name = 'ConflictError'
}

/** The document does not have the version of `ifVersion`. */
export class VersionMismatchError extends ApiError {
  override name = 'VersionMismatchError'
}

/** The request is invalid; `field` names the field, if it is one. */
export class InvalidError extends ApiError {
  override name = 'InvalidError'
}

/** The service could not answer, and nothing was done. */
export class UnavailableError extends ApiError {
  override name = 'UnavailableError'
}

/** The service could not confirm the call in time. It may have been carried out: retry with the same `idempotencyKey`. */
export class OutcomeUnknownError extends ApiError {
  override name = 'OutcomeUnknownError'
}

type Class = new (failure: Failure) => ApiError

function classOf({ code, status }: Failure): Class {
  switch (code) {
    case 'quota_exhausted':
    case 'anonymous_limit': return QuotaExhaustedError
    case 'key_quota_exhausted': return KeyQuotaExhaustedError
    case 'spending_cap_reached': return SpendingCapReachedError
    case 'plan_upgrade_required': return PlanUpgradeRequiredError
  }
  switch (status) {
    case 400: case 413: case 415: case 416: case 422: case 431: return InvalidError
    case 401: return UnauthorizedError
    case 403: return ForbiddenError
    case 404: return NotFoundError
    case 409: return ConflictError
    case 412: return VersionMismatchError
    case 429: return RateLimitedError
    case 502: case 503: return UnavailableError
    case 504: return OutcomeUnknownError
  }
  return ApiError
}

/** The error of a failed response. */
export function failureOf(status: number, headers: Headers, body: string): QuireError {
  if (status === 304) return new NotModifiedError('the document was not modified')
  const told = parse(body)
  const failure: Failure = {
    status,
    code: text(told.code) ?? '',
    reason: text(told.reason) ?? `the answer has the status ${status}`,
    field: text(told.field),
    suggestion: text(told.suggestion),
    quotaKey: text(told.quotaKey),
    limit: typeof told.limit === 'number' ? told.limit : undefined,
    resetAt: time(told.resetAt),
    deletesAt: time(told.deletesAt),
    upgradeUrl: text(told.upgradeUrl),
    docs: text(told.docs),
    requestId: text(told.requestId) ?? headers.get('x-request-id') ?? undefined,
    retryAfterMs: retryAfterMs(headers.get('retry-after')),
  }
  return new (classOf(failure))(failure)
}

function parse(body: string): Record<string, unknown> {
  try {
    const told: unknown = JSON.parse(body)
    if (told && typeof told === 'object') return told as Record<string, unknown>
  } catch {
    // A proxy's response: only its status is used.
  }
  return {}
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

function time(value: unknown): Date | undefined {
  const at = new Date(text(value) ?? NaN)
  return Number.isNaN(at.getTime()) ? undefined : at
}

/** Parses Retry-After in either of its forms. */
function retryAfterMs(value: string | null): number | undefined {
  if (value === null) return undefined
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000
  const at = Date.parse(value)
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now())
}
