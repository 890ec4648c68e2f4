// Compiled as a user's program, and never run: package.test.mjs.
import { ApiError, List, parseCredits, Quire, QuotaExhaustedError, verifyWebhook, type CreatedPaste, type NewPaste, type PasteHead, type Result } from 'quire-client'
import { verifyWebhook as alone } from 'quire-client/webhook'

const quire = new Quire({ apiKey: 'qk_x', baseUrl: new URL('https://paste.example'), retries: 2 })
const signal: AbortSignal = new AbortController().signal

const paste: NewPaste = { content: 'x', title: null, visibility: 'private', expiresIn: '1h', expiresAt: new Date(), tags: ['a'] }
const made: Result<CreatedPaste> = await quire.pastes.create(paste, { signal, timeoutMs: 1000, idempotencyKey: 'x' })
const texts: string[] = [made.id, made.url, made.createdAt, made.requestId, made.cost, made.balance ?? '']
const remaining: number = made.remaining
const list: List<PasteHead> = quire.pastes.list({ order: 'asc', visibility: 'public', limit: 10 })
for await (const head of list) texts.push(head.title)
for await (const page of list.pages()) texts.push(page.nextCursor ?? '', page.requestId)
for await (const entry of quire.account.ledger({ type: 'charge' })) texts.push(formatted(parseCredits(entry.amount)))

const file = await quire.files.upload({ name: 'x', content: new Uint8Array([1]) }, { onProgress: (done: number, total: number | undefined) => texts.push(`${done}/${total}`) })
const download = await quire.files.download(file.id)
const body: ReadableStream<Uint8Array> = download.body
const { usage } = await quire.account.usage()
const used: number | undefined = usage['pastes.create']?.used
const event = await verifyWebhook(new Headers(), 'x', ['whsec_a', 'whsec_b'], { toleranceSeconds: 60 })
texts.push(event.type, event.timestamp)
const { session } = await Quire.logIn({ email: 'a@example.com', password: 'x' })

try {
  await quire.pastes.delete(made.id, { ifVersion: 1 })
} catch (error) {
  if (error instanceof QuotaExhaustedError) texts.push(error.resetAt?.toISOString() ?? '', error.quotaKey ?? '')
  else if (error instanceof ApiError && error.code === 'not_owner') texts.push(error.reason)
}

function formatted(micros: bigint): string {
  return String(micros)
}

// @ts-expect-error content is needed
quire.pastes.create({ title: 'x' })
// @ts-expect-error a field that does not exist
quire.pastes.create({ content: 'x', contnet: 'x' })
// @ts-expect-error content can't be reset
quire.pastes.update('x', { content: null })
// @ts-expect-error none of the three
quire.pastes.create({ content: 'x', visibility: 'secret' })
// @ts-expect-error a page has no content
list.page().then(({ items: [head] }) => head!.content)
// @ts-expect-error an id is a text
quire.files.get(1)
// @ts-expect-error results are not strings of credits that can be added up as numbers
made.cost * 2

export { alone, body, event, remaining, session, used }
