// The page of API keys: names, status, last use, and a first call that works with the key's plan and scopes.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { accessible, looked } from '../accessible.mjs'
import { Api, eventually, suite } from '../harness.mjs'

const site = await suite()
const run = promisify(execFile)

/** Runs the first call of a page with a key, and returns the answer. */
async function firstCall(page, apiKey) {
  const line = await page.locator('#first-call-code').innerText()
  const { stdout } = await run('sh', ['-c', line], { env: { ...process.env, API_KEY: apiKey } })
  return JSON.parse(stdout)
}

for (const scheme of ['light', 'dark']) {
  for (const screen of ['desktop', 'phone']) {
    site.test(`keys show their status and last use (${scheme}, ${screen})`, { scheme, screen }, async ({ page, open, signedIn }) => {
      const { own } = await signedIn()
      const made = {}
      for (const rules of [{ name: 'build' }, { name: 'capped', spendingCap: { amount: '0', period: 'day' } }, { name: 'old' }]) {
        made[rules.name] = await own('POST', '/api/users/user/keys', rules)
      }
      await own('DELETE', `/api/users/user/keys/${made.old.key.id}`)
      await new Api(site.url, made.build.apiKey).quickPaste({ content: 'x' })
      const active = page.getByRole('region', { name: 'API keys' }).first()
      const row = (name) => page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) })
      await open('/console/keys')
      await row('capped').getByText('capped', { exact: true }).last().waitFor()
      await row('old').getByText('revoked').waitFor()
      assert.match(await row('default').innerText(), /active.*all.*never/s)
      await eventually('the address is known', async () => (await own('GET', '/api/users/user/keys')).keys[1].lastUsedAddress)
      await page.reload()
      assert.match(await row('build').innerText(), /active[\s\S]*from 10\./)
      assert.ok(await active.isVisible())
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page is wider than the screen')
      await accessible(page)
      await row('capped').getByRole('link').click()
      await page.getByText('A spending cap is reached.').waitFor()
      await accessible(page)
    })
  }
}

for (const script of [true, false]) {
  site.test(`a key without a name gets one, and a name that is taken is refused beside its field, ${script ? 'with' : 'without'} scripts`, { script }, async ({ page, open, signedIn, expectErrorPage }) => {
    await signedIn('free')
    const name = page.getByLabel('Name', { exact: true })
    await open('/console/keys')
    await page.getByText('Name, expiry, scopes and limits').click()
    await page.getByRole('button', { name: 'Create key' }).click()
    await page.getByRole('heading', { name: 'Your new API key' }).waitFor()
    await open('/console/keys')
    await page.getByRole('link', { name: 'default 2' }).waitFor()

    expectErrorPage('/console/keys')
    await page.getByText('Name, expiry, scopes and limits').click()
    await name.fill('default 2')
    await page.getByLabel('Expires').selectOption('In 7 days')
    await name.press('Enter')
    await page.getByText('The name is already used by another active API key. Choose another.').waitFor()
    assert.equal(await name.getAttribute('aria-invalid'), 'true')
    assert.equal(await name.inputValue(), 'default 2')
    assert.match(await name.getAttribute('aria-describedby'), / create-name-error$/)
    assert.notEqual(await name.getAttribute('autofocus'), null)
    assert.equal(await page.getByLabel('Expires').inputValue(), '7d')
    if (script) {
      assert.equal(await page.evaluate(() => document.activeElement.id), 'create-name')
      await accessible(page)
    }
    await name.fill('laptop')
    await name.press('Enter')
    await page.getByRole('heading', { name: 'Your new API key' }).waitFor()
  })
}

for (const [tier, path] of [['free', '/q/'], ['pro', '/p/']]) {
  site.test(`the first call works with a key of the plan ${tier}`, { screen: tier === 'free' ? 'phone' : 'desktop' }, async ({ page, open, signedIn }) => {
    const { apiKey, own } = await signedIn(tier)
    await open('/console/keys')
    const made = await firstCall(page, apiKey) // unfolded, since no key was used
    if (tier === 'free') await looked(page, 'first call')
    assert.ok(made.success && made.url.startsWith(site.url + path), JSON.stringify(made))
    await open('/console/keys')
    assert.equal(await page.locator('#first-call-code').isVisible(), false, 'it is unfolded after its use')

    const { apiKey: narrow, key } = await own('POST', '/api/users/user/keys', { name: 'quick', scopes: ['pasteLite.create'] })
    await open(`/console/keys/${key.id}`)
    const quick = await firstCall(page, narrow)
    assert.ok(quick.success && quick.url.startsWith(`${site.url}/q/`), JSON.stringify(quick))
    const { key: reader } = await own('POST', '/api/users/user/keys', { name: 'reader', scopes: ['pasteLite.get'] })
    await open(`/console/keys/${reader.id}`)
    assert.equal(await page.locator('#first-call-code').count(), 0)
  })
}
