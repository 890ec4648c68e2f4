// The lines of a paste: linked, marked, copied, wrapped, and the time beside them.
import assert from 'node:assert/strict'
import { goCode } from '../fixtures.mjs'
import { suite } from '../harness.mjs'

const site = await suite()
const owner = await site.api().account('max')
const wide = `const wide = "${'as wide as no screen is '.repeat(30)}"`
const content = `${goCode}\n\t${wide}\n\n${Array.from({ length: 400 }, (_, i) => `// line ${i}\n`).join('')}`
const { id } = await owner.api.paste({ title: 'lru.go', content, language: 'go', visibility: 'public', expiresIn: '7d' })
const path = `/p/${id}`

/** The numbers of the lines that are marked. */
const marked = (page) => page.locator('#text .line').evaluateAll((lines) => {
  const plain = getComputedStyle(lines.at(-1)).backgroundColor
  return lines.map((line, i) => getComputedStyle(line).backgroundColor === plain ? 0 : i + 1).filter(Boolean)
})

const upTo = (first, last) => Array.from({ length: last - first + 1 }, (_, i) => first + i)

const number = (page, n) => page.locator(`#L${n} > a`)

for (const [scheme, screen] of [['light', 'desktop'], ['dark', 'phone']]) {
  site.test(`an address leads to its lines and marks them, ${scheme}, ${screen}`, { scheme, screen }, async ({ page, open }) => {
    for (const [hash, want] of [['#L10', [10]], ['#L10-L20', upTo(10, 20)], ['#L10-20', upTo(10, 20)], ['#L20-L10', upTo(10, 20)], ['#L200-L201', [200, 201]], ['#L0', []], ['#L9999', []], ['#Lx', []]]) {
      await page.goto('about:blank')
      await open(path + hash)
      await page.waitForFunction((ready) => document.readyState === ready, 'complete')
      assert.deepEqual(await marked(page), want, hash)
      if (want.length) assert.ok(await page.locator(`#L${want[0]}`).evaluate((line) => {
        const { top, bottom } = line.getBoundingClientRect()
        return top >= 0 && bottom <= innerHeight
      }), `${hash} is not in sight`)
    }
  })
}

site.test('a click on a number marks the line, one with Shift the lines up to it, and the address follows', async ({ page, open }) => {
  await open(path)
  await number(page, 12).click()
  assert.equal(new URL(page.url()).hash, '#L12')
  assert.deepEqual(await marked(page), [12])
  await number(page, 15).click({ modifiers: ['Shift'] })
  assert.equal(new URL(page.url()).hash, '#L12-L15')
  assert.deepEqual(await marked(page), upTo(12, 15))
  await number(page, 9).click({ modifiers: ['Shift'] })
  assert.equal(new URL(page.url()).hash, '#L9-L12')
  assert.deepEqual(await marked(page), upTo(9, 12))
  await page.goBack()
  await page.waitForURL(/#L12-L15$/)
  assert.deepEqual(await marked(page), upTo(12, 15))
})

site.test('the keyboard leads to lines too', async ({ page, open }) => {
  await open(path)
  await page.getByLabel('Line', { exact: true }).fill('30-33')
  await page.keyboard.press('Enter')
  await page.waitForURL(/#L30-L33$/)
  assert.deepEqual(await marked(page), upTo(30, 33))
  await page.getByLabel('Line', { exact: true }).fill('7')
  await page.keyboard.press('Enter')
  await page.waitForURL(/#L7$/)
  assert.deepEqual(await marked(page), [7])
})

site.test('without scripts a number is a link to its line, which is marked', { script: false }, async ({ page, open }) => {
  await open(path)
  await number(page, 12).click()
  assert.equal(new URL(page.url()).hash, '#L12')
  assert.equal(await page.locator('#text .line:target').getAttribute('id'), 'L12')
})

site.test('what is selected and copied is the text and no line number', async ({ page, open, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await open(path)
  await page.locator('#text').click({ position: { x: 200, y: 10 } })
  await page.evaluate(() => getSelection().selectAllChildren(document.getElementById('text')))
  await page.keyboard.press('Control+C')
  await page.waitForFunction(async () => (await navigator.clipboard.readText()).length > 0)
  assert.equal((await page.evaluate(() => navigator.clipboard.readText())).trimEnd(), content.trimEnd())
  await page.evaluate(() => navigator.clipboard.writeText(''))
  await page.getByRole('button', { name: 'Copy' }).click()
  await page.getByRole('status').filter({ hasText: 'Copied' }).waitFor()
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), content)
})

site.test('wide lines are scrolled, or wrapped and then within the screen, and the browser remembers it', { screen: 'phone' }, async ({ page, open }) => {
  await open(path)
  const overflows = () => page.locator('pre.lines').evaluate((frame) => frame.scrollWidth > frame.clientWidth)
  assert.ok(await overflows())
  await page.getByRole('button', { name: 'Wrap' }).click()
  assert.ok(!await overflows())
  assert.equal(await page.getByRole('button', { name: 'Wrap' }).getAttribute('aria-pressed'), 'true')
  await open(path)
  assert.ok(!await overflows())
  await page.getByRole('button', { name: 'Wrap' }).click()
  assert.ok(await overflows())
})

site.test('paper gets every line whole', async ({ page, open }) => {
  await open(path)
  await page.emulateMedia({ media: 'print' })
  assert.ok(!await page.locator('pre.lines').evaluate((frame) => frame.scrollWidth > frame.clientWidth))
  assert.ok(!await page.getByRole('link', { name: 'Raw' }).isVisible())
  assert.ok(await page.getByText(wide).isVisible())
})

site.test('code is in colours that the style sheet has, in both schemes', async ({ page, open }) => {
  await open(path)
  const colours = () => page.locator('#text span[class]:not(.line)').evaluateAll((all) => new Set(all.map((e) => getComputedStyle(e).color)).size)
  assert.ok(await colours() >= 4)
  await page.emulateMedia({ colorScheme: 'dark' })
  assert.ok(await colours() >= 4)
})

for (const [timezone, offset] of [['Asia/Tokyo', 9], ['America/New_York', null], ['Asia/Kathmandu', 5.75]]) {
  site.test(`times are in the zone of a reader in ${timezone}`, { timezone }, async ({ page, open }) => {
    await open(path)
    const times = await page.locator('time').evaluateAll((all) => all.map((time) => ({
      at: time.dateTime, text: time.textContent, title: time.title,
      want: new Date(time.dateTime).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' }),
    })))
    assert.equal(times.length, 2, 'when it was made and when it expires')
    for (const { at, text, title, want } of times) {
      assert.equal(text, want)
      assert.match(title, /UTC, /)
      if (offset === null) continue
      const local = new Date(new Date(at).getTime() + offset * 3_600_000).toISOString()
      assert.ok(text.includes(local.slice(11, 16)), `${text} is not ${local}`)
    }
  })
}

site.test('without scripts times are in UTC and say so', { script: false }, async ({ page, open }) => {
  await open(path)
  for (const text of await page.locator('time').allInnerTexts()) assert.match(text, /UTC$/)
})

site.test('raw and download give the bytes', async ({ page, open }) => {
  await open(path)
  const download = page.waitForEvent('download')
  await page.getByRole('link', { name: 'Download' }).click()
  const saved = await download
  const parts = []
  for await (const part of await saved.createReadStream()) parts.push(part)
  assert.equal(Buffer.concat(parts).toString(), content)
  assert.equal(saved.suggestedFilename(), 'lru.go')
  await page.getByRole('link', { name: 'Raw' }).click()
  await page.waitForURL(/\/raw$/)
  assert.equal(await page.locator('pre').textContent(), content)
})
