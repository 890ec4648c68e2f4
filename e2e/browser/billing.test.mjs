// Billing in the console: the ledger, grants, statements, caps and webhooks, from the first click to the state that the API then shows.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { after } from 'node:test'
import { accessible, looked } from '../accessible.mjs'
import { capSpending, eventually, suite } from '../harness.mjs'

const posts = []
const receiver = createServer((request, response) => {
  let body = ''
  request.on('data', (part) => { body += part }).on('end', () => {
    posts.push({ path: request.url, id: request.headers['webhook-id'], body: JSON.parse(body) })
    response.end('thank you')
  })
})
await new Promise((listens) => receiver.listen(0, '127.0.0.1', listens))
after(() => receiver.close())
const address = `http://127.0.0.1:${receiver.address().port}`

const site = await suite({ QUIRE_WEBHOOK_ALLOW_PRIVATE: '1' })

site.test('credits are followed from a grant to the request that took them', async ({ page, open, signedIn, expectErrorPage }) => {
  const { id, api, own } = await signedIn()
  await open('/console')
  await page.getByRole('link', { name: 'Billing' }).click()
  await page.getByText('You have no credits').waitFor()
  const admin = site.api()
  await admin.admin('POST', `/api/admin/accounts/${id}/credits`, { amount: '1234.5', reason: 'a gift for life' })
  const expiresAt = new Date(Date.now() + 7 * 86_400_000).toISOString()
  await admin.admin('POST', `/api/admin/accounts/${id}/credits`, { amount: '5', reason: 'a gift for a week', expiresAt })
  for (let sent = 0; sent < 100; sent += 10) {
    await Promise.all(Array.from({ length: 10 }, () => api.file('x', 'text/plain', 'x')))
  }
  await api.file('x', 'text/plain', 'x') // beyond the limit of the plan
  const charges = async () => (await own('GET', '/api/users/user/credits?type=charge')).entries
  await eventually('the request is charged', async () => (await charges()).length)
  await page.reload()
  const grants = page.getByRole('region', { name: 'Grants' }).getByRole('row')
  assert.match(await grants.nth(1).innerText(), /a gift for a week\s+4\.995000\s+5\.000000/)
  assert.match(await grants.nth(2).innerText(), /a gift for life\s+1,234\.500000.*never/)

  await looked(page, 'billing')

  await page.getByRole('link', { name: 'Search the ledger' }).click()
  const rows = page.getByRole('region', { name: 'Entries of the ledger' }).locator('tbody').getByRole('row')
  const { entries } = await own('GET', '/api/users/user/credits')
  assert.equal(await rows.count(), entries.length)
  await page.getByLabel('Reason contains').fill('WEEK')
  await page.keyboard.press('Enter')
  await page.getByRole('link', { name: 'Show all' }).waitFor()
  assert.deepEqual(await rows.locator('td').nth(1).allInnerTexts(), ['a gift for a week'])
  await page.getByLabel('Reason contains').fill('')
  await page.getByLabel('Kind').selectOption('Charges')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.waitForURL(/type=charge/)
  assert.equal(await rows.count(), 1)
  const [saved] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download as CSV' }).click()])
  assert.equal(saved.suggestedFilename(), 'ledger.csv')
  const charge = entries.find(({ type }) => type === 'charge')
  assert.equal((await readFile(await saved.path(), 'utf8')).split('\r\n')[1].split(',')[0], charge.id)
  await rows.getByRole('link').click()
  await page.waitForURL(new RegExp(charge.requestId))
  assert.match(await page.locator('body').innerText(), /files\.upload[^]*from “a gift for a week”/)
  await open('/console')
  const used = page.getByRole('row').filter({ hasText: 'files.upload' }).getByRole('cell')
  assert.deepEqual(await used.allInnerTexts(), ['101', '100', '0', '1', '0.005'])
  await page.getByText('per day on average in the last 7 days').waitFor()

  const wrong = '/console/billing/ledger?type=charg'
  expectErrorPage(wrong)
  await open(wrong, { status: 400 })
  await page.getByText('Did you mean').waitFor()
  await looked(page, 'ledger refused')
  assert.equal(await page.getByLabel('Kind').getAttribute('aria-invalid'), 'true')
})

site.test('a payment, a refund and a chargeback are followed in the ledger and on the statement', async ({ page, open, signedIn }) => {
  const { id, api, own } = await signedIn()
  const correct = (path, body) => site.api().admin('POST', `/api/admin/accounts/${id}/${path}`, body)
  await correct('payments', { payment: '2026-0042', credits: '0.01', reason: 'bank transfer' })
  for (let sent = 0; sent < 100; sent += 10) {
    await Promise.all(Array.from({ length: 10 }, () => api.file('x', 'text/plain', 'x')))
  }
  await api.file('x', 'text/plain', 'x') // over quota
  const charges = async () => (await own('GET', '/api/users/user/credits?type=charge')).entries
  await eventually('the request is charged', async () => (await charges()).length)
  const [{ requestId, time }] = await charges()
  await correct('refunds', { requestId, reason: 'our mistake' })
  await open(`/console/requests/${requestId}`)
  await page.getByRole('button', { name: 'Verify this charge' }).click()
  await page.getByText('Verified:').waitFor()
  const compared = page.getByRole('row').filter({ hasText: 'Credits in the ledger' }).getByRole('cell')
  assert.deepEqual(await compared.allTextContents(), ['0.005000', '0.005000', 'matches']) // without the refund
  await correct('reversals', { payment: '2026-0042', credits: '0.01', chargeback: true, reason: 'disputed' })
  const usage = await own('GET', '/api/users/user/dev-usage')
  assert.equal(usage.credits.balance, '0.000000')
  await correct('refunds', { requestId, takeBack: true, reason: 'not ours' }).then(() => assert.fail('taken below zero'), () => undefined)
  await correct('reversals', { payment: '2026-0042', credits: '0.005', reason: 'half of it' })
  await correct('refunds', { requestId, takeBack: true, reason: 'not ours' })
  await correct('reversals', { payment: '2026-0042', credits: '0.01', reason: 'all of it' })

  await open('/console/billing/ledger')
  const rows = page.getByRole('region', { name: 'Entries of the ledger' }).locator('tbody').getByRole('row')
  const cells = async (n) => (await rows.nth(n).locator('td').allInnerTexts()).map((text) => text.replaceAll(/\s+/g, ' ').trim())
  assert.deepEqual(await cells(0), ['Payment reversed', 'Payment 2026-0042 all of it', '−0.005000', '−0.005000'])
  assert.deepEqual(await cells(1), ['Refund', 'Upload a file files.upload not ours', '−0.005000', '0.000000'])
  assert.equal(await rows.count(), 7)
  await looked(page, 'ledger-corrections')
  await page.getByLabel('Kind').selectOption('Payments')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.waitForURL(/type=payment/)
  assert.deepEqual(await cells(0), ['Payment', 'Payment 2026-0042 bank transfer', '+0.010000', '0.010000'])

  await open(`/console/statements/${time.slice(0, 7)}`)
  await page.getByText('Adjustments by an admin').waitFor()
  await looked(page, 'statement-corrections')
  await open('/console')
  await page.getByRole('main').getByText('−0.005').waitFor()
  await page.getByText('A payment was refunded or charged back').waitFor()
})

site.test('a statement is printed, and a cap is set on the way', { screen: 'phone', scheme: 'dark' }, async ({ page, open, signedIn }) => {
  const { own, email } = await signedIn()
  await open('/console/billing')
  await page.getByRole('link', { name: 'Set a cap' }).click()
  await capSpending(page, '2.5', 'per day')
  const { spendingCap } = await own('GET', '/api/users/user/keys')
  assert.deepEqual([spendingCap.amount, spendingCap.period], ['2.500000', 'day'])
  await page.getByRole('link', { name: 'Billing' }).click()
  await page.getByText('0 of 2.50 per day').waitFor()

  await page.getByRole('region', { name: 'Statements' }).getByRole('link').first().click()
  await page.getByRole('heading', { name: /^Statement of/ }).waitFor()
  await looked(page, 'statement')
  await page.emulateMedia({ media: 'print' })
  assert.ok(await page.getByText(email).last().isVisible())
  for (const control of await page.locator('nav, form, .button').all()) assert.ok(!await control.isVisible())
})

site.test('a reader without scripts refreshes the deliveries', { script: false }, async ({ page, open, signedIn }) => {
  const { own } = await signedIn()
  const { webhook } = await own('POST', '/api/users/user/webhooks', { url: `${address}/plain`, events: ['key.created'] })
  await open(`/console/billing/webhooks/${webhook.id}`)
  await page.getByRole('button', { name: 'Send test event' }).click()
  await eventually('the test is delivered', async () => {
    await page.getByRole('link', { name: 'Refresh' }).click()
    return page.getByRole('cell', { name: 'delivered', exact: true }).count()
  })
})

site.testLooks('the deliveries of a webhook move', async ({ page, open, signedIn }) => {
  const { own } = await signedIn()
  const { webhook } = await own('POST', '/api/users/user/webhooks', { url: `${address}/looks`, events: ['key.created', 'key.revoked', 'quota.threshold'] })
  const path = `/console/billing/webhooks/${webhook.id}`
  await open(path)
  await page.getByText('No deliveries yet').waitFor()
  await own('POST', '/api/users/user/keys', { name: 'deploy' })
  await page.getByRole('row', { name: 'The key “deploy” was created' }).getByRole('cell', { name: 'delivered', exact: true }).waitFor()
  await accessible(page)
})

site.test('a webhook is made, tried, changed, given a new secret and deleted', async ({ page, open, signedIn, expectErrorPage }) => {
  const { own } = await signedIn()
  await open('/console/billing')
  await page.getByRole('link', { name: 'Get notified before' }).click()
  expectErrorPage('/console/billing/webhooks')
  await page.getByLabel('URL').fill('ftp://example.com')
  await page.getByLabel('The balance drops below an amount', { exact: false }).check()
  await page.getByLabel('Balance below').fill('2.5')
  await page.getByRole('button', { name: 'Create webhook' }).click()
  await page.getByText('The URL must begin with https').waitFor()
  assert.equal(await page.evaluate(() => document.activeElement.id), 'create-url')
  assert.equal(await page.getByLabel('Balance below').inputValue(), '2.5')
  await page.getByLabel('URL').fill(`${address}/hooks`)
  await page.getByRole('button', { name: 'Create webhook' }).click()
  await page.getByRole('heading', { name: 'Your new webhook' }).waitFor()
  await looked(page, 'new webhook')
  const secret = await page.locator('#secret').innerText()
  assert.match(secret, /^whsec_/)
  const { webhooks: [made] } = await own('GET', '/api/users/user/webhooks')
  assert.deepEqual([made.url, made.events, made.balanceBelow], [`${address}/hooks`, ['quota.threshold', 'balance.low'], '2.500000'])

  await page.getByRole('link', { name: 'Send test event' }).click()
  await page.getByRole('button', { name: 'Send test event' }).click()
  await page.getByText('Sending a test event').waitFor()
  const rows = page.getByRole('region', { name: 'Deliveries' }).locator('tbody').getByRole('row')
  const delivered = rows.getByRole('cell', { name: 'delivered', exact: true })
  await delivered.waitFor() // without a reload
  await rows.locator('summary').click()
  await page.getByText('thank you').waitFor()
  await looked(page, 'webhook with deliveries')
  await own('POST', `/api/users/user/webhooks/${made.id}/test`)
  await delivered.nth(1).waitFor()
  assert.deepEqual(await rows.locator('details').evaluateAll((all) => all.map(({ open }) => open)), [false, true], 'what the reader has opened is closed')
  await rows.nth(1).getByRole('button', { name: 'Send again' }).click()
  await page.getByText('Sending the event again').waitFor()
  await rows.nth(1).locator('summary').filter({ hasText: '2' }).waitFor()
  const sent = posts.filter(({ path }) => path === '/hooks')
  assert.equal(sent.length, 3)
  assert.equal(sent[0].id, sent[2].id)
  assert.equal(sent[0].body.type, 'webhook.test')

  const path = `/console/billing/webhooks/${made.id}`
  await open(path)
  await page.getByLabel('Thresholds of limits').fill('90')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Changes saved').waitFor()
  assert.deepEqual((await own('GET', `/api/users/user/webhooks/${made.id}`)).webhook.thresholds, [90])
  await page.getByRole('button', { name: 'Rotate secret' }).click()
  await page.getByText('stays valid until').waitFor()
  assert.notEqual(await page.locator('#secret').innerText(), secret)

  await open(path)
  expectErrorPage(`${path}/delete`)
  await page.getByLabel('Type the id').fill('it')
  await page.getByRole('button', { name: 'Delete webhook' }).click()
  await page.getByText(`Type “${made.id}” to confirm.`).waitFor()
  await page.getByLabel('Type the id').fill(made.id)
  await page.getByRole('button', { name: 'Delete webhook' }).click()
  await page.getByText('Webhook deleted').waitFor()
  assert.deepEqual((await own('GET', '/api/users/user/webhooks')).webhooks, [])
})
