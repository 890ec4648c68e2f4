// A reader of a cluster's console, at one edge and at the other.
import assert from 'node:assert/strict'
import { Api, suite } from '../harness.mjs'

const site = await suite()
const [one, other] = site.quire.urls

site.test('who signs in at one edge goes on at the other, and is signed out at both', async ({ page, open }) => {
  const { email, password, api } = await site.api().user()
  const at = (url) => new Api(url, api.key)
  await open(`${one}/console`)
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  assert.equal(new URL(page.url()).origin, one)

  // The page of each edge moves with what the other one counts.
  const used = page.getByRole('row').filter({ hasText: 'pasteLite.create' }).getByRole('cell').first()
  await at(other).quickPaste({ content: 'x' })
  await used.filter({ hasText: /^1$/ }).waitFor()
  await open(`${other}/console`)
  await page.getByText(email).first().waitFor()
  await at(one).quickPaste({ content: 'x' })
  await used.filter({ hasText: /^2$/ }).waitFor()

  // A key is made by a form of one edge, and revoked by a form of the other.
  await open(`${other}/console/keys`)
  await page.getByText('Name, expiry, scopes and limits').click()
  await page.getByLabel('Name', { exact: true }).fill('ci')
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByRole('heading', { name: 'Your new API key' }).waitFor()
  const key = await page.locator('#api-key').innerText()
  await new Api(one, key).quickPaste({ content: 'x' })
  await open(`${one}/console/keys`)
  await page.getByRole('link', { name: 'ci' }).click()
  await page.getByLabel('Type the name of the key', { exact: true }).fill('ci')
  await page.getByRole('button', { name: 'Revoke key' }).click()
  await page.getByText('Key revoked').waitFor()
  for (const url of [one, other]) assert.equal((await new Api(url, key).send('GET', '/api/users/user')).status, 401)

  await page.locator('.who summary').click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.waitForURL(`${one}/`)
  for (const url of [other, one]) {
    await open(`${url}/console`)
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  }
})

site.test("an admin's session is good at both edges", async ({ page, open, context }) => {
  const user = await site.api().account('free')
  await open(`${one}/console/admin/accounts/${user.id}`)
  await page.getByLabel('Admin token').fill('admin-token-of-the-browser')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: user.email }).waitFor()
  await open(`${other}/console/admin/accounts/${user.id}`)
  await page.locator('#tier-tier').selectOption('Pro')
  await page.getByRole('button', { name: 'Set plan' }).click()
  await page.getByText('Plan changed').waitFor()
  for (const url of [one, other]) assert.equal((await new Api(url, user.apiKey).call('GET', '/api/users/user/dev-usage')).account.tier, 'pro')
  await page.locator('.who summary').click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Admin token').waitFor()
  assert.deepEqual(await context.cookies(), [])
})
