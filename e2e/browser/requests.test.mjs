// The log of requests, from a call of the API to the explanation that is folded again.
import assert from 'node:assert/strict'
import { looked } from '../accessible.mjs'
import { suite } from '../harness.mjs'

const site = await suite()

site.test('the log moves, and a request is folded again in front of its reader', { scheme: 'dark', screen: 'phone' }, async ({ page, open, signedIn }) => {
  const user = await signedIn()
  await open('/console')
  await page.getByRole('navigation', { name: 'Your account' }).getByRole('link', { name: 'Requests' }).click()
  await page.getByText('No recent requests').waitFor()
  await user.api.quickPaste({ content: 'one' })
  const rows = page.getByRole('row').filter({ hasText: 'pasteLite.create' })
  await rows.filter({ hasText: 'Served' }).first().waitFor()
  await user.api.send('GET', '/api/dev/paste-lite/get/000000000000')
  await page.getByRole('row').filter({ hasText: '404 Refunded' }).waitFor()
  await looked(page, 'requests')

  await page.getByLabel('Quota key').selectOption('pasteLite.create')
  await page.getByLabel('From, your time').fill('2020-01-01T10:00')
  await page.getByRole('button', { name: 'Filter' }).click()
  await page.waitForURL(/from=2020-01-01T09%3A00/) // the reader is in Berlin
  assert.equal(await page.getByLabel('From, your time').inputValue(), '2020-01-01T10:00')
  assert.equal(await page.getByRole('row').count(), 2)
  await page.getByRole('row').getByRole('link').click()
  await page.getByRole('heading', { name: 'How this request was billed' }).waitFor()
  await page.getByText('5,000 requests per month for').waitFor()
  await page.getByRole('button', { name: 'Verify this charge' }).click()
  await page.getByText('Verified:').waitFor()
  assert.doesNotMatch(page.url(), /run=/, 'the page was loaded again')
  const row = page.getByRole('row').filter({ hasText: 'Remaining' })
  assert.deepEqual(await row.getByRole('cell').allTextContents(), ['4,999', '4,999', 'matches'])
  await looked(page, 'request verified')
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

for (const screen of ['desktop', 'phone']) {
  for (const scheme of ['light', 'dark']) {
    site.test(`what only the edge knows is in the log and on its page, ${scheme}, on a ${screen}`, { scheme, screen }, async ({ page, open, signedIn }) => {
      const user = await signedIn()
      await user.api.quickPaste({ content: 'one' })
      await user.api.send('GET', '/api/dev/paste-lite/get/000000000000')
      await user.api.send('POST', '/api/dev/paste-lite/create', { json: { contents: 'x' } })
      await open('/console/requests')
      const refused = page.getByRole('row').filter({ hasText: 'Unknown field' })
      await refused.filter({ hasText: 'POST /api/dev/paste-lite/create' }).filter({ hasText: '400' }).waitFor()
      await page.getByRole('row').filter({ hasText: 'POST /api/dev/paste-lite/create' }).filter({ hasText: '201' }).filter({ hasText: ' ms' }).waitFor()
      await page.getByRole('combobox', { name: 'Status' }).selectOption('4xx')
      await page.getByRole('button', { name: 'Filter' }).click()
      await page.waitForURL(/httpStatus=4xx/)
      assert.equal(await page.getByRole('row').count(), 3) // with the head
      await page.getByRole('row').filter({ hasText: '404 Refunded' }).getByRole('link').click()
      await page.getByRole('heading', { name: 'HTTP request' }).waitFor()
      const id = page.url().split('/').at(-1)
      await page.getByRole('term').filter({ hasText: 'Source address' }).waitFor()
      await open(`/console/requests?requestId=${id}`)
      assert.equal(await page.getByRole('row').count(), 2)
      const table = await page.request.get(await page.getByRole('link', { name: 'Download CSV' }).evaluate((a) => a.href))
      assert.match(await table.text(), new RegExp(`^time,requestId,method.*\r\n[^\r]*${id},GET,[^\r]*,404,`))
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'wider than the screen')
    })
  }
}
