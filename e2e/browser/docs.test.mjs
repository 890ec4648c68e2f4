// The documentation: found, read and copied from, with scripts and without.
import assert from 'node:assert/strict'
import { suite } from '../harness.mjs'

const site = await suite()
const reference = '/docs/api/pastes'

for (const script of [true, false]) {
  site.test(`an operation is shown in three languages, scripts ${script ? 'on' : 'off'}`, { script }, async ({ page, open }) => {
    await open(`${reference}#createPaste`)
    const operation = page.locator('#createPaste')
    for (const [language, text] of [['Go', 'c.Pastes.Create('], ['TypeScript', 'quire.pastes.create('], ['curl', 'curl ']]) {
      await operation.getByText(language, { exact: true }).click()
      const shown = operation.locator('pre[data-snippet]:visible')
      assert.equal(await shown.count(), 1)
      assert.ok((await shown.textContent()).includes(text), language)
    }
  })

  site.test(`a search leads to the section of an error, scripts ${script ? 'on' : 'off'}`, { script }, async ({ page, open }) => {
    await open('/docs')
    await page.getByRole('searchbox').fill('quota_exhausted')
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'quota_exhausted', exact: true }).first().click()
    await page.waitForURL(/\/docs\/errors#quota_exhausted$/)
    assert.ok(await page.locator('#quota_exhausted').getByText('Fix', { exact: true }).isVisible())
  })

  site.test(`a phone has the contents behind a button, scripts ${script ? 'on' : 'off'}`, { script, screen: 'phone' }, async ({ page, open }) => {
    await open('/docs/guides/first-call')
    const link = page.getByRole('navigation', { name: 'Documentation' }).getByRole('link', { name: 'Limits' })
    assert.equal(await link.count(), 0)
    await page.getByText('Contents', { exact: true }).click()
    await link.click()
    await page.waitForURL(/\/docs\/guides\/limits$/)
  })
}

site.test('the chosen language applies to all snippets, also on the next page', async ({ page, open }) => {
  await open(reference)
  await page.locator('#getPaste').getByText('TypeScript', { exact: true }).click()
  assert.ok(await page.locator('#createPaste pre[data-language=ts]').isVisible())
  await open('/docs/api/files')
  assert.ok(await page.locator('#uploadFile pre[data-language=ts]').isVisible())
})

site.test('what is copied is the snippet as it is shown', { context: { permissions: ['clipboard-read', 'clipboard-write'] } }, async ({ page, open }) => {
  await open(`${reference}#createPaste`)
  const panel = page.locator('#createPaste .panel:visible')
  const text = await panel.locator('pre').textContent()
  assert.ok(text.startsWith('curl '))
  await panel.getByRole('button', { name: 'Copy' }).click()
  await panel.getByRole('button', { name: 'Copied' }).waitFor()
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), text)
})

site.test('results are there while a search is typed', async ({ page, open }) => {
  await open('/docs/search')
  await page.getByRole('main').locator('article').getByRole('searchbox').fill('burnAfterRead')
  await page.locator('#results').getByRole('link', { name: 'burnAfterRead' }).first().waitFor()
  assert.equal(new URL(page.url()).searchParams.get('q'), 'burnAfterRead')
  await page.locator('#results').getByRole('link', { name: 'burnAfterRead' }).first().click()
  await page.waitForURL(/#.*burnafterread$/)
})
