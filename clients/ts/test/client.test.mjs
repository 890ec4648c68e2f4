// The methods, against a quire.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { KeyQuotaExhaustedError, NotFoundError, PlanUpgradeRequiredError, Quire, UnauthorizedError, verifyWebhook } from 'quire-client'
import { all, startQuire } from './harness.mjs'

const server = await startQuire({ QUIRE_WEBHOOK_ALLOW_PRIVATE: 'true' })
const admin = server.api()

async function account(tier = 'pro') {
  const { id, apiKey } = await admin.account(tier)
  return { id, apiKey, quire: new Quire({ apiKey, baseUrl: server.url }) }
}

const digest = async (bytes) => Buffer.from(await crypto.subtle.digest('SHA-256', bytes)).toString('hex')

for (const kind of ['pastes', 'quickPastes']) {
  test(`${kind}: made, read, changed, listed, deleted`, async () => {
    const { quire } = await account()
    const texts = quire[kind]
    const made = await texts.create({ content: 'héllo', title: 'first', tags: ['ci'], expiresAt: new Date(Date.now() + 3_600_000) })
    assert.deepEqual([made.version, made.chargeSource, made.cost, made.replayed], [1, 'quota', '0.000000', false])
    assert.match(made.requestId, /^[0-9a-f-]{36}$/)

    const read = await texts.get(made.id)
    assert.deepEqual([read.content, read.title, read.size, read.tags, read.expiresAt], ['héllo', 'first', 6, ['ci'], made.expiresAt])
    await assert.rejects(texts.get(made.id, { ifNotVersion: 1 }), { name: 'NotModifiedError' })

    const changed = await texts.update(made.id, { content: 'later', title: null }, { ifVersion: 1 })
    assert.equal(changed.version, 2)
    await assert.rejects(texts.update(made.id, { title: 'x' }, { ifVersion: 1 }), { name: 'VersionMismatchError', code: 'version_mismatch' })
    assert.equal((await texts.get(made.id, { version: 1 })).content, 'héllo')
    assert.deepEqual((await all(texts.versions(made.id))).map(({ version, title }) => [version, title]), [[2, ''], [1, 'first']])

    for (const title of ['a', 'b']) await texts.create({ content: title, title })
    assert.deepEqual((await all(texts.list({ limit: 2, order: 'asc' }))).map(({ title }) => title), ['', 'a', 'b'])
    const page = await texts.list({ limit: 2 }).page()
    assert.deepEqual([page.items.map(({ title }) => title), page.hasMore, page.remaining], [['b', 'a'], true, -1])
    assert.deepEqual((await all(texts.list({ limit: 2, cursor: page.nextCursor }))).map(({ title }) => title), [''])
    assert.deepEqual((await all(texts.list({ tag: 'ci' }))).length, 1)

    assert.equal((await texts.delete(made.id)).id, made.id)
    await assert.rejects(texts.get(made.id), NotFoundError)
  })
}

test('a paste with a password is read with it', async () => {
  const { quire } = await account()
  const { id } = await quire.pastes.create({ content: 'x', password: 'open sesame' })
  await assert.rejects(quire.pastes.get(id, { password: 'wrong' }), { name: 'ForbiddenError', code: 'wrong_password' })
  assert.equal((await quire.pastes.get(id, { password: 'open sesame' })).content, 'x')
})

test('the largest paste goes up and comes back', async () => {
  const { quire } = await account()
  const content = '\u0001'.repeat(4 * 2 ** 20) // six bytes of JSON for each
  const { id } = await quire.pastes.create({ content })
  assert.equal((await quire.pastes.get(id)).content, content)
})

test('a quick paste without an account is changed with its token', async () => {
  const quire = new Quire({ baseUrl: server.url })
  const { id, manageToken } = await quire.quickPastes.create({ content: 'x' })
  await assert.rejects(quire.quickPastes.update(id, { content: 'y' }), UnauthorizedError)
  const { quire: other } = await account()
  assert.equal((await other.quickPastes.update(id, { content: 'y' }, { manageToken })).version, 2)
  assert.equal((await quire.quickPastes.delete(id, { manageToken })).remaining, -1)
})

test('a file goes up and down whatever its bytes are in', async () => {
  const { quire } = await account()
  const bytes = randomBytes(300_000)
  const pieces = () => new Blob([bytes]).stream()
  const contents = { buffer: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length), array: new Uint8Array(bytes), blob: new Blob([bytes]), stream: pieces(), function: pieces }
  for (const [name, content] of Object.entries(contents)) {
    const told = []
    const up = await quire.files.upload({ name, content, visibility: 'private', expiresIn: '1h' }, { onProgress: (...p) => told.push(p) })
    assert.deepEqual([up.name, up.size, up.sha256], [name, bytes.length, await digest(bytes)])
    assert.deepEqual(told.at(-1), [bytes.length, ['stream', 'function'].includes(name) ? undefined : bytes.length])

    const arrived = []
    const down = await quire.files.download(up.id, { onProgress: (...p) => arrived.push(p) })
    assert.deepEqual([down.id, down.name, down.size, down.sha256, down.chargeSource], [up.id, name, bytes.length, up.sha256, 'quota'])
    assert.deepEqual(Buffer.from(await down.bytes()), bytes)
    assert.deepEqual(arrived.at(-1), [bytes.length, bytes.length])
    assert.equal((await quire.files.get(up.id)).visibility, 'private')
    await quire.files.delete(up.id)
    await assert.rejects(quire.files.get(up.id), NotFoundError)
  }
  const text = await quire.files.upload({ content: new File(['héllo'], 'a "b".txt', { type: 'text/plain' }) })
  assert.deepEqual([text.name, text.contentType, text.size], ['a "b".txt', 'text/plain', 6])
  const down = await quire.files.download(text.id)
  assert.equal(await (await down.blob()).text(), 'héllo')
  assert.equal((await quire.files.upload({ name: 'text', content: 'héllo' })).sha256, text.sha256)
  assert.deepEqual((await all(quire.files.list({ order: 'asc' }))).map(({ name }) => name), ['a "b".txt', 'text'])
})

test('a file of 50 MB goes up, and one byte more is refused while it is sent', async () => {
  const { quire } = await account()
  const limit = 50 * 2 ** 20
  const zeros = (length) => () => {
    let left = length
    const piece = new Uint8Array(2 ** 18)
    return new ReadableStream({
      pull(controller) {
        controller.enqueue(piece.subarray(0, Math.min(left, piece.length)))
        left -= Math.min(left, piece.length)
        if (!left) controller.close()
      },
    })
  }
  assert.equal((await quire.files.upload({ name: 'limit', content: zeros(limit) })).size, limit)
  await assert.rejects(quire.files.upload({ name: 'over', content: zeros(limit + 1) }), { name: 'InvalidError', code: 'too_large', limit })
  assert.equal((await quire.account.usage()).usage['files.upload'].used, 1)
})

test('a failure of the bytes to upload is thrown as it is, and nothing is stored', async () => {
  const { quire } = await account()
  const failure = new Error('the disk is gone')
  let attempts = 0
  const content = () => {
    attempts++
    return new ReadableStream({
      pull(controller) {
        controller.enqueue(new Uint8Array(1000))
        controller.error(failure)
      },
    })
  }
  await assert.rejects(quire.files.upload({ name: 'x', content }), failure)
  assert.equal(attempts, 1)
  assert.deepEqual(await all(quire.files.list()), [])
})

test('an abort ends an upload and a download', async () => {
  const { quire } = await account()
  const bytes = randomBytes(2 ** 20)
  for (const run of [
    (options) => quire.files.upload({ name: 'x', content: bytes }, options),
    async (options) => (await quire.files.download((await quire.files.upload({ name: 'y', content: bytes })).id, options)).bytes(),
  ]) {
    const controller = new AbortController()
    const reason = new Error('changed my mind')
    await assert.rejects(run({ signal: controller.signal, onProgress: () => controller.abort(reason) }), reason)
  }
  assert.deepEqual((await all(quire.files.list())).map(({ name }) => name), ['y'])
})

test('the account: profile, usage, days, requests, explanation, ledger, statement', async () => {
  const { id, quire } = await account()
  await admin.admin('POST', `/api/admin/accounts/${id}/credits`, { amount: '5', reason: 'a gift' })
  const { requestId } = await quire.pastes.create({ content: 'x' })
  assert.equal((await quire.account.profile()).account.id, id)
  const { usage, credits } = await quire.account.usage()
  assert.deepEqual([usage['pastes.create'].used, credits.balance], [1, '5.000000'])
  const { days } = await quire.account.usageByDay({ by: 'quotaKey' })
  assert.deepEqual(days.map(({ quotaKey, used }) => [quotaKey, used]), [['pastes.create', 1]])
  assert.deepEqual((await all(quire.account.requests({ quotaKey: 'pastes.create' }))).map((r) => r.requestId), [requestId])
  const { request } = await quire.account.explain(requestId)
  assert.deepEqual([request.decision, request.quotaKey, request.usedAfter], ['admitted', 'pastes.create', 1])
  assert.deepEqual((await all(quire.account.ledger({ q: 'GIFT' }))).map(({ amount }) => amount), ['5.000000'])
  const period = new Date().toISOString().slice(0, 7)
  assert.equal((await quire.account.statement(period)).period, period)
})

test('a log-in manages keys, caps and sessions', async () => {
  const credentials = { email: `${crypto.randomUUID()}@example.com`, password: 'correct horse' }
  const options = { baseUrl: server.url, headers: { 'x-forwarded-for': admin.source } }
  const { session, account: { tier } } = await Quire.register(credentials, options)
  assert.equal(tier, 'free')
  const quire = new Quire({ ...options, session })

  const { apiKey, key } = await quire.keys.create({ name: 'ci', scopes: ['pasteLite.create'], quotas: { 'pasteLite.create': 1 } })
  const limited = new Quire({ ...options, apiKey })
  await limited.quickPastes.create({ content: 'x' })
  await assert.rejects(limited.quickPastes.create({ content: 'x' }), KeyQuotaExhaustedError)
  await assert.rejects(limited.pastes.create({ content: 'x' }), { name: 'ForbiddenError', code: 'key_scope' })
  assert.equal((await quire.keys.update(key.id, { name: 'ci 2' })).name, 'ci 2')
  const rotated = await quire.keys.rotate(key.id, '0s')
  await assert.rejects(limited.quickPastes.list().page(), UnauthorizedError)
  assert.ok((await quire.keys.revoke(rotated.key.id)).revokedAt)
  const { apiKey: first } = await quire.keys.regenerateDefault()
  await assert.rejects(new Quire({ ...options, apiKey: first }).pastes.create({ content: 'x' }), PlanUpgradeRequiredError)
  assert.ok((await quire.keys.list()).keys.some(({ name, revokedAt }) => name === 'ci 2' && revokedAt))

  assert.equal((await quire.account.setSpendingCap({ amount: '5', period: 'month' })).spendingCap.amount, '5.000000')
  await quire.account.changeEmail({ currentPassword: credentials.password, email: `new-${credentials.email}` })
  await quire.account.changePassword({ currentPassword: credentials.password, password: 'battery staple' })
  const later = { email: `new-${credentials.email}`, password: 'battery staple' }
  await assert.rejects(Quire.logIn(credentials, options), { code: 'invalid_credentials' })
  const { quire: second } = await Quire.logIn(later, options)
  const { sessions } = await second.account.sessions()
  assert.equal(sessions.length, 2)
  await second.account.endSession(sessions.find(({ current }) => !current).id)
  await assert.rejects(quire.account.sessions(), UnauthorizedError)
  await second.account.logOut()
  await assert.rejects(second.account.sessions(), UnauthorizedError)
  const { quire: third } = await Quire.logIn(later, options)
  await third.account.endAllSessions()
  const { quire: fourth } = await Quire.logIn(later, options)
  await fourth.account.delete('battery staple')
  await assert.rejects(Quire.logIn(later, options), (e) => e.code === 'deletion_scheduled' && e.deletesAt > new Date())
  assert.equal((await Quire.logIn({ ...later, cancelDeletion: true }, options)).deletionUndone, true)
})

test('a call beyond the quota tells what it cost', async () => {
  const { id, quire } = await account()
  await admin.admin('POST', `/api/admin/accounts/${id}/credits`, { amount: '1', reason: 'overage' })
  const upload = () => quire.files.upload({ name: 'x', content: 'x' })
  for (let n = 0; n < 100; n += 10) await Promise.all(Array.from({ length: 10 }, upload))
  const { chargeSource, cost, balance, remaining } = await upload()
  assert.deepEqual({ chargeSource, cost, balance, remaining }, { chargeSource: 'credits', cost: '0.005000', balance: '0.995000', remaining: 0 })
})

test('a webhook is made, tried and rotated, and what it receives is verified', async (t) => {
  const options = { baseUrl: server.url, headers: { 'x-forwarded-for': admin.source } }
  const { quire } = await Quire.register({ email: `${crypto.randomUUID()}@example.com`, password: 'correct horse' }, options)
  const receiver = createServer(async (request, response) => {
    receiver.emit('event', request.headers, await text(request))
    response.writeHead(204).end()
  })
  receiver.listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  t.after(() => receiver.close())

  const { webhook, secret } = await quire.webhooks.create({ url: `http://127.0.0.1:${receiver.address().port}/`, events: ['quota.threshold'] })
  const received = once(receiver, 'event')
  const { delivery } = await quire.webhooks.test(webhook.id)
  const event = await verifyWebhook(...await received, secret)
  assert.equal(event.type, 'webhook.test')

  const rotated = await quire.webhooks.rotateSecret(webhook.id)
  const again = once(receiver, 'event')
  assert.equal((await quire.webhooks.replay(webhook.id, delivery)).delivery.id, delivery)
  const [headers, body] = await again
  assert.equal(headers['webhook-id'], delivery)
  for (const one of [secret, rotated.secret]) assert.deepEqual(await verifyWebhook(headers, body, one), event)

  assert.deepEqual((await all(quire.webhooks.deliveries(webhook.id, { limit: 1 }))).map(({ id }) => id), [delivery])
  assert.deepEqual((await quire.webhooks.update(webhook.id, { thresholds: [1] })).thresholds, [1])
  const { last } = await quire.account.events()
  const { apiKey } = await quire.keys.create({ name: 'ci' })
  await new Quire({ ...options, apiKey }).quickPastes.create({ content: 'x' }) // one of the month's 100
  const { events } = await quire.account.events({ after: last, wait: 30 })
  assert.deepEqual(events.map(({ type, data }) => [type, data.quotaKey, data.used]), [['quota.threshold', 'pasteLite.create', 1]])
  assert.deepEqual((await quire.webhooks.get(webhook.id)).events, ['quota.threshold'])
  await quire.webhooks.delete(webhook.id)
  assert.deepEqual((await quire.webhooks.list()).webhooks, [])
})
