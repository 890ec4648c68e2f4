// The client in other runtimes than Node: Deno, Bun, one that has the globals of edge runtimes alone, and a page of another site.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { arch } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import vm from 'node:vm'
import { build } from 'esbuild'
import * as client from 'quire-client'
import { suite } from '../../../e2e/harness.mjs'
import { everywhere } from './everywhere.mjs'
import { folder } from './harness.mjs'

const site = await suite()
const key = async () => (await site.api().account('pro')).apiKey

/** As many things hold in each runtime. */
const things = 25

test('node', async () => {
  assert.equal(await everywhere(client, { baseUrl: site.url, apiKey: await key() }), things)
})

// The programs of these npm packages are packages of their own for each system.
const programs = {
  deno: [join(folder, '../../e2e/node_modules', `@deno/linux-${arch()}-glibc/deno`), 'run', '--quiet', '--no-config', '--allow-net=127.0.0.1'],
  bun: [join(folder, 'node_modules', `@oven/bun-linux-${arch()}/bin/bun`), 'run'],
}
for (const [name, [program, ...args]] of Object.entries(programs)) {
  test(name, { skip: !existsSync(program) && `NOT TESTED: npm has no ${name} for this system` }, async () => {
    const all = [...args, join(folder, 'test/everywhere-alone.mjs'), site.url, await key()]
    const { stdout } = await promisify(execFile)(program, all)
    assert.equal(stdout, `${things} things held\n`)
  })
}

test('the globals of edge runtimes alone', async () => {
  const { outputFiles: [{ text }] } = await build({
    stdin: { contents: "export * from 'quire-client'; export { everywhere } from './test/everywhere.mjs'", resolveDir: folder },
    bundle: true, format: 'iife', globalName: 'bundle', platform: 'neutral', write: false,
  })
  const { fetch, crypto, URL, Headers, Response, Blob, File, ReadableStream, TextEncoder, TextDecoder, AbortController, setTimeout, clearTimeout, atob, Uint8Array } = globalThis
  const context = vm.createContext({
    fetch, crypto, URL, Headers, Response, Blob, File, ReadableStream, TextEncoder, TextDecoder, AbortController, setTimeout, clearTimeout, atob, Uint8Array,
  })
  vm.runInContext(text, context)
  const run = vm.runInContext('(options) => bundle.everywhere(bundle, options)', context)
  assert.equal(await run({ baseUrl: site.url, apiKey: await key() }), things)
})

const served = createServer(async (request, response) => {
  const path = new URL(request.url, 'http://page').pathname
  if (path === '/') return response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>A page</title><link rel="icon" href="data:,">')
  assert.match(path, /^\/(dist\/\w+\.js|test\/everywhere\.mjs)$/)
  response.writeHead(200, { 'content-type': 'text/javascript' }).end(await readFile(join(folder, path)))
})
await new Promise((resolve) => served.listen(0, '127.0.0.1', resolve))
after(() => served.close())
const page = `http://127.0.0.1:${served.address().port}`

const allow = [new RegExp(`^request to another host: ${page}/`), /request to another host: http:\/\/127\.0\.0\.1:9\//, /status of 404/, /net::ERR_/]
site.test('a page of another site', { allow, context: { extraHTTPHeaders: {} } }, async ({ page: tab }) => {
  await tab.goto(`${page}/`)
  const held = await tab.evaluate(async (options) => {
    const client = await import('/dist/index.js')
    const { everywhere } = await import('/test/everywhere.mjs')
    return everywhere(client, options)
  }, { baseUrl: site.url, apiKey: await key() })
  assert.equal(held, things)
})
