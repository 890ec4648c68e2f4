// What a user gets: the files, the types, and how little of it a bundle takes.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile, copyFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { publint } from 'publint'
import { folder } from './harness.mjs'

const run = promisify(execFile)
const bin = join(folder, 'node_modules/.bin')
const place = await mkdtemp(join(tmpdir(), 'quire-client-'))
after(() => rm(place, { recursive: true, force: true }))

const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', place], { cwd: folder })
const [packed] = JSON.parse(stdout)
const tarball = join(place, packed.filename)

test('the package has the built files, and nothing else', async () => {
  const sources = (await readdir(join(folder, 'src'))).map((name) => name.replace(/\.ts$/, ''))
  const built = sources.flatMap((name) => [`dist/${name}.d.ts`, `dist/${name}.js`])
  assert.deepEqual(packed.files.map(({ path }) => path).sort(), ['LICENSE', 'README.md', 'package.json', ...built].sort())
  assert.equal(await readFile(join(folder, 'LICENSE'), 'utf8'), await readFile(join(folder, '../../LICENSE'), 'utf8'))
})

test('the package has no dependencies, and imports nothing of a runtime', async () => {
  const manifest = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
  for (const kind of ['dependencies', 'peerDependencies', 'optionalDependencies']) assert.equal(manifest[kind], undefined)
  for (const name of await readdir(join(folder, 'dist'))) {
    const text = await readFile(join(folder, 'dist', name), 'utf8')
    for (const [, from] of text.matchAll(/\b(?:from|import)\s*\(?['"]([^'"]+)['"]/g)) assert.match(from, /^\.\/\w+\.js$|^quire-client$/, name)
    if (name.endsWith('.js')) assert.doesNotMatch(text.replaceAll(/\/\*[^]*?\*\//g, ''), /\b(?:process\.|Buffer\.|require\(|window\.|document\.)/, name)
  }
})

test('publint finds nothing', async () => {
  const { messages } = await publint({ pkgDir: folder, level: 'suggestion', strict: true })
  assert.deepEqual(messages, [])
})

test('the types match the code, under node16 and bundler', async () => {
  const { stdout: report } = await run(join(bin, 'attw'), [tarball, '--profile', 'esm-only', '--format', 'json'], { maxBuffer: 2 ** 26 })
  const { analysis, problems } = JSON.parse(report)
  assert.deepEqual(analysis.problems.filter(({ kind, resolutionKind }) => kind !== 'CJSResolvesToESM' && resolutionKind !== 'node10'), [], JSON.stringify(problems))
  assert.deepEqual(Object.keys(analysis.entrypoints).sort(), ['.', './package.json', './webhook'])
})

/** A user's project with the package as npm installs it. */
async function project(name, options, types = []) {
  const at = join(place, name)
  await mkdir(join(at, 'node_modules/@types'), { recursive: true })
  await mkdir(join(at, 'node_modules/quire-client'))
  await run('tar', ['-xzf', tarball, '-C', join(at, 'node_modules/quire-client'), '--strip-components=1'])
  for (const of of types) await symlink(join(folder, 'node_modules', of), join(at, 'node_modules', of))
  await writeFile(join(at, 'package.json'), '{ "type": "module", "private": true }')
  await copyFile(join(folder, 'test/consumer/consumer.ts'), join(at, 'consumer.ts'))
  const compilerOptions = { strict: true, noEmit: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, ...options }
  await writeFile(join(at, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['consumer.ts'] }))
  return at
}

const consumers = {
  'node16, without the types of browsers': [{ module: 'node16', target: 'es2022', lib: ['es2022'], types: ['node'] }, ['@types/node', 'undici-types']],
  'bundler, with the types of browsers': [{ module: 'esnext', moduleResolution: 'bundler', target: 'es2022', lib: ['es2022', 'dom', 'dom.iterable', 'dom.asynciterable'], types: [] }],
}
for (const [name, [options, types]] of Object.entries(consumers)) {
  test(`a strict program compiles under ${name}, and its mistakes do not`, async () => {
    const at = await project(name.replace(/\W+/g, '-'), options, types)
    await run(join(bin, 'tsc'), ['-p', at]).catch((error) => assert.fail(error.stdout || String(error)))
  })
}

async function bundle(contents) {
  const { outputFiles: [{ text }] } = await build({
    stdin: { contents, resolveDir: folder }, bundle: true, minify: true, format: 'esm', write: false, platform: 'browser', logLevel: 'silent',
  })
  return text
}

test('a bundle takes what it imports', async () => {
  const verifier = await bundle("import { verifyWebhook } from 'quire-client'; globalThis.verify = verifyWebhook")
  assert.doesNotMatch(verifier, /api\/dev|x-api-key|fetch/)
  assert.ok(verifier.length < 2_000, `${verifier.length} bytes for the verifier alone`)
  const whole = await bundle("import { Quire } from 'quire-client'; globalThis.Quire = Quire")
  assert.doesNotMatch(whole, /webhook-signature/)
  assert.ok(whole.length < 25_000, `${whole.length} bytes for the client`)
})
