// Postman and Bruno take the description of the API without a complaint, and their requests work.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import newman from 'newman'
import postman from 'openapi-to-postmanv2'
import { Quire } from '../../e2e/harness.mjs'

const run = promisify(execFile)
const folder = fileURLToPath(new URL('.', import.meta.url))
const description = join(folder, '../../docs/openapi.yaml')
const data = await readFile(description, 'utf8')
const operations = data.split(/^webhooks:$/m)[0].match(/^ {6}operationId: /gm).length // without those that an account's server has

const quire = await Quire.start()
after(() => quire.stop())
const place = await mkdtemp(join(tmpdir(), 'quire-importers-'))
after(() => rm(place, { recursive: true, force: true }))

/** The requests of a collection that begin with these words, in this order. */
const names = ['Create a paste', 'List your pastes', 'See this month']

/** What the API tells of the calls of an account: one paste was made. */
async function check(api) {
  const { usage } = await api.call('GET', '/api/users/user/dev-usage')
  assert.equal(usage['pastes.create'].used, 1)
  const { pastes } = await api.call('GET', '/api/dev/pastes/list')
  assert.equal(pastes.length, 1)
}

/** All requests of a Postman collection. */
const requests = (items) => items.flatMap((item) => item.request ? [item] : requests(item.item))

/** Postman's import with options of its dialog. */
async function collection(options) {
  const answer = await promisify(postman.convertV2)({ type: 'string', data }, options)
  assert.deepEqual([answer.result, answer.reason, answer.warnings ?? []], [true, undefined, []])
  return answer.output[0].data
}

test('Postman takes each operation, and its requests work', async () => {
  assert.deepEqual(postman.validate({ type: 'string', data }), { result: true, specificationVersion: '3.1.x' })
  assert.equal(requests((await collection({})).item).length, operations)
  const imported = await collection({ parametersResolution: 'Example', enableOptionalParameters: false })
  const item = names.map((name) => requests(imported.item).find((request) => request.name.startsWith(name)))
  const { apiKey, api } = await quire.api().account('pro')
  const { run: done } = await promisify(newman.run)({
    collection: { ...imported, item }, envVar: [{ key: 'baseUrl', value: quire.url }, { key: 'apiKey', value: apiKey }],
    reporters: [],
  })
  assert.deepEqual(done.failures, [])
  assert.deepEqual(done.executions.map(({ response }) => response.code), [201, 200, 200])
  await check(api)
})

/** Runs a command of Bruno, which must say nothing that is not its success. */
const bruno = (args, options) => run(join(folder, 'node_modules/.bin/bru'), args, { ...options, maxBuffer: 2 ** 26 })

test('Bruno takes each operation, and its requests work', async () => {
  const at = join(place, 'bruno')
  const { stdout, stderr } = await bruno(['import', 'openapi', '--source', description, '--output', place, '--collection-name', 'bruno', '--collection-format', 'bru'])
  assert.doesNotMatch(stdout + stderr, /warn|error|invalid|unsupported|skip/i)
  const files = (await readdir(at, { recursive: true })).filter((name) => name.endsWith('.bru') && !/(^|\/)(collection|folder)\.bru$|^environments\//.test(name))
  assert.equal(files.length, operations)
  const { apiKey, api } = await quire.api().account('pro')
  const chosen = names.map((name) => files.find((file) => file.split('/').at(-1).startsWith(name)))
  for (const file of chosen) {
    // Bruno ticks each parameter that has an example. Those that the caller does not want are unticked, as in its window.
    const text = await readFile(join(at, file), 'utf8')
    await writeFile(join(at, file), text.replace(/^(params:query) \{\n([^]*?)^\}/m, (_, name, lines) => `${name} {\n${lines.replace(/^ {2}(?=[a-z])/gm, '  ~')}}`))
  }
  const { stdout: told } = await bruno(['run', ...chosen, '--env-var', `baseUrl=${quire.url}`, '--env-var', `apiKey=${apiKey}`, '--output', join(place, 'results.json')], { cwd: at })
    .catch((error) => assert.fail(error.stdout + error.stderr))
  const [{ results }] = JSON.parse(await readFile(join(place, 'results.json'), 'utf8'))
  assert.deepEqual(results.map(({ response }) => response.status), [201, 200, 200], told)
  await check(api)
})
