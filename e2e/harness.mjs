// A separate quire for each test file, and pages in Debian's chromium that fail their test when something happens that
// no page of ours may do: an error on the console, a violation of the page's policy, a dialog, a request to another host.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { within } from './within.mjs'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** Longest wait for anything, in milliseconds. It is only reached by a test that fails. */
const patience = 30_000

const adminToken = 'admin-token-of-the-tests'

// sources counts the addresses that requests come from: each browser context and each API client has its own, so that
// the limits of a source never join tests.
let sources = 0
function nextSource() {
  sources++
  return `10.${process.pid % 250}.${sources >> 8}.${sources & 255}`
}

/** One process of quire with its own data folder. */
export class Quire {
  /** Starts quire and waits until it listens. */
  static async start(settings = {}) {
    const quire = new Quire()
    quire.data = await mkdtemp(join(tmpdir(), 'quire-e2e-'))
    quire.settings = {
      QUIRE_LISTEN: '127.0.0.1:0',
      QUIRE_DATA: quire.data,
      QUIRE_ADMIN_TOKEN: adminToken,
      QUIRE_TRUSTED_PROXIES: '127.0.0.1/32',
      QUIRE_REGISTER_LIMIT: '1000',
      ...settings,
    }
    process.once('exit', () => quire.process.kill('SIGKILL')) // where a test file ends before its after hook
    await quire.boot()
    return quire
  }

  /** The addresses of its web servers. */
  get urls() {
    return [this.url]
  }

  async boot() {
    this.output = ''
    this.process = spawn(join(root, 'bin/quire'), { stdio: ['ignore', 'pipe', 'pipe'], env: this.settings })
    this.ended = new Promise((resolve, reject) => {
      this.process.once('error', reject)
      this.process.once('close', (code, signal) => resolve(signal ?? code))
    })
    const listens = new Promise((resolve) => {
      const read = (chunk) => {
        this.output += chunk
        const line = this.output.match(/listens on (http:\/\/\S+)/)
        if (line) resolve(line[1])
      }
      this.process.stdout.setEncoding('utf8').on('data', read)
      this.process.stderr.setEncoding('utf8').on('data', read)
    })
    const early = this.ended.then((how) => {
      throw new Error(`quire ended with ${how} before it listened:\n${this.output}`)
    })
    early.catch(() => {})
    this.url = await within(patience, Promise.race([listens, early]), 'quire listens')
  }

  /** Ends the process as an operator would. It must end with status 0 and must not have logged an error. */
  async end() {
    this.process.kill('SIGTERM')
    const how = await within(patience, this.ended, 'quire stops')
    assert.equal(how, 0, `quire's exit status. Its output:\n${this.output}`)
    assert.doesNotMatch(this.output, /level=ERROR|^panic:/m, 'quire logged an error')
  }

  /**
   * Restarts quire on its data, with a clock that is so many milliseconds ahead of the machine's. Its url changes; a browser keeps its
   * sessions, since cookies belong to a host on all its ports.
   */
  async travel(ms) {
    await this.end()
    Object.assign(this.settings, { QUIRE_DEV: '1', QUIRE_CLOCK_OFFSET: `${Math.round(ms)}ms` })
    await this.boot()
  }

  /** Ends the process and removes its data. */
  async stop() {
    try {
      await this.end()
    } finally {
      await rm(this.data, { recursive: true, force: true })
    }
  }

  /** A client of the API. It has no key unless one is given. */
  api(key) {
    return new Api(this.url, key)
  }
}

/**
 * The cluster of `make e2e-cluster`, which all test files share. Its url is a load balancer, which sends each request to the next edge;
 * urls are the edges. Its settings are in cluster.mjs, whatever a test file asks for.
 */
class Cluster {
  constructor(urls) {
    [this.url, ...this.urls] = urls
  }

  api(key) {
    return new Api(this.url, key)
  }

  stop() {} // cluster.mjs does
}

/** A client of the API. Each has a separate source address. */
export class Api {
  constructor(url, key) {
    this.url = url
    this.key = key
    this.source = nextSource()
  }

  /** Sends a request and returns the response, whatever its status. */
  send(method, path, { json, body, headers = {} } = {}) {
    const all = { 'x-forwarded-for': this.source, ...headers }
    if (this.key) all['x-api-key'] = this.key
    if (json !== undefined) {
      all['content-type'] = 'application/json'
      body = JSON.stringify(json)
    }
    return fetch(this.url + path, { method, headers: all, body, redirect: 'manual' })
  }

  /** Sends a request that must succeed, and returns the answer's JSON. */
  async call(method, path, options) {
    const response = await this.send(method, path, options)
    const text = await response.text()
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
    return JSON.parse(text)
  }

  admin(method, path, json) {
    return this.call(method, path, { json, headers: { authorization: `Bearer ${adminToken}` } })
  }

  /** A new account: its id, email and key, and a client with that key. */
  async account(tier = 'pro', email = `${crypto.randomUUID()}@example.com`) {
    const { account, apiKey } = await this.admin('POST', '/api/admin/accounts', { email, tier })
    return { ...account, apiKey, api: new Api(this.url, apiKey) }
  }

  /** A new account with a password: as account gives it, and session() signs in and returns the cookie for a visit. */
  async user(tier = 'pro', email = `${crypto.randomUUID()}@example.com`) {
    const password = 'correct horse battery'
    const { account } = await this.call('POST', '/api/users/register', { json: { email, password } })
    await this.admin('PUT', `/api/admin/accounts/${account.id}/tier`, { tier })
    const session = async () => {
      const answer = await this.send('POST', '/api/users/login', { json: { email, password } })
      assert.equal(answer.status, 200)
      const [, name, value] = answer.headers.get('set-cookie').match(/^([^=]+)=([^;]+)/)
      return { name, value, httpOnly: true, sameSite: 'Lax' }
    }
    const { name, value } = await session()
    const { apiKey } = await this.call('POST', '/api/users/user/dev-key/regenerate', {
      headers: { cookie: `${name}=${value}`, 'sec-fetch-site': 'same-origin' },
    })
    return { ...account, email, password, apiKey, session, api: new Api(this.url, apiKey) }
  }

  /** Signs in with the admin token, and returns the cookie for a visit. */
  async adminSession() {
    const answer = await this.send('POST', '/console/admin/sign-in', {
      body: new URLSearchParams({ token: adminToken }), headers: { 'sec-fetch-site': 'same-origin' },
    })
    assert.equal(answer.status, 303)
    const [, name, value] = answer.headers.get('set-cookie').match(/^([^=]+)=([^;]+)/)
    return { name, value, httpOnly: true, sameSite: 'Strict' }
  }

  paste(fields) {
    return this.call('POST', '/api/dev/pastes/create', { json: fields })
  }

  update(id, fields) {
    return this.call('PUT', `/api/dev/pastes/update/${id}`, { json: fields })
  }

  quickPaste(fields) {
    return this.call('POST', '/api/dev/paste-lite/create', { json: fields })
  }

  /** Uploads bytes as a file with this name and content type. */
  file(name, contentType, bytes, fields = {}) {
    const form = new FormData()
    for (const [field, value] of Object.entries(fields)) form.set(field, value)
    form.set('file', new Blob([bytes], { type: contentType }), name)
    return this.call('POST', '/api/dev/files/upload', { body: form })
  }
}

/** Widths and heights of the screens that pages are tried on, in CSS pixels. */
export const screens = {
  phone: { width: 390, height: 844 },
  desktop: { width: 1280, height: 800 },
}

/** The program of chromium with all its parts. Without windows it has no viewer for PDF, and takes half the time. */
export const whole = '/usr/bin/chromium'

/** Each scheme on each screen. */
export const looks = ['light', 'dark'].flatMap((scheme) =>
  Object.keys(screens).map((screen) => ({ scheme, screen })))

/**
 * The browser and the quire of a test file. Call it once at the top of the file:
 *
 *   const site = await suite()
 *   site.test('what holds', { scheme: 'dark' }, async ({ page, open }) => { … })
 *
 * browsers are the programs of chromium, the first of which that exists is used.
 */
export async function suite(settings = {}, browsers = ['/usr/bin/chromium-headless-shell', whole]) {
  const site = new Site()
  after(async () => {
    await site.browser?.close()
    await site.quire?.stop()
  })
  const shared = process.env.E2E_CLUSTER
  const started = await Promise.allSettled([shared ? new Cluster(JSON.parse(shared)) : Quire.start(settings), launch(browsers)])
  site.quire = started[0].value
  site.browser = started[1].value
  for (const { reason } of started) if (reason) throw reason
  return site
}

function launch(browsers) {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? browsers.find(existsSync),
    args: [
      '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update',
      '--disable-sync', '--no-first-run', '--no-proxy-server',
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
    ],
  })
}

class Site {
  others = [] // origins of other servers that pages may lead to

  get url() {
    return this.quire.url
  }

  api(key) {
    return this.quire.api(key)
  }

  /**
   * Registers a test with its own page.
   *
   * options: scheme ('light' or 'dark'), screen (a name in screens), script (false turns scripts off), timezone,
   * session (the cookie of a session, as user().session() returns it), allow (patterns of faults that the test expects: each must happen), and Playwright's own for a context in `context`.
   */
  test(name, options, body) {
    if (typeof options === 'function') [options, body] = [{}, options]
    test(name, { timeout: 8 * patience }, async () => {
      const visit = await Visit.start(this, options)
      let failure
      try {
        await body(visit)
        await visit.settled()
      } catch (error) {
        failure = error
      }
      await visit.end(name, failure)
    })
  }

  /** Registers a test for each scheme on each screen. */
  testLooks(name, options, body) {
    if (typeof options === 'function') [options, body] = [{}, options]
    for (const look of looks) this.test(`${name} (${look.scheme}, ${look.screen})`, { ...options, ...look }, body)
  }
}

/** One visitor: a browser context with a page, and all that went wrong in it. */
class Visit {
  static async start(site, options) {
    const visit = new Visit()
    visit.site = site
    visit.options = options
    visit.faults = []
    visit.requests = []
    visit.context = await site.browser.newContext({
      viewport: screens[options.screen ?? 'desktop'],
      colorScheme: options.scheme ?? 'light',
      javaScriptEnabled: options.script !== false,
      timezoneId: options.timezone ?? 'Europe/Berlin',
      locale: 'en-GB',
      reducedMotion: 'reduce',
      hasTouch: options.screen === 'phone',
      extraHTTPHeaders: { 'x-forwarded-for': nextSource() },
      ...options.context,
    })
    visit.context.setDefaultTimeout(patience)
    if (options.session) await visit.context.addCookies([{ ...options.session, url: site.url }])
    await visit.watch()
    visit.page = await visit.context.newPage()
    for (const method of ['open', 'each', 'expectErrorPage', 'settled', 'signedIn']) visit[method] = visit[method].bind(visit)
    return visit
  }

  async watch() {
    const { context } = this
    await context.exposeBinding('reportViolation', (_, violation) => this.fault(`policy violation: ${violation}`))
    await context.addInitScript(() => {
      const report = globalThis.reportViolation
      delete globalThis.reportViolation
      addEventListener('securitypolicyviolation', (e) =>
        report?.(`${e.effectiveDirective} blocks ${e.blockedURI} on ${e.documentURI} (${e.sourceFile ?? ''}:${e.lineNumber})`))
    })
    context.on('console', (message) => {
      if (message.type() !== 'error' && message.type() !== 'warning') return
      const where = message.location().url
      // The page that a test opens may be an error page. Tests look at its status themselves.
      if (this.opened.has(where) && /the server responded with a status of/.test(message.text())) return
      // A browser looks for this icon beside an answer that is no page, and names no other.
      if ([this.site.url, ...this.site.others].some((origin) => where === `${origin}/favicon.ico`)) return
      this.fault(`console ${message.type()}: ${message.text()} (${where})`)
    })
    context.on('weberror', (e) => this.fault(`uncaught: ${e.error().stack ?? e.error()}`))
    context.on('dialog', (dialog) => {
      this.fault(`dialog ${dialog.type()}: ${dialog.message()}`)
      dialog.dismiss().catch(() => {})
    })
    context.on('request', (request) => {
      this.requests.push(request)
      const url = new URL(request.url())
      // The last two are parts of the browser, such as its viewer for PDF.
      const ours = url.origin === this.site.url || this.site.quire.urls.includes(url.origin) || this.site.others.includes(url.origin) || ['data:', 'blob:', 'about:', 'chrome:', 'chrome-extension:'].includes(url.protocol)
      if (!ours) this.fault(`request to another host: ${request.url()}`)
    })
    context.on('page', (page) => {
      page.on('websocket', (socket) => this.fault(`websocket to ${socket.url()}`))
      page.on('crash', () => this.fault('the page crashed'))
    })
  }

  opened = new Set()

  fault(text) {
    this.faults.push(text)
  }

  /** Opens a path of quire, or an address of its. The answer's status must be 200 unless another is given. */
  async open(path, { status = 200, page = this.page } = {}) {
    const url = new URL(path, this.site.url).href
    this.opened.add(url.replace(/#.*/, ''))
    if (this.opened.size % 100 === 0) { // a source may open 300 pages a minute
      await this.context.setExtraHTTPHeaders({ 'x-forwarded-for': nextSource() })
    }
    const response = await page.goto(url)
    if (response) assert.equal(response.status(), status, `status of ${path}`) // null where only the fragment changes
    return response
  }

  /**
   * Gives the visitor a session of a new account. Returns the result of Api.user with own(method, path, json), which calls the API
   * with that session.
   */
  async signedIn(tier = 'pro') {
    const user = await this.site.api().user(tier)
    const cookie = await user.session()
    await this.context.addCookies([{ ...cookie, url: this.site.url }])
    const headers = { cookie: `${cookie.name}=${cookie.value}`, 'sec-fetch-site': 'same-origin' }
    return { ...user, own: (method, path, json) => this.site.api().call(method, path, { json, headers }) }
  }

  /** Calls visit(item, page) for each of the items, in four pages at a time. */
  async each(items, visit) {
    const rest = [...items]
    const work = async () => {
      const page = await this.context.newPage()
      while (rest.length) {
        const item = rest.shift()
        try {
          await visit(item, page)
        } catch (error) {
          error.message = `${JSON.stringify(item)}: ${error.message}`
          throw error
        }
      }
      await page.close()
    }
    await Promise.all(Array.from({ length: 4 }, work))
  }

  /** Forgives the error that the browser logs when a form leads to an error page at this path. */
  expectErrorPage(path) {
    this.opened.add(new URL(path, this.site.url).href)
  }

  /** Waits until the page has told all it has to tell. */
  async settled() {
    for (const page of this.context.pages()) {
      if (page.isClosed()) continue
      await page.waitForLoadState('load')
      // Two frames: what the page's scripts started has reached us by then.
      // A sandbox, as for raw content, has none.
      if (this.options.script !== false && await page.evaluate(() => self.origin) !== 'null') {
        await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
      }
    }
  }

  async end(name, failure) {
    const allow = this.options.allow ?? []
    const unexpected = this.faults.filter((fault) => !allow.some((pattern) => pattern.test(fault)))
    const missing = allow.filter((pattern) => !this.faults.some((fault) => pattern.test(fault)))
    const problems = [
      ...unexpected.map((fault) => `- ${fault}`),
      ...(failure ? [] : missing.map((pattern) => `- did not happen, but should: ${pattern}`)),
    ]
    if (failure || problems.length) {
      const shot = await this.screenshot(name)
      const text = [
        `on ${this.page.url()}${shot ? `, see ${shot}` : ''}`,
        ...(problems.length ? ['The page did what it must not:', ...problems] : []),
      ].join('\n')
      await this.context.close()
      if (!failure) assert.fail(text)
      const told = new Error(`${failure.message}\n${text}`)
      told.stack = `${told.message}\n${failure.stack.replace(/^[^]*?(?=\n *at )/, '')}`
      throw told
    }
    await this.context.close()
  }

  async screenshot(name) {
    const folder = process.env.E2E_SCREENSHOTS ?? join(tmpdir(), 'quire-e2e-failures')
    const path = join(folder, `${name.replace(/[^\w.-]+/g, '-').slice(0, 120)}.png`)
    try {
      await mkdir(folder, { recursive: true })
      await this.page.screenshot({ path, fullPage: true, timeout: 5_000 })
      return path
    } catch {
      return undefined // the page is gone; the failure itself says more
    }
  }
}

/** Asks until the answer is not falsy, and returns it. what names it in the error of a wait in vain. */
export async function eventually(what, ask) {
  for (const end = Date.now() + 2 * patience; ;) {
    const answer = await ask()
    if (answer) return answer
    assert.ok(Date.now() < end, `waited ${2 * patience} ms in vain until ${what}`)
  }
}

/** Sets the spending cap of the account on the page of its keys, as a reader does. An empty amount clears it. */
export async function capSpending(page, amount, period) {
  const form = page.locator('form[action="/console/spending-cap"]')
  await form.getByLabel('Credits').fill(amount)
  if (period) await form.getByLabel('Period').selectOption(period)
  await form.getByRole('button').click()
  await page.getByText(amount ? 'Spending cap saved' : 'Spending cap cleared').waitFor()
}
