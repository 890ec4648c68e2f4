import { formatCredits } from './credits.js'
import { QuireError } from './errors.js'
import { Sha256 } from './sha256.js'
import type { ChainEntry, Receipts } from './types.js'

/**
 * The entries that the service shows do not lead from the kept receipt to a newer one. At least one entry after `after`, up to `number`, was
 * edited, left out, added or moved since.
 */
export class ReceiptError extends QuireError {
  override name = 'ReceiptError'
  /** Number of the last receipt that fits. */
  readonly after: number
  /** Number of the first entry, or kept receipt, that does not fit. */
  readonly number: number

  /** @internal */
  constructor(after: number, number: number, reason: string) {
    super(`entry ${number} does not fit the receipts: ${reason}`)
    this.after = after
    this.number = number
  }
}

/** The service no longer has the entries right after the kept receipt. They stay in the billing journal. `cause` is what the service said. */
export class EntriesNotKeptError extends QuireError {
  override name = 'EntriesNotKeptError'
  /** Number of the first entry that is missing. */
  readonly number: number

  /** @internal */
  constructor(number: number, cause: unknown) {
    super(`entry ${number} can no longer be checked`, { cause })
    this.number = number
  }
}

/** The entries between a kept receipt and the newest one. */
export interface VerifiedReceipts {
  /** In order, decoded from their bytes. */
  readonly entries: ChainEntry[]
  /** The receipt with the last of them. */
  readonly newest: string
}

interface Receipt {
  readonly number: number
  readonly hash: string
}

/** A receipt: its number, a dot and its hash. */
export const receiptForm = /^([1-9][0-9]{0,15})\.([0-9a-f]{64})$/

/** Parses a receipt. @throws TypeError if it is not one */
export function parseReceipt(text: string): Receipt {
  const [, number, hash] = receiptForm.exec(text) ?? []
  if (!number || !hash || !Number.isSafeInteger(Number(number))) {
    throw new TypeError(`${JSON.stringify(text)} is not a receipt: it takes a number, a dot and 64 hexadecimal digits`)
  }
  return { number: Number(number), hash }
}

/** Follows a chain of entries. */
export class Verification {
  readonly entries: ChainEntry[] = []
  readonly #known = new Map<number, string>()
  #number: number
  #hash: string
  #fits: number
  #last: number

  /** @throws TypeError for what is not a receipt, or is older than the kept one */
  constructor(kept: string, newer: readonly string[]) {
    const from = parseReceipt(kept)
    this.#number = this.#fits = this.#last = from.number
    this.#hash = from.hash
    for (const { number, hash } of [from, ...newer.map(parseReceipt)]) {
      if (number < from.number) throw new TypeError(`receipt ${number} is older than the kept one, ${from.number}`)
      if ((this.#known.get(number) ?? hash) !== hash) throw new ReceiptError(from.number, number, 'there are two receipts with this number')
      this.#known.set(number, hash)
      this.#last = Math.max(this.#last, number)
    }
  }

  /** Number of the last entry that was followed. */
  get number(): number {
    return this.#number
  }

  get #at(): string {
    return `${this.#number}.${this.#hash}`
  }

  fault(number: number, reason: string): ReceiptError {
    return new ReceiptError(this.#fits, number, reason)
  }

  /** Follows the entries of a page, and returns whether they lead to the newest receipt. */
  add(page: Receipts): boolean {
    if (page.after !== this.#at) throw this.fault(this.#number, `the service has another receipt with this number, ${page.after}`)
    for (const entry of page.entries) this.#follow(entry)
    let newest: Receipt
    try {
      newest = parseReceipt(page.newest ?? '')
    } catch {
      throw this.fault(this.#number + 1, `the service's newest receipt is ${page.newest}`)
    }
    if (newest.number > this.#number) {
      if (page.entries.length) return false
      throw this.fault(this.#number + 1, 'the service leaves it out')
    }
    if (page.newest !== this.#at) throw this.fault(newest.number, `the service's newest receipt is another one, ${page.newest}`)
    if (this.#last > this.#number) throw this.fault(this.#number + 1, `the service has no such entry, but you have receipt ${this.#last}`)
    return true
  }

  #follow(entry: ChainEntry): void {
    const number = this.#number + 1
    if (entry.number !== number) throw this.fault(number, `the service has entry ${entry.number} in its place`)
    if (!/^[0-9a-f]{86}$/.test(entry.entry)) throw this.fault(number, 'it does not have 43 bytes')
    const data = bytesOf(entry.entry)
    const sha = new Sha256()
    sha.update(bytesOf(this.#hash))
    sha.update(data)
    this.#number = number
    this.#hash = sha.hex()
    const known = this.#known.get(number)
    if (known !== undefined && known !== this.#hash) throw this.fault(number, 'the entries do not lead to the receipt that you kept')
    if (entry.receipt !== this.#at) throw this.fault(number, `it does not lead to its receipt, ${entry.receipt}`)
    if (known !== undefined) this.#fits = number
    this.entries.push(decodeEntry(number, this.#at, data))
  }
}

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (digits) => parseInt(digits, 16))
}

const kinds = ['begins', 'admitted', 'undone', 'free', 'late', 'ledger']
const types = ['grant', 'adjustment', 'charge', 'expiry', 'refund', 'payment', 'reversal']
const charges: Record<number, string> = { 0: 'none', 1: 'quota', 2: 'credits', 255: 'waived' }
const quotaKeys = [
  'pastes.create', 'pastes.get', 'pastes.update', 'pastes.delete', 'files.upload', 'files.get', 'files.delete',
  'pasteLite.create', 'pasteLite.get', 'pasteLite.update', 'pasteLite.delete', 'pasteLite.list', 'files.list',
]

/** Reads an entry as docs/journal.md (Receipts) describes it. */
function decodeEntry(number: number, receipt: string, data: Uint8Array): ChainEntry {
  const view = new DataView(data.buffer, data.byteOffset, data.length)
  const kind = view.getUint8(0)
  const ledger = kind === kinds.length
  const request = kind > 1 && kind < kinds.length
  const month = String(view.getUint32(9)).padStart(6, '0')
  const key = view.getUint32(23)
  const at = new Date(Number(view.getBigInt64(1)))
  const code = view.getUint8(14)
  const id = [...data.subarray(27)].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return {
    number, receipt,
    entry: [...data].map((byte) => byte.toString(16).padStart(2, '0')).join(''),
    kind: word(kinds[kind - 1], kind),
    time: Number.isNaN(at.getTime()) ? '' : at.toISOString(),
    month: `${month.slice(0, -2)}-${month.slice(-2)}`,
    quotaKey: view.getUint8(13) ? word(quotaKeys[view.getUint8(13) - 1], view.getUint8(13)) : null,
    charge: request ? word(charges[code], code) : null,
    type: ledger ? word(types[code - 1], code) : null,
    amount: formatCredits(view.getBigInt64(15)),
    key: request ? key ? `k${key}` : 'default' : null,
    requestId: /[1-9a-f]/.test(id) ? id.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-') : null,
  }
}

/** The word for a number, which a newer service may have more of. */
function word(known: string | undefined, number: number): string {
  return known ?? `unknown (${number})`
}
