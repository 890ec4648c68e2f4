// Grants, refunds, payments, subscriptions and top-ups. See "Credits".

import { followTerms, monthIn, setTier } from "./accounts.ts";
import { available } from "./admission.ts";
import { alert, alertBalance, payment as paymentAlert, raised, subscribed, topUpOff } from "./alerts.ts";
import { hour, monthOf } from "./calendar.ts";
import type { Action } from "./command_messages.ts";
import { addGrant, addToLastGrant, enter, take, types } from "./credits.ts";
import { counts, free, maxBalance } from "./prices.ts";
import type { Account, Month, Payment, State, Subscription, TopUp } from "./state.ts";
import { balanceOf, showPayment } from "./show.ts";
import { type Result, status } from "./status.ts";

const mostGrants = 4096;
const mostRefunds = 1000;
const mostEnded = 20;
const mostPeriods = 100;
const oneCredit = 1e6;
const mostBytes = 200;
const admin = 4;

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

function fitsAsGrant(a: Account, amount: number, position: number): boolean {
  return amount <= maxBalance && a.settled + amount <= maxBalance && position < mostGrants;
}

function add(s: State, a: Account, amount: number, expires: number, reason: string, position: number): void {
  addGrant(s, a, {
    id: s.sequence * mostGrants + position, amount, left: amount, expires, created: s.time, reason, over: false,
  });
}

/** Takes credits away, and owes none for it. */
function takeAway(s: State, a: Account, amount: number): void {
  const before = a.available;
  take(a, amount);
  alertBalance(s, a, before);
}

export function grant(s: State, a: Account, m: Action, actor: string, position: number): Result {
  const { amount, reason } = m;
  if (amount === 0 || Math.abs(amount) > maxBalance) return status.invalid;
  if (amount < 0) {
    if (available(a) < -amount) return status.insufficientCredits;
    takeAway(s, a, -amount);
    enter(s, a, { type: types.adjustment, amount, settled: s.time, reason, actor });
    return status.ok;
  }
  if (m.expires !== 0 && m.expires <= s.time) return status.invalid;
  if (!fitsAsGrant(a, amount, position) || a.grants.length >= mostGrants) return status.invalid;
  add(s, a, amount, m.expires, reason, position);
  enter(s, a, { type: types.grant, amount, settled: s.time, reason, actor });
  raised(a);
  return status.ok;
}

/** Prices of the account's holds that a void may still undo. */
function openPrices(a: Account, month: number, quotaKey: number): number {
  let sum = 0;
  for (const h of a.holds) if (h.month === month && h.quotaKey === quotaKey) sum += h.cost;
  return sum;
}

export function refund(s: State, a: Account, m: Action, actor: string, position: number): Result {
  const { amount, quotaKey, request } = m;
  if (!counts(s.rules, quotaKey) || amount === 0 || Math.abs(amount) > maxBalance) return status.invalid;
  if (m.requestLength !== 0 && m.requestLength !== 16) return status.invalid;
  const month = monthIn(a, m.month);
  // The account may be younger than the previous month, which has nothing to refund then.
  if (month === undefined && m.month !== a.current.month - 1) return status.notRefundable;
  if (amount < 0) return month === undefined ? status.overRefunded : takeBack(s, a, m, month, actor);
  if (request !== "") {
    if (month?.refunds.some((r) => r.request === request)) return status.overRefunded;
    const hold = s.known.get(request);
    if (hold?.account === a && a.holds.has(hold)) return status.notRefundable;
    if (month !== undefined && month.refunds.length >= mostRefunds) return status.notRefundable;
  }
  if (month === undefined) return status.overRefunded;
  const left = month.spent[quotaKey]! - month.refunded[quotaKey]! - openPrices(a, month.month, quotaKey);
  if (amount > left) return status.overRefunded;
  if (!fitsAsGrant(a, amount, position) || a.grants.length >= mostGrants) return status.invalid;
  add(s, a, amount, 0, m.reason, position);
  enterRefund(s, a, m, actor);
  month.refunded[quotaKey]! += amount;
  if (request !== "") month.refunds.push({ request, quotaKey, amount });
  a.ownTerms++;
  followTerms(s, a);
  raised(a);
  return status.ok;
}

function takeBack(s: State, a: Account, m: Action, month: Month, actor: string): Result {
  const at = month.refunds.findIndex((r) => r.request === m.request && r.quotaKey === m.quotaKey);
  if (m.request !== "") {
    if (at < 0 || month.refunds[at]!.amount !== -m.amount) return status.overRefunded;
  } else {
    const single = month.refunds.reduce((sum, r) => (r.quotaKey === m.quotaKey ? sum + r.amount : sum), 0);
    if (-m.amount > month.refunded[m.quotaKey]! - single) return status.overRefunded;
  }
  if (available(a) < -m.amount) return status.insufficientCredits;
  takeAway(s, a, -m.amount);
  enterRefund(s, a, m, actor);
  month.refunded[m.quotaKey]! += m.amount;
  if (m.request !== "") month.refunds.splice(at, 1);
  return status.ok;
}

function enterRefund(s: State, a: Account, m: Action, actor: string): void {
  enter(s, a, {
    type: types.refund, amount: m.amount, settled: s.time, reason: m.reason, actor, quotaKey: m.quotaKey, month: m.month,
    request: m.request,
  });
}

function validName(text: string): boolean {
  const n = byteLength(text);
  return n >= 1 && n <= mostBytes;
}

export function pay(s: State, a: Account, m: Action, actor: string, position: number): Result {
  if (!validName(m.provider) || !validName(m.id) || (m.credits > 0) === (m.plan !== "")) return status.invalid;
  if (byteLength(m.plan) > mostBytes || m.taxCents > m.amountCents) return status.invalid;
  if (m.amountCents > maxBalance || m.credits > maxBalance) return status.invalid;
  const name = `${m.provider}\0${m.id}`;
  const known = a.payments.get(name);
  if (known !== undefined) {
    if (known.credits !== m.credits || known.plan !== m.plan) return status.paymentMismatch;
    if (known.topUp === 0 && m.topUp !== 0) {
      known.topUp = m.topUp;
      endTopUp(a, m.topUp);
    }
    return status.ok;
  }
  if (m.credits > 0 && !fitsAsGrant(a, m.credits, position)) return status.invalid;
  const p: Payment = {
    provider: m.provider, id: m.id, credits: m.credits, reversed: 0, asOf: 0, number: a.payments.size + 1, time: s.time,
    plan: m.plan, amountCents: m.amountCents, taxCents: m.taxCents, topUp: m.topUp, reversedCents: 0,
  };
  a.payments.set(name, p);
  if (m.credits > 0) {
    addPaid(s, a, m.credits, m.reason, position);
    enter(s, a, {
      type: types.payment, amount: m.credits, settled: s.time, reason: m.reason, actor: actor || m.provider, payment: m.id,
    });
  }
  endTopUp(a, m.topUp);
  raised(a);
  if (s.answers) alert(s, a, paymentAlert, subscribed(a, paymentAlert), { payment: showPayment(p), mail: true });
  return status.ok;
}

/** Adds credits that were paid for, for which the bound of live grants does not apply. */
function addPaid(s: State, a: Account, amount: number, reason: string, position: number): void {
  if (a.grants.length >= mostGrants && addToLastGrant(a, amount)) return;
  add(s, a, amount, 0, reason, position);
}

export function reverse(s: State, a: Account, m: Action, actor: string, position: number): Result {
  const p = a.payments.get(`${m.provider}\0${m.id}`);
  if (p === undefined) return status.paymentNotFound;
  if (m.amount > p.credits || m.amountCents > p.amountCents) return status.overRefunded;
  const asOf = Math.min(m.asOf, s.time);
  if (asOf < p.asOf) return status.ok;
  const more = m.amount - p.reversed;
  p.asOf = asOf;
  p.reversed = m.amount;
  p.reversedCents = m.amountCents !== 0 || p.credits === 0 ? m.amountCents
    : Number((BigInt(p.amountCents) * BigInt(m.amount)) / BigInt(p.credits));
  if (more === 0) return status.ok;
  if (more > 0) {
    const taken = Math.min(available(a), more);
    takeAway(s, a, taken);
    a.owed += more - taken;
  } else addPaid(s, a, -more, m.reason, position);
  enter(s, a, {
    type: types.reversal, amount: -more, settled: s.time, reason: m.reason, actor: actor || m.provider, payment: m.id,
  });
  if (more < 0) raised(a);
  return status.ok;
}

/** Whether SetTier would be refused. */
export function refusesTier(s: State, a: Account, tier: number): boolean {
  if (!(s.book?.hasTier(tier) ?? (tier >= free && tier <= admin))) return true;
  return tier !== a.tier && a.current.periods.length - 1 >= mostPeriods;
}

function compareBytes(x: string, y: string): number {
  const [p, q] = [[...x], [...y]];
  for (let i = 0; i < p.length && i < q.length; i++) {
    const d = p[i]!.codePointAt(0)! - q[i]!.codePointAt(0)!;
    if (d !== 0) return d;
  }
  return p.length - q.length;
}

function byCreation(x: Subscription, y: Subscription): number {
  return x.created - y.created || compareBytes(x.provider, y.provider) || compareBytes(x.id, y.id);
}

function currentOf(list: Subscription[]): Subscription | undefined {
  return list.filter((x) => x.active).pop();
}

export function setSubscription(s: State, a: Account, m: Action): Result {
  if (!validName(m.provider) || !validName(m.id) || m.nextTier > 15) return status.invalid;
  const known = s.book?.hasTier(m.tier) ?? (m.tier >= free && m.tier <= admin);
  if (m.active && (!known || m.tier === free || m.tier === admin)) return status.invalid;
  const asOf = Math.min(m.asOf, s.time);
  const same = (x: Subscription): boolean => x.provider === m.provider && x.id === m.id;
  const before = a.subscriptions.find(same);
  if (before !== undefined && asOf < before.asOf) return status.ok;
  const list = a.subscriptions.filter((x) => !same(x));
  list.push({
    provider: m.provider, id: m.id, tier: m.tier, active: m.active, pastDue: m.pastDue, cancels: m.cancels,
    created: m.created, periodEnd: m.periodEnd, asOf, feeCents: m.feeCents, nextTier: m.nextTier,
  });
  list.sort(byCreation);
  const was = currentOf(a.subscriptions);
  const is = currentOf(list);
  let tier = 0;
  if (is !== undefined) {
    const other = was === undefined || was.provider !== is.provider || was.id !== is.id || was.tier !== is.tier;
    if (other) tier = is.tier;
  } else if (was !== undefined && a.tier === was.tier) tier = free;
  if (tier !== 0 && refusesTier(s, a, tier)) return status.invalid;
  let ended = list.filter((x) => !x.active).length;
  a.subscriptions = list.filter((x) => x.active || ended-- <= mostEnded);
  if (tier !== 0) setTier(s, a, tier);
  return status.ok;
}

const noTopUp: TopUp = {
  below: 0, credits: 0, monthMicros: 0, last: 0, due: 0, dueMicros: 0, month: 0, spent: 0, failures: 0, reason: "",
  off: false, retry: 0,
};

export function setTopUp(s: State, a: Account, m: Action): Result {
  if (m.credits === 0) {
    if (m.below !== 0 || m.monthMicros !== 0) return status.invalid;
  } else if (m.credits < oneCredit || m.credits > m.monthMicros || m.monthMicros > maxBalance || m.below > maxBalance) {
    return status.invalid;
  }
  const t = { ...(a.topUp ?? noTopUp), below: m.below, credits: m.credits, monthMicros: m.monthMicros };
  Object.assign(t, { failures: 0, reason: "", off: false, retry: 0 });
  if (m.credits === 0 && t.due !== 0) Object.assign(t, { due: 0, dueMicros: 0, retry: s.time + hour });
  a.topUp = t;
  if (m.credits > 0) s.topUps.add(a);
  else s.topUps.delete(a);
  return status.ok;
}

function endTopUp(a: Account, id: number): void {
  const t = a.topUp;
  if (t === undefined || t.due === 0 || t.last !== id) return;
  Object.assign(t, { due: 0, dueMicros: 0, failures: 0 });
}

export function topUpFailed(s: State, a: Account, m: Action): Result {
  if (byteLength(m.reason) > mostBytes) return status.invalid;
  const t = a.topUp;
  if (t === undefined || t.due === 0 || t.last !== m.topUp) return status.ok;
  t.spent -= t.dueMicros;
  Object.assign(t, { due: 0, dueMicros: 0, reason: m.reason, failures: t.failures + 1, retry: s.time + hour });
  if (t.failures < 2) return status.ok;
  t.off = true;
  const webhooks = subscribed(a, topUpOff);
  const mail = a.payments.size > 0;
  if (s.answers && (webhooks.length > 0 || mail)) {
    alert(s, a, topUpOff, webhooks, { reason: m.reason, ...(mail ? { mail } : {}) });
  }
  return status.ok;
}

/** At the end of a message: the top-ups that become due. */
export function decideTopUps(s: State): void {
  for (const a of s.topUps) {
    const t = a.topUp!;
    if (t.off || t.due !== 0 || a.suspended !== 0 || a.deletes !== 0 || a.erased !== 0) continue;
    if (balanceOf(a) >= t.below || s.time < t.retry) continue;
    const month = Math.max(t.month, a.current.month, monthOf(s.time));
    const spent = month === t.month ? t.spent : 0;
    if (spent + t.credits > t.monthMicros) continue;
    Object.assign(t, { last: t.last + 1, due: Math.max(1, s.time), dueMicros: t.credits, month, spent: spent + t.credits });
  }
}
