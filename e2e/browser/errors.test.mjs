// The documentation: found, linked and copied from.
import assert from 'node:assert/strict'
import { looked } from '../accessible.mjs'
import { suite } from '../harness.mjs'

const site = await suite()

for (const script of [true, false]) {
  site.test(`a search finds a guide, an error and a field, ${script ? 'with' : 'without'} scripts`, { script }, async ({ page, open }) => {
    await open('/docs')
    await page.getByRole('searchbox').first().fill('quota_exhausted')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/docs\/search\?q=quota_exhausted/)
    if (script) await looked(page, 'search')
    await page.getByRole('main').getByRole('link', { name: 'quota_exhausted' }).first().click()
    await page.waitForURL(/\/docs\/errors#quota_exhausted$/)
  })
}

site.test('a search without a result says so', async ({ page, open }) => {
  await open('/docs/search?q=zzzzqqqq')
  assert.match(await page.getByRole('main').innerText(), /no|nothing/i)
})

site.test('the address in an error leads to its cause and fix', async ({ page, open }) => {
  const answers = [
    await site.api().send('GET', '/api/dev/pastes/list'),
    await site.api('qk_wrong').send('GET', '/api/dev/pastes/list'),
    await site.api().send('POST', '/api/dev/paste-lite/create', { json: { contnet: 'x' } }),
    await site.api().send('GET', '/api/nothing'),
    await site.api().send('DELETE', '/api/dev/pastes/list'),
  ]
  for (const answer of answers) {
    const { code, docs } = await answer.json()
    assert.equal(docs, `${site.url}/docs/errors#${code}`)
    await open(docs)
    const place = page.locator(`[id="${code}"]`)
    assert.equal(await place.count(), 1, `${code} has no place in /docs/errors`)
    assert.ok(await place.evaluate((e) => e.getBoundingClientRect().top < innerHeight), `${code} is not in sight`)
  }
})

site.test('every guide opens from the overview', async ({ page, open }) => {
  await open('/docs')
  const guides = await page.locator('a[href^="/docs/guides/"]').evaluateAll((all) => [...new Set(all.map((a) => a.getAttribute('href').replace(/#.*/, '')))])
  assert.ok(guides.length >= 9, `${guides.length} guides`)
  for (const guide of guides) {
    await open(guide)
    assert.equal(await page.locator('h1').count(), 1, guide)
  }
})

site.test('llms.txt is text that names the guides', async () => {
  const answer = await site.api().send('GET', '/llms.txt')
  assert.match(answer.headers.get('content-type'), /^text\/plain/)
  assert.match(await answer.text(), /\/docs\/guides\/first-call/)
})
