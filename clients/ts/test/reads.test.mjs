// A metered read whose answer was lost is charged once.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { Quire } from 'quire-client'
import { Proxy, startQuire } from './harness.mjs'

const server = await startQuire()
const proxy = await Proxy.start(server.url)

test('a metered read that is sent again is counted once', async () => {
  const { apiKey } = await server.api().account('pro')
  const direct = new Quire({ apiKey, baseUrl: server.url })
  const quire = new Quire({ apiKey, baseUrl: proxy.url })
  const paste = await direct.pastes.create({ content: 'x' })
  const quick = await direct.quickPastes.create({ content: 'x' })
  const file = await direct.files.upload({ name: 'x', content: randomBytes(1000) })
  const reads = { 'pastes.get': () => quire.pastes.get(paste.id), 'pasteLite.get': () => quire.quickPastes.get(quick.id), 'files.get': () => quire.files.get(file.id) }
  let calls = 0
  for (const [quotaKey, read] of Object.entries(reads)) {
    calls = 0
    for (const fault of ['refuse', 'lose', 503, 504, 'cut']) {
      proxy.faults = [fault, 'pass']
      await read()
      calls++
      assert.equal((await direct.account.usage()).usage[quotaKey].used, calls, `${quotaKey} after ${fault}`)
    }
  }
})
