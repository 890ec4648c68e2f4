// Statements and storage. See "Storage" and "Statements".

import { day, monthName, monthStart } from "./calendar.ts";
import { credits64, put, u64 } from "./json.ts";
import { type Book, listed, type Plan, quotaKeys } from "./prices.ts";
import { isEmpty, newPeriod } from "./accounts.ts";
import type { Account, Month, Period, State } from "./state.ts";

type Json = Record<string, unknown>;

const gigabyte = 1n << 30n;

/** Changes the stored bytes as of a time. */
export function changeStorage(s: State, a: Account, delta: number, at: number): void {
  countStorage(a, s.time);
  let change = BigInt(delta);
  if (change < -a.storageBytes) change = -a.storageBytes;
  a.storageBytes += change;
  // What was counted already is corrected: since a past time, or since a clock went back.
  const from = Math.max(at > 0 ? at : s.time, a.created);
  const start = monthStart(a.current.month);
  if (from < start && isClosed(s, a.current.month - 1)) {
    const late = Math.max(from, monthStart(a.current.month - 1));
    count(a.current, Math.floor(a.storageSince / day), change * BigInt(start - late));
    spread(a, change, start, a.storageSince);
  } else spread(a, change, from, a.storageSince);
}

/** Counts what is stored up to a time. */
export function countStorage(a: Account, until: number): void {
  if (until <= a.storageSince) return;
  spread(a, a.storageBytes, a.storageSince, until);
  a.storageSince = until;
}

/** Adds bytes from one time to another to the days of the months in the state. */
function spread(a: Account, bytes: bigint, from: number, until: number): void {
  const start = monthStart(a.current.month);
  const first = a.previous === undefined ? start : monthStart(a.previous.month);
  for (let at = Math.max(from, first); at < until; ) {
    const d = Math.floor(at / day);
    const next = Math.min(until, (d + 1) * day);
    count(at >= start ? a.current : a.previous!, d, bytes * BigInt(next - at));
    at = next;
  }
}

function count(m: Month, d: number, byteMillis: bigint): void {
  m.storage.set(d, (m.storage.get(d) ?? 0n) + byteMillis);
}

export function isClosed(s: State, month: number): boolean {
  return s.peak >= monthStart(month + 1) + day;
}

export interface StorageBill {
  sum: bigint;
  days: { day: number; integral: bigint }[];
  average: bigint;
  billed: bigint;
  cents: bigint;
}

export function billStorage(m: Month, plan: Plan): StorageBill {
  const days = [...m.storage].map(([d, integral]) => ({ day: d, integral })).filter((d) => d.integral !== 0n);
  days.sort((x, y) => x.day - y.day);
  const sum = days.reduce((n, d) => n + d.integral, 0n);
  const length = BigInt(monthStart(m.month + 1) - monthStart(m.month));
  const positive = sum > 0n ? sum : 0n;
  const over = sum - BigInt(plan.freeStorage) * length;
  const billed = over > 0n ? over : 0n;
  return {
    sum, days, average: positive / length, billed: billed / length,
    cents: (billed * BigInt(plan.storageCents)) / (gigabyte * length),
  };
}

const mask = (1n << 64n) - 1n;

function put128(into: Json, name: string, n: bigint): void {
  const high = (n >> 64n) & mask;
  const low = n & mask;
  if (high !== 0n) into[`${name}_high`] = high.toString();
  if (low !== 0n) into[`${name}_low`] = low.toString();
}

/** Usage of a month by quota key, with limits of a plan. */
export function showUsage(m: Month, plan: Plan, book: Book | undefined): Json[] {
  const lines: Json[] = [];
  for (let key = 1; key <= quotaKeys; key++) {
    if (!listed(book, key)) continue;
    const { limit } = plan.terms[key]!;
    const used = m.used[key]!;
    const line: Json = { quota_key: key };
    u64(line, "used", used);
    u64(line, "limit", limit);
    u64(line, "remaining", limit < 0 ? -1 : Math.max(0, limit - used));
    u64(line, "overage", m.overage[key]!);
    u64(line, "spent_micros", m.spent[key]!);
    u64(line, "waived", m.waived[key]!);
    u64(line, "refunded_micros", m.refunded[key]!);
    lines.push(line);
  }
  return lines;
}

export function showStatement(s: State, a: Account, m: Month): Json {
  const tier = m === a.current ? a.tier : m.tier;
  const book = s.books[bookIndexAt(s, monthStart(m.month + 1) - 1)];
  const plan = planOf(book, tier);
  const bill = billStorage(m, plan);
  const periods = showPeriods(s, a, m);
  const j: Json = { period: monthName(m.month), usage: showUsage(m, plan, book), tier, storage_by_day: true };
  put(j, "closed", m !== a.current && isClosed(s, m.month));
  u64(j, "spent_micros", m.spentSum);
  u64(j, "storage_average_bytes", bill.average);
  u64(j, "storage_free_bytes", plan.freeStorage);
  u64(j, "storage_billed_bytes", bill.billed);
  u64(j, "storage_overage_cents", bill.cents);
  put128(j, "storage_byte_ms", bill.sum);
  const days = bill.days.filter((d) => d.day * day < a.storageSince); // A correction may be as of the very start of a day.
  if (days.length > 0) {
    j["storage_days"] = days.map((d) => {
      const line: Json = { day: d.day };
      put128(line, "byte_ms", d.integral);
      return line;
    });
  }
  j["periods"] = periods.shown;
  j["credits"] = showCredits(a, m);
  u64(j, "storage_cents_per_gb_month", plan.storageCents);
  u64(j, "fees_cents", periods.fees);
  put(j, "plan", s.book?.planName(tier) ?? "");
  return j;
}

/** The index of the book in force at a time, or of the oldest one. */
export function bookIndexAt(s: State, ms: number): number {
  let at = s.books.length - 1;
  while (at > 0 && s.books[at]!.from > ms) at--;
  return at;
}

const noTerms = { limit: 0, price: 0, overage: false };
const emptyPlan: Plan = {
  name: "", terms: Array.from({ length: quotaKeys + 1 }, () => noTerms), fee: 0, freeStorage: 0, storageCents: 0,
};

export function planOf(book: Book | undefined, tier: number): Plan {
  return book?.plan(tier) ?? emptyPlan;
}

/** A period of a statement. */
interface Shown extends Omit<Period, "bookIndex"> {
  start: number;
  book: Book;
}

/** Divides a month at its price books. */
class Divided {
  readonly list: Shown[] = [];

  constructor(private readonly books: Book[], private start: number, public at: number) {}

  /** Ends a period. It continues the previous one if that has the same tier, limits, prices and fee. */
  cut(p: Period, tier: number, until: number): void {
    const end = Math.max(until, this.start);
    if (end === this.start && isEmpty(p)) return;
    const shown = { ...p, start: this.start, end, tier, book: this.books[this.at]! };
    const last = this.list[this.list.length - 1];
    if (last === undefined || !equalPeriods(last, shown)) this.list.push(shown);
    else {
      const { used, paid, amount } = last;
      Object.assign(last, { end, used: add(used, p.used), paid: add(paid, p.paid), amount: add(amount, p.amount) });
    }
    this.start = end;
  }

  /** Ends the periods of books that were replaced before anything happened to the account. */
  skip(to: number, tier: number, end: number): void {
    for (; this.at < to; this.at++) this.cut(newPeriod(), tier, Math.min(this.books[this.at + 1]!.from, end));
  }
}

/** A month's periods as statements show them. Once the time went back, a book may come into force in a month that has ended for the account. */
function dividedPeriods(s: State, a: Account, m: Month): Shown[] {
  const { books } = s;
  if (books.length === 0) return [];
  const monthEnd = monthStart(m.month + 1);
  let open = m.periods[m.periods.length - 1]!;
  const [tier, bookIndex] = m === a.current ? [a.tier, a.bookIndex] : [m.tier, open.bookIndex];
  const ended = m.periods.slice(0, -1);
  const divided = new Divided(books, m.start, Math.min(bookIndexAt(s, m.start), ended[0]?.bookIndex ?? bookIndex));
  for (const p of ended) {
    divided.skip(p.bookIndex, p.tier, p.end);
    divided.cut(p, p.tier, p.end);
  }
  divided.skip(bookIndex, tier, monthEnd);
  for (let next = books[divided.at + 1]; next !== undefined && next.from < monthEnd; next = books[divided.at + 1]) {
    divided.cut(open, tier, next.from);
    open = newPeriod();
    divided.at++;
  }
  divided.cut(open, tier, monthEnd);
  return divided.list;
}

function add(x: number[], y: number[]): number[] {
  return x.map((n, i) => n + y[i]!);
}

function equalPeriods(x: Shown, y: Shown): boolean {
  if (x.tier !== y.tier) return false;
  if (x.book === y.book) return true;
  const [p, q] = [planOf(x.book, x.tier), planOf(y.book, y.tier)];
  return p.fee === q.fee && p.terms.every((t, i) => {
    const u = q.terms[i]!;
    return t.limit === u.limit && t.price === u.price && t.overage === u.overage;
  });
}

function showPeriods(s: State, a: Account, m: Month): { shown: Json[]; fees: bigint } {
  const monthSeconds = BigInt((monthStart(m.month + 1) - monthStart(m.month)) / 1000);
  let fees = 0n;
  const shown = dividedPeriods(s, a, m).map((p) => {
    const plan = planOf(p.book, p.tier);
    const until = (ms: number): number => Math.floor((a.erased > 0 ? Math.min(ms, a.erased) : ms) / 1000);
    const seconds = Math.max(0, until(p.end) - until(p.start));
    const fee = (BigInt(plan.fee) * BigInt(seconds)) / monthSeconds;
    fees += fee;
    const j: Json = { start_ms: String(p.start), end_ms: String(p.end), tier: p.tier, lines: showLines(p, plan) };
    u64(j, "fee_cents", plan.fee);
    u64(j, "fee_seconds", seconds);
    u64(j, "fee_amount_cents", fee);
    put(j, "plan", s.book?.planName(p.tier) ?? "");
    return j;
  });
  return { shown, fees };
}

function showLines(p: Shown, plan: Plan): Json[] {
  const lines: Json[] = [];
  for (let key = 1; key <= quotaKeys; key++) {
    if (!listed(p.book, key)) continue;
    const t = plan.terms[key]!;
    const line: Json = { quota_key: key };
    u64(line, "limit", t.limit);
    put(line, "overage", t.overage);
    u64(line, "price_micros", t.price);
    u64(line, "used", p.used[key]!);
    u64(line, "paid", p.paid[key]!);
    u64(line, "amount_micros", p.amount[key]!);
    lines.push(line);
  }
  return lines;
}

function change(m: Month): number {
  return m.granted + m.refundedSum + m.adjusted - m.expired - m.charged;
}

function showCredits(a: Account, m: Month): Json {
  // From the present balance backwards: the ledger has no balance of a month's start.
  let closing = a.settled;
  if (m !== a.current) closing -= change(a.current);
  if (m !== a.current && m !== a.previous && a.previous !== undefined) closing -= change(a.previous);
  return credits64({
    opening_micros: closing - change(m), granted_micros: m.granted, expired_micros: m.expired, adjusted_micros: m.adjusted,
    charged_micros: m.charged, refunded_micros: m.refundedSum, pending_micros: m.spentSum - m.charged + m.refundedSum,
    closing_micros: closing,
  });
}
