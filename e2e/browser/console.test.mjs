// The console, from the first click to the state that the API then shows.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { looked } from '../accessible.mjs'
import { Api, capSpending, eventually, root, suite } from '../harness.mjs'

const site = await suite()
const run = promisify(execFile)

const password = 'correct horse battery'

async function signUp(page, email = `${crypto.randomUUID()}@example.com`) {
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.getByRole('heading', { name: 'Welcome to Quire' }).waitFor()
  return { email, key: await page.locator('#api-key').innerText() }
}

for (const [script, scheme, screen] of [[true, 'dark', 'desktop'], [false, 'light', 'phone']]) {
  site.test(`an account from its beginning to its first paste, ${script ? 'with' : 'without'} scripts`, { script, scheme, screen }, async ({ page, open, context }) => {
    await open('/')
    await page.getByRole('banner').getByRole('link', { name: 'Sign up' }).click()
    const { email, key } = await signUp(page)
    assert.match(key, /^qk_\w+$/)
    await page.getByText('Uses 1 of the 100 quick pastes').waitFor()
    await page.getByText('You are on the Free plan').waitFor()
    await page.getByRole('button', { name: 'Create quick paste' }).click()
    const address = await page.getByLabel('Link', { exact: true }).inputValue()
    const answer = await new Api(site.url, key).call('GET', `/api/dev/paste-lite/get/${address.split('/').pop()}`)
    assert.equal(answer.paste.content, 'Hello from my new account.\n')
    await page.getByText(email).first().click()
    await page.getByRole('banner').getByRole('link', { name: 'Console' }).last().click()
    await page.getByRole('heading', { name: 'Overview' }).waitFor()
    assert.ok(!(await page.content()).includes(key), 'the key is shown more than once')
    const row = page.getByRole('row').filter({ hasText: 'pasteLite.create' })
    assert.deepEqual((await row.getByRole('cell').allTextContents()).slice(0, 3), ['1', '100', '99'])

    const [cookie] = await context.cookies()
    assert.ok(cookie.httpOnly)
    assert.equal(cookie.sameSite, 'Lax')
    await page.getByText(email).first().click()
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

site.test('the overview moves while requests come in, and shifts nothing', async ({ page, open, signedIn }) => {
  const { api } = await signedIn()
  await open('/console')
  await page.getByText('No requests in the last 30 days').waitFor()
  await api.paste({ content: '1' })
  const cells = page.getByRole('row').filter({ hasText: 'pastes.create' }).getByRole('cell')
  await cells.nth(0).filter({ hasText: /^1$/ }).waitFor()
  await page.evaluate(() => {
    globalThis.shifts = 0
    new PerformanceObserver((list) => {
      for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) globalThis.shifts += value
    }).observe({ type: 'layout-shift' })
  })
  for (let made = 2; made <= 4; made++) {
    await api.paste({ content: `${made}` })
    await cells.nth(0).filter({ hasText: new RegExp(`^${made}$`) }).waitFor()
  }
  assert.equal(await cells.nth(2).textContent(), '496')
  await page.getByText('4 requests in the last 30 days.').waitFor()
  assert.equal(await page.evaluate(() => globalThis.shifts), 0, 'the layout shifts')
  await page.getByText('Show as table').click()
  await page.getByText('Unused this month').click()
  await page.getByRole('row').filter({ hasText: 'pastes.get' }).getByRole('cell', { name: '3,000' }).waitFor()
  await api.paste({ content: 'one more' })
  await cells.nth(0).filter({ hasText: /^5$/ }).waitFor()
  assert.deepEqual(await page.getByRole('main').locator('details').evaluateAll((all) => all.map(({ open }) => open)), [true, true], 'what the reader has opened is closed again')
})

site.testLooks('the chart shows its values to a pointer, to a keyboard, and in its table', async ({ page, open, signedIn }) => {
  const { api, own } = await signedIn()
  const { apiKey } = await own('POST', '/api/users/user/keys', { name: 'a key <b>' })
  const { id } = await api.quickPaste({ content: 'x' })
  for (let n = 0; n < 3; n++) await site.api(apiKey).call('GET', `/api/dev/paste-lite/get/${id}`)
  await open('/console')
  await page.getByText('4 requests in the last 30 days.').waitFor()
  const picture = page.getByRole('img', { name: 'Requests per day by quota key' })
  const tip = page.locator('.tip')
  const box = await picture.boundingBox()
  assert.ok(box.x >= 0 && box.x + box.width <= page.viewportSize().width, 'the picture is wider than the screen')
  await picture.hover({ position: { x: box.width - 2, y: 20 } })
  await tip.filter({ hasText: /Read a quick paste3.*Create a quick paste1|Create a quick paste1.*Read a quick paste3/ }).waitFor()
  const shown = await tip.boundingBox()
  assert.ok(shown.x >= 0 && shown.x + shown.width <= page.viewportSize().width, 'the values stick out')
  await page.mouse.move(0, 0)
  await tip.waitFor({ state: 'hidden' })

  const ranges = page.getByRole('navigation', { name: 'Time' })
  await ranges.getByRole('link', { name: '7 days' }).click()
  await page.getByText('4 requests in the last 7 days.').waitFor()
  await page.getByRole('navigation', { name: 'Split' }).getByRole('link', { name: 'By API key' }).click()
  await page.locator('.legend').filter({ hasText: 'default 1' }).filter({ hasText: 'a key <b> 3' }).waitFor()
  await page.getByText('Show as table').click()
  const rows = page.locator('.days tbody tr')
  assert.equal(await rows.count(), 7)
  assert.deepEqual((await rows.last().getByRole('cell').allTextContents()), ['1', '3', '4', '0'])

  await page.getByRole('navigation', { name: 'Time' }).getByRole('link').last().focus()
  await page.keyboard.press('Tab')
  const today = await rows.last().getByRole('rowheader').innerText()
  const before = await rows.nth(5).getByRole('rowheader').innerText()
  await tip.filter({ hasText: today }).filter({ hasText: 'a key <b>3' }).waitFor()
  await page.keyboard.press('ArrowLeft')
  await tip.filter({ hasText: before }).waitFor()
  await page.keyboard.press('End')
  await api.quickPaste({ content: 'y' })
  await tip.filter({ hasText: 'default2' }).waitFor() // it moves with the chart
  await page.keyboard.press('Escape')
  await tip.waitFor({ state: 'hidden' })

  await page.getByRole('navigation', { name: 'Values' }).getByRole('link', { name: 'Credits' }).click()
  await page.getByText('No credits spent in the last 7 days.').waitFor()
  await page.getByRole('navigation', { name: 'Values' }).getByRole('link', { name: 'Requests' }).click()
  await page.getByRole('navigation', { name: 'Time' }).getByRole('link').last().click()
  await page.getByText(/^5 requests in \w+ \d{4}\./).waitFor()
})

site.test('the chart is a picture without scripts', { script: false, screen: 'phone' }, async ({ page, open, signedIn }) => {
  const { api } = await signedIn()
  await api.quickPaste({ content: 'x' })
  await open('/console')
  await page.getByText('1 request in the last 30 days.').waitFor()
  const bar = await page.locator('.picture path').evaluate((path) => path.getBoundingClientRect().height)
  assert.ok(bar > 30, `the bar of today is ${bar} pixels high`)
  await page.getByText('Show as table').click()
  assert.equal(await page.locator('.days tbody tr').count(), 30)
})

for (const [how, mute] of [['server-sent events', false], ['asking again', true]]) {
  site.test(`the overview keeps up with a load by ${how}, until it shows what the API does`, async ({ page, open, signedIn }) => {
    const { api } = await signedIn('max')
    const { id } = await api.quickPaste({ content: 'x' })
    if (mute) await page.route('**/console/events', (route) => route.fulfill({ status: 200, contentType: 'text/event-stream', body: '' }))
    await open('/console')
    await api.call('GET', `/api/dev/paste-lite/get/${id}`)
    const cell = page.getByRole('row').filter({ hasText: 'pasteLite.get' }).getByRole('cell').first()
    const shown = async () => Number((await cell.textContent()).replaceAll(',', ''))
    const seen = new Set()
    let over = false
    const load = Array.from({ length: 2 }, async () => {
      while (!over) await api.call('GET', `/api/dev/paste-lite/get/${id}`)
    })
    try {
      await eventually('the figures have moved', async () => seen.add(await shown()).size > (mute ? 1 : 3))
    } finally {
      over = true
      await Promise.all(load)
    }
    const { usage } = await api.call('GET', '/api/users/user/dev-usage')
    await eventually('the page shows what the API does', async () => seen.add(await shown()).has(usage['pasteLite.get'].used))
    assert.equal(await shown(), usage['pasteLite.get'].used)
    assert.deepEqual([...seen], [...seen].sort((a, b) => a - b), 'the figures went back')
  })
}

site.test('a page that is open when its session ends says so', {
  allow: [/^console error: Failed to load resource: the server responded with a status of 401/],
}, async ({ page, open, signedIn }) => {
  const { api, own } = await signedIn()
  await open('/console')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await own('DELETE', '/api/users/user/sessions')
  await api.paste({ content: 'x' })
  await page.getByText('You have signed out').first().waitFor({ timeout: 45_000 })
  await page.getByRole('main').getByRole('link', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Sign in' }).waitFor()
})

site.test('a form that is older than its session does nothing, says so, and leads back', async ({ page, open, signedIn }) => {
  const { email, own } = await signedIn()
  await open('/console/keys')
  await own('DELETE', '/api/users/user/sessions')
  const form = page.locator('form[action="/console/spending-cap"]')
  await form.getByLabel('Credits').fill('2.5')
  await form.getByRole('button').click()
  await page.getByText('Nothing was done. Sign in').waitFor()
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'API keys' }).waitFor()
  assert.equal(await form.getByLabel('Credits').inputValue(), '', 'the cap was set')
})

site.test('a form of an account other than the session’s has no effect', async ({ page, open, signedIn, expectErrorPage }) => {
  const { email, apiKey } = await signedIn()
  await open('/console/keys/default')
  await page.getByText(email).first().waitFor()
  const other = await signedIn() // in another tab
  expectErrorPage('/console/keys/default/revoke')
  await page.getByLabel('Type the name of the key', { exact: true }).fill('Default key')
  await page.getByRole('button', { name: 'Revoke key' }).click()
  await page.getByText('You have signed in to another account since this page was opened. Nothing was done.').waitFor()
  await page.getByText(other.email).first().waitFor()
  for (const key of [apiKey, other.apiKey]) assert.ok((await new Api(site.url, key).call('GET', '/api/users/user')).account.id)
})

site.test('a key is made, changed, replaced and revoked', async ({ page, open, signedIn, expectErrorPage }) => {
  const { own } = await signedIn()
  await open('/console/keys')
  await page.getByText('Name, expiry, scopes and limits').click()
  await page.getByLabel('Name', { exact: true }).fill('ci')
  await page.getByLabel('Expires').selectOption('In 30 days')
  await page.getByLabel('Only these:').check()
  await page.getByLabel('Create a quick paste', { exact: false }).first().check()
  expectErrorPage('/console/keys')
  await page.getByRole('group', { name: 'Spending cap of this key' }).getByLabel('Credits').fill('much')
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByText('The amount must be from 0').waitFor()
  assert.equal(await page.evaluate(() => document.activeElement.id), 'create-spendingCap-amount')
  assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'ci')
  await page.getByRole('group', { name: 'Spending cap of this key' }).getByLabel('Credits').fill('0.5')
  await page.getByRole('button', { name: 'Create key' }).click()
  await page.getByRole('heading', { name: 'Your new API key' }).waitFor()
  await looked(page, 'new key')
  const old = new Api(site.url, await page.locator('#api-key').innerText())
  await old.quickPaste({ content: 'x' })
  assert.equal((await old.send('GET', '/api/dev/pastes/list')).status, 403)

  await open('/console/keys')
  await page.getByRole('link', { name: 'ci' }).click()
  await page.getByLabel('Name', { exact: true }).fill('build')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('Changes saved').waitFor()
  const { keys } = await own('GET', '/api/users/user/keys')
  assert.deepEqual(keys[1].scopes, ['pasteLite.create'])
  assert.equal(keys[1].name, 'build')
  assert.equal(keys[1].spendingCap.amount, '0.500000')
  assert.ok(keys[1].expiresAt)

  await page.getByLabel('Old key').selectOption('Valid for 1 hour')
  await page.getByRole('button', { name: 'Rotate key' }).click()
  await page.getByText('The old key works until').waitFor()
  const next = new Api(site.url, await page.locator('#api-key').innerText())
  await old.quickPaste({ content: 'x' })
  await next.quickPaste({ content: 'x' })

  const { keys: replaced } = await own('GET', '/api/users/user/keys')
  const { id, replacedBy } = replaced.find(({ replacedBy }) => replacedBy)
  await open(`/console/keys/${id}`)
  await page.getByText('This key was replaced').waitFor()
  const path = `/console/keys/${replacedBy}`
  await open(path)
  expectErrorPage(`${path}/rotate`)
  await page.getByLabel('Old key').selectOption('Revoke immediately')
  await page.getByRole('button', { name: 'Rotate key' }).click()
  await page.getByText('Type “build” to confirm.').waitFor()
  await page.getByLabel('To revoke immediately').fill('build')
  await page.getByRole('button', { name: 'Rotate key' }).click()
  await page.getByRole('heading', { name: 'Your new API key' }).waitFor()
  const last = new Api(site.url, await page.locator('#api-key').innerText())
  assert.equal((await next.send('GET', '/api/dev/paste-lite/get/000000000000')).status, 401)
  await last.quickPaste({ content: 'x' })

  const { id: current } = (await own('GET', '/api/users/user/keys')).keys.find(({ name, replacedBy }) => name === 'build' && !replacedBy)
  await open(`/console/keys/${current}`)
  expectErrorPage(`/console/keys/${current}/revoke`)
  await page.getByLabel('Type the name of the key', { exact: true }).fill('bild')
  await page.getByRole('button', { name: 'Revoke key' }).click()
  await page.getByText('Type “build” to confirm.').waitFor()
  await page.getByLabel('Type the name of the key', { exact: true }).fill('build')
  await page.getByRole('button', { name: 'Revoke key' }).click()
  await page.getByText('Key revoked').waitFor()
  assert.equal((await last.send('POST', '/api/dev/paste-lite/create', { json: { content: 'x' } })).status, 401)
  await old.quickPaste({ content: 'x' }) // it has some time left
})

site.test('a spending cap is set, seen and taken away', async ({ page, open, signedIn }) => {
  const { own } = await signedIn()
  await open('/console')
  await page.getByRole('link', { name: 'Set a spending cap' }).click()
  await capSpending(page, '2.5', 'per day')
  const { spendingCap } = await own('GET', '/api/users/user/keys')
  assert.deepEqual([spendingCap.amount, spendingCap.period], ['2.500000', 'day'])
  await open('/console')
  await page.getByText('0 of 2.50 per day').waitFor()
  await open('/console/keys')
  await capSpending(page, '')
  await page.getByText('Spending cap cleared').waitFor()
  assert.equal((await own('GET', '/api/users/user/keys')).spendingCap, null)
})

site.test('an account changes its email and password, ends a session, and is deleted and kept', { screen: 'phone' }, async ({ page, open, signedIn, expectErrorPage }) => {
  const { email, session, apiKey } = await signedIn()
  await session() // another browser
  await open('/console/account')
  const changing = page.locator('form[action="/console/email"]')
  expectErrorPage('/console/email')
  const moved = `${crypto.randomUUID()}@example.com`
  await changing.getByLabel('New email').fill(moved)
  await changing.getByLabel('Current password').fill('wrong password')
  await changing.getByRole('button').click()
  await page.getByText('The current password is wrong.').waitFor()
  assert.equal(await changing.getByLabel('New email').inputValue(), moved)
  await changing.getByLabel('Current password').fill(password)
  await changing.getByRole('button').click()
  await page.getByText('Email changed').waitFor()
  await page.getByText(moved).first().waitFor()

  const other = page.getByRole('row').filter({ hasNotText: 'this one' }).getByRole('button')
  const before = await other.count()
  assert.ok(before > 0)
  await other.first().click()
  await page.getByText('Session ended').waitFor()
  assert.equal(await other.count(), before - 1)

  const renewing = page.locator('form[action="/console/password"]')
  await renewing.getByLabel('Current password').fill(password)
  await renewing.getByLabel('New password').fill('another horse battery')
  await renewing.getByRole('button').click()
  await page.getByText('Password changed').waitFor()

  expectErrorPage('/console/delete')
  const deleting = page.locator('form[action="/console/delete"]')
  await deleting.getByLabel('Type your email').fill(email)
  await deleting.getByLabel('Current password').fill('another horse battery')
  await deleting.getByRole('button').click()
  await page.getByText(`Type “${moved}” to confirm.`).waitFor()
  await deleting.getByLabel('Type your email').fill(moved)
  await deleting.getByLabel('Current password').fill('another horse battery')
  await deleting.getByRole('button').click()
  await page.getByRole('heading', { name: 'Your account will be deleted' }).waitFor()
  await looked(page, 'account deleted')
  assert.equal((await new Api(site.url, apiKey).send('GET', '/api/users/user')).status, 403)
  await page.getByRole('main').getByRole('link', { name: 'Sign in' }).click()
  expectErrorPage('/console/sign-in')
  await page.getByLabel('Email').fill(moved)
  await page.getByLabel('Password').fill('another horse battery')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Keep your account?' }).waitFor()
  await page.getByRole('link', { name: 'Leave it scheduled for deletion' }).click()
  assert.equal((await new Api(site.url, apiKey).send('GET', '/api/users/user')).status, 403)
  await page.getByLabel('Email').fill(moved)
  await page.getByLabel('Password').fill('another horse battery')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Keep my account' }).press('Enter')
  await page.getByText('The deletion of your account is canceled').waitFor()
  assert.equal((await new Api(site.url, apiKey).send('GET', '/api/users/user')).status, 200)
})

site.test('an archive of all that an account has is made and downloaded', { scheme: 'dark' }, async ({ page, open, signedIn }) => {
  const { api, own } = await signedIn()
  const { id } = await api.quickPaste({ content: 'kept in the archive' })
  await open('/console/account')
  await page.getByRole('link', { name: 'Export your data' }).click()
  await page.getByRole('button', { name: 'Create an archive' }).click()
  await page.waitForURL('**/console/export')
  const link = page.getByRole('link', { name: /^Download/ })
  await link.waitFor() // the page asks again by itself
  const [saved] = await Promise.all([page.waitForEvent('download'), link.click()])
  const archive = await readFile(await saved.path())
  assert.equal(archive.subarray(0, 2).toString('latin1'), 'PK')
  assert.ok(archive.includes(id), 'the archive has no file of the paste')
  const { export: made } = await own('GET', '/api/users/user/export')
  assert.deepEqual([made.status, made.sizeBytes], ['ready', archive.length])
})

site.test('a wrong password does not reveal whether the account exists', async ({ page, open, expectErrorPage }) => {
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

site.test('a taken email and a short password are shown beside their fields', async ({ page, open, expectErrorPage }) => {
  const { email } = await site.api().user()
  expectErrorPage('/console/sign-up')
  await open('/console/sign-up')
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill('not the password of it')
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.locator('#sign-email-error').waitFor()
  await page.locator('form.sign').evaluate((form) => { form.noValidate = true })
  await page.getByLabel('Email').fill('new@example.com')
  await page.getByLabel('Password').fill('short')
  await page.getByRole('button', { name: 'Create account' }).click()
  await page.locator('#sign-password-error').waitFor()
  assert.equal(await page.getByLabel('Password').getAttribute('aria-invalid'), 'true')
})

site.test("another site's form does not sign a visitor out", async ({ page, open, expectErrorPage, signedIn }) => {
  await signedIn()
  await open('/console')
  await page.goto('about:blank')
  await page.setContent(`<form method="post" action="${site.url}/console/sign-out"><button>Win</button></form>`)
  expectErrorPage('/console/sign-out')
  await page.getByRole('button').click()
  await page.waitForURL(/\/console/)
  await open('/console')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
})

site.test('times are in the reader’s zone, also after a live update', { timezone: 'Asia/Tokyo' }, async ({ page, open, signedIn }) => {
  const { api } = await signedIn()
  for (const path of ['/console/account', '/console/keys/default', '/console']) {
    await open(path)
    const times = await page.locator('time').allInnerTexts()
    assert.ok(times.length >= 1, path)
    for (const time of times) assert.doesNotMatch(time, /UTC/, path)
  }
  await api.paste({ content: 'x' })
  await page.getByText('1 request in the last 30 days. Peak on').waitFor()
  for (const time of await page.locator('time').allInnerTexts()) assert.doesNotMatch(time, /UTC/)
})
