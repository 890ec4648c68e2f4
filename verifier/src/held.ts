// Whether a refusal may be undone by the settlement of open holds. See "Held".

import { capSpent, capDay, capMonth, daySpent, type Reached, usedBy } from "./keys.ts";
import type { Terms } from "./prices.ts";
import { type Account, chargeCredits, type Hold, keyOfKept, type Lineage, type Network, open, type State } from "./state.ts";

/** Without its open holds the limit would have room. */
function quotaFree(a: Account, quotaKey: number, limit: number): boolean {
  return a.current.used[quotaKey]! - a.openByKey[quotaKey]! < limit;
}

/** Paid requests that were served, and that a void of an open hold may make free. */
function keptCosts(a: Account, counts: (h: Hold) => boolean): number {
  let sum = 0;
  for (const [key, list] of a.kept) {
    if (a.openByKey[keyOfKept(key)]! === 0) continue;
    for (const h of list) if (counts(h)) sum += h.cost;
  }
  return sum;
}

export function heldByQuota(a: Account, quotaKey: number, terms: Terms): boolean {
  if (a.open === 0) return false;
  if (quotaFree(a, quotaKey, terms.limit)) return true;
  return terms.overage && a.settled + keptCosts(a, () => true) >= terms.price;
}

export function heldByKeyLimit(a: Account, l: Lineage, quotaKey: number, limit: number): boolean {
  let used = usedBy(l, a.current.month, quotaKey);
  for (const h of a.holds) {
    if (h.result === open && h.lineage === l && h.quotaKey === quotaKey && h.month === a.current.month) used--;
  }
  return used < limit;
}

export function heldByCap(
  s: State, a: Account, l: Lineage, quotaKey: number, terms: Terms, reached: Reached,
): boolean {
  if (a.open === 0) return false;
  if (quotaFree(a, quotaKey, terms.limit)) return true;
  const { cap, ofKey } = reached;
  const on = daySpent(s, a);
  const counts = (h: Hold): boolean =>
    h.charge === chargeCredits && (!ofKey || h.lineage === l) &&
    (cap.period !== capDay || h.day === on) && (cap.period !== capMonth || h.month === a.current.month);
  let spent = capSpent(a, ofKey ? l : a, cap.period, on);
  for (const h of a.holds) if ((h.result === open || !h.makesRoom) && counts(h)) spent -= h.cost;
  spent -= keptCosts(a, counts);
  return spent + terms.price <= cap.amount;
}

export function heldByWindow(n: Network, limit: number): boolean {
  return n.open > 0 && n.admitted.length - n.open < limit;
}
