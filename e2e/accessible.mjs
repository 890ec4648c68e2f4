// What axe finds on a page, and what holds for a page in every look.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { looks, screens } from './harness.mjs'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Finds what keeps people with a screen reader, weak sight or a keyboard from using the page. */
export async function accessible(page) {
  await page.evaluate(axe)
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { resultTypes: ['violations'] })
    return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, help, nodes }) => ({ id, help, nodes: nodes.slice(0, 5).map((n) => `${n.html.slice(0, 200)} ${n.failureSummary}`) }))
  })
  assert.deepEqual(found, [], JSON.stringify(found, null, 2))
}

/** The page is as wide as the screen: only wide content itself may scroll to the side. */
export async function fits(page) {
  const { width, wide } = await page.evaluate(() => {
    const width = document.documentElement.clientWidth
    const scrolls = (e) => e && (/auto|scroll|hidden|clip/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement))
    const wide = [...document.body.querySelectorAll('*')]
      .filter((e) => e.getBoundingClientRect().right > width + 1 && e.parentElement !== null && !scrolls(e.parentElement))
      .map((e) => e.cloneNode().outerHTML.slice(0, 150))
    return { width, wide: document.scrollingElement.scrollWidth > width ? [`scrolls to ${document.scrollingElement.scrollWidth}`, ...wide.slice(-3)] : [] }
  })
  assert.deepEqual(wide, [], `wider than the ${width} pixels of the screen`)
}

/** The tabulator key leads through the page, and each stop is in sight and marked. */
export async function tabbable(page) {
  await page.evaluate(() => { // from the beginning of the page
    document.body.tabIndex = -1
    document.body.focus()
    document.body.removeAttribute('tabindex')
  })
  const stops = []
  for (let i = 0; i < 15; i++) {
    await page.keyboard.press('Tab')
    const stop = await page.evaluate(() => {
      const e = document.activeElement
      if (!e || e === document.body) return null
      const style = getComputedStyle(e)
      const box = e.getBoundingClientRect()
      return {
        element: e.cloneNode().outerHTML.slice(0, 120),
        marked: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== 'none',
        seen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
      }
    })
    if (!stop) break
    stops.push(stop)
  }
  assert.ok(stops.length > 2, 'the tabulator key leads nowhere')
  assert.deepEqual(stops.filter(({ marked, seen }) => !marked || !seen), [], 'stops that a reader does not see')
}

/**
 * Looks at the page as a flow has left it, in each scheme on each screen: it fits, and axe finds nothing; on each screen the keyboard
 * leads through it. With E2E_PICTURES each look is a picture in that folder. The page is then as it was, but for its focus.
 */
export async function looked(page, name) {
  const size = page.viewportSize()
  const dark = await page.evaluate(() => matchMedia('(prefers-color-scheme: dark)').matches)
  for (const { scheme, screen } of looks) {
    await page.emulateMedia({ colorScheme: scheme })
    await page.setViewportSize(screens[screen])
    await fits(page)
    await accessible(page)
    if (process.env.E2E_PICTURES) await page.screenshot({ path: join(process.env.E2E_PICTURES, `${name} ${scheme} ${screen}.png`), fullPage: true })
    if (scheme === 'light') await tabbable(page)
  }
  await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' })
  await page.setViewportSize(size)
}
