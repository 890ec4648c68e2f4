// What people do in their first ten minutes, with the clicks each task takes. Typing, pasting and keys are no clicks; a choice from a
// list is one. A task that comes to need more fails here.
import assert from 'node:assert/strict'
import { goCode } from '../fixtures.mjs'
import { suite } from '../harness.mjs'

const site = await suite()

/** Registers a task: the clicks it takes, and body, which calls click and choose. */
function task(name, clicks, body) {
  site.test(`${name}: ${clicks} ${clicks === 1 ? 'click' : 'clicks'}`, async (visit) => {
    let count = 0
    const click = (locator) => (count++, locator.click())
    const choose = (locator, value) => (count++, locator.selectOption(value))
    const link = (name, within = visit.page) => click(within.getByRole('link', { name, exact: true }).first())
    const button = (name) => click(visit.page.getByRole('button', { name, exact: true }).first())
    await body({ ...visit, click, choose, link, button })
    assert.equal(count, clicks)
  })
}

const text = (page) => page.getByLabel('Text', { exact: true })
const account = (page) => page.getByRole('navigation', { name: 'Your account' })
const files = [{ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('hello') }]

task('share a text without an account and copy its link', 2, async ({ page, open, button }) => {
  await open('/')
  await text(page).fill('hello')
  await button('Create paste')
  await button('Copy link')
})

task('sign up and have an API key', 2, async ({ page, open, link, button }) => {
  await open('/')
  await link('Sign up', page.getByRole('banner'))
  await page.getByLabel('Email').fill(`${crypto.randomUUID()}@example.com`)
  await page.getByLabel('Password').fill('correct horse battery')
  await button('Create account')
  await page.locator('#api-key').waitFor()
})

task('copy the first call on the Free plan', 2, async ({ page, open, link, button, signedIn }) => {
  await signedIn('free')
  await open('/console')
  await link('API keys', account(page))
  await page.getByText('Create a quick paste with curl').waitFor()
  await button('Copy the command')
})

task('create a paste in the account and have its link', 1, async ({ page, open, button, signedIn }) => {
  await signedIn()
  await open('/')
  await text(page).fill(goCode)
  await button('Create paste')
  await page.getByLabel('Link', { exact: true }).waitFor()
})

task('edit a paste', 2, async ({ page, open, link, button, signedIn }) => {
  const { paste } = await own(signedIn)
  await open(`/p/${paste.id}`)
  await link('New version')
  await text(page).fill('two')
  await button('Save')
  await page.getByText('Saved as a new version.').waitFor()
})

task('see what changed between two versions', 2, async ({ page, open, link, click, signedIn }) => {
  const { api, paste } = await own(signedIn)
  await api.update(paste.id, { content: 'two' })
  await open(`/p/${paste.id}`)
  await link('Versions')
  await click(page.getByLabel('Changes from version 1 to 2'))
  await page.locator('.diff').waitFor()
})

task('make a paste unlisted', 3, async ({ page, open, click, choose, button, signedIn }) => {
  const { paste } = await own(signedIn)
  await open(`/p/${paste.id}`)
  await click(page.locator('.own summary'))
  await choose(page.getByLabel('Visibility'), 'unlisted')
  await button('Save')
})

task('delete a paste', 2, async ({ page, open, link, button, signedIn }) => {
  const { paste } = await own(signedIn)
  await open(`/p/${paste.id}`)
  await link('Delete …')
  await button('Delete it')
  await page.getByText('Deleted.').waitFor()
})

task('have the raw text', 1, async ({ open, link, signedIn }) => {
  const { paste } = await own(signedIn)
  await open(`/p/${paste.id}`)
  await link('Raw')
})

task('link to a line', 1, async ({ page, open, click, signedIn }) => {
  const { paste } = await own(signedIn)
  await open(`/p/${paste.id}`)
  await click(page.locator('#L1 a').first())
  await page.waitForURL(/#L1$/)
})

task('find a paste by a word of its title', 2, async ({ page, open, link, button, signedIn }) => {
  await own(signedIn)
  await open('/console')
  await link('Content', account(page))
  await page.getByLabel('Title', { exact: true }).fill('one')
  await button('Search')
  await page.getByRole('link', { name: 'one', exact: true }).waitFor()
})

task('upload a file and have its link', 3, async ({ page, open, link, button, signedIn }) => {
  await signedIn()
  await open('/console')
  await link('Content', account(page))
  await link('Files')
  await page.locator('#upload-file').setInputFiles(files)
  await button('Upload')
  await page.getByRole('link', { name: 'notes.txt' }).waitFor()
})

task('protect a text by a password', 2, async ({ page, open, click, button }) => {
  await open('/')
  await text(page).fill('secret')
  await click(page.getByText('Visibility and password'))
  await page.getByLabel('Password').fill('open sesame')
  await button('Create paste')
})

task('create a key for a program', 3, async ({ page, open, link, click, button, signedIn }) => {
  await signedIn()
  await open('/console')
  await link('API keys', account(page))
  await click(page.getByText('Name, expiry, scopes and limits'))
  await page.getByLabel('Name').fill('program')
  await button('Create key')
  await page.locator('#api-key').waitFor()
})

task('revoke a key', 3, async ({ page, open, link, button, signedIn }) => {
  await signedIn()
  await open('/console')
  await link('API keys', account(page))
  await link('default')
  await page.getByLabel('Type the name of the key', { exact: true }).fill('default')
  await button('Revoke key')
})

task('see this month’s usage', 0, async ({ page, open, signedIn }) => {
  const { api } = await signedIn()
  await api.quickPaste({ content: 'one' })
  await open('/console')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.locator('main svg').first().waitFor()
})

task('find the request that failed, and why', 2, async ({ page, open, link, click, signedIn }) => {
  const { api } = await signedIn()
  await api.send('GET', '/api/dev/paste-lite/get/000000000000')
  await open('/console')
  await link('Requests', account(page))
  await click(page.getByRole('row').filter({ hasText: '404 Refunded' }).getByRole('link'))
  await page.getByRole('heading', { name: 'How this request was billed' }).waitFor()
})

task('print this month’s statement', 2, async ({ page, open, link, click, signedIn }) => {
  await signedIn()
  await open('/console')
  await link('Billing', account(page))
  await click(page.getByRole('region', { name: 'Statements' }).getByRole('link').first())
  await page.getByRole('heading', { name: /^Statement/ }).waitFor()
})

task('cap what the account spends', 3, async ({ page, open, link, button, signedIn }) => {
  await signedIn()
  await open('/console')
  await link('Billing', account(page))
  await link('Set a cap')
  await page.locator('form[action="/console/spending-cap"]').getByLabel('Credits').fill('5')
  await button('Save cap')
})

task('add a webhook and send it a test event', 5, async ({ page, open, link, click, button, signedIn }) => {
  await signedIn()
  await open('/console')
  await link('Billing', account(page))
  await link('Get notified before you reach a limit')
  await page.getByLabel('URL').fill('https://example.com/hook')
  await button('Create webhook')
  await link('Send test event')
  await button('Send test event')
})

/** A signed-in visitor with a paste. */
async function own(signedIn) {
  const user = await signedIn()
  return { ...user, paste: await user.api.paste({ content: 'one\n', title: 'one', visibility: 'public' }) }
}
