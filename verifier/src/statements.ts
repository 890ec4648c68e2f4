// Statements and storage. See "Storage" and "Statements".

import { day, monthName, monthStart } from "./calendar.ts";
import { credits64, put, u64 } from "./json.ts";
import { type Book, type Plan, quotaKeys } from "./prices.ts";
import type { Account, Month, Period, State } from "./state.ts";

type Json = Record<string, unknown>;

const gigabyte = 1n << 30n;

/** Changes the stored bytes as of a time. */
export function changeStorage(s: State, a: Account, delta: number, at: number): void {
  countStorage(s, a, s.time);
  let change = BigInt(delta);
  if (change < -a.storageBytes) change = -a.storageBytes;
  a.storageBytes += change;
  // What was counted already is corrected: since a past time, or since a clock went back.
  const from = at > 0 && at < s.time ? at : s.time;
  if (from < a.storageSince) spread(s, a, change, Math.max(from, a.created), a.storageSince);
}

/** Counts what is stored up to a time. */
export function countStorage(s: State, a: Account, until: number): void {
  if (until <= a.storageSince) return;
  spread(s, a, a.storageBytes, a.storageSince, until);
  a.storageSince = until;
}

/** Adds bytes from one time to another to the days of the months in the state. */
function spread(s: State, a: Account, bytes: bigint, from: number, until: number): void {
  if (bytes === 0n) return;
  const start = monthStart(a.current.month);
  const first = a.previous === undefined ? start : monthStart(a.previous.month);
  for (let at = Math.max(from, first); at < until; ) {
    const d = Math.floor(at / day);
    const next = Math.min(until, (d + 1) * day);
    const part = bytes * BigInt(next - at);
    const m = at >= start ? a.current : a.previous!;
    if (m !== a.current && isClosed(s, m.month) && from < start && until > start) a.current.storage.carried += part;
    else m.storage.days.set(d, (m.storage.days.get(d) ?? 0n) + part);
    at = next;
  }
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
  const days = [...m.storage.days].map(([d, integral]) => ({ day: d, integral })).filter((d) => d.integral !== 0n);
  days.sort((x, y) => x.day - y.day);
  const sum = days.reduce((n, d) => n + d.integral, m.storage.carried);
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
export function showUsage(m: Month, plan: Plan): Json[] {
  const lines: Json[] = [];
  for (let key = 1; key <= quotaKeys; key++) {
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
  const isCurrent = m === a.current;
  const book = isCurrent ? s.book : m.book;
  const tier = isCurrent ? a.tier : m.tier;
  const plan = planOf(book, tier);
  const bill = billStorage(m, plan);
  const periods = showPeriods(a, m);
  const j: Json = { period: monthName(m.month), usage: showUsage(m, plan), tier, storage_by_day: true };
  put(j, "closed", isClosed(s, m.month));
  u64(j, "spent_micros", m.spentSum);
  u64(j, "storage_average_bytes", bill.average);
  u64(j, "storage_free_bytes", plan.freeStorage);
  u64(j, "storage_billed_bytes", bill.billed);
  u64(j, "storage_overage_cents", bill.cents);
  put128(j, "storage_byte_ms", bill.sum);
  if (bill.days.length > 0) {
    j["storage_days"] = bill.days.map((d) => {
      const line: Json = { day: d.day };
      put128(line, "byte_ms", d.integral);
      return line;
    });
  }
  j["periods"] = periods.shown;
  j["credits"] = showCredits(a, m);
  u64(j, "storage_cents_per_gb_month", plan.storageCents);
  u64(j, "fees_cents", periods.fees);
  put(j, "plan", book?.planName(tier) ?? "");
  return j;
}

const noTerms = { limit: 0, price: 0, overage: false };
const emptyPlan: Plan = {
  name: "", terms: Array.from({ length: quotaKeys + 1 }, () => noTerms), fee: 0, freeStorage: 0, storageCents: 0,
};

export function planOf(book: Book | undefined, tier: number): Plan {
  return book?.plan(tier) ?? emptyPlan;
}

/** A month's periods as statements show them: merged, and without empty ones. */
function mergedPeriods(m: Month): Period[] {
  const end = monthStart(m.month + 1);
  const merged: Period[] = [];
  for (const [i, p] of m.periods.entries()) {
    const ended = i === m.periods.length - 1 ? Math.max(end, p.start) : p.end;
    if (ended === p.start && p.used.every((n) => n === 0)) continue;
    const last = merged[merged.length - 1];
    if (last !== undefined && equalPeriods(last, p)) {
      merged[merged.length - 1] = {
        ...last, end: ended, used: add(last.used, p.used), paid: add(last.paid, p.paid), amount: add(last.amount, p.amount),
      };
    } else merged.push({ ...p, end: ended });
  }
  return merged;
}

function add(x: number[], y: number[]): number[] {
  return x.map((n, i) => n + y[i]!);
}

function equalPeriods(x: Period, y: Period): boolean {
  if (x.tier !== y.tier) return false;
  if (x.book === y.book) return true;
  const [p, q] = [planOf(x.book, x.tier), planOf(y.book, y.tier)];
  return p.fee === q.fee && x.book?.keptName(x.tier) === y.book?.keptName(y.tier) && p.terms.every((t, i) => {
    const u = q.terms[i]!;
    return t.limit === u.limit && t.price === u.price && t.overage === u.overage;
  });
}

function showPeriods(a: Account, m: Month): { shown: Json[]; fees: bigint } {
  const monthSeconds = BigInt((monthStart(m.month + 1) - monthStart(m.month)) / 1000);
  let fees = 0n;
  const shown = mergedPeriods(m).map((p) => {
    const plan = planOf(p.book, p.tier);
    const until = (ms: number): number => Math.floor((a.erased > 0 ? Math.min(ms, a.erased) : ms) / 1000);
    const seconds = Math.max(0, until(p.end) - until(p.start));
    const fee = (BigInt(plan.fee) * BigInt(seconds)) / monthSeconds;
    fees += fee;
    const j: Json = { start_ms: String(p.start), end_ms: String(p.end), tier: p.tier, lines: showLines(p, plan) };
    u64(j, "fee_cents", plan.fee);
    u64(j, "fee_seconds", seconds);
    u64(j, "fee_amount_cents", fee);
    put(j, "plan", p.book?.keptName(p.tier) ?? "");
    return j;
  });
  return { shown, fees };
}

function showLines(p: Period, plan: Plan): Json[] {
  const lines: Json[] = [];
  for (let key = 1; key <= quotaKeys; key++) {
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
