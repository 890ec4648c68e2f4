// One method is one operation of docs/openapi.yaml.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { Quire } from 'quire-client'
import { all, folder } from './harness.mjs'

/**
 * Operations without a method: those for operators, who use `quire admin`, and the forms of `POST /` for curl, which
 * `quickPastes.create` does; and a file that people keep.
 */
const leftOut = (path, id) => path.startsWith('/api/admin/') || ['postQuickPaste', 'putQuickPaste', 'putNamedQuickPaste', 'getStatementProof'].includes(id)

const credentials = { email: 'somebody@example.com', password: 'correct horse' }

/** The call of each operation's method. */
const calls = {
  createPaste: (q) => q.pastes.create({ content: 'x' }),
  getPaste: (q) => q.pastes.get('id'),
  updatePaste: (q) => q.pastes.update('id', { title: 'x' }),
  deletePaste: (q) => q.pastes.delete('id'),
  listPastes: (q) => all(q.pastes.list()),
  listPasteVersions: (q) => all(q.pastes.versions('id')),
  createQuickPaste: (q) => q.quickPastes.create({ content: 'x' }),
  getQuickPaste: (q) => q.quickPastes.get('id'),
  updateQuickPaste: (q) => q.quickPastes.update('id', { title: 'x' }),
  deleteQuickPaste: (q) => q.quickPastes.delete('id'),
  listQuickPastes: (q) => all(q.quickPastes.list()),
  listQuickPasteVersions: (q) => all(q.quickPastes.versions('id')),
  uploadFile: (q) => q.files.upload({ name: 'x', content: '' }),
  getFile: (q) => q.files.get('id'),
  deleteFile: (q) => q.files.delete('id'),
  listFiles: (q) => all(q.files.list()),
  getUsage: (q) => q.account.usage(),
  getPrices: (q) => q.account.prices(),
  getPriceBook: (q) => q.account.priceBook('id'),
  listUsageByDay: (q) => q.account.usageByDay(),
  listLedgerEntries: (q) => all(q.account.ledger()),
  getStatement: (q) => q.account.statement('2026-11'),
  listEvents: (q) => q.account.events(),
  listReceipts: (q) => q.account.receipts(),
  listRecentRequests: (q) => all(q.account.requests()),
  explainRequest: (q) => q.account.explain('id'),
  registerAccount: (q, options) => Quire.register(credentials, options),
  openSession: (q, options) => Quire.logIn(credentials, options),
  closeSession: (q) => q.account.logOut(),
  getProfile: (q) => q.account.profile(),
  deleteAccount: (q) => q.account.delete('correct horse'),
  regenerateApiKey: (q) => q.keys.regenerateDefault(),
  listApiKeys: (q) => q.keys.list(),
  createApiKey: (q) => q.keys.create({ name: 'x' }),
  changeApiKey: (q) => q.keys.update('id', { name: 'x' }),
  deleteApiKey: (q) => q.keys.revoke('id'),
  regenerateKeyWithOverlap: (q) => q.keys.rotate('id', '24h'),
  listWebhooks: (q) => q.webhooks.list(),
  createWebhook: (q) => q.webhooks.create({ url: 'https://hooks.example', events: ['balance.low'] }),
  getWebhook: (q) => q.webhooks.get('id'),
  updateWebhook: (q) => q.webhooks.update('id', { events: ['balance.low'] }),
  deleteWebhook: (q) => q.webhooks.delete('id'),
  rotateWebhookSecret: (q) => q.webhooks.rotateSecret('id'),
  testWebhook: (q) => q.webhooks.test('id'),
  listDeliveries: (q) => all(q.webhooks.deliveries('id')),
  replayDelivery: (q) => q.webhooks.replay('id', 'delivery'),
  setSpendingCap: (q) => q.account.setSpendingCap({ amount: '5.000000', period: 'month' }),
  getPlan: (q) => q.account.plan(),
  createCheckout: (q) => q.account.checkout({ credits: '500' }),
  setTopUp: (q) => q.account.setTopUp({ credits: '0' }),
  listPayments: (q) => all(q.account.payments()),
  changePassword: (q) => q.account.changePassword({ currentPassword: 'x', password: 'correct horse' }),
  changeEmail: (q) => q.account.changeEmail({ currentPassword: 'x', email: credentials.email }),
  createExport: (q) => q.account.createExport(),
  getExport: (q) => q.account.export(),
  listSessions: (q) => q.account.sessions(),
  deleteSession: (q) => q.account.endSession('id'),
  closeAllSessions: (q) => q.account.endAllSessions(),
}

/** The operations of the description, from the types that are made of it. */
async function operations() {
  const found = new Map()
  let path
  const [paths] = (await readFile(`${folder}/src/openapi.ts`, 'utf8')).split(/^export (?:type|interface) webhooks/m)
  for (const line of paths.split('\n')) {
    path = line.match(/^ {4}"(\/[^"]*)": \{$/)?.[1] ?? path
    const [, method, id] = line.match(/^ {8}(get|put|post|delete): operations\["(\w+)"\];$/) ?? []
    if (id && !leftOut(path, id)) found.set(id, { method: method.toUpperCase(), path })
  }
  return found
}

test('each operation has a method, which calls its path', async () => {
  const described = await operations()
  assert.ok(described.size > 30, `${described.size} operations`)
  assert.deepEqual(Object.keys(calls).sort(), [...described.keys()].sort())
  for (const [id, { method, path }] of described) {
    const sent = []
    const options = {
      baseUrl: 'http://quire.test/below',
      fetch: async (address, init) => {
        sent.push({ method: init.method, path: new URL(address).pathname, key: init.headers['idempotency-key'] })
        const answer = { success: true, remaining: -1, request: {}, nextCursor: null, hasMore: false, account: {}, deliveries: [], pastes: [], versions: [], files: [], entries: [], requests: [], payments: [] }
        return Response.json(answer)
      },
    }
    await calls[id](new Quire(options), options)
    const pattern = new RegExp(`^/below${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`)
    assert.equal(sent.length, 1, id)
    assert.equal(sent[0].method, method, id)
    assert.match(sent[0].path, pattern, id)
    if (method !== 'GET') assert.match(sent[0].key, /^[0-9a-f]{32}$/, `${id} is a write without an Idempotency-Key`)
  }
})

test('metered reads have an Idempotency-Key, and the other reads none', async () => {
  const metered = ['getPaste', 'getQuickPaste', 'getFile']
  for (const [id, { method }] of await operations()) {
    if (method !== 'GET') continue
    let key
    const fetch = async (_, init) => {
      key = init.headers['idempotency-key']
      return Response.json({ success: true, remaining: 1, request: {}, nextCursor: null, deliveries: [], pastes: [], versions: [], files: [], entries: [], requests: [], payments: [] })
    }
    await calls[id](new Quire({ fetch }), { fetch })
    assert.equal(key !== undefined, metered.includes(id), id)
  }
})
