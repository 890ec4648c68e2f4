// Runs test files against a cluster with two edges behind a load balancer, which gives each request to the next edge: who signs in at
// one edge goes on at the other. `make e2e-cluster` calls it: node cluster.mjs browser/console.test.mjs …
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, request as send } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { within } from './within.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

// Longest waits, in milliseconds, which a cluster that works never reaches: billing folds and hands over.
const startLimit = 180_000
const stopLimit = 300_000

/** Starts a load balancer. Each request goes to the next edge, on a separate connection. */
async function balance(edges) {
  // Of these, a connection on each side has its own.
  const ofConnection = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade'])
  const passed = (raw) => raw.filter((_, n) => !ofConnection.has(raw[n - n % 2].toLowerCase()))
  const counts = new Map()
  let turn = 0
  const server = createServer((request, response) => {
    const edge = edges[turn++ % edges.length]
    counts.set(edge, (counts.get(edge) ?? 0) + 1)
    const { hostname, port } = new URL(edge)
    const onward = send({ hostname, port, method: request.method, path: request.url, headers: passed(request.rawHeaders), agent: false }, (answer) => {
      response.writeHead(answer.statusCode, passed(answer.rawHeaders))
      response.flushHeaders()
      answer.pipe(response)
      answer.on('error', () => response.destroy())
    })
    // What an edge does not read of a request that it has answered is no failure.
    onward.on('error', () => { if (!response.headersSent) response.destroy() })
    response.on('close', () => onward.destroy())
    request.pipe(onward)
  })
  server.keepAliveTimeout = 0 // a connection that is closed while a client uses it again would fail a test by chance
  server.requestTimeout = 0
  await new Promise((listens) => server.listen(0, '127.0.0.1', listens))
  return { server, counts, url: `http://127.0.0.1:${server.address().port}` }
}

/** Starts bin/quire-cluster. ended resolves to how it ended. */
function start(dir, settings) {
  const child = spawn(join(root, 'bin/quire-cluster'), [
    '-root', root, '-dir', dir, '-listen', ',', '-welcome=false', ...Object.entries(settings).flatMap(([name, value]) => ['-set', `${name}=${value}`]),
  ], { stdio: ['ignore', 'pipe', 'inherit'] })
  process.once('exit', () => child.kill('SIGKILL'))
  const ended = new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve(signal ?? code))
  })
  const listens = new Promise((resolve, reject) => {
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      output += chunk
      const line = output.match(/listens on (http:\/\/\S+) and (http:\/\/\S+)/)
      if (line) resolve(line.slice(1))
    })
    ended.then((how) => reject(new Error(`the cluster ended with ${how} before it listened:\n${output}`)), reject)
  })
  return { child, ended, listens }
}

const dir = await mkdtemp(join(tmpdir(), 'quire-e2e-cluster-'))
const edges = []
const { server, counts, url } = await balance(edges)
const servers = [server]
const cluster = start(dir, {
  QUIRE_PUBLIC_URL: url,
  QUIRE_TRUSTED_PROXIES: '127.0.0.1/32',
  QUIRE_ADMIN_TOKEN: 'ann:admin-token-of-the-browser,tests:admin-token-of-the-tests',
  QUIRE_WEBHOOK_ALLOW_PRIVATE: '1',
})
let failed = true
try {
  edges.push(...await within(startLimit, cluster.listens, 'the cluster listens'))
  // Each edge alone, at the host of the load balancer: cookies belong to a host, on all its ports.
  const alone = await Promise.all(edges.map((edge) => balance([edge])))
  servers.push(...alone.map((one) => one.server))
  const tests = spawn(process.execPath, ['--test', '--test-reporter=spec', ...process.argv.slice(2)], {
    stdio: 'inherit', env: { ...process.env, E2E_CLUSTER: JSON.stringify([url, ...alone.map((one) => one.url)]) },
  })
  failed = await new Promise((resolve) => { tests.once('close', resolve) }) !== 0
  const [one, other] = edges.map((edge) => counts.get(edge) ?? 0)
  console.log(`${one} requests went to one edge, ${other} to the other`)
  assert.ok(Math.abs(one - other) <= 1 && one > 0, 'the edges had no turns')
} finally {
  cluster.child.kill('SIGTERM')
  const how = await within(stopLimit, cluster.ended, 'the cluster stops')
  for (const each of servers) {
    each.close()
    each.closeAllConnections()
  }
  failed ||= how !== 0
  if (failed) console.error(`the cluster ended with ${how}. Its logs: ${join(dir, 'log')}`)
  else await rm(dir, { recursive: true, force: true })
  process.exitCode = failed ? 1 : 0
}
