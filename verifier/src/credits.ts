// Grants, what requests take from them, and the ledger. See "Credits".

import { monthIn, openPeriod } from "./accounts.ts";
import { alertBalance } from "./alerts.ts";
import { day } from "./calendar.ts";
import { base64, idNumber, keyBytes, position } from "./ids.ts";
import { put, u64 } from "./json.ts";
import { kinds, link } from "./receipts.ts";
import type { Account, Grant, GrantUse, Hold, Month, State } from "./state.ts";

export const types = {
  grant: "LEDGER_GRANT", adjustment: "LEDGER_ADJUSTMENT", charge: "LEDGER_CHARGE", expiry: "LEDGER_EXPIRY",
  refund: "LEDGER_REFUND", payment: "LEDGER_PAYMENT", reversal: "LEDGER_REVERSAL",
} as const;

export type LedgerType = (typeof types)[keyof typeof types];

const typeNumbers = new Map<LedgerType, number>(Object.values(types).map((type, i) => [type, i + 1]));

export interface Entry {
  type: LedgerType;
  amount: number;
  /** When it is booked. */
  settled: number;
  reason?: string;
  actor?: string;
  payment?: string;
  /** Of a refund that is for no single request. */
  month?: number;
  quotaKey?: number;
  request?: string;
  /** The request that it is about, if the fold knows it. */
  hold?: Hold;
}

function count(m: Month, e: Entry, aboutRequest: boolean, left: boolean): void {
  if (left) m.adjusted += e.amount;
  else if (e.type === types.grant || e.type === types.payment) m.granted += e.amount;
  else if (e.type === types.charge) m.charged -= e.amount;
  else if (e.type === types.expiry) m.expired -= e.amount;
  else if (e.type === types.adjustment && aboutRequest) m.refundedSum += e.amount;
  else m.adjusted += e.amount;
}

export function enter(s: State, a: Account, e: Entry): void {
  const { hold } = e;
  // An entry about a request counts in the request's month, any other entry in the month in which it is booked.
  const month = hold === undefined ? a.current : monthIn(a, hold.month);
  link(s, a, {
    kind: kinds.ledger, time: e.settled, month: (month ?? a.current).month, quotaKey: hold?.quotaKey ?? e.quotaKey ?? 0,
    charge: typeNumbers.get(e.type)!, amount: e.amount, key: 0, request: hold?.request ?? e.request ?? "",
  });
  a.settled += e.amount;
  count(month ?? a.current, e, hold !== undefined, month === undefined);
  s.counts.ledger++;
  const j: Record<string, unknown> = { id: position(s.sequence, s.entries++), account: idNumber(a.id).toString() };
  u64(j, "time_ms", hold === undefined ? e.settled : Math.min(Math.max(hold.time, hold.day * day), (hold.day + 1) * day - 1));
  j["type"] = e.type;
  put(j, "quota_key", hold?.quotaKey ?? e.quotaKey);
  u64(j, "amount_micros", e.amount);
  u64(j, "balance_micros", a.settled);
  const request = hold?.request ?? e.request ?? "";
  if (request !== "") j["request_id"] = base64(keyBytes(request));
  put(j, "reason", e.reason);
  u64(j, "settled_ms", e.settled);
  if (hold !== undefined) {
    u64(j, "admitted_before", s.sequence - hold.sequence);
    u64(j, "admitted_index", hold.index + 1);
  }
  put(j, "month", hold === undefined && request === "" ? e.month : 0);
  put(j, "actor", e.actor);
  put(j, "payment", e.payment);
  s.sink.ledger(a, j);
  if (s.answers) (s.effects.ledger ??= []).push(j);
}

function before(x: Grant, y: Grant): boolean {
  const ex = x.expires === 0 ? Infinity : x.expires;
  const ey = y.expires === 0 ? Infinity : y.expires;
  return ex !== ey ? ex < ey : x.id < y.id;
}

function insert(a: Account, g: Grant): void {
  let at = a.grants.length;
  while (at > 0 && before(g, a.grants[at - 1]!)) at--;
  a.grants.splice(at, 0, g);
}

export function addGrant(s: State, a: Account, g: Grant): void {
  insert(a, g);
  a.available += g.left;
  if (g.expires !== 0) s.expiries.push({ account: a, grant: g });
  payOwed(a);
}

/** Adds to the last grant instead of a new one. See "Payments". */
export function addToLastGrant(a: Account, amount: number): boolean {
  const last = a.grants[a.grants.length - 1];
  if (last === undefined || last.expires !== 0) return false;
  last.amount += amount;
  last.left += amount;
  a.available += amount;
  payOwed(a);
  return true;
}

/** What becomes available pays first what is owed. */
export function payOwed(a: Account): void {
  if (a.owed === 0) return;
  const paid = Math.min(a.owed, a.available);
  a.owed -= paid;
  take(a, paid);
}

/** Takes from the grants in their order. */
export function take(a: Account, amount: number): GrantUse[] {
  const uses: GrantUse[] = [];
  a.available -= amount;
  let spent = 0;
  while (amount > 0) {
    const g = a.grants[spent]!;
    const part = Math.min(g.left, amount);
    g.left -= part;
    amount -= part;
    if (part > 0) uses.push({ grant: g, amount: part });
    if (g.left > 0) break;
    spent++;
  }
  if (spent > 0) a.grants.splice(0, spent);
  return uses;
}

/** Gives back what a request took. In a grant that has expired it expires at once. */
export function giveBack(s: State, a: Account, uses: GrantUse[], now: number): void {
  const expired: Grant[] = [];
  for (const { grant, amount } of uses) {
    if (grant.left === 0) {
      if (grant.over) expired.push(grant);
      else insert(a, grant);
    }
    grant.left += amount;
    a.available += amount;
  }
  for (const g of expired) leave(s, a, g, now);
  payOwed(a);
}

/** The entry of what an expired grant had left. */
function leave(s: State, a: Account, g: Grant, now: number): void {
  const { left } = g;
  g.left = 0;
  a.available -= left;
  enter(s, a, { type: types.expiry, amount: -left, settled: now, reason: g.reason });
}

/** Whether something is left of a grant, or a void may still give something back to it. */
export function isKept(a: Account, g: Grant): boolean {
  const took = (h: Hold): boolean => h.uses?.some((u) => u.grant === g) ?? false;
  return g.left > 0 || [...a.holds].some(took) || [...a.kept.values()].some((list) => list.some(took));
}

export function expire(s: State, a: Account, g: Grant, now: number): void {
  g.over = true;
  if (g.left === 0) return;
  a.grants.splice(a.grants.indexOf(g), 1);
  const before = a.available;
  leave(s, a, g, now);
  alertBalance(s, a, before);
}

/** Counts a price, or with −1 undoes that, for the account and the key's lineage. */
export function countSpending(a: Account, h: Hold, price: number, sign: 1 | -1): void {
  const amount = sign * price;
  const on = sign > 0 ? Math.max(a.spending.day, h.day) : h.day; // Of the account, for the lineage too.
  for (const spending of [a.spending, h.lineage?.spending]) {
    if (spending === undefined) continue;
    if (spending.day < on) {
      spending.day = on;
      spending.today = 0;
    }
    if (spending.day === on) spending.today += amount;
    spending.total += amount;
  }
  if (h.lineage?.month === h.month) {
    h.lineage.overage[h.quotaKey]! += sign;
    h.lineage.spent[h.quotaKey]! += amount;
  }
}

/** Counts a payment by credits in the month and its period. */
export function countPaid(a: Account, m: Month | undefined, h: Hold, price: number, sign: 1 | -1, terms: number): void {
  if (m !== undefined) {
    m.overage[h.quotaKey]! += sign;
    m.spent[h.quotaKey]! += sign * price;
    m.spentSum += sign * price;
    if (h.terms === terms) m.paid[h.quotaKey]! += sign;
    const p = h.period ?? openPeriod(a);
    p.paid[h.quotaKey]! += sign;
    p.amount[h.quotaKey]! += sign * price;
  }
  countSpending(a, h, price, sign);
}
