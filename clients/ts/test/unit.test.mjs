// What needs no server.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApiError, ConnectionError, formatCredits, InvalidError, parseCredits, PlanUpgradeRequiredError, Quire, QuireError, QuotaExhaustedError, RateLimitedError, TimeoutError } from 'quire-client'
import { verifyWebhook, WebhookSignatureError } from 'quire-client/webhook'
import { Sha256 } from '../dist/sha256.js'

/** A client whose fetch gives the answers of a list, one after the other. */
function clientOf(answers, options = {}) {
  const sent = []
  const fetch = async (address, init) => {
    sent.push({ address, ...init })
    const answer = answers[Math.min(sent.length, answers.length) - 1]
    if (answer instanceof Error) throw answer
    return answer.clone()
  }
  return { quire: new Quire({ fetch, ...options }), sent }
}

const failure = (status, code, headers = {}, more = {}) =>
  Response.json({ success: false, code, reason: 'why', requestId: 'r', docs: 'd', ...more }, { status, headers })
const success = (content, headers = {}) => Response.json({ success: true, remaining: 7, ...content }, { headers })

test('what waiting can mend is sent again under one Idempotency-Key', async () => {
  const passing = [
    new TypeError('fetch failed'),
    failure(503, 'unavailable', { 'retry-after': '0' }), failure(504, 'outcome_unknown', { 'retry-after': '0' }), failure(502, ''),
    failure(409, 'idempotency_in_flight', { 'retry-after': '0' }), failure(429, 'quota_held', { 'retry-after': '0' }),
  ]
  for (const answer of passing) {
    const { quire, sent } = clientOf([answer, success({ id: 'x' })])
    assert.equal((await quire.pastes.create({ content: 'x' })).id, 'x')
    assert.equal(sent.length, 2)
    assert.equal(new Set(sent.map(({ headers }) => headers['idempotency-key'])).size, 1)
  }
})

test('what waiting can not mend is sent once', async () => {
  const lasting = [
    [failure(429, 'plan_upgrade_required'), PlanUpgradeRequiredError],
    [failure(429, 'quota_exhausted', { 'retry-after': '1000000' }, { resetAt: '2026-12-01T00:00:00Z', limit: 500 }), QuotaExhaustedError],
    [failure(429, 'rate_limited', { 'retry-after': '1' }), RateLimitedError],
    [failure(503, 'unavailable', { 'retry-after': '61' }), ApiError], // longer than a call waits
    [failure(500, 'internal'), ApiError],
    [failure(422, 'idempotency_mismatch'), InvalidError],
    [Object.assign(new TypeError('fetch failed'), { cause: Object.assign(new Error('no such host'), { code: 'ENOTFOUND' }) }), ConnectionError],
    [new Response(null, { status: 307, headers: { location: 'https://elsewhere.example/' } }), QuireError],
  ]
  for (const [answer, kind] of lasting) {
    const { quire, sent } = clientOf([answer])
    await assert.rejects(quire.pastes.create({ content: 'x' }), kind)
    assert.equal(sent.length, 1)
  }
})

test('a call is repeated as often as the client says', async () => {
  for (const retries of [0, 2]) {
    const { quire, sent } = clientOf([failure(503, 'unavailable')], { retries })
    await assert.rejects(quire.account.usage(), { name: 'UnavailableError' })
    assert.equal(sent.length, 1 + retries)
  }
})

test('a wait that is longer than the call may take is not begun', async () => {
  const { quire, sent } = clientOf([failure(503, 'unavailable', { 'retry-after': '20' })])
  await assert.rejects(quire.account.usage({ timeoutMs: 5000 }), { code: 'unavailable', retryAfterMs: 20_000 })
  assert.equal(sent.length, 1)
})

test('a call ends with its timeoutMs', async () => {
  const fetch = (_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  await assert.rejects(new Quire({ fetch }).account.usage({ timeoutMs: 10 }), TimeoutError)
  await assert.rejects(new Quire({ fetch, timeoutMs: 10 }).account.usage(), TimeoutError)
})

test('an abort ends a call, and the wait before its next attempt, with the reason', async () => {
  const reason = new Error('changed my mind')
  await assert.rejects(clientOf([success({})]).quire.account.usage({ signal: AbortSignal.abort(reason) }), reason)
  const controller = new AbortController()
  const fetch = async () => {
    queueMicrotask(() => controller.abort(reason))
    return failure(503, 'unavailable', { 'retry-after': '50' })
  }
  await assert.rejects(new Quire({ fetch }).account.usage({ signal: controller.signal }), reason)
})

test('an error tells all that the service tells', async () => {
  const { quire } = clientOf([failure(400, 'unknown_field', {}, { reason: 'contnet is not a field', field: 'contnet', suggestion: 'did you mean `content`?' })])
  await assert.rejects(quire.pastes.create({ contnet: 'x' }), (error) => {
    assert.ok(error instanceof InvalidError && error instanceof ApiError && error instanceof QuireError && error instanceof Error)
    assert.equal(error.message, 'contnet is not a field (400, unknown_field, request r): did you mean `content`?')
    assert.deepEqual([error.name, error.field, error.docs, error.retryAfterMs], ['InvalidError', 'contnet', 'd', undefined])
    return true
  })
  const exhausted = clientOf([failure(429, 'quota_exhausted', {}, { quotaKey: 'pastes.create', limit: 500, resetAt: '2026-12-01T00:00:00Z' })])
  await assert.rejects(exhausted.quire.pastes.create({ content: 'x' }), { quotaKey: 'pastes.create', limit: 500, resetAt: new Date('2026-12-01') })
  const elsewhere = clientOf([new Response('<h1>Bad gateway</h1>', { status: 404 })])
  await assert.rejects(elsewhere.quire.pastes.get('x'), { name: 'NotFoundError', code: '', reason: 'the answer has the status 404' })
})

test('a result tells what the call cost', async () => {
  const { quire } = clientOf([success({ id: 'x' }, {
    'x-request-id': 'r', 'x-charge-source': 'credits', 'x-credits-cost': '0.002000', 'x-credits-balance': '4.998000', 'x-receipt': '3.ab', 'idempotency-replayed': 'true',
  })])
  assert.deepEqual(await quire.pastes.delete('x'), {
    id: 'x', remaining: 7, requestId: 'r', chargeSource: 'credits', cost: '0.002000', balance: '4.998000', receipt: '3.ab', replayed: true,
  })
})

test('an API key is sent to the service alone, and is not shown', async () => {
  const apiKey = 'qk_secret'
  const { quire, sent } = clientOf([success({ id: 'x' })], { apiKey, headers: { 'x-own': '1' } })
  await quire.quickPastes.update('x', { title: 'x' }, { manageToken: 't', ifVersion: 3 })
  assert.deepEqual([sent[0].headers['x-api-key'], sent[0].headers['x-manage-token'], sent[0].headers['if-match']], [undefined, 't', '"3"'])
  await quire.pastes.get('x')
  assert.deepEqual([sent[1].headers['x-api-key'], sent[1].headers['x-own'], sent[1].redirect], [apiKey, '1', 'manual'])
  const { inspect } = await import('node:util')
  assert.doesNotMatch(inspect(quire, { depth: 9, showHidden: true }) + JSON.stringify(quire), /qk_secret/)
  const link = clientOf([success({ file: { size: 1, sha256: '', downloadUrl: 'http://elsewhere.test/f' } }), new Response('x')], { apiKey, headers: { 'x-own': '1' } })
  await assert.rejects((await link.quire.files.download('x')).bytes(), { name: 'ChecksumError' })
  assert.equal(link.sent[1].address, 'http://elsewhere.test/f')
  assert.deepEqual([link.sent[1].headers['x-api-key'], link.sent[1].headers['x-own']], [undefined, undefined])
})

test('options that are wrong are refused at once', () => {
  const wrong = [
    { baseUrl: 'paste.example' }, { baseUrl: 'ftp://paste.example' }, { baseUrl: 'https://paste.example?x=1' }, { baseUrl: 'https://a:b@paste.example' },
    { apiKey: '' }, { apiKey: 'qk_\n' }, { session: 'a b' }, { timeoutMs: -1 }, { retries: NaN },
  ]
  for (const options of wrong) assert.throws(() => new Quire(options), TypeError, JSON.stringify(options))
  assert.throws(() => new Quire().pastes.delete('..'), TypeError)
  assert.throws(() => new Quire({ apiKey: 'qk secret' }), (error) => !error.message.includes('secret'))
})

test('credits are exact', () => {
  for (const [text, micros] of [['0.000500', 500n], ['-12.3', -12_300_000n], ['1000000000', 10n ** 15n]]) assert.equal(parseCredits(text), micros)
  for (const micros of [0n, 1n, -1n, 999_999n, -1_000_000n, 10n ** 20n]) assert.equal(parseCredits(formatCredits(micros)), micros)
  assert.equal(formatCredits(-500n), '-0.000500')
  for (const text of ['', '.5', '1.', '1.1234567', '1e3', '+1', '--1', ' 1']) assert.throws(() => parseCredits(text), RangeError, text)
})

test('SHA-256 equals Web Crypto’s, however the bytes are split', async () => {
  const digest = async (bytes) => Buffer.from(await crypto.subtle.digest('SHA-256', bytes)).toString('hex')
  for (let length = 0; length < 200; length++) {
    const bytes = Uint8Array.from({ length }, (_, i) => i * 31 + length)
    for (const piece of [1, 63, 64, 65, 200]) {
      const hash = new Sha256()
      for (let at = 0; at < length; at += piece) hash.update(bytes.subarray(at, at + piece))
      assert.equal(hash.hex(), await digest(bytes), `${length} bytes in pieces of ${piece}`)
    }
  }
})

// From the libraries of Standard Webhooks.
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
const body = '{"test": 2432232314}'
const signed = {
  'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek', 'webhook-timestamp': '1614265330',
  'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
}
const anyTime = { toleranceSeconds: Infinity }

test('a webhook that was signed with a secret is taken', async () => {
  assert.deepEqual(await verifyWebhook(signed, body, secret, anyTime), { test: 2432232314 })
  assert.deepEqual(await verifyWebhook(new Headers(signed), new TextEncoder().encode(body), ['whsec_AAAA', secret], anyTime), { test: 2432232314 })
  const two = { ...signed, 'webhook-signature': `v1a,AAAA v1,AAAA ${signed['webhook-signature']}` }
  assert.ok(await verifyWebhook(two, body, secret, anyTime))
})

test('a webhook that was changed, or is of another time or secret, is not', async () => {
  const refused = [
    [signed, body + ' ', secret], [{ ...signed, 'webhook-id': 'msg_2' }, body, secret], [{ ...signed, 'webhook-timestamp': '1614265331' }, body, secret],
    [{ ...signed, 'webhook-signature': '' }, body, secret], [{ ...signed, 'webhook-signature': 'v1,!' }, body, secret], [{}, body, secret],
    [{ ...signed, 'webhook-signature': signed['webhook-signature'].replace('v1', 'v2') }, body, secret],
    [{ ...signed, 'webhook-timestamp': 'NaN' }, body, secret], [signed, body, 'whsec_AAAA'],
  ]
  for (const args of refused) await assert.rejects(verifyWebhook(...args, anyTime), WebhookSignatureError)
  await assert.rejects(verifyWebhook(signed, body, secret), WebhookSignatureError)
  for (const none of ['', 'whsec_', 'whsec_!']) await assert.rejects(verifyWebhook(signed, body, none, anyTime), TypeError)
})

test('a webhook may be as old as the tolerance', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: (1614265330 + 300) * 1000 })
  assert.ok(await verifyWebhook(signed, body, secret))
  t.mock.timers.setTime((1614265330 - 300) * 1000)
  assert.ok(await verifyWebhook(signed, body, secret))
  t.mock.timers.setTime((1614265330 + 301) * 1000)
  await assert.rejects(verifyWebhook(signed, body, secret), WebhookSignatureError)
})
