// An account by hand: sign up, a key, the month, sign out and in again. All of it works without scripts.
import assert from 'node:assert/strict'
import { Api, suite } from '../harness.mjs'

const site = await suite()

const password = 'correct horse battery'

for (const [script, scheme, screen] of [[true, 'dark', 'desktop'], [false, 'light', 'phone']]) {
  site.test(`an account from its beginning to its first call, ${script ? 'with' : 'without'} scripts`, { script, scheme, screen }, async ({ page, open, context }) => {
    const email = `${crypto.randomUUID()}@example.com`
    await open('/')
    await page.getByRole('link', { name: 'Sign up' }).click()
    await page.getByLabel('Email').fill(email)
    await page.getByLabel('Password').fill(password)
    await page.getByRole('button', { name: 'Make an account' }).click()
    await page.getByRole('heading', { name: 'Your account' }).waitFor()
    await page.getByText(email).waitFor()
    await page.getByText('You have no key yet').waitFor()

    await page.getByRole('button', { name: 'Make an API key' }).click()
    const key = await page.locator('#api-key').innerText()
    assert.match(key, /^qk_\w+$/)
    await new Api(site.url, key).quickPaste({ content: 'made with my key' })
    await page.getByRole('link', { name: 'Back to your account' }).click()
    assert.ok(!(await page.content()).includes(key), 'the key is shown more than once')
    const row = page.getByRole('row').filter({ hasText: 'pasteLite.create' })
    assert.deepEqual((await row.getByRole('cell').allInnerTexts()).slice(0, 3), ['1', '100', '99'])

    const [cookie] = await context.cookies()
    assert.ok(cookie.httpOnly)
    assert.equal(cookie.sameSite, 'Lax')

    await page.getByRole('button', { name: 'Make a new API key' }).click()
    assert.notEqual(await page.locator('#api-key').innerText(), key)
    assert.equal((await new Api(site.url, key).send('GET', '/api/users/user')).status, 401)

    await open('/console')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('link', { name: 'Sign in' }).first().waitFor()
    assert.ok(!(await page.content()).includes(email))
    await open('/console/sign-in')
    await page.getByLabel('Email').fill(email)
    await page.getByLabel('Password').fill(password)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'Your account' }).waitFor()
  })
}

site.test('a wrong password is told without saying whether there is the account', async ({ page, open, expectErrorPage }) => {
  const { email } = await site.api().user()
  expectErrorPage('/console/sign-in')
  const told = []
  for (const address of [email, 'nobody@example.com']) {
    await open('/console/sign-in')
    await page.getByLabel('Email').fill(address)
    await page.getByLabel('Password').fill('wrong password')
    await page.getByRole('button', { name: 'Sign in' }).click()
    told.push(await page.getByRole('alert').innerText())
    assert.equal(await page.getByLabel('Email').inputValue(), address)
    assert.equal(await page.getByLabel('Password').inputValue(), '')
  }
  assert.equal(told[0], told[1])
})

site.test('an address that is taken and a password that is short are told beside their fields', async ({ page, open, expectErrorPage }) => {
  const { email } = await site.api().user()
  expectErrorPage('/console/sign-up')
  await open('/console/sign-up')
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Make an account' }).click()
  await page.locator('[aria-invalid=true], [role=alert]').first().waitFor()
  await page.locator('form.sign').evaluate((form) => { form.noValidate = true })
  await page.getByLabel('Email').fill('new@example.com')
  await page.getByLabel('Password').fill('short')
  await page.getByRole('button', { name: 'Make an account' }).click()
  await page.locator('#password-error').waitFor()
  assert.equal(await page.getByLabel('Password').getAttribute('aria-invalid'), 'true')
})

site.test("another site's form does not sign a visitor out", async ({ page, open, expectErrorPage, context }) => {
  const { session } = await site.api().user()
  await context.addCookies([{ ...await session(), url: site.url }])
  await open('/console')
  await page.goto('about:blank')
  await page.setContent(`<form method="post" action="${site.url}/console/sign-out"><button>Win</button></form>`)
  expectErrorPage('/console/sign-out')
  await page.getByRole('button').click()
  await page.waitForURL(/\/console/)
  await open('/console')
  await page.getByRole('heading', { name: 'Your account' }).waitFor()
})

site.test("the account's times are those of the reader", { timezone: 'Asia/Tokyo' }, async ({ page, open, context }) => {
  const { session } = await site.api().user()
  await context.addCookies([{ ...await session(), url: site.url }])
  await open('/console')
  const times = await page.locator('time').allInnerTexts()
  assert.ok(times.length >= 2)
  for (const time of times) assert.doesNotMatch(time, /UTC/)
})
