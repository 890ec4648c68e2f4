// The examples of the README compile, and do what they say.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import ts from 'typescript'
import { folder, startQuire } from './harness.mjs'

const run = promisify(execFile)
const server = await startQuire()

/** Lines that the example with a text prints. */
const prints = {
  "title: 'greeting'": [/^http:\S+ and \d+ more this month$/, /^hello$/],
  'report-2026-11': [/^true true$/],
  '000000000000': [/^there is no such paste$/],
  'nextCursor }': [/^log$/, /^1 \S+$/],
  'notes.txt': [/^14 of 14 bytes$/],
  'Quire.register': [/pasteLite\.create/],
  verifyWebhook: [],
}

/** The programs in TypeScript of a page. */
const programs = async (page) => [...(await readFile(join(folder, page), 'utf8')).matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code]) => code)

test('the guide shows examples of the README', async () => {
  const examples = await programs('README.md')
  const shown = await programs('../../docs/guides/clients.md')
  assert.ok(shown.length >= 2, `${shown.length} programs`)
  for (const program of shown) assert.ok(examples.includes(program), program)
})

test('the examples of the README run', async (t) => {
  const examples = await programs('README.md')
  assert.equal(examples.length, Object.keys(prints).length)
  const place = await mkdtemp(join(folder, 'examples-')) // inside the package, whose name it imports
  t.after(() => rm(place, { recursive: true, force: true }))
  const { apiKey } = await server.api().account('pro')
  // A list whose first page is not its last.
  await server.api(apiKey).paste({ content: 'x' })
  const names = examples.map((_, n) => join(place, `${n}.ts`))
  await Promise.all(examples.map((code, n) => writeFile(names[n], code)))
  const compiler = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--lib', 'es2022', '--types', 'node']
  await run(join(folder, 'node_modules/.bin/tsc'), [...compiler, ...names], { cwd: folder }).catch((error) => assert.fail(error.stdout))
  for (const [n, code] of examples.entries()) {
    const [name, lines] = Object.entries(prints).find(([text]) => code.includes(text))
    const { outputText } = ts.transpileModule(code, { compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 } })
    await writeFile(join(place, `${n}.mjs`), outputText)
    const env = { ...process.env, QUIRE_API_KEY: apiKey, QUIRE_URL: server.url }
    const { stdout } = await run(process.execPath, [`${n}.mjs`], { cwd: place, env })
    const printed = stdout.split('\n').filter(Boolean)
    assert.equal(printed.length, lines.length, `${name} prints ${stdout}`)
    lines.forEach((line, i) => assert.match(printed[i], line, name))
  }
  assert.equal(await readFile(join(place, 'copy.txt'), 'utf8'), 'Meeting notes\n')
})
