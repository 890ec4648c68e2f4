// The sheet of components, with the style sheets of the pages, as it is in each scheme and on each screen. A new page is made of
// these. A Go test writes e2e/sheet.html from the templates; IMAGES=1 writes the pictures into e2e/sheet.
import assert from 'node:assert/strict'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { accessible, fits } from '../accessible.mjs'
import { looks, root, suite } from '../harness.mjs'

const largestBytes = 150_000
const site = await suite()
const markup = await readFile(join(root, 'e2e/sheet.html'), 'utf8')
const { session } = await site.api().user()
const { name, value } = await session()
const styles = new Set()
const { id } = await site.api().quickPaste({ content: 'x' }).catch(() => ({ id: '' }))
for (const path of ['/', '/console', `/q/${id}`]) {
  const page = await (await site.api().send('GET', path, { headers: { accept: 'text/html', cookie: `${name}=${value}` } })).text()
  for (const [style] of page.matchAll(/<style>[^]*?<\/style>/g)) styles.add(style)
}

for (const look of looks) {
  site.test(`the sheet of components (${look.scheme}, ${look.screen})`, look, async ({ page, context }) => {
    assert.ok(styles.size >= 4, `${styles.size} style sheets`)
    await page.setContent(`<!doctype html><html lang="en"><head><meta name="viewport" content="width=device-width"><title>Components · Quire</title>${[...styles].join('')}</head><body><main>${markup}</main></body></html>`)
    await accessible(page)
    const { width, height: screenHeight } = page.viewportSize()
    await page.setViewportSize({ width: 320, height: screenHeight }) // a desktop's page at 400 %
    await fits(page)
    await page.setViewportSize({ width, height: screenHeight })
    await fits(page)
    // Text is at the left and numbers at the right, in each table.
    const wrong = await page.locator('tbody td').evaluateAll((all) => all
      .filter((cell) => (/^[−+]?[\d,.]+$|^unlimited$/.test(cell.textContent.trim())) !== (getComputedStyle(cell).textAlign === 'right'))
      .map((cell) => cell.outerHTML.slice(0, 80)))
    assert.deepEqual(wrong, [], 'cells that are not aligned by their kind')
    await page.locator('[data-focus]').focus()
    const browser = await context.newCDPSession(page) // for WebP, which is a third of the size
    const height = await page.evaluate(() => document.scrollingElement.scrollHeight)
    const { data } = await browser.send('Page.captureScreenshot', {
      format: 'webp', quality: 50, captureBeyondViewport: true, clip: { x: 0, y: 0, width, height, scale: 1 },
    })
    const picture = Buffer.from(data, 'base64')
    assert.ok(picture.length < largestBytes, `${picture.length} bytes`)
    const file = join(root, `e2e/sheet/${look.scheme}-${look.screen}.webp`)
    if (process.env.IMAGES) await writeFile(file, picture)
    assert.ok((await stat(file)).size < largestBytes)
  })
}
