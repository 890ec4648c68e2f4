// The pictures of the main pages in the README. IMAGES=1 writes them into docs/images; otherwise this checks that they can
// be taken, and that the README's pictures exist and are small.
import assert from 'node:assert/strict'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { goCode, goCodeLater } from '../fixtures.mjs'
import { root, suite } from '../harness.mjs'

const folder = join(root, 'docs/images')
const largestBytes = 200_000

const dayMs = 86_400_000
const days = process.env.IMAGES ? 16 : 0 // from today on, on which the account of the pictures is busy

const site = await suite({ QUIRE_PUBLIC_URL: 'http://127.0.0.1:8080' })
const owner = await site.api().user('pro', 'ada@example.com')
const session = await owner.session()
const { id } = await owner.api.paste({ title: 'lru.go', content: goCode, language: 'go', visibility: 'public', tags: ['cache'] })
await owner.api.update(id, { content: goCodeLater })
const { id: notes } = await owner.api.paste({ title: 'notes', content: 'x' })
await site.api().admin('POST', `/api/admin/accounts/${owner.id}/credits`, { amount: '25', reason: 'a start' })

// What the account has done: more on some days than on others, and uploads beyond the limit of its plan on the last ones.
for (let day = days; day >= 0; day--) {
  if (day < days) await site.quire.travel((days - day) * dayMs)
  const api = site.api(owner.apiKey)
  const calls = [
    ...Array.from({ length: days ? 14 : 1 }, () => () => api.file('backup.tar.zst', 'application/zstd', Buffer.alloc(days ? 300_000 : 1, day))),
    ...Array.from({ length: days ? 5 + 11 * (day % 3) : 1 }, () => () => api.paste({ title: 'report', content: 'x' })),
    ...Array.from({ length: days ? 20 + 37 * (day * day % 7) : 1 }, () => () => api.call('GET', `/api/dev/pastes/get/${id}`)),
    ...Array.from({ length: days ? 12 + 5 * (day % 4) : 1 }, () => () => api.quickPaste({ content: 'x' })),
  ]
  await Promise.all(Array.from({ length: 8 }, async () => {
    for (let call = calls.pop(); call; call = calls.pop()) await call()
  }))
}
const api = site.api(owner.apiKey)
for (const call of [
  () => api.paste({ title: 'report', content: 'x' }),
  () => api.call('GET', `/api/dev/pastes/get/${id}`),
  () => api.send('GET', '/api/dev/pastes/get/000000000000'),
  () => api.file('backup.tar.zst', 'application/zstd', 'x'),
  () => api.quickPaste({ content: 'x' }),
  () => api.send('POST', '/api/dev/pastes/create', { json: { title: 'empty' } }),
  () => api.update(notes, { content: 'y' }),
]) await call()

const pictures = [
  { name: 'landing', path: '/' },
  { name: 'landing-phone', path: '/', screen: 'phone', scheme: 'dark' },
  { name: 'paste-light', path: `/p/${id}#L18-L22` },
  { name: 'paste-dark', path: `/p/${id}#L18-L22`, scheme: 'dark' },
  { name: 'diff', path: `/p/${id}/diff?view=split`, session },
  { name: 'docs', path: '/docs/api/pastes' },
  ...[['overview', '/console', '**/console/usage'], ['requests', '/console/requests', '**/console/requests/list'], ['edit', `/console/pastes/${id}`]]
    .flatMap(([name, path, moves]) => ['light', 'dark'].map((scheme) => ({ name: `console-${name}-${scheme}`, path, moves, scheme, session }))),
]

for (const { name, path, moves, ...options } of pictures) {
  site.test(`a picture of ${name}`, options, async ({ page, open, settled }) => {
    const moved = moves && page.waitForResponse(moves) // a page that moves asks for its figures again at once
    await open(path)
    await moved
    await settled()
    // Pictures show fixed times, so that a new one differs only where the page does: one for future times, one for past ones, and
    // in a list each a minute before the last one.
    await page.locator('time').evaluateAll((all, now) => {
      let listed = 0
      for (const time of all) {
        const minutes = 12 * 60 - (time.closest('tbody') ? listed++ : 0)
        time.textContent = Date.parse(time.dateTime) > now ? '1 Mar 2029, 12:00'
          : `1 Nov 2026, ${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, '0')}`
      }
    }, Date.now() + days * dayMs)
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
