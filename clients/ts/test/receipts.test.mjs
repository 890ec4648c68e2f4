// What needs no server: chains of entries, served by a fetch.
import assert from 'node:assert/strict'
import { createHash, randomInt } from 'node:crypto'
import { test } from 'node:test'
import { EntriesNotKeptError, NotFoundError, Quire, ReceiptError } from 'quire-client'

/** An entry as docs/journal.md describes it. */
function entry(n) {
  const data = Buffer.alloc(43)
  data[0] = 2
  data.writeBigInt64BE(BigInt(1_764_300_000_000 + n), 1)
  data.writeUInt32BE(202611, 9)
  data[13] = 8
  data[14] = 2
  data.writeBigInt64BE(BigInt(500 + n), 15)
  data.writeUInt32BE(3, 23)
  Buffer.from('01a1fff983d3743f9a6d5290a1beb6', 'hex').copy(data, 27)
  data[42] = n
  return data
}

/** A chain of 20 entries, and a client whose service has it. `forge` changes a page. */
function chain(t) {
  const entries = Array.from({ length: 20 }, (_, i) => entry(i + 1))
  const most = randomInt(1, 8)
  t.diagnostic(`entries of a page: ${most}`)
  const served = { entries, kept: 1, code: 'not_found', forge: () => {} }
  const at = (n) => {
    let hash = createHash('sha256').update('a chain').digest()
    for (const data of served.entries.slice(0, n)) hash = createHash('sha256').update(hash).update(data).digest()
    return `${n}.${hash.toString('hex')}`
  }
  const refused = (status, code, field) => Response.json({ success: false, code, field, reason: 'why', requestId: 'r', docs: 'd' }, { status })
  const fetch = async (address) => {
    const after = Number(new URL(address).searchParams.get('after'))
    if (after > served.entries.length) return refused(400, 'invalid_field', 'after')
    if (after + 1 < served.kept) return refused(404, served.code)
    const page = { success: true, remaining: -1, after: at(after), newest: at(served.entries.length), entries: [] }
    for (let n = after + 1; n <= Math.min(after + most, served.entries.length); n++) {
      page.entries.push({ number: n, receipt: at(n), entry: served.entries[n - 1].toString('hex'), kind: 'begins' })
    }
    served.forge(page)
    return Response.json(page)
  }
  return { served, at, account: new Quire({ fetch, apiKey: 'key', retries: 0 }).account }
}

test('entries are verified from a kept receipt on, and decoded from their bytes', async (t) => {
  const { account, at } = chain(t)
  for (const from of [1, 5, 19, 20]) {
    const { entries, newest } = await account.verifyReceipts(at(from), [at(20), at(Math.max(from, 12)), at(from)])
    assert.equal(newest, at(20))
    assert.deepEqual(entries, Array.from({ length: 20 - from }, (_, i) => i + from + 1).map((n) => ({
      number: n, receipt: at(n), entry: entry(n).toString('hex'), kind: 'admitted', time: new Date(1_764_300_000_000 + n).toISOString(), month: '2026-11',
      quotaKey: 'pasteLite.create', charge: 'credits', type: null, amount: `0.000${500 + n}`, key: 'k3',
      requestId: `01a1fff9-83d3-743f-9a6d-5290a1beb6${n.toString(16).padStart(2, '0')}`,
    })))
  }
})

test('what does not fit is named', async (t) => {
  const flip = (data) => { const copy = Buffer.from(data); copy[15 + randomInt(8)] ^= 1; return copy }
  const on = (n, change) => (page) => page.entries.filter((e) => e.number === n).forEach(change)
  const zeros = '0'.repeat(64)
  const faults = {
    edited: [(c) => { c.entries[6] = flip(c.entries[6]) }, 10],
    'edited after the first newer receipt': [(c) => { c.entries[10] = flip(c.entries[10]) }, 15],
    'edited before the kept one': [(c) => { c.entries[2] = flip(c.entries[2]) }, 5],
    'left out': [(c) => c.entries.splice(7, 1), 10],
    doubled: [(c) => c.entries.splice(8, 0, c.entries[7]), 10],
    swapped: [(c) => { [c.entries[6], c.entries[7]] = [c.entries[7], c.entries[6]] }, 10],
    'ends before the newest receipt': [(c) => c.entries.splice(12), 13],
    'ends before the kept receipt': [(c) => c.entries.splice(4), 5],
    'edited on a page': [(c) => { c.forge = on(7, (e) => { e.entry = entry(8).toString('hex') }) }, 7],
    'too short': [(c) => { c.forge = on(7, (e) => { e.entry = '02' }) }, 7],
    'another receipt': [(c) => { c.forge = on(7, (e) => { e.receipt = '7.00' }) }, 7],
    'left out on a page': [(c) => { c.forge = (page) => { page.entries = page.entries.filter((e) => e.number !== 7) } }, 7],
    'another newest receipt': [(c) => { c.forge = (page) => { page.newest = `20.${zeros}` } }, 20],
    'an older newest receipt': [(c) => { c.forge = (page) => { page.newest = `3.${zeros}` } }, 3],
  }
  for (const [name, [tamper, number]] of Object.entries(faults)) {
    const { account, at, served } = chain(t)
    const [kept, newer] = [at(5), [at(15), at(10)]]
    tamper(served)
    await assert.rejects(account.verifyReceipts(kept, newer), (error) => error instanceof ReceiptError && error.number === number, name)
  }
})

test('entries that are gone are not verified, and neither is what is not a receipt', async (t) => {
  const { account, at, served } = chain(t)
  served.kept = 5
  assert.equal((await account.verifyReceipts(at(4))).entries.length, 16)
  await assert.rejects(account.verifyReceipts(at(3)), (error) => error instanceof EntriesNotKeptError && error.number === 4)
  served.code = '' // as a proxy answers that knows no such page
  await assert.rejects(account.verifyReceipts(at(3)), (error) => error instanceof NotFoundError)
  for (const bad of ['', '6', '6.', '6.00', `0${at(6)}`, `-${at(6)}`, `${at(6)}0`, `0.${at(6).slice(2)}`]) {
    await assert.rejects(account.verifyReceipts(bad), TypeError, bad)
    await assert.rejects(account.verifyReceipts(at(4), [bad]), TypeError, bad)
  }
  await assert.rejects(account.verifyReceipts(at(6), [at(5)]), TypeError)
  await assert.rejects(account.verifyReceipts(at(6), [`6.${'0'.repeat(64)}`]), ReceiptError)
})

test('a client has its newest receipt, of failures too, and nothing that is none', async () => {
  const [eight, nine, ten] = [8, 9, 10].map((n) => `${n}.${'ab'.repeat(32)}`)
  const receipts = [[null, 200], [nine, 200], [eight, 200], [ten, 404], ['11.ab', 200], [`12 ${nine}`, 200], [null, 200]]
  const seen = []
  const fetch = async () => {
    const [receipt, status] = receipts[seen.length]
    return Response.json({ success: true, remaining: -1, code: 'not_found', reason: 'why' }, { status, headers: receipt ? { 'x-receipt': receipt } : {} })
  }
  const quire = new Quire({ fetch, apiKey: 'key', retries: 0 })
  while (seen.length < receipts.length) {
    await quire.account.usage().catch(() => {})
    seen.push(quire.newestReceipt)
  }
  assert.deepEqual(seen, [undefined, nine, nine, ten, ten, ten, ten])
})
