// Pastes that are shown after a password or a click, for their last time perhaps.
import assert from 'node:assert/strict'
import { suite } from '../harness.mjs'

const site = await suite()
const owner = await site.api().account('max')

for (const script of [true, false]) {
  const scripts = script ? 'with scripts' : 'without scripts'

  site.test(`opening the page of a burning paste does not burn it, the click does, ${scripts}`, { script }, async ({ page, open }) => {
    const { id } = await owner.api.paste({ title: 'Launch code', content: 'the secret is 4711', burnAfterRead: true })
    for (let visits = 0; visits < 3; visits++) {
      const answer = await open(`/p/${id}`)
      assert.doesNotMatch(await answer.text(), /4711|Launch code/)
    }
    assert.equal((await site.api().send('GET', `/p/${id}/raw`)).status, 403)
    await page.getByRole('button', { name: 'Show and delete' }).click()
    await page.getByText('the secret is 4711').waitFor()
    await page.getByText('This paste is now deleted').waitFor()
    await open(`/p/${id}`, { status: 404 })
    assert.doesNotMatch(await page.content(), /4711|Launch code/)
  })

  site.test(`a password shows the paste, another does not, ${scripts}`, { script }, async ({ page, open, expectErrorPage }) => {
    const { id } = await owner.api.paste({ title: 'Plans', content: 'the plan is simple', password: 'open sesame' })
    assert.doesNotMatch(await (await open(`/p/${id}`)).text(), /the plan is simple|Plans/)
    expectErrorPage(`/p/${id}`)
    await page.getByLabel('Password').fill('open barley')
    await page.keyboard.press('Enter')
    await page.getByText('Wrong password.').waitFor()
    await page.getByLabel('Password').fill('open sesame')
    await page.keyboard.press('Enter')
    await page.getByText('the plan is simple').waitFor()
    await page.getByRole('heading', { name: 'Plans' }).waitFor()
  })
}

site.test('of two readers who click at a time one reads the burning paste', async ({ context, open }) => {
  const { id } = await owner.api.paste({ content: 'for one of you', burnAfterRead: true })
  const readers = [await context.newPage(), await context.newPage()]
  for (const page of readers) await open(`/p/${id}`, { page })
  await Promise.all(readers.map((page) => Promise.all([
    page.waitForEvent('framenavigated'),
    page.getByRole('button', { name: 'Show and delete' }).click(),
  ])))
  const contents = await Promise.all(readers.map((page) => page.content()))
  assert.deepEqual(contents.map((text) => text.includes('for one of you')).sort(), [false, true])
})

site.test('a burning paste behind a password is burned by the right one alone', async ({ page, open, expectErrorPage }) => {
  const { id } = await owner.api.paste({ content: 'eyes only', password: 'right', burnAfterRead: true })
  await open(`/p/${id}`)
  expectErrorPage(`/p/${id}`)
  await page.getByLabel('Password').fill('wrong')
  await page.getByRole('button', { name: 'Show and delete' }).click()
  await page.getByText('Wrong password.').waitFor()
  await page.getByLabel('Password').fill('right')
  await page.getByRole('button', { name: 'Show and delete' }).click()
  await page.getByText('eyes only').waitFor()
  await open(`/p/${id}`, { status: 404 })
})

site.test('a private paste has no page, not even one that says that it exists', async ({ page, open }) => {
  const { id } = await owner.api.paste({ title: 'Diary', content: 'dear diary', visibility: 'private' })
  await open(`/p/${id}`, { status: 404 })
  const private_ = (await page.locator('main').innerText()).replace(/request \S+/, '')
  await open('/p/AAAAAAAAAAAA', { status: 404 })
  assert.equal((await page.locator('main').innerText()).replace(/request \S+/, ''), private_)
})
