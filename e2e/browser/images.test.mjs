// The pictures of the main pages in the README. IMAGES=1 writes them into docs/images; otherwise this holds that they can be
// made and that those of the README are there, and small.
import assert from 'node:assert/strict'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { goCode, goCodeLater } from '../fixtures.mjs'
import { root, suite } from '../harness.mjs'

const folder = join(root, 'docs/images')
const largestBytes = 200_000

const site = await suite({ QUIRE_PUBLIC_URL: 'http://127.0.0.1:8080' })
const owner = await site.api().user('pro')
const session = await owner.session()
const { id } = await owner.api.paste({ title: 'lru.go', content: goCode, language: 'go', visibility: 'public', tags: ['cache'] })
await owner.api.update(id, { content: goCodeLater })

const pictures = [
  { name: 'landing', path: '/' },
  { name: 'landing-phone', path: '/', screen: 'phone', scheme: 'dark' },
  { name: 'paste-light', path: `/p/${id}#L18-L22` },
  { name: 'paste-dark', path: `/p/${id}#L18-L22`, scheme: 'dark' },
  { name: 'diff', path: `/p/${id}/diff?view=split`, session },
  { name: 'docs', path: '/docs/api/pastes' },
]

for (const { name, path, ...options } of pictures) {
  site.test(`a picture of ${name}`, options, async ({ page, open }) => {
    await open(path)
    // A picture shows no day, so that a new one differs where the page does.
    await page.locator('time').evaluateAll((all) => all.forEach((time) => { time.textContent = '1 Nov 2026, 12:00' }))
    await page.evaluate(() => { scrollTo(0, 0); document.activeElement?.blur() })
    const picture = await page.screenshot()
    assert.ok(picture.length < largestBytes, `${picture.length} bytes`)
    if (process.env.IMAGES) await writeFile(join(folder, `${name}.png`), picture)
  })
}

test('the README shows pictures that are there', async () => {
  const kept = await readdir(folder)
  for (const file of kept) assert.ok((await stat(join(folder, file))).size < largestBytes, file)
  const readme = await readFile(join(root, 'README.md'), 'utf8')
  for (const [, file] of readme.matchAll(/docs\/images\/([\w.-]+)/g)) assert.ok(kept.includes(file), file)
  assert.deepEqual(kept.sort(), pictures.map(({ name }) => `${name}.png`).sort())
})
