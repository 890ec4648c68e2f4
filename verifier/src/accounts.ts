// Accounts, their months and periods. See "Accounts and months" and "Statements".

import { day, monthOf, monthStart } from "./calendar.ts";
import { Queue } from "./queue.ts";
import { noReceipt } from "./receipts.ts";
import { countStorage, showStatement } from "./statements.ts";
import {
  type Account, chargeCredits, counters, type Hold, keptOf, keyOfKept, type Lineage, type Month, monthOfKept, type Network, type Owner,
  type Period, type State,
} from "./state.ts";

export function newOwner(id: string): Owner {
  return { id, failures: new Queue(), failed: 0, late: [], open: 0, known: 0 };
}

export function newNetwork(id: string): Network {
  return { ...newOwner(id), admitted: [] };
}

export function networkOf(s: State, id: string): Network {
  let n = s.networks.get(id);
  if (n === undefined) s.networks.set(id, (n = newNetwork(id)));
  return n;
}

/** Forgets a network of which nothing is left to remember. */
export function reap(s: State, o: Owner): void {
  if (!("admitted" in o)) return;
  const n = o as Network;
  if (n.admitted.length + n.known + n.failed + n.late.length === 0 && s.networks.get(n.id) === n) s.networks.delete(n.id);
}

export function newLineage(line: number, name: string): Lineage {
  return {
    line, name, scopes: [], quotas: [], cap: undefined, spending: { day: 0, today: 0, total: 0 }, month: 0,
    used: counters(), overage: counters(), spent: counters(),
  };
}

export function newAccount(s: State, id: string, tier: number): Account {
  return {
    ...newOwner(id), tier, nextTier: 0, created: s.time, previous: undefined,
    current: newMonth(monthOf(s.time), s.time, tier),
    grants: [], available: 0, owed: 0, settled: 0, receipt: noReceipt, ownTerms: 0, seenTerms: s.terms, bookIndex: s.books.length - 1,
    holds: new Set(), openByKey: counters(), makers: counters(), kept: new Map(), keys: [], nextKey: 1, defaultLineage: newLineage(0, "default"), keyed: false, cap: undefined,
    spending: { day: 0, today: 0, total: 0 }, suspended: 0, suspensionReason: "", deletes: 0, erased: 0, storageBytes: 0n,
    storageSince: s.time,
    payments: new Map(), subscriptions: [], topUp: undefined, webhooks: [], notified: new Map(), low: new Set(),
    warned: new Map(),
  };
}

function newMonth(month: number, start: number, tier: number): Month {
  return {
    month, start, used: counters(), overage: counters(), spent: counters(), waived: counters(), refunded: counters(),
    paid: counters(), spentSum: 0, periods: [newPeriod()], granted: 0, expired: 0, adjusted: 0, charged: 0,
    refundedSum: 0, refunds: [], tier, storage: new Map(),
  };
}

export function newPeriod(): Period {
  return { end: 0, tier: 0, bookIndex: 0, used: counters(), paid: counters(), amount: counters() };
}

export function isEmpty(p: Period): boolean {
  return [p.used, p.paid, p.amount].every((list) => list.every((n) => n === 0));
}

export function openPeriod(a: Account): Period {
  return a.current.periods[a.current.periods.length - 1]!;
}

/** Brings an account to a time: the months that have ended since, and the price books that came into force. */
export function touch(s: State, a: Account, now: number): void {
  rollTo(s, a, now);
  refresh(s, a);
}

/** The same of the months alone. */
export function rollTo(s: State, a: Account, now: number): void {
  const target = monthOf(now);
  while (a.current.month < target) beginMonth(s, a);
}

/** The same of the price books alone, and of a tier that comes with a month. */
export function refresh(s: State, a: Account): void {
  if (a.nextTier !== 0) rollTo(s, a, s.time);
  if (a.bookIndex === s.books.length - 1 && a.seenTerms === s.terms + a.ownTerms) return;
  const next = s.books[a.bookIndex + 1];
  if (next !== undefined) endPeriod(a, next.from);
  a.bookIndex = s.books.length - 1;
  followTerms(s, a);
}

/** Ends the open period at a time, unless it is empty and has no time. */
function endPeriod(a: Account, at: number): void {
  const { month, start, periods } = a.current;
  const open = openPeriod(a);
  const began = periods.length > 1 ? periods[periods.length - 2]!.end : start;
  const end = Math.max(began, Math.min(at, monthStart(month + 1)));
  if (end === began && isEmpty(open)) return;
  Object.assign(open, { end, tier: a.tier, bookIndex: a.bookIndex });
  periods.push(newPeriod());
}

function beginMonth(s: State, a: Account): void {
  const start = monthStart(a.current.month + 1);
  countStorage(a, start);
  Object.assign(openPeriod(a), { end: start, tier: a.tier, bookIndex: a.bookIndex });
  a.current.tier = a.tier;
  const leaving = a.previous;
  if (leaving !== undefined) {
    s.sink.closed(a, showStatement(s, a, leaving));
    s.counts.closed++;
    for (const key of a.kept.keys()) if (monthOfKept(key) < a.current.month) a.kept.delete(key);
  }
  a.previous = a.current;
  a.current = newMonth(a.current.month + 1, start, a.tier);
  const { nextTier } = a;
  a.nextTier = 0;
  if (nextTier === 0 || nextTier === a.tier) return;
  a.tier = nextTier;
  a.bookIndex = s.books.length - 1;
  a.ownTerms++;
  followTerms(s, a);
}

/** Makes earlier payments final once the terms have changed. */
export function followTerms(s: State, a: Account): void {
  const terms = s.terms + a.ownTerms;
  if (a.seenTerms === terms) return;
  a.seenTerms = terms;
  a.current.paid.fill(0);
  a.previous?.paid.fill(0);
  a.kept.clear();
  for (const h of a.holds) {
    if (h.makesRoom) continue;
    h.makesRoom = true;
    a.makers[h.quotaKey]!++;
  }
}

export function setTier(s: State, a: Account, tier: number): void {
  a.nextTier = 0;
  if (tier === a.tier) return;
  endPeriod(a, s.time);
  a.tier = tier;
  a.ownTerms++;
  followTerms(s, a);
}

/** The month of a request, if it is in the state. */
export function monthIn(a: Account, month: number): Month | undefined {
  if (a.current.month === month) return a.current;
  return a.previous?.month === month ? a.previous : undefined;
}

/** The day that counts a request at a time: none before the account's month. */
export function countingDay(a: Account, time: number): number {
  return Math.max(Math.floor(time / day), monthStart(a.current.month) / day);
}

export function makesRoom(s: State, a: Account, h: Hold): boolean {
  return h.charge !== chargeCredits || h.terms !== s.terms + a.ownTerms;
}

/** Adjusts whether a hold counts among those whose void makes room. When fewer do, trimKept() is due. */
export function countMaker(a: Account, h: Hold, makes: boolean): void {
  if (h.makesRoom === makes) return;
  h.makesRoom = makes;
  a.makers[h.quotaKey]! += makes ? 1 : -1;
}

/** Removes a hold whose settlement is final. */
export function removeHold(a: Account, h: Hold): void {
  if (!a.holds.delete(h)) return;
  countMaker(a, h, false);
  trimKept(a, h.quotaKey);
}

/** Forgets the paid requests that no void can make free any more. */
export function trimKept(a: Account, quotaKey: number): void {
  if (a.kept.size === 0) return;
  const most = a.makers[quotaKey]!;
  for (const [key, list] of a.kept) {
    if (keyOfKept(key) !== quotaKey) continue;
    if (most === 0) a.kept.delete(key);
    else if (list.length > most) list.splice(0, list.length - most);
  }
}

export function inOrder(x: Hold, y: Hold): number {
  return x.sequence - y.sequence || x.index - y.index;
}

export function keepPaid(a: Account, served: Hold): void {
  const h = { ...served }; // Its time stays when the clock goes back.
  const most = a.makers[h.quotaKey]!;
  if (most === 0) return;
  const key = keptOf(h.month, h.quotaKey);
  const list = a.kept.get(key);
  if (list === undefined) {
    a.kept.set(key, [h]);
    return;
  }
  let at = list.length;
  while (at > 0 && inOrder(h, list[at - 1]!) < 0) at--;
  list.splice(at, 0, h);
  trimKept(a, h.quotaKey);
}
