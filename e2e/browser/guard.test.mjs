// The harness itself: a page that does what it must not fails its test. Without this, all other tests could pass in vain.
import assert from 'node:assert/strict'
import { suite } from '../harness.mjs'

const site = await suite()

site.test('an error on the console is a fault', { allow: [/^console error: on purpose/] }, async ({ page, open }) => {
  await open('/docs')
  await page.evaluate(() => console.error('on purpose'))
})

site.test('a dialog is a fault', { allow: [/^dialog alert: on purpose/] }, async ({ page, open }) => {
  await open('/docs')
  await page.evaluate(() => alert('on purpose'))
})

site.test('an error that nothing catches is a fault', { allow: [/^uncaught: Error: on purpose/] }, async ({ page, open }) => {
  await open('/docs')
  await page.evaluate(() => { setTimeout(() => { throw new Error('on purpose') }) })
})

site.test('a request to another host is a fault, and never leaves the machine', {
  allow: [/^request to another host: http:\/\/example.com\//, /^console error: Failed to load resource: net::ERR_NAME_NOT_RESOLVED/],
}, async ({ page }) => {
  const refused = page.waitForEvent('requestfailed')
  await page.setContent('<img src="http://example.com/pixel.png">')
  assert.match((await refused).failure().errorText, /ERR_NAME_NOT_RESOLVED/)
})

site.test('a violation of the policy is a fault', {
  allow: [/^policy violation: script-src-elem blocks inline/, /^console error: .*Content Security Policy/],
}, async ({ page, open }) => {
  await open('/docs')
  await page.evaluate(() => {
    const script = document.createElement('script')
    script.textContent = 'globalThis.ran = true'
    document.head.append(script)
  })
  assert.equal(await page.evaluate(() => globalThis.ran), undefined)
})
