// What pages show to signed-in users: the header's menu, the landing page's form, and a paste or file as its owner sees it.
import assert from 'node:assert/strict'
import { looked } from '../accessible.mjs'
import { suite } from '../harness.mjs'

const site = await suite()

/** Opens the account's menu with the keyboard. */
async function openMenu(page) {
  await page.locator('.who summary').focus()
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
}

site.testLooks('the menu of the account is in the same place on every page', async ({ page, open, signedIn }) => {
  const { api, email } = await signedIn()
  const { id } = await api.paste({ content: 'x' })
  const places = new Set()
  for (const [path, status] of [['/', 200], [`/p/${id}`, 200], ['/docs', 200], ['/console', 200], ['/nothing', 404]]) {
    await open(path, { status })
    const { x, y, width } = await page.locator('.who').boundingBox()
    places.add([x, y, width].map(Math.round).join())
    await openMenu(page)
    const menu = page.locator('.who > div')
    for (const text of [email, 'Pro', '0 credits']) await menu.getByText(text, { exact: true }).waitFor()
    const box = await menu.boundingBox()
    assert.ok(box.x >= 0 && box.x + box.width <= page.viewportSize().width, `the menu reaches from ${box.x} to ${box.x + box.width}`)
    await page.keyboard.press('Tab')
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Console')
  }
  assert.equal(places.size, 1, `the places ${[...places].join(' and ')}`)
  await page.locator('.who').getByRole('link', { name: 'Console' }).click()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await openMenu(page)
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('banner').getByRole('link', { name: 'Sign in' }).waitFor()
})

site.test('signing in leads back to the page', { script: false, screen: 'phone' }, async ({ page, open }) => {
  const { email, password } = await site.api().user()
  await open('/docs/errors')
  await page.getByRole('banner').getByRole('link', { name: 'Sign in' }).click()
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.waitForURL(`${site.url}/docs/errors`)
  await page.getByText(email).first().waitFor()
})

for (const [script, scheme, screen] of [[true, 'light', 'desktop'], [true, 'dark', 'phone'], [false, 'dark', 'desktop'], [false, 'light', 'phone']]) {
  site.test(`a paste of the landing page is the account's, and is managed on its page, ${script ? 'with' : 'without'} scripts, ${scheme}, ${screen}`, { script, scheme, screen }, async ({ page, open, context, signedIn }) => {
    const { api } = await signedIn()
    await open('/')
    await page.getByText('This uses 1 of the 500 pastes you have left this month.').waitFor()
    await page.getByLabel('Text', { exact: true }).fill('one')
    await page.getByLabel('Title').fill('notes.txt')
    await page.getByLabel('Visibility').selectOption('Private: only you')
    await page.getByRole('button', { name: 'Create paste' }).click()
    await page.getByText('Paste created.').waitFor()
    const link = page.getByLabel('Link', { exact: true })
    const address = await link.inputValue()
    assert.equal(address, page.url().replace('?done=created', ''))
    const id = address.split('/').pop()
    assert.equal((await api.call('GET', '/api/dev/pastes/list')).pastes[0].id, id)
    if (script) {
      assert.deepEqual(await link.evaluate((field) => [document.activeElement === field, field.selectionEnd - field.selectionStart]), [true, address.length])
      await context.grantPermissions(['clipboard-read', 'clipboard-write'])
      await page.getByRole('button', { name: 'Copy link' }).click()
      await page.waitForFunction(async (text) => await navigator.clipboard.readText() === text, address)
    }
    assert.equal((await site.api().send('GET', `/p/${id}`)).status, 404)

    await page.locator('.own summary').click()
    await page.getByLabel('Visibility').selectOption('Public')
    await page.getByLabel('Expires').selectOption('In 7 days')
    await page.getByText('This uses 1 of the 500 paste edits you have left this month.').waitFor()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Changes saved.').waitFor()
    const shown = await site.api().send('GET', `/p/${id}`)
    assert.equal(shown.status, 200)
    assert.doesNotMatch(await shown.text(), /Copy link|New version/)

    await page.getByRole('link', { name: 'New version' }).click()
    assert.equal(await page.getByLabel('Text', { exact: true }).inputValue(), '')
    await page.getByLabel('Text', { exact: true }).fill('two')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('Saved as a new version.').waitFor()
    const { paste } = await api.call('GET', `/api/dev/pastes/get/${id}`)
    assert.deepEqual([paste.content, paste.title, paste.visibility], ['two', 'notes.txt', 'public'])

    await page.getByRole('link', { name: 'Delete' }).click()
    await page.getByRole('button', { name: 'Delete it' }).click()
    await page.getByText('Deleted.').waitFor()
    assert.equal((await api.send('GET', `/api/dev/pastes/get/${id}`)).status, 404)
  })
}

site.test('the Free plan offers quick pastes, and says before anything is typed what it does not have', { scheme: 'dark' }, async ({ page, open, signedIn }) => {
  const { api } = await signedIn('free')
  await open('/')
  await page.getByText('The Free plan doesn’t include pastes.').waitFor()
  await looked(page, 'landing page of a Free account')
  assert.equal(await page.getByRole('button', { name: 'Create paste' }).count(), 0)
  await page.getByLabel('Text', { exact: true }).fill('quick')
  await page.keyboard.press('Control+Enter')
  await page.getByText('Paste created.').waitFor()
  assert.match(page.url(), /\/q\//)
  assert.equal((await api.call('GET', '/api/users/user/dev-usage')).usage['pasteLite.create'].used, 1)
  await open('/console/files')
  await page.getByText('The Free plan doesn’t include uploads.').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Upload' }).count(), 0)
  assert.equal(await page.locator('button:disabled').evaluateAll((all) => all.filter((button) => button.type === 'submit').length), 0)
})

site.test('a private file is shown to its owner alone, with a link to its bytes', { screen: 'phone' }, async ({ page, open, signedIn }) => {
  const { api } = await signedIn()
  const { id } = await api.file('notes.txt', 'text/plain', 'for me\n', { visibility: 'private' })
  await open(`/f/${id}`)
  await page.getByText('for me').waitFor()
  await looked(page, 'private file for its owner')
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download' }).click()])
  assert.equal(download.suggestedFilename(), 'notes.txt')
  await page.getByRole('link', { name: 'Delete' }).click()
  await page.getByRole('button', { name: 'Delete it' }).click()
  await page.getByText('Deleted.').waitFor()
})
