// Nothing that a stranger wrote runs, asks another host or becomes a part of our pages. The harness fails a test on a
// dialog, a violation of the policy and a request to another host; foreign() finds markup that only waits for a click.
import assert from 'node:assert/strict'
import { suite } from '../harness.mjs'
import { contentTypes, csv, disguises, fileNames, payloads } from '../payloads.mjs'

const site = await suite()
const owner = await site.api().user('max')
const session = await owner.session()

// theme is the inline script of every page, which the policy allows by its hash.
const [, theme] = /<script>(.*?)<\/script>/s.exec(await (await fetch(new URL('/docs', site.quire.urls[0]))).text())

// foreign lists what is in a page and can't be ours. It runs in the page.
function foreign(theme) {
  const found = []
  if ('__xss' in globalThis) found.push('a payload ran')
  if (document.body?.tagName !== 'BODY') found.push('document.body is another element')
  for (const element of document.querySelectorAll('*')) {
    const name = element.localName
    const tag = element.cloneNode().outerHTML.slice(0, 200)
    for (const attribute of element.attributes) {
      if (/^on|^hx-/i.test(attribute.name)) found.push(`${attribute.name} in ${tag}`)
      if (attribute.name === 'style' && /url|expression/i.test(attribute.value)) found.push(`style in ${tag}`)
      const loads = ['src', 'srcset', 'poster', 'data', 'action', 'formaction', 'background', 'ping', 'manifest']
      const address = loads.includes(attribute.localName) || attribute.localName === 'href' && !['a', 'area'].includes(name)
      if (address && !sameHost(attribute.value)) found.push(`${attribute.name} in ${tag}`)
      if (attribute.localName === 'href' && !/^(https?|mailto):$/.test(protocol(attribute.value))) found.push(`link ${tag}`)
    }
    const data = element.type === 'application/json' || element.type === 'application/ld+json'
    const asset = /^\/assets\//.test(element.getAttribute('src') ?? '')
    const first = element.textContent === theme && element.parentNode === document.head
    if (name === 'script' && !data && !asset && !element.nonce && !first) found.push(`script ${tag}`)
    const viewer = /^\/f\/\w+\/view$/.test(element.getAttribute('src') ?? '') // of a PDF, whose answer has the sandbox
    if (name === 'iframe' && !viewer && !element.hasAttribute('sandbox')) found.push(`frame without a sandbox ${tag}`)
    if (['base', 'object', 'embed', 'portal', 'applet', 'marquee', 'frameset'].includes(name)) found.push(tag)
    if (name === 'meta' && element.httpEquiv) found.push(tag)
  }
  return found

  function protocol(address) {
    try {
      return new URL(address, location.href).protocol
    } catch {
      return 'http:' // a browser does not follow it at all
    }
  }
  function sameHost(address) {
    try {
      const url = new URL(address, location.href)
      return url.origin === location.origin || url.protocol === 'data:' && name !== 'script'
    } catch {
      return true
    }
  }
}

async function harmless(page) {
  await page.evaluate(() => new Promise((done) => setTimeout(done))) // handlers of errors run before
  assert.deepEqual(await page.evaluate(foreign, theme), [])
}

// line is what of a payload may be in a title, a tag or a name: one line without control characters.
const line = (payload, length) => [...payload.replace(/[\p{Cc}]/gu, ' ')].slice(0, length).join('')

// sample is each nth payload, for places that are escaped as others are.
const sample = (n) => payloads.filter((_, i) => i % n === 0)

const shown = (page, selector) => page.locator(selector).evaluateAll((all) => all.map((e) => e.textContent).join('\n'))

site.test('a payload in a title, a text and its tags is shown as it was written', async ({ open, each }) => {
  await each(payloads, async (payload, page) => {
    const { id } = await owner.api.paste({
      title: line(payload, 200), content: payload, tags: [line(payload, 32)], visibility: 'public',
    })
    await open(`/p/${id}`, { page })
    await harmless(page)
    if (Object.values(disguises).includes(payload)) return
    assert.ok((await shown(page, 'h1')).includes(line(payload, 200).trim() || 'Untitled'), 'the title is not in the heading')
    assert.ok((await shown(page, 'main')).includes(payload), 'the text is not in the page')
  })
})

site.test('a payload in a quick paste without a key is shown as it was written', async ({ open, each }) => {
  await each(sample(8), async (payload, page) => {
    const { id } = await site.api().quickPaste({ title: line(payload, 200), content: payload })
    await open(`/q/${id}`, { page })
    await harmless(page)
  })
})

site.test('a payload in Markdown does nothing', async ({ open, each }) => {
  await each(payloads, async (payload, page) => {
    const { id } = await owner.api.paste({ content: payload, language: 'markdown' })
    await open(`/p/${id}`, { page })
    await harmless(page)
  })
})

site.test('payloads in a highlighted text or a table do nothing', async ({ open, each }) => {
  const languages = ['csv', 'html', 'xml', 'javascript', 'css', 'diff', 'go', 'json', 'yaml', 'bash', 'php', 'plaintext']
  const texts = [payloads.join('\n'), ...csv]
  await each(languages.flatMap((language) => texts.map((content) => ({ language, content }))), async (paste, page) => {
    const { id } = await owner.api.paste(paste)
    await open(`/p/${id}`, { page })
    await harmless(page)
  })
})

site.test('payloads in the changes and titles of versions do nothing', { session }, async ({ open, each }) => {
  const half = payloads.length >> 1
  await each(payloads.slice(0, half).filter((_, i) => i % 2 === 0), async (payload, page) => {
    const other = payloads[payloads.indexOf(payload) + half]
    const { id } = await owner.api.paste({ title: line(payload, 200), content: `${payload}\nthe same line\n`, language: 'html' })
    await owner.api.update(id, { title: line(other, 200), content: `${other}\nthe same line\n`, language: 'markdown' })
    for (const path of [`/p/${id}/versions`, `/p/${id}/diff`, `/p/${id}/diff?view=split`]) {
      await open(path, { page })
      await harmless(page)
    }
  })
})

site.test('a language is not markup', async () => {
  for (const payload of payloads) {
    const answer = await owner.api.send('POST', '/api/dev/pastes/create', { json: { content: 'x', language: payload } })
    assert.equal(answer.status, 400, payload)
  }
})

site.test('a payload behind a password and before a burning click does nothing', async ({ open, each }) => {
  await each(sample(12), async (payload, page) => {
    const { id } = await owner.api.paste({ title: line(payload, 200), content: payload, password: line(payload, 128), burnAfterRead: true })
    await open(`/p/${id}`, { page })
    await harmless(page)
    assert.ok(!(await page.content()).includes('__xss'), 'the page says more than that there is a paste')
    await page.getByLabel('Password').fill(line(payload, 128))
    await page.getByRole('button', { name: 'Show' }).click()
    await page.getByText('This paste is now deleted').waitFor()
    await page.waitForLoadState()
    await harmless(page)
  })
})

site.test('a payload in the name and the type of a file does nothing', async ({ open, each }) => {
  const files = [
    ...sample(3).map((payload) => [`${line(payload, 200).replace(/[/\\]/g, '∕')}.txt`, 'text/plain']),
    ...fileNames.map((name) => [name.replace(/[/\\]/g, '∕'), 'text/plain']),
    ...contentTypes.map((type) => ['page.html', type]),
  ]
  await each(files, async ([name, type], page) => {
    const { id } = await owner.api.call('POST', `/api/dev/files/upload?name=${encodeURIComponent(name)}`, {
      body: '<script>__xss=1</script>', headers: { 'content-type': type },
    })
    await open(`/f/${id}`, { page })
    await harmless(page)
    const raw = await site.api().send('GET', `/f/${id}/raw`)
    await raw.arrayBuffer()
    assert.equal(raw.headers.get('x-content-type-options'), 'nosniff')
    assert.match(raw.headers.get('content-security-policy'), /(^|; )sandbox(;|$)/)
    assert.equal(raw.headers.get('set-cookie'), null)
  })
})

site.test('a payload in an address does nothing', async ({ open, each }) => {
  const addresses = sample(2).flatMap((payload, i) => {
    const part = encodeURIComponent(payload).slice(0, 2000).replace(/%.?$/, '')
    return [[`/p/${part}`, `/f/${part}`, `/nothing?q=${part}`, `/docs/${part}`][i % 4]]
  })
  await each(addresses, async (address, page) => {
    await open(address, { page, status: 404 })
    await harmless(page)
  })
})
