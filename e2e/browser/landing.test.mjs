// From the landing page to the first paste, as a newcomer.
import assert from 'node:assert/strict'
import { suite } from '../harness.mjs'

const site = await suite({ QUIRE_ANON_LIMIT: '3' }) // each test is a separate source

const text = '#!/bin/sh\n\techo "naïve <b>café</b>" && true\n\n'

for (const [script, scheme, screen] of [[true, 'light', 'desktop'], [true, 'dark', 'phone'], [false, 'light', 'phone'], [false, 'dark', 'desktop']]) {
  site.test(`text is pasted and read behind its link, ${script ? 'with' : 'without'} scripts, ${scheme}, ${screen}`, { script, scheme, screen }, async ({ page, open }) => {
    await open('/')
    await page.getByLabel('Text').fill(text)
    await page.getByLabel('Title').fill('greet.sh')
    await page.getByLabel('Language').selectOption({ label: 'Bash' })
    await page.getByRole('button', { name: 'Create paste' }).click()
    await page.getByRole('heading', { name: 'Paste created' }).waitFor()
    await page.getByText('2 anonymous pastes left today').waitFor()
    const link = page.getByLabel('Link', { exact: true })
    const address = await link.inputValue()
    if (script) assert.equal(await page.evaluate(() => getSelection().toString()), address)
    assert.match(address, new RegExp(`^${site.url}/q/[0-9A-Za-z]{12}$`))
    const raw = await site.api().send('GET', `${new URL(address).pathname}/raw`)
    assert.equal(await raw.text(), text)

    const token = await page.locator('#token').innerText()
    await page.getByRole('link', { name: 'Open', exact: true }).click()
    await page.getByRole('heading', { name: 'greet.sh' }).waitFor()
    await page.getByText('naïve <b>café</b>').waitFor()
    assert.equal(page.url(), address)

    const id = address.split('/').pop()
    await site.api().call('DELETE', `/api/dev/paste-lite/delete/${id}`, { headers: { 'x-manage-token': token } })
    const gone = await site.api().send('GET', new URL(address).pathname)
    assert.equal(gone.status, 404)
  })
}

site.test('Ctrl and Enter send the text', async ({ page, open }) => {
  await open('/')
  await page.getByLabel('Text').fill('quick')
  await page.keyboard.press('Control+Enter')
  await page.getByRole('heading', { name: 'Paste created' }).waitFor()
})

site.test('nothing is sent without a text', async ({ page, open }) => {
  await open('/')
  await page.getByRole('button', { name: 'Create paste' }).click()
  assert.ok(await page.getByLabel('Text').evaluate((area) => area.matches(':invalid:focus')))
  assert.equal(page.url(), `${site.url}/`)
})

// drop lets go of a file over the box for the text; null stands for bytes that are no text.
const drop = (page, text, name) => page.getByLabel('Text').evaluate((area, [text, name]) => {
  const dataTransfer = new DataTransfer()
  dataTransfer.items.add(new File([text === null ? new Uint8Array([0xff, 0xfe, 0]) : text], name))
  area.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }))
}, [text, name])

site.test('a file that is dropped becomes the text, and what is none is refused', async ({ page, open }) => {
  await open('/')
  const area = page.getByLabel('Text')
  await drop(page, 'from a file: é\n', 'notes.txt')
  await page.waitForFunction(() => document.getElementById('content').value === 'from a file: é\n')
  assert.equal(await page.getByLabel('Title').inputValue(), 'notes.txt')
  await drop(page, null, 'picture.png')
  await page.getByText('Sign in to upload images and files.').waitFor()
  await drop(page, 'a'.repeat(262_145), 'large.txt')
  await page.getByText('can have up to 256 KB').waitFor()
  assert.equal(await area.inputValue(), 'from a file: é\n')
  await area.fill('')
  await drop(page, 'a'.repeat(262_144), 'largest.txt')
  await page.waitForFunction(() => document.getElementById('content').value.length === 262144)
})

site.test('a paste that burns, with a password, from the box to its last reader', async ({ page, open, context }) => {
  await open('/')
  await page.getByLabel('Text').fill('for your eyes only')
  await page.getByText('Visibility and password').click()
  await page.getByLabel('Password').fill('moon')
  await page.getByLabel('Delete after the first read').check()
  await page.getByRole('button', { name: 'Create paste' }).click()
  await page.getByText('The paste is deleted after the first person').waitFor()
  const address = await page.getByLabel('Link', { exact: true }).inputValue()
  const reader = await context.newPage()
  await open(address, { page: reader })
  await reader.getByLabel('Password').fill('moon')
  await reader.getByRole('button', { name: 'Show and delete' }).click()
  await reader.getByText('for your eyes only').waitFor()
  await open(address, { page: reader, status: 404 })
})

site.test('at the limit the page says so, says when there is one more, and keeps what was typed', async ({ page, open, expectErrorPage }) => {
  for (const left of ['2', '1', '0']) {
    await open('/')
    await page.getByLabel('Text').fill(`paste with ${left} left`)
    await page.getByRole('button', { name: 'Create paste' }).click()
    await page.getByText(`${left} anonymous pastes left today`).waitFor()
  }
  await open('/')
  await page.getByText('0 of 3 anonymous pastes left per 24 hours').waitFor()
  await page.getByText(/Next one in/).waitFor()
  await page.getByLabel('Text').fill('one too many')
  expectErrorPage('/paste/create')
  await page.getByRole('button', { name: 'Create paste' }).click()
  await page.getByText(/You have created 3 quick pastes in 24 hours, the most without an account/).waitFor()
  assert.equal(await page.getByLabel('Text').inputValue(), 'one too many')
})

site.test("another site's form cannot use up its visitors' allowance", async ({ page, open, expectErrorPage }) => {
  expectErrorPage('/paste/create')
  for (const [action, fields] of [['/paste/create', '<input name="content" value="spam">'], ['/', '<input name="f" value="spam">']]) {
    expectErrorPage(action)
    await page.goto('about:blank')
    await page.setContent(`<form method="post" enctype="${action === '/' ? 'multipart/form-data' : ''}" action="${site.url}${action}">${fields}<button>Win a prize</button></form>`)
    const answer = page.waitForResponse((response) => response.request().method() === 'POST')
    await page.getByRole('button').click()
    assert.equal((await answer).status(), 403)
    await page.waitForLoadState()
  }
  await open('/')
  await page.getByText('3 of 3 anonymous pastes left').waitFor()
})

site.test('the lines for a terminal name this host, and are copied with a click', async ({ page, open, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await open('/')
  await page.getByRole('button', { name: 'Copy the command for piped output' }).click()
  await page.waitForFunction(async (line) => await navigator.clipboard.readText() === line, `ls | curl -F 'f=<-' ${site.url}`)
})

site.test('limits and prices come from the price book', async ({ page, open }) => {
  await open('/')
  const row = page.getByRole('row').filter({ hasText: 'pasteLite.create' })
  assert.deepEqual(await row.getByRole('cell').allInnerTexts(), ['100', '5,000 then 0.0005', '20,000 then 0.0002'])
})
