// The main pages, each with content on it.
import { csv, goCode, goCodeLater, hostilePDF, markdown, png } from './fixtures.mjs'

/**
 * Makes the content of the main pages and returns them: name, path, status (200 where it is absent) and ours, where nothing
 * on the page was written by strangers.
 */
export async function mainPages(site) {
  const owner = await site.api().user('max')
  const { api } = owner
  const code = await api.paste({ title: 'lru.go', content: goCode, language: 'go', visibility: 'public', tags: ['cache', 'go'] })
  await api.update(code.id, { content: goCodeLater })
  const text = await api.paste({ title: 'Release notes', content: markdown, language: 'markdown', visibility: 'public', expiresIn: '30d' })
  const table = await api.paste({ title: 'cities.csv', content: csv, language: 'csv', visibility: 'public' })
  const quick = await site.api().quickPaste({ content: `${'one line that is much longer than any screen is wide '.repeat(8)}\n\tand a short one\n` })
  const locked = await api.paste({ content: 'x', password: 'x' })
  const burning = await api.paste({ content: 'x', burnAfterRead: true })
  const picture = await api.file('a picture with a name that is rather long, as names of files from a phone are.png', 'image/png', png(1600, 900), { visibility: 'public' })
  const document = await api.file('page.pdf', 'application/pdf', hostilePDF, { visibility: 'public' })
  const bytes = await api.file('backup.tar.zst', 'application/zstd', Buffer.alloc(3000, 7), { visibility: 'public' })
  const session = await owner.session()
  const admin = await site.api().adminSession()
  const { id: audit } = await site.api().admin('POST', '/api/admin/audit') // it has ended by then: the journals are short
  await api.quickPaste({ title: 'notes', content: 'one\n', tags: ['a tag that is as long as it may be', 'x'].map((tag) => tag.slice(0, 32)) })
  const { requests: [request] } = await api.call('GET', '/api/users/user/requests')
  const { webhook } = await site.api().call('POST', '/api/users/user/webhooks', {
    json: { url: 'https://example.com/a/webhook/with/an/address/that/is/longer/than/the/screen/of/a/phone/is/wide', events: ['quota.threshold', 'cap.threshold', 'key.expiring'] },
    headers: { cookie: `${session.name}=${session.value}`, 'sec-fetch-site': 'same-origin' },
  })
  for (const [amount, reason] of [['1234.5', 'A gift for as long as it lasts, with a reason that takes more than one line on a phone'], ['-0.5', 'A mistake']]) {
    await site.api().admin('POST', `/api/admin/accounts/${owner.id}/credits`, { amount, reason })
  }
  for (let number = 1; number <= 21; number++) { // more than a page has
    await site.api().admin('POST', `/api/admin/accounts/${owner.id}/payments`, { payment: `2026-${number}`, credits: '10', reason: 'A bank transfer' })
  }
  return [
    { name: 'the landing page', path: '/', ours: true },
    { name: 'the reference', path: '/docs', ours: true },
    { name: 'the list of errors', path: '/docs/errors', ours: true },
    { name: 'a search in the documentation', path: '/docs/search?q=quota', ours: true },
    { name: 'a guide', path: '/docs/guides/first-call', ours: true },
    { name: 'the page that verifies bills', path: '/verify', ours: true },
    { name: 'the page to sign up', path: '/console/sign-up', ours: true },
    { name: 'the page to sign in', path: '/console/sign-in', ours: true },
    { name: 'the overview', path: '/console', session, ours: true },
    { name: 'the overview of three months by API key', path: '/console?range=90&by=key', session, ours: true },
    { name: 'the API keys', path: '/console/keys', session, ours: true },
    { name: 'an API key', path: '/console/keys/default', session, ours: true },
    { name: 'the requests', path: '/console/requests', session, ours: true },
    { name: 'a request', path: `/console/requests/${request.requestId}?run=new`, session, ours: true },
    { name: 'the credits', path: '/console/billing', session, ours: true },
    { name: 'the plan', path: '/console/plan', session, ours: true },
    { name: 'the plan where a limit was reached', path: '/console/plan?quotaKey=pastes.create&paid=500+credits&before=2', session, ours: true },
    { name: 'a receipt', path: '/console/payments/1', session, ours: true },
    { name: 'the ledger', path: '/console/billing/ledger', session, ours: true },
    { name: 'a statement', path: `/console/statements/${new Date().toISOString().slice(0, 7)}`, session, ours: true },
    { name: 'the webhooks', path: '/console/billing/webhooks', session, ours: true },
    { name: 'a webhook', path: `/console/billing/webhooks/${webhook.id}`, session, ours: true },
    { name: 'the page to sign in as an admin', path: '/console/admin/sign-in', ours: true },
    { name: "an admin's accounts", path: '/console/admin', session: admin, ours: true },
    { name: "an admin's account", path: `/console/admin/accounts/${owner.id}`, session: admin, ours: true },
    { name: "an admin's question about a request", path: '/console/admin/requests', session: admin, ours: true },
    { name: "an admin's request", path: `/console/admin/requests?id=${request.requestId}`, session: admin, ours: true },
    { name: "an admin's form for an audit", path: '/console/admin/audits', session: admin, ours: true },
    { name: "an admin's audit", path: `/console/admin/audits/${audit}`, session: admin, ours: true },
    { name: "an admin's prices", path: '/console/admin/prices', session: admin, ours: true },
    { name: "an admin's revenue", path: '/console/admin/revenue', session: admin, ours: true },
    { name: 'the health of the partitions', path: '/console/admin/health', session: admin, ours: true },
    { name: "an admin's log", path: '/console/admin/log', session: admin, ours: true },
    { name: 'the account', path: '/console/account', session, ours: true },
    { name: 'the export', path: '/console/export', session, ours: true },
    { name: 'my pastes', path: '/console/pastes', session, ours: true },
    { name: 'the form for a paste', path: '/console/pastes/new', session, ours: true },
    { name: 'the form to change a paste', path: `/console/pastes/${code.id}`, session, ours: true },
    { name: 'the question before pastes are deleted', path: `/console/pastes/delete?ref=${code.id}&ref=${text.id}`, session, ours: true },
    { name: 'my quick pastes', path: '/console/quick', session, ours: true },
    { name: 'the form for a quick paste', path: '/console/quick/new', session, ours: true },
    { name: 'my files', path: '/console/files', session, ours: true },
    { name: 'a paste that is gone', path: '/p/AAAAAAAAAAAA', status: 404, ours: true },
    { name: 'a page that is not there', path: '/nothing', status: 404, ours: true },
    { name: 'the question for a password', path: `/p/${locked.id}`, ours: true },
    { name: 'the warning before burning', path: `/p/${burning.id}`, ours: true },
    { name: 'the landing page of an account', path: '/', session, ours: true },
    { name: 'the documentation for an account', path: '/docs/guides/first-call', session },
    { name: 'a new version of a paste', path: `/console/pastes/${code.id}?new=1`, session, ours: true },
    { name: 'a new paste for its owner', path: `/p/${text.id}?done=created`, session },
    { name: 'the question for a password, for the owner', path: `/p/${locked.id}`, session, ours: true },
    { name: 'a file for its owner', path: `/f/${bytes.id}`, session },
    { name: 'a program', path: `/p/${code.id}` },
    { name: 'the versions of a program', path: `/p/${code.id}/versions`, session },
    { name: 'the changes between versions', path: `/p/${code.id}/diff`, session },
    { name: 'the changes side by side', path: `/p/${code.id}/diff?view=split`, session },
    { name: 'a text in Markdown', path: `/p/${text.id}` },
    { name: 'a table', path: `/p/${table.id}` },
    { name: 'a quick paste', path: `/q/${quick.id}` },
    { name: 'a picture', path: `/f/${picture.id}` },
    { name: 'a PDF', path: `/f/${document.id}` },
    { name: 'a file', path: `/f/${bytes.id}` },
  ]
}
