// What axe finds on a page.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

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
