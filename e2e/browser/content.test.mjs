// Pastes, quick pastes and files in the console, from the first click to the state that the API then shows.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { goCode } from '../fixtures.mjs'
import { suite } from '../harness.mjs'

const site = await suite()

async function signedIn(context, tier = 'pro') {
  const user = await site.api().user(tier)
  await context.addCookies([{ ...await user.session(), url: site.url }])
  return user
}

for (const [script, scheme, screen] of [[true, 'light', 'desktop'], [false, 'dark', 'phone']]) {
  site.test(`a paste is made, changed by two, and deleted, ${script ? 'with' : 'without'} scripts`, { script, scheme, screen }, async ({ page, open, context, expectErrorPage }) => {
    const { api } = await signedIn(context)
    await open('/console')
    await page.getByRole('link', { name: 'Content', exact: true }).click()
    await page.getByText('You have no pastes yet').waitFor()
    await page.getByRole('link', { name: 'New paste' }).last().click()
    await page.getByText('This uses 1 of the 500 pastes that you have left this month.').waitFor()
    await page.getByLabel('Text', { exact: true }).fill(goCode)
    await page.getByLabel('Title').fill('lru.go')
    await page.getByLabel('Language').selectOption('Go')
    await page.getByLabel('Tags').fill('cache, go')
    await page.getByRole('button', { name: 'Create the paste' }).click()
    await page.getByText('It is made.').waitFor()
    const id = new URL(page.url()).pathname.split('/').pop()
    assert.equal((await api.call('GET', `/api/dev/pastes/get/${id}`)).paste.content, goCode)

    await api.update(id, { content: `${goCode}// by another\n` })
    expectErrorPage(`/console/pastes/${id}`)
    await page.getByLabel('Text', { exact: true }).fill(`${goCode}// by me\n`)
    if (script) await page.getByLabel('Text', { exact: true }).press('Control+Enter')
    else await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('there is a version 2').waitFor()
    assert.match(await page.locator('.diff').innerText(), /by another/)
    assert.equal(await page.getByLabel('Text', { exact: true }).inputValue(), `${goCode}// by me\n`)
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('It is saved as a new version.').waitFor()
    const { paste } = await api.call('GET', `/api/dev/pastes/get/${id}`)
    assert.deepEqual([paste.version, paste.content, paste.tags], [3, `${goCode}// by me\n`, ['cache', 'go']])

    await api.paste({ content: 'x', title: 'other' })
    await open('/console/pastes')
    await page.getByLabel('Title', { exact: true }).fill('lru')
    await page.getByRole('button', { name: 'Search' }).click()
    assert.deepEqual(await page.getByRole('checkbox', { name: /^Select (?!all)/ }).count(), 1)
    await page.getByRole('checkbox', { name: script ? 'Select all' : 'Select lru.go' }).check()
    await page.getByRole('button', { name: 'Delete the selected' }).click()
    await page.getByText('This uses 1 of the 500 deletions of pastes').waitFor()
    await page.getByRole('button', { name: 'Delete it' }).click()
    await page.getByText('It is deleted.').waitFor()
    assert.equal((await api.send('GET', `/api/dev/pastes/get/${id}`)).status, 404)
  })
}

site.test('files are dropped, uploaded with their checksum, and refused beside their name', { scheme: 'dark' }, async ({ page, open, context }) => {
  const { api } = await signedIn(context)
  await open('/console/files')
  await page.getByText('Each file uses 1 of the 100 uploads').waitFor()
  const form = page.locator('#upload')
  const transfer = await page.evaluateHandle(() => {
    const data = new DataTransfer()
    data.items.add(new File(['hello'], 'hello.txt', { type: 'text/plain' }))
    data.items.add(new File([], 'empty.txt'))
    return data
  })
  await form.dispatchEvent('dragover', { dataTransfer: transfer })
  await form.dispatchEvent('drop', { dataTransfer: transfer })
  const sum = createHash('sha256').update('hello').digest('hex')
  await page.getByText(`stored, SHA-256 ${sum}`).waitFor()
  await page.getByText('It is empty.').waitFor()
  await page.locator('#upload-file').setInputFiles({ name: 'two.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(3 << 20, 7) })
  await page.getByRole('button', { name: 'Upload' }).click()
  await page.getByRole('link', { name: 'two.bin' }).waitFor()
  const { files } = await api.call('GET', '/api/dev/files/list')
  assert.deepEqual(files.map(({ name, size }) => [name, size]), [['two.bin', 3 << 20], ['hello.txt', 5]])
})
