// A PDF is shown by the viewer that the browser brings.
import assert from 'node:assert/strict'
import { hostilePDF, pdf } from '../fixtures.mjs'
import { suite, whole } from '../harness.mjs'

const site = await suite({}, [whole])
const owner = await site.api().user('max')

site.test('a PDF is shown by the viewer of the browser once a reader asks for it', async ({ page, open, context }) => {
  const { id } = await owner.api.file('page.pdf', 'application/pdf', pdf, { visibility: 'public' })
  await open(`/f/${id}`)
  const viewer = context.waitForEvent('request', (request) => /^chrome-extension:.*\/index.html$/.test(request.url()))
  await page.getByText('Show the PDF').click()
  await page.locator('iframe[title="page.pdf"]').waitFor()
  await viewer
})

site.test('a PDF that opens a dialog does not do so before', async ({ page, open, requests }) => {
  const { id } = await owner.api.file('page.pdf', 'application/pdf', hostilePDF, { visibility: 'public' })
  await open(`/f/${id}`)
  await page.getByText('Show the PDF').waitFor()
  assert.deepEqual(requests.map((request) => new URL(request.url()).pathname).filter((path) => path.endsWith('/view')), [])
})
