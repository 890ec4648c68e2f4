// What is made of the API's documents is up to date: `npm run generate` makes the types.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { folder } from './harness.mjs'

test('src/openapi.ts is made of docs/openapi.yaml', async (t) => {
  const place = await mkdtemp(join(tmpdir(), 'quire-client-'))
  t.after(() => rm(place, { recursive: true, force: true }))
  const { scripts } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
  const [command, ...args] = scripts.generate.split(' ').map((word) => word === 'src/openapi.ts' ? join(place, 'openapi.ts') : word)
  await promisify(execFile)(join(folder, 'node_modules/.bin', command), args, { cwd: folder })
  const [now, made] = await Promise.all([join(folder, 'src/openapi.ts'), join(place, 'openapi.ts')].map((path) => readFile(path, 'utf8')))
  assert.ok(now === made, 'src/openapi.ts is stale: run `npm run generate` in clients/ts')
})

test('ErrorCode has the codes of docs/errors.md', async () => {
  const documented = [...(await readFile(join(folder, '../../docs/errors.md'), 'utf8')).matchAll(/^## (\w+)$/gm)].map(([, code]) => code)
  const [, union] = (await readFile(join(folder, 'src/errors.ts'), 'utf8')).match(/export type ErrorCode =([^]*?)\(string/)
  assert.deepEqual([...union.matchAll(/'(\w+)'/g)].map(([, code]) => code).sort(), documented.sort())
})
