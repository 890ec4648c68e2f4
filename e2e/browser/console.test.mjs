// The console, from the first click to the state that the API then shows.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Api, root, suite } from '../harness.mjs'

const site = await suite()
const run = promisify(execFile)

const password = 'correct horse battery'

async function signUp(page, email = `${crypto.randomUUID()}@example.com`) {
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Make an account' }).click()
  await page.getByRole('heading', { name: 'Welcome to Quire' }).waitFor()
  return { email, key: await page.locator('#api-key').innerText() }
}

/** A user with a session in the visit's browser, and a client that calls the API with that session. */
async function signedIn(context, tier = 'pro') {
  const user = await site.api().user(tier)
  const cookie = await user.session()
  await context.addCookies([{ ...cookie, url: site.url }])
  const headers = { cookie: `${cookie.name}=${cookie.value}`, 'sec-fetch-site': 'same-origin' }
  return { ...user, own: (method, path, json) => new Api(site.url).call(method, path, { json, headers }) }
}

for (const [script, scheme, screen] of [[true, 'dark', 'desktop'], [false, 'light', 'phone']]) {
  site.test(`an account from its beginning to its first paste, ${script ? 'with' : 'without'} scripts`, { script, scheme, screen }, async ({ page, open, context }) => {
    await open('/')
    await page.getByRole('link', { name: 'Sign up' }).click()
    const { email, key } = await signUp(page)
    assert.match(key, /^qk_\w+$/)
    await page.getByText('It uses 1 of the 100 quick pastes').waitFor()
    await page.getByText('You are on the Free plan').waitFor()
    await page.getByRole('button', { name: 'Create the quick paste' }).click()
    const address = await page.locator('#address').innerText()
    const answer = await new Api(site.url, key).call('GET', `/api/dev/paste-lite/get/${address.split('/').pop()}`)
    assert.equal(answer.paste.content, 'Hello from my new account.\n')
    await page.getByRole('link', { name: 'See your usage' }).click()
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    await page.getByText(email).waitFor()
    assert.ok(!(await page.content()).includes(key), 'the key is shown more than once')
    const row = page.getByRole('row').filter({ hasText: 'pasteLite.create' })
    assert.deepEqual((await row.getByRole('cell').allTextContents()).slice(0, 3), ['1', '100', '99'])

    const [cookie] = await context.cookies()
    assert.ok(cookie.httpOnly)
    assert.equal(cookie.sameSite, 'Lax')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('link', { name: 'Sign in' }).first().waitFor()
    assert.ok(!(await page.content()).includes(email))
    await open('/console/keys')
    await page.getByLabel('Email').fill(email)
    await page.getByLabel('Password').fill(password)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'API keys' }).waitFor()
  })
}

site.test('the programs of the first page run as they are', async ({ page, open }) => {
  await open('/console/sign-up')
  const { key } = await signUp(page)
  const folder = await mkdtemp(join(tmpdir(), 'quire-e2e-first-'))
  try {
    await writeFile(join(folder, 'main.go'), await page.locator('#code-go').innerText())
    await writeFile(join(folder, 'first.mjs'), await page.locator('#code-ts').innerText())
    // As `go get` and `npm install` would have it.
    await writeFile(join(folder, 'go.mod'), `module hello\n\ngo 1.26.0\n\nrequire quire.dev/client v0.0.0\n\nreplace quire.dev/client => ${root}/clients/go\n`)
    await mkdir(join(folder, 'node_modules'))
    await symlink(join(root, 'clients/ts'), join(folder, 'node_modules/quire-client'))
    const said = await Promise.all([
      run('sh', ['-c', await page.locator('#line-paste').innerText()], { cwd: folder }),
      run('sh', ['-c', await page.locator('#line-usage').innerText()]),
      run('go', ['run', '.'], { cwd: folder, env: { ...process.env, GOWORK: 'off', GOFLAGS: '' } }),
      run(process.execPath, ['first.mjs'], { cwd: folder }),
    ])
    assert.ok(said[0].stdout.startsWith(`${site.url}/q/`), said[0].stdout)
    assert.equal(JSON.parse(said[1].stdout).account.tier, 'free')
    for (const { stdout } of said.slice(2)) assert.ok(stdout.startsWith(`${site.url}/q/`), stdout)
    const { pastes } = await new Api(site.url, key).call('GET', '/api/dev/paste-lite/list')
    assert.deepEqual(pastes.map(({ title }) => title).sort(), ['hello.txt', 'hello.txt', 'main.go'])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

site.test('the overview moves while requests come in, and shifts nothing', async ({ page, open, context }) => {
  const { api } = await signedIn(context)
  await open('/console')
  await page.getByText('No requests yet this month').waitFor()
  const cells = page.getByRole('row').filter({ hasText: 'pastes.create' }).getByRole('cell')
  await page.evaluate(() => {
    globalThis.shifts = 0
    new PerformanceObserver((list) => {
      for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) globalThis.shifts += value
    }).observe({ type: 'layout-shift' })
  })
  for (let made = 1; made <= 3; made++) {
    await api.paste({ content: `${made}` })
    await cells.nth(0).filter({ hasText: new RegExp(`^${made}$`) }).waitFor()
  }
  assert.equal(await cells.nth(2).textContent(), '497')
  await page.getByText('3 requests. Most on').waitFor()
  assert.equal(await page.evaluate(() => globalThis.shifts), 0, 'the layout shifts')
  await page.getByText('As a table').click()
  await api.paste({ content: 'one more' })
  await cells.nth(0).filter({ hasText: /^4$/ }).waitFor()
  assert.ok(await page.locator('details').evaluate((details) => details.open), 'what the reader has opened is closed again')
})

site.test('the overview moves without server-sent events too', async ({ page, open, context }) => {
  const { api } = await signedIn(context)
  await page.route('**/console/events', (route) => route.fulfill({ status: 200, contentType: 'text/event-stream', body: '' }))
  await open('/console')
  await api.paste({ content: 'x' })
  await page.getByRole('row').filter({ hasText: 'pastes.create' }).getByRole('cell').nth(0).filter({ hasText: /^1$/ }).waitFor({ timeout: 30_000 })
})

site.test('a page that is open when its session ends says so', {
  allow: [/^console error: Failed to load resource: the server responded with a status of 401/],
}, async ({ page, open, context }) => {
  const { api, own } = await signedIn(context)
  await open('/console')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await own('DELETE', '/api/users/user/sessions')
  await api.paste({ content: 'x' })
  await page.getByText('You have signed out, in this window or another').first().waitFor({ timeout: 45_000 })
  await page.getByRole('main').getByRole('link', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Sign in' }).waitFor()
})

site.test('a key is made, changed, replaced and revoked', async ({ page, open, context, expectErrorPage }) => {
  const { own } = await signedIn(context)
  await open('/console/keys')
  await page.getByText('For a program of its own').click()
  await page.getByLabel('Name', { exact: true }).fill('ci')
  await page.getByLabel('Expires').selectOption('In 30 days')
  await page.getByLabel('Only these:').check()
  await page.getByLabel('Create a quick paste', { exact: false }).first().check()
  expectErrorPage('/console/keys')
  await page.getByRole('group', { name: 'Spending cap of this key' }).getByLabel('Credits').fill('much')
  await page.getByRole('button', { name: 'Make the key' }).click()
  await page.getByText('The amount must be from 0').waitFor()
  assert.equal(await page.evaluate(() => document.activeElement.id), 'create-spendingCap-amount')
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'ci')
  await page.getByRole('group', { name: 'Spending cap of this key' }).getByLabel('Credits').fill('0.5')
  await page.getByRole('button', { name: 'Make the key' }).click()
  await page.getByRole('heading', { name: 'Your new API key' }).waitFor()
  const old = new Api(site.url, await page.locator('#api-key').innerText())
  await old.quickPaste({ content: 'x' })
  assert.equal((await old.send('GET', '/api/dev/pastes/list')).status, 403)

  await open('/console/keys')
  await page.getByRole('link', { name: 'ci' }).click()
  await page.getByLabel('Name', { exact: true }).fill('build')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('The change is saved').waitFor()
  const { keys } = await own('GET', '/api/users/user/keys')
  assert.deepEqual(keys[1].scopes, ['pasteLite.create'])
  assert.equal(keys[1].name, 'build')
  assert.equal(keys[1].spendingCap.amount, '0.500000')
  assert.ok(keys[1].expiresAt)

  await page.getByLabel('The old key works for').selectOption('one hour more')
  await page.getByRole('button', { name: 'Make the new key' }).click()
  await page.getByText('The old key works until').waitFor()
  const next = new Api(site.url, await page.locator('#api-key').innerText())
  await old.quickPaste({ content: 'x' })
  await next.quickPaste({ content: 'x' })

  await open('/console/keys')
  await page.getByRole('link', { name: 'build' }).last().click()
  const path = new URL(page.url()).pathname
  expectErrorPage(`${path}/revoke`)
  await page.getByLabel('Type the name of the key', { exact: true }).fill('bild')
  await page.getByRole('button', { name: 'Revoke the key' }).click()
  await page.getByText('This must be build.').waitFor()
  await page.getByLabel('Type the name of the key', { exact: true }).fill('build')
  await page.getByRole('button', { name: 'Revoke the key' }).click()
  await page.getByText('The key is revoked').waitFor()
  const answers = await Promise.all([old, next].map((api) => api.send('GET', '/api/dev/paste-lite/list')))
  assert.ok(answers.some(({ status }) => status === 401), 'a revoked key still works')
})

site.test('a spending cap is set, seen and taken away', async ({ page, open, context }) => {
  const { own } = await signedIn(context)
  await open('/console')
  await page.getByRole('link', { name: 'Set a spending cap' }).click()
  const form = page.locator('form[action="/console/spending-cap"]')
  await form.getByLabel('Credits').fill('2.5')
  await form.getByLabel('For').selectOption('a day')
  await form.getByRole('button').click()
  await page.getByText('The spending cap is saved').waitFor()
  const { spendingCap } = await own('GET', '/api/users/user/keys')
  assert.deepEqual([spendingCap.amount, spendingCap.period], ['2.500000', 'day'])
  await open('/console')
  await page.getByText('0.000000 of 2.500000 a day').waitFor()
  await open('/console/keys')
  await form.getByLabel('Credits').fill('')
  await form.getByRole('button').click()
  await page.getByText('The spending cap is saved').waitFor()
  assert.equal((await own('GET', '/api/users/user/keys')).spendingCap, null)
})

site.test('an account changes its email and password, ends a session, and is deleted and kept', { screen: 'phone' }, async ({ page, open, context, expectErrorPage }) => {
  const { email, session, apiKey } = await signedIn(context)
  await session() // another browser
  await open('/console/account')
  const changing = page.locator('form[action="/console/email"]')
  expectErrorPage('/console/email')
  const moved = `${crypto.randomUUID()}@example.com`
  await changing.getByLabel('New email').fill(moved)
  await changing.getByLabel('Current password').fill('wrong password')
  await changing.getByRole('button').click()
  await page.getByText('The current password is not right.').waitFor()
  assert.equal(await changing.getByLabel('New email').inputValue(), moved)
  await changing.getByLabel('Current password').fill(password)
  await changing.getByRole('button').click()
  await page.getByText('Your email is changed').waitFor()
  await page.getByText(moved).first().waitFor()

  const other = page.getByRole('row').filter({ hasNotText: 'this one' }).getByRole('button')
  const before = await other.count()
  assert.ok(before > 0)
  await other.first().click()
  await page.getByText('The session has ended').waitFor()
  assert.equal(await other.count(), before - 1)

  const renewing = page.locator('form[action="/console/password"]')
  await renewing.getByLabel('Current password').fill(password)
  await renewing.getByLabel('New password').fill('another horse battery')
  await renewing.getByRole('button').click()
  await page.getByText('Your password is changed').waitFor()

  expectErrorPage('/console/delete')
  const deleting = page.locator('form[action="/console/delete"]')
  await deleting.getByLabel('Type your email').fill(email)
  await deleting.getByLabel('Current password').fill('another horse battery')
  await deleting.getByRole('button').click()
  await page.getByText(`This must be ${moved}.`).waitFor()
  await deleting.getByLabel('Type your email').fill(moved)
  await deleting.getByLabel('Current password').fill('another horse battery')
  await deleting.getByRole('button').click()
  await page.getByRole('heading', { name: 'Your account will be deleted' }).waitFor()
  assert.equal((await new Api(site.url, apiKey).send('GET', '/api/users/user')).status, 403)
  await page.getByRole('main').getByRole('link', { name: 'Sign in' }).click()
  await page.getByLabel('Email').fill(moved)
  await page.getByLabel('Password').fill('another horse battery')
  await page.keyboard.press('Enter')
  await page.getByText('Signing in has stopped that').waitFor()
  assert.equal((await new Api(site.url, apiKey).send('GET', '/api/users/user')).status, 200)
})

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
  await page.getByLabel('Password').fill('not the password of it')
  await page.getByRole('button', { name: 'Make an account' }).click()
  await page.locator('#email-error').waitFor()
  await page.locator('form.sign').evaluate((form) => { form.noValidate = true })
  await page.getByLabel('Email').fill('new@example.com')
  await page.getByLabel('Password').fill('short')
  await page.getByRole('button', { name: 'Make an account' }).click()
  await page.locator('#password-error').waitFor()
  assert.equal(await page.getByLabel('Password').getAttribute('aria-invalid'), 'true')
})

site.test("another site's form does not sign a visitor out", async ({ page, open, expectErrorPage, context }) => {
  await signedIn(context)
  await open('/console')
  await page.goto('about:blank')
  await page.setContent(`<form method="post" action="${site.url}/console/sign-out"><button>Win</button></form>`)
  expectErrorPage('/console/sign-out')
  await page.getByRole('button').click()
  await page.waitForURL(/\/console/)
  await open('/console')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
})

site.test('times are those of the reader, also after the page has moved', { timezone: 'Asia/Tokyo' }, async ({ page, open, context }) => {
  const { api } = await signedIn(context)
  for (const path of ['/console/account', '/console/keys/default', '/console']) {
    await open(path)
    const times = await page.locator('time').allInnerTexts()
    assert.ok(times.length >= 1, path)
    for (const time of times) assert.doesNotMatch(time, /UTC/, path)
  }
  await api.paste({ content: 'x' })
  await page.getByText('1 request. Most on').waitFor()
  for (const time of await page.locator('time').allInnerTexts()) assert.doesNotMatch(time, /UTC/)
})
