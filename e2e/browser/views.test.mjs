// What a paste or a file is shown as: Markdown, a table, changes between versions, a picture, a text.
import assert from 'node:assert/strict'
import { csv, goCode, goCodeLater, markdown, png } from '../fixtures.mjs'
import { suite } from '../harness.mjs'

const site = await suite()
const owner = await site.api().user('max')
const session = await owner.session()

for (const [scheme, screen, script] of [['light', 'desktop', true], ['dark', 'phone', false]]) {
  site.test(`Markdown is rendered, beside its source, ${scheme}, ${screen}`, { scheme, screen, script }, async ({ page, open }) => {
    const { id } = await owner.api.paste({ title: 'Notes', content: markdown, language: 'markdown', visibility: 'public' })
    await open(`/p/${id}`)
    const view = page.locator('.view')
    await view.getByRole('heading', { name: 'Added' }).waitFor()
    assert.equal(await view.getByRole('link', { name: 'faults' }).getAttribute('href'), 'https://example.com/faults')
    assert.match(await view.getByRole('link', { name: 'faults' }).getAttribute('rel'), /nofollow.*|.*noopener/)
    assert.equal(await view.getByRole('cell', { name: '38 µs' }).count(), 1)
    assert.equal(await view.locator('pre code span[class]').count() > 3, true, 'code in Markdown is highlighted')
    assert.equal(await page.getByRole('heading', { level: 1 }).count(), 1, "the text's own title does not compete with the page's")
    await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Source' }).click()
    await page.locator('#L1').waitFor()
    assert.match(await page.locator('#text').textContent(), /^# Release notes/)
  })

  site.test(`separated values are a table, beside their source, ${scheme}, ${screen}`, { scheme, screen, script }, async ({ page, open }) => {
    const { id } = await owner.api.paste({ content: csv, language: 'csv' })
    await open(`/p/${id}`)
    assert.deepEqual((await page.getByRole('columnheader').allInnerTexts()).slice(-4), ['city', 'country', 'population', 'founded'])
    assert.equal(await page.getByRole('cell', { name: 'a "quoted" name' }).count(), 1)
    assert.equal(await page.getByRole('cell', { name: '11,451,245' }).count(), 1)
    await page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: 'Source' }).click()
    assert.match(await page.locator('#text').textContent(), /^city,country/)
  })

  site.test(`the owner sees what changed between versions, ${scheme}, ${screen}`, { scheme, screen, script, session }, async ({ page, open }) => {
    const { id } = await owner.api.paste({ title: 'lru.go', content: goCode, language: 'go' })
    await owner.api.update(id, { content: goCodeLater })
    await owner.api.update(id, { title: 'cache.go' })
    await open(`/p/${id}`)
    await page.getByRole('link', { name: 'Versions' }).click()
    await page.getByRole('heading', { name: 'Versions of' }).waitFor()
    assert.equal(await page.getByRole('row').count(), 4)
    await page.getByLabel('Compare from version 1').check()
    await page.getByLabel('Compare to version 2').check()
    await page.getByRole('button', { name: 'Compare' }).click()
    const diff = page.getByRole('region', { name: 'Changes' })
    await diff.waitFor()
    assert.match(await diff.innerText(), /at least one/)
    await page.getByText('lines added').waitFor()
    await page.getByRole('link', { name: 'Split' }).click()
    await page.waitForURL(/view=split/)
    assert.match(await diff.innerText(), /A limit below 1 is 1/)
    await open(`/p/${id}/diff`)
    await page.getByText('Title changed from lru.go to cache.go.').waitFor()
    await page.getByText('The versions have the same content.').waitFor()
  })
}

site.test('others see no history of a paste, and nothing that leads there', async ({ page, open }) => {
  const { id } = await owner.api.paste({ content: 'one', visibility: 'public' })
  await owner.api.update(id, { content: 'two' })
  await open(`/p/${id}`)
  assert.equal(await page.getByRole('link', { name: 'Versions' }).count(), 0)
  for (const path of [`/p/${id}/versions`, `/p/${id}/diff?from=1&to=2`]) {
    const answer = await open(path, { status: 404 })
    assert.doesNotMatch(await answer.text(), /one<|two</)
  }
  const earlier = await site.api().send('GET', `/p/${id}?version=1`)
  assert.doesNotMatch(await earlier.text(), />one</)
})

site.test('the owner sees a private paste with a session', { session }, async ({ page, open }) => {
  const { id } = await owner.api.paste({ title: 'Diary', content: 'dear diary', visibility: 'private' })
  await open(`/p/${id}`)
  await page.getByText('dear diary').waitFor()
})

site.test('a picture is shown in the size of the screen', { screen: 'phone' }, async ({ page, open }) => {
  const { id } = await owner.api.file('gradient.png', 'image/png', png(1600, 900), { visibility: 'public' })
  await open(`/f/${id}`)
  const image = page.getByRole('img', { name: 'gradient.png' })
  assert.equal(await image.evaluate((img) => img.complete && img.naturalWidth), 1600)
  assert.ok((await image.boundingBox()).width <= 390)
})

site.test('a file of text is shown as one, whatever it calls itself', async ({ page, open }) => {
  for (const [name, type, content] of [['main.go', 'text/plain', goCode], ['page.html', 'text/html', '<h1>not a heading</h1>']]) {
    const { id } = await owner.api.file(name, type, content, { visibility: 'public' })
    await open(`/f/${id}`)
    assert.equal((await page.locator('#text').textContent()).trimEnd(), content.trimEnd())
    assert.equal(await page.getByRole('heading', { name: 'not a heading' }).count(), 0)
  }
})

site.test('characters that deceive a reader are made visible', async ({ page, open }) => {
  const { disguises } = await import('../payloads.mjs')
  for (const [name, content] of Object.entries(disguises)) {
    const { id } = await owner.api.paste({ title: content, content, visibility: 'public' })
    await open(`/p/${id}`)
    assert.ok(await page.locator('#text .ctl').count() > 0, name)
    assert.ok(await page.locator('h1 .ctl').count() > 0, `${name} in a title`)
    assert.equal((await page.locator('#text').textContent()).trimEnd(), content, `${name} is copied as it was written`)
  }
})

site.test('a link in a chat shows the title of a public paste, and nothing of others', async ({ open }) => {
  const open_ = await owner.api.paste({ title: 'Minutes', content: 'x', visibility: 'public' })
  assert.match(await (await open(`/p/${open_.id}`)).text(), /property="og:title" content="Minutes"/)
  for (const fields of [{ visibility: 'unlisted' }, { visibility: 'public', password: 'x' }, { visibility: 'public', burnAfterRead: true }]) {
    const { id } = await owner.api.paste({ title: 'Minutes', content: 'x', ...fields })
    assert.doesNotMatch(await (await open(`/p/${id}`)).text(), /og:title/)
  }
})
