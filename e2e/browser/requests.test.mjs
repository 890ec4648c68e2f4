// The log of requests, from a call of the API to the explanation that is folded again.
import assert from 'node:assert/strict'
import { suite } from '../harness.mjs'

const site = await suite()

site.test('the log moves, and a request is folded again in front of its reader', { scheme: 'dark', screen: 'phone' }, async ({ page, open, signedIn }) => {
  const user = await signedIn()
  await open('/console')
  await page.getByRole('navigation', { name: 'Your account' }).getByRole('link', { name: 'Requests' }).click()
  await page.getByText('No requests in the last 48 hours').waitFor()
  await user.api.quickPaste({ content: 'one' })
  const rows = page.getByRole('row').filter({ hasText: 'pasteLite.create' })
  await rows.filter({ hasText: 'Served' }).first().waitFor()
  await user.api.send('GET', '/api/dev/paste-lite/get/000000000000')
  await page.getByRole('row').filter({ hasText: 'Refunded' }).waitFor()

  await page.getByLabel('Quota key').selectOption('pasteLite.create')
  await page.getByLabel('From, your time').fill('2020-01-01T10:00')
  await page.getByRole('button', { name: 'Filter' }).click()
  await page.waitForURL(/from=2020-01-01T09%3A00/) // the reader is in Berlin
  assert.equal(await page.getByLabel('From, your time').inputValue(), '2020-01-01T10:00')
  assert.equal(await page.getByRole('row').count(), 2)
  await page.getByRole('row').getByRole('link').click()
  await page.getByRole('heading', { name: 'How this request was billed' }).waitFor()
  await page.getByText('5,000 requests per month of').waitFor()
  await page.getByRole('button', { name: 'Verify this charge' }).click()
  await page.getByText('Verified:').waitFor()
  assert.doesNotMatch(page.url(), /run=/, 'the page was loaded again')
  const row = page.getByRole('row').filter({ hasText: 'Left after it' })
  assert.deepEqual(await row.getByRole('cell').allTextContents(), ['4,999', '4,999', 'matches'])
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'wider than the screen')
})

site.test('a request is explained and folded again without scripts', { script: false }, async ({ page, open, signedIn }) => {
  const user = await signedIn()
  await user.api.quickPaste({ content: 'one' })
  await open('/console/requests')
  await page.getByRole('row').getByRole('link').click()
  await page.getByRole('button', { name: 'Verify this charge' }).click()
  await page.getByText('Replayed').first().waitFor()
  await page.getByText('Credits in the ledger').waitFor()
})
