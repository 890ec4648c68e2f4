// One charge for each logical call, whatever happens between the client and the service.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { ConnectionError, Quire } from 'quire-client'
import { all, Proxy, startQuire } from './harness.mjs'

const proxy = await Proxy.start()
const server = await startQuire({ QUIRE_PUBLIC_URL: proxy.url }) // the links of files lead through the proxy too
proxy.target = server.url
const admin = server.api()

async function account() {
  const { apiKey } = await admin.account('pro')
  const direct = new Quire({ apiKey, baseUrl: server.url })
  const used = async (quotaKey) => (await direct.account.usage()).usage[quotaKey].used
  return { quire: new Quire({ apiKey, baseUrl: proxy.url }), direct, used }
}

const faults = ['refuse', 'lose', 503, 504, 'cut']

for (const fault of faults) {
  test(`${fault}: each write is carried out and counted once`, async () => {
    const { quire, direct, used } = await account()
    const faulty = (call) => {
      proxy.faults = [fault, 'pass']
      return call()
    }
    for (const [texts, name] of [[quire.pastes, 'pastes'], [quire.quickPastes, 'pasteLite']]) {
      const made = await faulty(() => texts.create({ content: 'one' }))
      assert.equal((await all(texts.list())).length, 1)
      assert.equal((await faulty(() => texts.update(made.id, { content: 'two' }))).version, 2)
      await faulty(() => texts.delete(made.id))
      for (const operation of ['create', 'update', 'delete']) assert.equal(await used(`${name}.${operation}`), 1, operation)
    }
    const bytes = randomBytes(100_000)
    const file = await faulty(() => quire.files.upload({ name: 'x', content: bytes }))
    assert.equal((await all(direct.files.list())).length, 1)
    await faulty(() => quire.files.delete(file.id))
    assert.deepEqual([await used('files.upload'), await used('files.delete')], [1, 1])
    assert.ok(proxy.seen().some((request) => request.fault === fault))
  })
}

test('a call that fails again and again is given up, and was carried out once', async () => {
  const { quire, direct } = await account()
  proxy.faults = Array(5).fill(504)
  await assert.rejects(quire.pastes.create({ content: 'x' }, { idempotencyKey: 'order-1' }), { name: 'OutcomeUnknownError' })
  assert.deepEqual([...new Set(proxy.seen().slice(-5).map(({ headers }) => headers['idempotency-key']))], ['order-1'])
  const again = await direct.pastes.create({ content: 'x' }, { idempotencyKey: 'order-1' })
  assert.equal(again.replayed, true)
  assert.equal((await all(direct.pastes.list())).length, 1)
})

test('a slow answer is read to its end', async () => {
  const { quire, direct } = await account()
  const { id } = await direct.pastes.create({ content: 'é'.repeat(10_000) })
  proxy.faults = ['slow']
  assert.equal((await quire.pastes.get(id)).content, 'é'.repeat(10_000))
})

test('an upload of a stream that can be read once is not sent twice', async () => {
  const { quire, used } = await account()
  proxy.faults = ['lose']
  await assert.rejects(quire.files.upload({ name: 'x', content: new Blob(['x']).stream() }), ConnectionError)
  assert.equal(await used('files.upload'), 1)
})

test('a download goes on where it broke, and is counted once', async () => {
  const { quire, direct, used } = await account()
  const bytes = randomBytes(200_000)
  const { id } = await direct.files.upload({ name: 'x', content: bytes })
  proxy.seen()
  proxy.faults = ['pass', 'cut', 'refuse', 503, 'cut', 'slow']
  assert.deepEqual(Buffer.from(await (await quire.files.download(id)).bytes()), bytes)
  const ranges = proxy.seen().slice(1).map(({ headers }) => headers.range)
  assert.deepEqual([ranges[0], new Set(ranges.slice(1, 4)).size], [undefined, 1])
  assert.match(ranges[1], /^bytes=[1-9]\d*-$/)
  assert.equal(ranges.length, 5)
  assert.equal(await used('files.get'), 1)
})

test('a download of other bytes than were uploaded fails at its end', async () => {
  const { quire, direct } = await account()
  const { id } = await direct.files.upload({ name: 'x', content: 'hello' })
  const fetching = async (address, init) => String(address).includes('/api/') ? fetch(address, init) : new Response('jello')
  const apiKey = (await admin.account('pro')).apiKey
  const other = new Quire({ apiKey, baseUrl: server.url, fetch: fetching })
  await assert.rejects((await other.files.download(id)).bytes(), { name: 'ChecksumError' })
  assert.equal(Buffer.from(await (await quire.files.download(id)).bytes()).toString(), 'hello')
})
