// What every page has: the theme, and keyboard shortcuts.
import assert from 'node:assert/strict'
import { accessible } from '../accessible.mjs'
import { suite } from '../harness.mjs'

const site = await suite()

const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor)
const [light, dark] = ['rgb(253, 252, 250)', 'rgb(24, 22, 19)']

site.testLooks('a theme is chosen, kept on every page, and given back to the system', async ({ page, open, settled }) => {
  const system = await (open('/').then(() => background(page)))
  const other = system === light ? 'Dark' : 'Light'
  const chosen = other === 'Dark' ? dark : light
  await page.getByLabel('Theme').selectOption(other)
  assert.equal(await background(page), chosen)
  // No flash: it is there without the page's own scripts, which run when the page has been painted.
  await page.route('**/assets/site.*', (route) => route.fulfill({ contentType: 'text/javascript', body: '' }))
  for (const path of ['/docs', '/console/sign-in', '/nothing']) {
    await open(path, { status: path === '/nothing' ? 404 : 200 })
    assert.equal(await background(page), chosen, path)
  }
  await page.emulateMedia({ media: 'print' })
  assert.equal(await background(page), 'rgb(255, 255, 255)')
  await page.emulateMedia({ media: 'screen' })
  await settled()
  await page.unroute('**/assets/site.*')
  await open('/docs')
  assert.equal(await page.getByLabel('Theme').inputValue(), other.toLowerCase())
  await page.getByLabel('Theme').selectOption('System')
  assert.equal(await background(page), system)
  await open('/')
  assert.equal(await background(page), system)
})

site.test('without scripts the theme is the system’s, and nothing offers another', { script: false, scheme: 'dark' }, async ({ page, open }) => {
  await open('/')
  assert.equal(await page.getByLabel('Theme').isVisible(), false)
  assert.equal(await page.getByText('Keyboard shortcuts').isVisible(), false)
})

site.testLooks('keyboard shortcuts are listed, used, and switched off', async ({ page, open, signedIn }) => {
  const { api } = await signedIn()
  const { id } = await api.paste({ content: 'one\ntwo\n', visibility: 'public' })
  await open('/console')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.keyboard.press('?')
  const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' })
  await help.getByText('API keys').waitFor()
  assert.equal(await help.locator('dt').filter({ hasText: 'g then o' }).count(), 1, 'a shortcut is listed twice')
  await accessible(page)
  await page.keyboard.press('g') // the dialog has the keyboard
  await page.keyboard.press('k')
  await page.keyboard.press('Escape')
  await help.waitFor({ state: 'hidden' })
  assert.equal(new URL(page.url()).pathname, '/console')
  await page.keyboard.press('g')
  await page.keyboard.press('k')
  await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor()
  await page.locator('#cap-amount').focus()
  await page.keyboard.type('gr?')
  assert.equal(await page.locator('#cap-amount').inputValue(), 'gr?')
  assert.equal(await help.isVisible(), false)

  await open(`/p/${id}`)
  await page.keyboard.press('w')
  assert.equal(await page.getByRole('button', { name: 'Wrap' }).getAttribute('aria-pressed'), 'true')
  await page.keyboard.press('w')
  await page.keyboard.press('l')
  await page.keyboard.type('2')
  await page.keyboard.press('Enter')
  await page.locator('#L2.on').waitFor()

  await page.getByRole('button', { name: 'Keyboard shortcuts' }).click()
  await help.getByLabel('Use single-key shortcuts').uncheck()
  await help.getByRole('button', { name: 'Close' }).click()
  await help.waitFor({ state: 'hidden' })
  await page.keyboard.press('w')
  await page.keyboard.press('?')
  assert.equal(await page.getByRole('button', { name: 'Wrap' }).getAttribute('aria-pressed'), 'false')
  assert.equal(await help.isVisible(), false)
  await open('/docs') // it is kept
  await page.keyboard.press('/')
  assert.equal(await page.evaluate(() => document.activeElement.type), undefined)
  await page.getByRole('button', { name: 'Keyboard shortcuts' }).click()
  await help.getByLabel('Use single-key shortcuts').check()
  await page.keyboard.press('Escape')
})

site.testLooks('each line reads in the direction of its first letter, and the link has a QR code', { script: false }, async ({ page, open, signedIn }) => {
  const { api } = await signedIn()
  const { id } = await api.paste({ title: 'שלום', content: 'one\nשלום עולם\nمرحبا\n', visibility: 'public' })
  await open(`/p/${id}`)
  const sides = await page.locator('.line > span').evaluateAll((all) => all.map((line) => {
    const range = document.createRange()
    range.selectNodeContents(line)
    const [text, box] = [range.getClientRects()[0], line.getBoundingClientRect()]
    return text.left - box.left < box.right - text.right ? 'left' : 'right'
  }))
  assert.deepEqual(sides, ['left', 'right', 'right'])
  const code = page.getByRole('img', { name: 'QR code of the link' })
  assert.equal(await code.isVisible(), false)
  await page.getByText('QR code').click()
  const box = await code.boundingBox()
  assert.ok(box.width >= 150 && box.x >= 0 && box.x + box.width <= page.viewportSize().width, JSON.stringify(box))
})
