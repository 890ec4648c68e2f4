// The page that verifies bills: the file is checked in the browser, by the verifier that the edge serves.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { drawAccounts, encodeProof, proofOf, seal, showId } from '../../verifier/test/installation.mjs'
import { random } from '../../verifier/test/journal.mjs'
import { Signer } from '../../verifier/test/log.mjs'
import { looked } from '../accessible.mjs'
import { root, suite } from '../harness.mjs'

const site = await suite()
const pick = random(3)
const signer = new Signer('quire/test/0a1b2c3d')
const installation = seal({ accounts: drawAccounts(pick), partitions: 2, signer, pick })
const account = installation.accounts.find((a) => a.entries.length > 5)
const honest = proofOf(installation, account)
const file = (bytes, name = 'bill.tlog-proof') => ({ name, mimeType: 'application/octet-stream', buffer: bytes })

async function verify(page, bytes, key = signer.key) {
  await page.getByLabel('Proof', { exact: true }).setInputFiles(file(bytes))
  await page.getByLabel('Key of the log').fill(key)
  await page.getByRole('button', { name: 'Verify' }).click()
}

site.test('an honest proof is verified, and nothing is sent', async ({ page, open }) => {
  await open('/verify')
  await looked(page, 'verify-form')
  const requests = []
  page.on('request', (r) => requests.push(`${r.method()} ${new URL(r.url()).pathname}`))
  await verify(page, encodeProof(honest))
  await page.getByRole('status').getByText(`Everything checked fits: account ${showId(account.id)}, 2026-11.`).waitFor()
  await page.getByText('statement: its counters').waitFor()
  assert.ok(await page.getByRole('heading', { name: 'Remains on trust' }).isVisible())
  assert.deepEqual(requests.map((r) => r.replace(/[0-9a-f]{16}/, 'hash')), ['GET /assets/verify.hash.mjs'])
  await looked(page, 'verify-fits')
})

site.test('a forged proof is refused, with the place', async ({ page, open }) => {
  const { extra } = proofOf(installation, account)
  extra.statement.text = extra.statement.text.replace('"closed":true', '"closed":false')
  await open('/verify')
  await verify(page, encodeProof({ ...honest, extra }))
  await page.getByRole('alert').getByText('The proof is wrong').waitFor()
  await page.getByText('statement, field root of the statements tree of 2026-11').waitFor()
  await looked(page, 'verify-differs')
})

site.test('what is no proof, and a key that is none, are refused', async ({ page, open }) => {
  await open('/verify')
  await verify(page, Buffer.from('hello'))
  await page.getByRole('alert').getByText('Cannot verify: the file does not begin with c2sp.org/tlog-proof@v1.').waitFor()
  await verify(page, encodeProof(honest), 'x')
  await page.getByRole('alert').getByText('Cannot verify: the key is not of the form name+hash+base64.').waitFor()
})

site.test('an earlier proof and kept receipts are compared', async ({ page, open }) => {
  await open('/verify')
  await page.getByText('Compare with what you kept').click()
  await page.getByLabel('Earlier proof or checkpoint').setInputFiles(file(encodeProof(honest)))
  await page.getByLabel('Receipts').setInputFiles(file(Buffer.from(`${showId(account.id)} ${account.entries.length}.${honest.extra.receipt.hash}\n`), 'receipts'))
  await verify(page, encodeProof(honest))
  await page.getByText('kept checkpoint: the log continues it').waitFor()
  await page.getByText('receipts: 1 kept one was compared').waitFor()
})

site.test('the served program is the one in the repository', async () => {
  const page = await (await site.api().send('GET', '/verify')).text()
  const [, address] = /data-program="([^"]+)"/.exec(page)
  const served = await (await site.api().send('GET', address)).text()
  assert.equal(served, readFileSync(join(root, 'verifier/verify.mjs'), 'utf8'))
})

site.test('without scripts the page says how to verify', { script: false }, async ({ page, open }) => {
  await open('/verify')
  await page.getByText('This page needs scripts').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Verify' }).count(), 0)
})
