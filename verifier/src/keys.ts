// API keys: which one is valid, and what counts for its lineage. See "Keys" and "Spending caps".

import { day, monthStart } from "./calendar.ts";
import { countingDay } from "./accounts.ts";
import type { Cap } from "./command_messages.ts";
import type { Admission } from "./messages.ts";
import type { Account, Key, Lineage, State } from "./state.ts";

export const capDay = 1;
export const capMonth = 2;
export const capTotal = 3;

export function isLive(k: Key, now: number): boolean {
  return k.revoked === 0 && (k.expires === 0 || now < k.expires);
}

export function validKey(a: Account, m: Admission, now: number): Key | undefined {
  if (m.keyVersion === 0) return undefined;
  for (const k of a.keys) {
    const number = k.former ? 0 : k.number;
    if (number === m.key && k.version === m.keyVersion && k.fingerprint === m.fingerprint && isLive(k, now)) return k;
  }
  return undefined;
}

/** The lowest version of the default key, live or not, and of live former default keys. */
export function currentVersion(a: Account, now: number): number {
  let lowest = 0;
  for (const k of a.keys) {
    if (k.number !== 0 && !k.former) continue;
    if (k.version > 0 && (k.number === 0 || isLive(k, now)) && (lowest === 0 || k.version < lowest)) lowest = k.version;
  }
  return lowest;
}

/** Begins the account's month for a lineage. */
export function enterMonth(l: Lineage, month: number): void {
  if (l.month >= month) return;
  l.month = month;
  l.used.fill(0);
  l.overage.fill(0);
  l.spent.fill(0);
}

export function usedBy(l: Lineage, month: number, quotaKey: number): number {
  return l.month === month ? l.used[quotaKey]! : 0;
}

export function keyLimit(l: Lineage, quotaKey: number): number | undefined {
  for (const q of l.quotas) if (q.quotaKey === quotaKey) return q.limit;
  return undefined;
}

/** The day that counts a price: one that has begun for the account stays begun when the clock goes back. */
export function daySpent(s: State, a: Account): number {
  return Math.max(a.spending.day, countingDay(a, s.time));
}

/** What counts towards a cap of the account or of a lineage, on a day. */
export function capSpent(a: Account, owner: Account | Lineage, period: number, on: number): number {
  const { spending } = owner;
  if (period === capTotal) return spending.total;
  if (period === capDay) return spending.day === on ? spending.today : 0;
  if ("current" in owner) return owner.current.spentSum;
  return owner.month === a.current.month ? owner.spent.reduce((x, y) => x + y, 0) : 0;
}

/** When the period of a cap ends that has a day or a month; 0: never. */
export function capEnd(cap: Cap, on: number, month: number): number {
  if (cap.period === capDay) return (on + 1) * day;
  return cap.period === capMonth ? monthStart(month + 1) : 0;
}

export interface Reached {
  cap: Cap;
  ofKey: boolean;
}

/** The cap that a price would exceed, the lineage's first. */
export function reachedCap(s: State, a: Account, l: Lineage | undefined, price: number): Reached | undefined {
  if (price === 0) return undefined;
  const on = daySpent(s, a);
  if (l?.cap !== undefined && capSpent(a, l, l.cap.period, on) + price > l.cap.amount) return { cap: l.cap, ofKey: true };
  if (a.cap !== undefined && capSpent(a, a, a.cap.period, on) + price > a.cap.amount) return { cap: a.cap, ofKey: false };
  return undefined;
}
