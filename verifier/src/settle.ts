// Closes holds. See "Holds and settlements", "Void" and "Late charges".

import {
  countMaker, inOrder, keepPaid, makesRoom, monthIn, networkOf, openPeriod, reap, refresh, removeHold,
  rollTo, touch, trimKept,
} from "./accounts.ts";
import { available, countUse, enterWindow, forgetKnown, linkRequest, reportUse } from "./admission.ts";
import { alertAdmitted } from "./alerts.ts";
import { dayOf, monthOf } from "./calendar.ts";
import { countingDay } from "./accounts.ts";
import { countPaid, enter, giveBack, take, types } from "./credits.ts";
import { keyLimit, reachedCap, usedBy } from "./keys.ts";
import { noId, type Settlement } from "./messages.ts";
import { counts } from "./prices.ts";
import { kinds, waived } from "./receipts.ts";
import {
  type Account, chargeCredits, chargeNone, chargeQuota, closedServed, closedVoid, type Hold, keptOf, type Late, type Lineage, type Network,
  open, type Owner, type State,
} from "./state.ts";
import { planOf } from "./statements.ts";

const lateIndex = 0xffffffff;
const mostLate = 10_000;
const freed = "a request beside it failed: this one is free";

/** An auditor that gets here has found a fault of billing. See "Quarantine". */
export class Impossible extends Error {}

export function ownerOf(h: Hold): Owner {
  return (h.account ?? h.network)!;
}

export function addFailure(s: State, o: Owner): void {
  o.failures.push(s.time);
  o.failed++;
  s.failures.push({ owner: o, time: s.time });
}

function remember(s: State, h: Hold, at: number): void {
  h.closed = at;
  h.remembered = true;
  s.remembered.push(h);
}

/** Whether voiding another request may make it free. */
function isMovable(h: Hold): boolean {
  return h.charge === chargeCredits && !h.makesRoom;
}

/** Ends the time for which a closed hold is remembered. */
export function forget(s: State, h: Hold): void {
  h.remembered = false;
  forgetKnown(s, h);
  freeId(s, h);
  if (h.account === undefined) return reap(s, h.network!);
  if (!h.timedOut || h.result !== closedServed) return removeHold(h.account, h);
  if (isMovable(h)) refresh(s, h.account);
  finish(s, h.account, h);
}

/** Ends a served hold: its own settlement can't change it any more. Voiding another request may still make it free. */
function finish(s: State, a: Account, h: Hold): void {
  removeHold(a, h);
  if (h.charge === chargeCredits && !makesRoom(s, a, h)) keepPaid(a, h);
}

function leaveOpen(h: Hold): void {
  ownerOf(h).open--;
  if (h.account !== undefined) h.account.openByKey[h.quotaKey]!--;
}

export function serve(s: State, h: Hold, at: number, byTimeout: boolean): void {
  leaveOpen(h);
  h.result = closedServed;
  h.timedOut = byTimeout;
  const a = h.account;
  if (a !== undefined) {
    if (byTimeout) rollTo(s, a, at);
    if (isMovable(h)) refresh(s, a);
    if (h.returned > 0) {
      enter(s, a, { type: types.adjustment, amount: h.returned, settled: at, reason: freed, hold: h });
      enter(s, a, { type: types.charge, amount: -h.returned, settled: at, hold: h });
    } else if (h.charge === chargeCredits) {
      enter(s, a, { type: types.charge, amount: -h.cost, settled: at, hold: h });
    }
    if (!byTimeout) finish(s, a, h);
  }
  if (byTimeout || h.idempotency !== "") remember(s, h, at);
  else forgetKnown(s, h);
}

function freeId(s: State, h: Hold): void {
  if (h.idempotency !== "" && s.byIdempotency.get(h.idempotency) === h) s.byIdempotency.delete(h.idempotency);
}

export function voidOpen(s: State, h: Hold, at: number, byTimeout: boolean, fromEdge: boolean): void {
  leaveOpen(h);
  h.result = closedVoid;
  h.timedOut = byTimeout;
  freeId(s, h);
  if (byTimeout && h.account !== undefined) rollTo(s, h.account, at);
  undo(s, h, at);
  if (h.write && (byTimeout || fromEdge)) addLate(s, h, at);
  if (byTimeout) remember(s, h, at);
  else forgetKnown(s, h);
}

/** The steps of "Void". */
function undo(s: State, h: Hold, at: number): void {
  if (h.network !== undefined) {
    const i = h.network.admitted.indexOf(h.time);
    if (i >= 0) h.network.admitted.splice(i, 1);
    return;
  }
  const a = h.account!;
  refresh(s, a);
  if (a.holds.delete(h)) countMaker(a, h, false);
  const paid = h.charge === chargeCredits;
  const final = makesRoom(s, a, h);
  if (h.lineage?.month === h.month) h.lineage.used[h.quotaKey] = atLeastZero(h.lineage.used[h.quotaKey]! - 1);
  const m = monthIn(a, h.month);
  if (m !== undefined) {
    m.used[h.quotaKey] = atLeastZero(m.used[h.quotaKey]! - 1);
    h.period!.used[h.quotaKey]!--;
  }
  if (paid) countPaid(a, m, h, h.cost, -1, s.terms + a.ownTerms);
  if (m !== undefined) linkRequest(s, a, h, kinds.undone, at);
  reportUse(s, a, h, -1, paid ? -1 : 0, -h.cost);
  dropKept(a, h);
  if (paid) giveBack(s, a, h.uses!, at);
  if (final) makeRoom(s, a, h.month, h.quotaKey, at);
  trimKept(a, h.quotaKey); // Only now: this void could still reach all of them.
}

function atLeastZero(n: number): number {
  if (n < 0) throw new Impossible("a counter would fall below zero: the rules put the account into quarantine");
  return n;
}

function dropKept(a: Account, h: Hold): void {
  const list = a.kept.get(keptOf(h.month, h.quotaKey));
  const i = list?.indexOf(h) ?? -1;
  if (i >= 0) list!.splice(i, 1);
}

/** "A void makes the newest paid request free". */
function makeRoom(s: State, a: Account, month: number, quotaKey: number, at: number): void {
  const m = monthIn(a, month);
  const { limit } = planOf(s.book, a.tier).terms[quotaKey]!;
  if (m === undefined || limit < 0) return;
  while (m.paid[quotaKey]! > 0 && m.paid[quotaKey]! > m.used[quotaKey]! - limit) {
    const newest = newestPaid(s, a, month, quotaKey);
    if (newest === undefined) throw new Impossible("no paid request is left to be made free");
    makeFree(s, a, newest, at);
  }
}

function newestPaid(s: State, a: Account, month: number, quotaKey: number): Hold | undefined {
  const list = a.kept.get(keptOf(month, quotaKey));
  let newest = list?.[list.length - 1];
  for (const h of a.holds) {
    if (h.quotaKey !== quotaKey || h.month !== month || makesRoom(s, a, h)) continue;
    if (newest === undefined || inOrder(h, newest) > 0) newest = h;
  }
  return newest;
}

function makeFree(s: State, a: Account, h: Hold, at: number): void {
  const price = h.cost;
  const uses = h.uses!;
  countPaid(a, monthIn(a, h.month), h, price, -1, s.terms + a.ownTerms);
  reportUse(s, a, h, 0, -1, -price);
  dropKept(a, h);
  if (h.result === open) h.returned = price;
  else enter(s, a, { type: types.adjustment, amount: price, settled: at, reason: freed, hold: h });
  linkRequest(s, a, h, kinds.free, at);
  h.charge = chargeQuota;
  h.cost = 0;
  h.uses = undefined;
  if (a.holds.has(h)) countMaker(a, h, true);
  giveBack(s, a, uses, at);
}

/** The part of a settlement that closes a hold. */
type Closing = Pick<Settlement, "result" | "failed" | "account" | "quotaKey" | "anonymous">;

export function settle(s: State, h: Hold, x: Closing, fromEdge: boolean): void {
  const { result, failed } = x;
  const isVoid = result === closedVoid;
  const o = ownerOf(h);
  if (h.result === open) {
    if (isVoid) {
      voidOpen(s, h, s.time, false, fromEdge);
      if (failed) addFailure(s, o);
    } else serve(s, h, s.time, false);
    return;
  }
  if (!h.timedOut) return;
  if (h.account !== undefined) touch(s, h.account, s.time);
  if (h.result === result) {
    // An edge's void leaves it to the service to say that the write was served.
    if (!isVoid || !fromEdge) h.timedOut = false;
    if (h.confirmed) return;
    h.confirmed = true;
    if (h.account !== undefined) {
      if (isVoid) removeHold(h.account, h);
      else finish(s, h.account, h);
    }
    if (isVoid && failed) addFailure(s, o);
  } else if (isVoid) {
    correct(s, h);
    if (failed) addFailure(s, o);
  } else {
    // Before rules 5 an edge's settlement left it for the service's to charge once more.
    if (s.rules >= 5) takeLate(o, h.request, h.quotaKey);
    h.result = closedServed;
    h.timedOut = false;
    if (!counts(s.rules, x.quotaKey)) return;
    const charged = lateOf(h, s.time);
    // Of a late charge the account is the one that the settlement names.
    const named = x.anonymous ? networkOf(s, x.account) : s.accounts.get(x.account);
    if (named !== undefined) chargeLate(s, { ...charged, owner: named, quotaKey: x.quotaKey, lineage: lineageIn(named, charged) });
  }
}

/** The lineage with the number of the hold's, in the account that the settlement names. */
function lineageIn(o: Owner, late: Late): Lineage | undefined {
  if (o === late.owner || !("keys" in o)) return late.lineage;
  const a = o as Account;
  const line = late.lineage?.line ?? 0;
  if (line === 0 || !a.keyed) return a.defaultLineage;
  return a.keys.find((k) => k.lineage.line === line)?.lineage;
}

/** A void of what a time-out served. */
function correct(s: State, h: Hold): void {
  const a = h.account;
  if (a !== undefined && h.charge === chargeCredits) {
    enter(s, a, { type: types.adjustment, amount: h.cost, settled: s.time, reason: "request failed", hold: h });
  }
  freeId(s, h);
  undo(s, h, s.time);
  h.result = closedVoid;
  h.timedOut = false;
  h.remembered = false;
  forgetKnown(s, h);
}

function lateOf(h: Hold, time: number): Late {
  return { request: h.request, quotaKey: h.quotaKey, time, key: h.key, lineage: h.lineage, owner: ownerOf(h) };
}

function addLate(s: State, h: Hold, at: number): void {
  const late = lateOf(h, at);
  const { late: all } = late.owner;
  if (all.length >= mostLate) all.shift();
  all.push(late);
  s.late.push(late);
}

/** Forgets the oldest late write of a request, and returns it. */
export function takeLate(o: Owner, request: string, quotaKey: number): Late | undefined {
  const i = o.late.findIndex((l) => l.request === request && l.quotaKey === quotaKey);
  return i < 0 ? undefined : o.late.splice(i, 1)[0];
}

export function chargeLate(s: State, late: Late): void {
  if ("admitted" in late.owner) {
    const n = late.owner as Network;
    if (n.admitted.length < (s.book?.anonymousLimit ?? 0)) enterWindow(s, n, s.time);
    return reap(s, n);
  }
  const a = late.owner as Account;
  touch(s, a, s.time);
  const { quotaKey, lineage } = late;
  const m = a.current;
  const terms = planOf(s.book, a.tier).terms[quotaKey]!;
  const own = lineage === undefined ? undefined : keyLimit(lineage, quotaKey);
  const h = lateHold(s, a, late);
  if (own !== undefined && usedBy(lineage!, m.month, quotaKey) >= own) {
    waive(s, a, h);
    return;
  }
  if (terms.limit < 0) h.charge = chargeNone;
  else if (m.used[quotaKey]! < terms.limit) h.charge = chargeQuota;
  else if (terms.overage && available(a) >= terms.price && reachedCap(s, a, lineage, terms.price) === undefined) {
    h.charge = chargeCredits;
  } else {
    waive(s, a, h);
    return;
  }
  countUse(a, h);
  const before = a.available;
  if (h.charge === chargeCredits) {
    h.cost = terms.price;
    h.uses = take(a, h.cost);
    countPaid(a, m, h, h.cost, 1, h.terms);
    enter(s, a, { type: types.charge, amount: -h.cost, settled: s.time, hold: h });
    keepPaid(a, h);
  }
  linkRequest(s, a, h, kinds.late, s.time);
  reportUse(s, a, h, 1, h.cost > 0 || h.charge === chargeCredits ? 1 : 0, h.cost);
  if (s.answers) alertAdmitted(s, a, h, before);
}

function waive(s: State, a: Account, h: Hold): void {
  a.current.waived[h.quotaKey]!++;
  linkRequest(s, a, { ...h, charge: waived }, kinds.late, s.time);
}

function lateHold(s: State, a: Account, late: Late): Hold {
  const month = a.current.month;
  return {
    request: late.request, account: a, network: undefined, quotaKey: late.quotaKey, time: s.time, month,
    day: month === monthOf(s.time) ? dayOf(s.time) : countingDay(a, s.time), charge: chargeQuota, cost: 0, returned: 0,
    uses: undefined, write: true, idempotency: "", readHash: noId, repeats: 0, result: closedServed, closed: s.time,
    timedOut: false, confirmed: false, remembered: false, makesRoom: false, message: undefined, sequence: s.sequence, index: lateIndex,
    terms: s.terms + a.ownTerms, key: late.key, lineage: late.lineage, period: openPeriod(a),
  };
}

