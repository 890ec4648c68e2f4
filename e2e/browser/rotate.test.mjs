// A key that was replaced in the browser is admitted until the time that the page shows, and refused from then on.
import assert from 'node:assert/strict'
import { Api, eventually, suite } from '../harness.mjs'

const site = await suite()

site.test('a replaced key ends at the exact time that the page shows', async ({ page, open, signedIn }) => {
  const { apiKey, api, own } = await signedIn()
  const { id } = await api.quickPaste({ content: 'x' })
  await open('/console/keys/default')
  await page.getByLabel('Old key').selectOption('Valid for 1 hour')
  await page.getByRole('button', { name: 'Rotate key' }).click()
  const shown = await page.getByText('The old key works until').locator('time').getAttribute('datetime')
  const old = (await own('GET', '/api/users/user/keys')).keys.find(({ replacedBy }) => replacedBy)
  const ends = Date.parse(old.expiresAt)
  const seconds = new Date(ends).toISOString().replace(/\.\d+/, '') // a page shows no parts of a second
  assert.equal(shown, seconds)
  const fresh = await page.locator('#api-key').innerText()
  const read = (key) => new Api(site.url, key).send('GET', `/api/dev/paste-lite/get/${id}`)

  await site.quire.travel(ends - 600_000 - Date.now())
  assert.equal((await read(apiKey)).status, 200)
  await open('/console/keys')
  await page.getByText('active, replaced').waitFor()

  // It comes up some seconds before the time. However many of them pass until then: each answer fits its own time.
  const ahead = ends - 4_000 - Date.now()
  await site.quire.travel(ahead)
  const admitted = []
  await eventually('the old key ends', async () => {
    const answer = await read(apiKey)
    if (answer.status === 200) {
      admitted.push(answer.headers.get('x-request-id'))
      return false
    }
    assert.equal(answer.status, 401)
    assert.equal((await answer.json()).code, 'invalid_api_key')
    assert.ok(Date.now() + ahead >= ends, 'it was refused too early')
    return true
  })
  for (const request of admitted.slice(-1)) {
    const { request: { time } } = await own('GET', `/api/users/user/requests/${request}`)
    assert.ok(Date.parse(time) < ends, `it was admitted at ${time}`)
  }
  assert.equal((await read(fresh)).status, 200)
  await open('/console/keys')
  const ended = page.locator('section').filter({ has: page.getByRole('heading', { name: 'Revoked and expired keys' }) })
  assert.equal(await ended.locator('time').last().getAttribute('datetime'), seconds)
})
