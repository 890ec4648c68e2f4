// Forms that are refused, and the question before a deletion is canceled: in every look, by keyboard, with and without scripts.
import assert from 'node:assert/strict'
import { looked } from '../accessible.mjs'
import { Api, suite } from '../harness.mjs'

const site = await suite()
const password = 'correct horse battery'

/** A field that was refused: it says why, has the focus, and still has what was typed. */
async function refused(page, field, { says, keeps }) {
  await page.getByText(says).waitFor()
  assert.equal(await field.getAttribute('aria-invalid'), 'true')
  const message = (await field.getAttribute('aria-describedby')).split(' ').pop()
  assert.equal(await page.locator(`[id="${message}"]`).innerText(), says)
  assert.notEqual(await field.getAttribute('autofocus'), null)
  if (keeps !== undefined) assert.equal(await field.inputValue(), keeps)
  assert.equal(await page.locator('[aria-invalid]').count(), 1)
}

/** Lets a form be sent as it is, as by a browser that checks nothing. */
const unchecked = (form) => form.evaluate((e) => { e.noValidate = true })

site.test('sign-up says what is wrong with the email and the password, and keeps the email', async ({ page, open, expectErrorPage }) => {
  expectErrorPage('/console/sign-up')
  await open('/console/sign-up')
  await unchecked(page.locator('form.sign'))
  await page.keyboard.type('grace') // the field has the focus
  await page.keyboard.press('Tab')
  await page.keyboard.type(password)
  await page.keyboard.press('Enter')
  await refused(page, page.getByLabel('Email'), { says: 'The email must be an email address such as name@example.com.', keeps: 'grace' })
  await looked(page, 'sign-up refused')
  await unchecked(page.locator('form.sign'))
  await page.getByLabel('Email').fill(`${crypto.randomUUID()}@example.com`)
  await page.getByLabel('Password').fill('short')
  await page.keyboard.press('Enter')
  await refused(page, page.getByLabel('Password'), { says: 'The password must have 8 to 128 characters.', keeps: '' })
  await page.getByLabel('Password').fill(password)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Welcome to Quire' }).waitFor()
})

site.test('a webhook without an event, and a key without a scope, are refused beside the choices', async ({ page, open, signedIn, expectErrorPage }) => {
  await signedIn()
  expectErrorPage('/console/billing/webhooks')
  await open('/console/billing/webhooks')
  await page.getByLabel('URL').fill('https://example.com/hook')
  for (const box of await page.locator('form.rules [type=checkbox]:checked').all()) await box.uncheck()
  await page.getByLabel('Thresholds').fill('60, 70')
  await page.keyboard.press('Enter')
  await refused(page, page.getByRole('checkbox').first(), { says: 'Choose at least one event.' })
  assert.equal(await page.getByLabel('URL').inputValue(), 'https://example.com/hook')
  assert.equal(await page.getByLabel('Thresholds').inputValue(), '60, 70')
  await looked(page, 'webhook refused')
  await page.keyboard.press('Home')
  await page.getByRole('checkbox').first().check()
  await page.getByLabel('Thresholds').fill('60 and more')
  await page.keyboard.press('Enter')
  await refused(page, page.getByLabel('Thresholds'), { says: 'The thresholds must be 1 to 10 whole numbers from 1 to 100, separated by commas.', keeps: '60 and more' })

  expectErrorPage('/console/keys')
  await open('/console/keys')
  await page.getByText('Name, expiry, scopes and limits').click()
  await page.getByLabel('Name', { exact: true }).fill('reader')
  await page.getByLabel('Only these').check()
  await page.getByRole('button', { name: 'Create key' }).click()
  await refused(page, page.getByLabel('Only these'), { says: 'Choose at least one request, or allow all requests.' })
  assert.ok(await page.getByLabel('Only these').isChecked())
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'reader')
  await looked(page, 'key refused')
})

for (const script of [true, false]) {
  site.test(`a refused paste keeps its text, and asks for its password again, ${script ? 'with' : 'without'} scripts`, { script }, async ({ page, open, signedIn, expectErrorPage }) => {
    const { api } = await signedIn()
    expectErrorPage('/console/pastes')
    await open('/console/pastes/new')
    await page.locator('textarea').fill('one\ntwo\n')
    await page.getByLabel('Tags').fill('1,2,3,4,5,6,7,8,9,10,11')
    await page.getByLabel('Password').fill(password)
    await page.getByRole('button', { name: 'Create paste' }).click()
    await refused(page, page.getByLabel('Tags'), { says: 'Enter at most 10 different tags.', keeps: '1,2,3,4,5,6,7,8,9,10,11' })
    assert.equal(await page.locator('textarea').inputValue(), 'one\ntwo\n')
    assert.equal(await page.getByLabel('Password').inputValue(), '')
    await page.getByText('Enter the password again. Pages never show passwords.').waitFor()
    if (script) await looked(page, 'paste refused')
    await page.getByLabel('Tags').fill('1, 2')
    await page.getByRole('button', { name: 'Create paste' }).click() // the browser asks for the password
    assert.ok(await page.getByLabel('Password').evaluate((e) => e.matches(':invalid')))
    await page.getByLabel('Password').fill(password)
    await page.getByRole('button', { name: 'Create paste' }).click()
    await page.getByText('Paste created.').waitFor()
    const { pastes: [paste] } = await api.call('GET', '/api/dev/pastes/list')
    assert.deepEqual([paste.tags, paste.passwordProtected], [['1', '2'], true])
  })

  site.test(`a sign-in asks before it cancels a deletion, ${script ? 'with' : 'without'} scripts`, { script }, async ({ page, open, context, expectErrorPage }) => {
    const user = await site.api().user()
    const { name, value } = await user.session()
    await site.api().call('DELETE', '/api/users/user', {
      json: { currentPassword: user.password }, headers: { cookie: `${name}=${value}`, 'sec-fetch-site': 'same-origin' },
    })
    const status = async () => (await new Api(site.url, user.apiKey).send('GET', '/api/users/user')).status
    const signIn = async () => {
      await page.getByLabel('Email').fill(user.email)
      await page.getByLabel('Password').fill(user.password)
      await page.keyboard.press('Enter')
      await page.getByRole('heading', { name: 'Keep your account?' }).waitFor()
    }
    expectErrorPage('/console/sign-in')
    await open('/console/sign-in?next=/docs')
    await signIn()
    if (script) await looked(page, 'deletion asked')
    assert.deepEqual(await context.cookies(), [], 'the question signs in')
    await page.getByRole('link', { name: 'Leave it scheduled for deletion' }).click()
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
    assert.equal(await status(), 403)
    await signIn()
    await page.getByRole('button', { name: 'Keep my account' }).press('Enter')
    await page.getByText('The deletion of your account is canceled.').waitFor()
    assert.equal(await status(), 200)
  })
}
