// The driver makes the calls that the clients' scenarios ask for, and answers each in a line.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { folder, Proxy, startQuire } from './harness.mjs'

const server = await startQuire()
const proxy = await Proxy.start(server.url)

test('the driver makes each call, and answers a failure as one', async (t) => {
  const place = await mkdtemp(join(tmpdir(), 'quire-client-'))
  t.after(() => rm(place, { recursive: true, force: true }))
  const { apiKey } = await server.api().account('pro')
  const driver = spawn(process.execPath, [join(folder, 'driver.mjs')], {
    stdio: ['pipe', 'pipe', 'inherit'], env: { ...process.env, QUIRE_URL: proxy.url, QUIRE_API_KEY: apiKey },
  })
  const lines = createInterface({ input: driver.stdout })[Symbol.asyncIterator]()
  let calls = 0
  const call = async (op, args, fault = 'pass') => {
    proxy.faults = [fault]
    driver.stdin.write(`${JSON.stringify({ id: ++calls, op, args })}\n`)
    const { id, ok, result, error } = JSON.parse((await lines.next()).value)
    assert.deepEqual([id, ok], [calls, error === undefined])
    return result ?? error
  }

  for (const kind of ['Paste', 'QuickPaste']) {
    const { id } = await call(`create${kind}`, { content: 'hello\n', title: 'notes' }, 'lose')
    assert.equal((await call(`get${kind}`, { id })).content, 'hello\n')
    assert.equal((await call(`update${kind}`, { id, title: 'later notes' }, 504)).version, 2)
    for (const title of ['b notes', 'c notes', 'd']) await call(`create${kind}`, { content: 'x', title })
    assert.equal((await call(`list${kind}s`, { q: 'notes' })).ids.length, 3)
    assert.equal((await call(`delete${kind}`, { id }, 'cut')).id, id)
    assert.deepEqual(await call(`get${kind}`, { id }).then(({ code, status }) => [code, status]), ['not_found', 404])
  }
  const [from, to] = ['from', 'to'].map((name) => join(place, name))
  await writeFile(from, 'some bytes')
  const { id, sha256 } = await call('uploadFile', { name: 'x', path: from }, 'lose')
  assert.equal((await call('getFile', { id })).sha256, sha256)
  assert.equal((await call('downloadFile', { id, path: to })).sha256, sha256)
  assert.equal(await readFile(to, 'utf8'), 'some bytes')
  assert.equal((await call('deleteFile', { id })).id, id)

  driver.stdin.end()
  assert.equal(await new Promise((resolve) => driver.once('close', resolve)), 0)
  const { usage } = await server.api(apiKey).call('GET', '/api/users/user/dev-usage')
  for (const quotaKey of ['pastes.delete', 'pastes.update', 'pasteLite.delete', 'files.upload', 'files.delete']) assert.equal(usage[quotaKey].used, 1, quotaKey)
})
