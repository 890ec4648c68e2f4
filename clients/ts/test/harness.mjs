// A quire for each test file, and a proxy in front of it that breaks connections and answers on demand.
import { createServer, request } from 'node:http'
import { after } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Quire as Process } from '../../../e2e/harness.mjs'

export const folder = fileURLToPath(new URL('..', import.meta.url))

/** Starts a quire that stops after the tests of this file. */
export async function startQuire(settings) {
  const quire = await Process.start(settings)
  after(() => quire.stop())
  return quire
}

const unavailable = JSON.stringify({ success: false, code: 'unavailable', reason: 'in between', requestId: '', docs: '' })
const unknown = JSON.stringify({ success: false, code: 'outcome_unknown', reason: 'in between', requestId: '', docs: '' })

/**
 * A proxy to a server. `faults` are what happens to the next requests, one after the other:
 *
 * - refuse: the connection ends before the request was forwarded
 * - lose: the connection ends once the server has answered
 * - 503: nothing is forwarded
 * - 504: the answer comes in place of the server's, which has answered
 * - cut: half of the answer's body arrives
 * - slow: the answer's body arrives in many pieces
 * - pass
 */
export class Proxy {
  static async start(target) {
    const proxy = new Proxy()
    proxy.target = target
    proxy.faults = []
    proxy.requests = []
    proxy.server = createServer((from, to) => proxy.#handle(from, to))
    await new Promise((resolve) => proxy.server.listen(0, '127.0.0.1', resolve))
    proxy.url = `http://127.0.0.1:${proxy.server.address().port}`
    after(() => {
      proxy.server.closeAllConnections()
      proxy.server.close()
    })
    return proxy
  }

  /** What the proxy saw since it was last asked. */
  seen() {
    return this.requests.splice(0)
  }

  #handle(from, to) {
    const fault = this.faults.shift() ?? 'pass'
    const { method, url, headers } = from
    this.requests.push({ method, url, headers, fault })
    from.on('error', () => {})
    if (fault === 'refuse') return from.socket.destroy()
    if (fault === 503) {
      from.resume()
      return to.writeHead(503, { 'content-type': 'application/json', 'retry-after': '0' }).end(unavailable)
    }
    const onward = request(this.target + url, { method, headers: { ...headers, host: new URL(this.target).host } }, (answer) => {
      const chunks = []
      answer.on('data', (chunk) => chunks.push(chunk)).on('end', () => this.#answer(fault, answer, Buffer.concat(chunks), from.socket, to))
    })
    onward.on('error', () => from.socket.destroy())
    from.pipe(onward)
  }

  async #answer(fault, { statusCode, rawHeaders }, body, socket, to) {
    if (fault === 'lose') return socket.destroy()
    if (fault === 504) return to.writeHead(504, { 'content-type': 'application/json', 'retry-after': '0' }).end(unknown)
    to.writeHead(statusCode, rawHeaders)
    if (fault === 'cut') return to.write(body.subarray(0, body.length / 2), () => socket.destroy())
    if (fault === 'slow') {
      const piece = Math.ceil(body.length / 20)
      for (let at = 0; at < body.length; at += piece) {
        to.write(body.subarray(at, at + piece))
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
      return to.end()
    }
    to.end(body)
  }
}

/** Runs a list to its end. */
export async function all(list) {
  const items = []
  for await (const item of list) items.push(item)
  return items
}
