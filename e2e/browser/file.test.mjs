// Files of strangers: whatever their bytes and their type are, none runs with the rights of our pages.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { suite } from '../harness.mjs'

const site = await suite()
const owner = await site.api().account('max')

const script = `globalThis.__xss = 1; (self.document ?? {}).title = 'taken over'`

/** Adds an element to the page and waits until the browser has loaded it or refused to. */
const inject = (page, name, attributes) => page.evaluate(([name, attributes]) => new Promise((done) => {
  const element = Object.assign(document.createElement(name), attributes)
  for (const event of ['load', 'error']) element.addEventListener(event, () => done(event))
  document.head.append(element)
}), [name, attributes])

site.test('no page of ours loads an uploaded script, whatever its address', {
  allow: [/^policy violation: script-src-elem blocks http/, /^console error: .*Content Security Policy/],
}, async ({ page, open }) => {
  const hostile = await owner.api.file('app.js', 'text/javascript', script, { visibility: 'public' })
  const paste = await owner.api.paste({ content: script, language: 'javascript', visibility: 'public' })
  const pages = ['/', '/docs', `/p/${paste.id}`, `/f/${hostile.id}`, '/nothing']
  for (const path of pages) {
    await open(path, { status: path === '/nothing' ? 404 : 200 })
    for (const src of [`/f/${hostile.id}/raw`, `/p/${paste.id}/raw`, `/assets/../f/${hostile.id}/raw`, `/assets/%2e%2e/f/${hostile.id}/raw`]) {
      for (const type of ['', 'module']) {
        assert.equal(await inject(page, 'script', { src, type }), 'error', `${path} loads ${src} as a script`)
      }
    }
    assert.equal(await page.evaluate(() => globalThis.__xss), undefined)
  }
})

site.test('no page of ours makes an uploaded file its worker or its style sheet', {
  allow: [/^policy violation: worker-src|^policy violation: script-src/, /^policy violation: style-src-elem/, /^console error: .*Content Security Policy/],
}, async ({ page, open }) => {
  const worker = await owner.api.file('sw.js', 'text/javascript', script)
  const sheet = await owner.api.file('x.css', 'text/css', 'body { display: none }')
  await open('/docs')
  assert.equal(await inject(page, 'link', { rel: 'stylesheet', href: `/f/${sheet.id}/raw` }), 'error')
  assert.ok(await page.locator('main').isVisible())
  const outcome = await page.evaluate(async (address) => {
    const tries = { worker: () => new Worker(address), shared: () => new SharedWorker(address) }
    const ran = []
    for (const [name, attempt] of Object.entries(tries)) {
      try {
        const made = attempt()
        await new Promise((_, reject) => made.addEventListener('error', reject))
        ran.push(name)
      } catch { /* refused, as it must be */ }
    }
    try {
      await navigator.serviceWorker.register(address)
      ran.push('service')
    } catch { /* likewise */ }
    return ran
  }, `/f/${worker.id}/raw`)
  assert.deepEqual(outcome, [])
})

// A browser that opens the bytes themselves saves them or shows them in a sandbox: nothing runs with our origin.
for (const [name, type] of [
  ['page.html', 'text/html'], ['page.xhtml', 'application/xhtml+xml'], ['picture.svg', 'image/svg+xml'],
  ['page.xml', 'text/xml'], ['page.txt', 'text/plain'], ['page.bin', 'application/octet-stream'],
]) {
  site.test(`a file of ${type} that is opened by itself does not run`, async ({ page, context }) => {
    const markup = `<svg xmlns="http://www.w3.org/2000/svg" onload="${script}"><script>${script}</script></svg>`
    const { id } = await owner.api.file(name, type, type.includes('html') ? `<html xmlns="http://www.w3.org/1999/xhtml"><body>${markup}</body></html>` : markup)
    await context.addCookies([{ name: 'canary', value: 'sings', url: site.url }])
    const opened = await page.goto(`${site.url}/f/${id}/raw`).catch((error) => error)
    if (opened instanceof Error) {
      assert.match(opened.message, /Download is starting|ERR_ABORTED/)
      return
    }
    assert.equal(await page.evaluate(() => globalThis.__xss), undefined)
    assert.equal(await page.evaluate(() => self.origin), 'null')
  })
}

site.test('a hostile picture on its page does not run', async ({ page, open }) => {
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="90" height="90" onload="${script}"><script>${script}</script>
    <image href="http://evil.example/pixel.png"/><rect width="90" height="90"/></svg>`
  for (const [name, type] of [['picture.svg', 'image/svg+xml'], ['picture.png', 'image/png'], ['page.html', 'text/html']]) {
    const { id } = await owner.api.file(name, type, svg, { visibility: 'public' })
    await open(`/f/${id}`)
    await page.getByRole('heading', { name }).waitFor()
    for (const frame of page.frames()) {
      assert.equal(await frame.evaluate(() => globalThis.__xss), undefined)
    }
  }
})

site.test('a download has the name and the bytes of the file', async ({ page, open }) => {
  const bytes = randomBytes(70_000)
  const { id } = await owner.api.file('données 1.bin', 'application/octet-stream', bytes, { visibility: 'public' })
  await open(`/f/${id}`)
  const download = page.waitForEvent('download')
  await page.getByRole('link', { name: /download/i }).first().click()
  const saved = await download
  assert.equal(saved.suggestedFilename(), 'données 1.bin')
  const parts = []
  for await (const part of await saved.createReadStream()) parts.push(part)
  assert.ok(Buffer.concat(parts).equals(bytes))
})
