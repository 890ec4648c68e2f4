// What holds for every page: anybody can use it, on any screen, with a keyboard, and soon.
import assert from 'node:assert/strict'
import { accessible, fits, tabbable } from '../accessible.mjs'
import { screens, suite } from '../harness.mjs'
import { mainPages } from '../pages.mjs'

const site = await suite({ QUIRE_ANON_LIMIT: '1000' })
const pages = await mainPages(site)

/** The page has the marks by which people with a screen reader find their way. */
async function structured(page) {
  assert.equal(await page.locator('html').getAttribute('lang'), 'en')
  assert.match(await page.title(), /Quire/)
  assert.equal(await page.locator('h1').count(), 1, 'number of h1')
  assert.equal(await page.getByRole('main').count(), 1)
  assert.equal(await page.getByRole('banner').count(), 1)
}

/** At 200 % and 400 % of its size nothing has to be scrolled to the side (WCAG 1.4.4 and 1.4.10). */
async function zooms(page) {
  for (const zoom of [2, 4]) {
    await page.setViewportSize({ width: screens.desktop.width / zoom, height: screens.desktop.height / zoom })
    await fits(page)
  }
  await page.setViewportSize(screens.desktop)
}

/** Paper gets the content, in black on white, and nothing that can only be clicked. */
async function prints(page) {
  await page.emulateMedia({ media: 'print', colorScheme: 'light' })
  assert.ok(!await page.getByRole('navigation', { name: 'Site' }).isVisible(), "the site's links are printed")
  assert.ok(await page.locator('h1').isVisible(), 'the heading is not printed')
  const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor)
  assert.match(background, /^rgba?\(255, 255, 255|^rgba\(0, 0, 0, 0\)/)
}

const budgetBytes = 60 << 10
const budgetPlainBytes = 100 << 10

/**
 * On a first visit the page with its styles, scripts and icon is light, as it is transferred and as it is without compression, and nothing
 * of that keeps it from being painted.
 */
async function light(page, name, requests) {
  let bytes = 0
  let plain = 0
  const each = []
  for (const request of requests) {
    if (request.resourceType() === 'eventsource') continue // it never ends, and has no data
    const { responseHeadersSize, responseBodySize } = await request.sizes()
    bytes += responseHeadersSize + responseBodySize
    plain += (await (await request.response()).body()).length
    each.push(`${responseHeadersSize + responseBodySize} ${new URL(request.url()).pathname}`)
  }
  console.log(`# ${name}: ${(bytes / 1024).toFixed(1)} KB, ${(plain / 1024).toFixed(1)} KB without compression (${each.join(', ')})`)
  assert.ok(bytes < budgetBytes, `${bytes} bytes: ${each.join(', ')}`)
  assert.ok(plain < budgetPlainBytes, `${plain} bytes without compression: ${each.join(', ')}`)
  const blocking = await page.evaluate(() => performance.getEntriesByType('resource')
    .filter((r) => r.renderBlockingStatus === 'blocking').map((r) => r.name))
  assert.deepEqual(blocking, [])
}

for (const { name, path, status, session, ours } of pages) {
  site.test(`anybody can use ${name}: light, desktop, zoomed, by keyboard, on paper${ours ? ', and it is light' : ''}`, { session }, async ({ page, open, requests }) => {
    await open(path, { status })
    if (ours) await light(page, name, [...requests])
    await structured(page)
    await fits(page)
    await accessible(page)
    await tabbable(page)
    await zooms(page)
    await prints(page)
  })

  site.test(`anybody can use ${name}: dark, phone`, { session, scheme: 'dark', screen: 'phone' }, async ({ page, open }) => {
    await open(path, { status })
    await fits(page)
    await accessible(page)
  })

  site.test(`anybody can use ${name}: without scripts`, { session, script: false }, async ({ page, open }) => {
    await open(path, { status })
    assert.equal(await page.locator('h1').count(), 1, 'number of h1')
    assert.ok((await page.getByRole('main').innerText()).length > 20)
    assert.equal(await page.locator('.needs-script:visible, [data-script]:visible').count(), 0, 'controls that need a script')
  })
}

site.test('every link of our pages leads somewhere', async ({ page, open }) => {
  const seen = new Map()
  for (const { path, ours, session, status } of pages) {
    if (!ours || session) continue
    await open(path, { status })
    for (const link of await page.locator('a[href]').evaluateAll((all) => all.map((a) => a.href))) {
      const url = new URL(link)
      if (url.origin === site.url && !seen.has(url.href)) seen.set(url.href, path)
    }
  }
  const api = site.api()
  const broken = []
  const targets = new Map() // ids of the pages that links lead to
  for (const [link, from] of seen) {
    const url = new URL(link)
    const address = url.pathname + url.search
    if (!targets.has(address)) {
      const answer = await api.send('GET', address, { headers: { accept: 'text/html', 'x-forwarded-for': `10.9.${targets.size >> 8}.${targets.size & 255}` } })
      targets.set(address, { status: answer.status, body: await answer.text() })
    }
    const { status, body } = targets.get(address)
    if (status >= 400 && !(status === 404 && pages.some((p) => p.path === address && p.status === 404))) broken.push(`${from}: ${link} is ${status}`)
    const id = decodeURIComponent(url.hash.slice(1))
    if (id && !body.includes(`id="${id}"`)) broken.push(`${from}: ${link} has no such place`)
  }
  assert.ok(seen.size > 5)
  assert.deepEqual(broken, [])
})
