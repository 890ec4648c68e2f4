// Decides admissions. See "Admission" and "Idempotency": the numbers are the numbers of its rules.

import { countingDay, countMaker, makesRoom, newNetwork, openPeriod, touch } from "./accounts.ts";
import { dayOf, minute, monthOf, monthStart } from "./calendar.ts";
import { alertAdmitted, wantsContent } from "./alerts.ts";
import { countPaid, take } from "./credits.ts";
import { capEnd, currentVersion, daySpent, enterMonth, keyLimit, type Reached, reachedCap, usedBy, validKey } from "./keys.ts";
import { base64, showId } from "./ids.ts";
import { put, u64 } from "./json.ts";
import { type Admission, noId } from "./messages.ts";
import { counts, type Terms } from "./prices.ts";
import { kinds, link } from "./receipts.ts";
import {
  type Account, type Admitted, chargeCredits, chargeNone, chargeQuota, type Hold, type Key, type Network,
  open, type Owner, type State,
} from "./state.ts";
import { heldByCap, heldByKeyLimit, heldByQuota, heldByWindow } from "./held.ts";
import { showCap } from "./show.ts";
import { planOf } from "./statements.ts";

export type Verdict = Record<string, unknown>;

const freeRepeats = 2;
const anonymousKey = 8;
const noVerdict: Verdict = {};
const tolerated = 100;

export function admit(s: State, m: Admission, admitted: Admitted, index: number): Verdict {
  s.counts.admissions++;
  const known = counts(s.rules, m.quotaKey);
  if (s.book === undefined || m.request === "" || !known || (m.anonymous && m.quotaKey !== anonymousKey)) return noVerdict;
  return m.anonymous ? admitNetwork(s, m, admitted, index) : admitAccount(s, m, admitted, index);
}

function refusal(decision: string, more: Verdict): Verdict {
  return { decision, ...more };
}

function admitAccount(s: State, m: Admission, admitted: Admitted, index: number): Verdict {
  const a = s.accounts.get(m.account);
  if (a === undefined) return refusal("INVALID_KEY", { final: true }); // 1
  if (a.nextTier !== 0 && a.current.month < monthOf(s.time)) touch(s, a, s.time);
  const key = validKey(a, m, s.time);
  const early = earlyRefusal(s, a, m, key); // 2 to 5
  if (early !== undefined) return s.answers ? { ...early, ...tierOf(s, a), final: true } : early;
  const repeated = refusedRepeat(s, a, m); // 6 to 8
  if (repeated !== undefined) return s.answers ? { ...repeated, ...room(s, a, m) } : repeated;
  touch(s, a, s.time); // Those refusals don't begin a month.
  return decide(s, a, key!, m, admitted, index);
}

function tierOf(s: State, a: Account): Verdict {
  const v: Verdict = { tier: a.tier };
  const plan = s.book!.planName(a.tier);
  if (plan !== "") v["plan"] = plan;
  return v;
}

function earlyRefusal(s: State, a: Account, m: Admission, key: Key | undefined): Verdict | undefined {
  if (key === undefined) {
    const version = currentVersion(a, s.time);
    return refusal("INVALID_KEY", version > 0 ? { current_key_version: version } : {});
  }
  if (a.suspended !== 0 || a.deletes !== 0) return refusal("ACCOUNT_SUSPENDED", {});
  const { scopes } = key.lineage;
  return scopes.length > 0 && !scopes.includes(m.quotaKey) ? refusal("KEY_SCOPE", {}) : undefined;
}

/** The fields that each verdict about an account's quota has, by the present month, even if it has not begun for the account. */
function room(s: State, a: Account, m: Admission): Verdict {
  const { limit } = planOf(s.book, a.tier).terms[m.quotaKey]!;
  const month = Math.max(a.current.month, monthOf(s.time));
  const used = month === a.current.month ? a.current.used[m.quotaKey]! : 0;
  const v = tierOf(s, a);
  u64(v, "limit", limit);
  u64(v, "remaining", limit < 0 ? -1 : Math.max(0, limit - used));
  v["reset_seconds"] = untilSeconds(s, monthStart(month + 1));
  return v;
}

export function untilSeconds(s: State, ms: number): number {
  return Math.max(0, Math.ceil((ms - s.time) / 1000));
}

/** Rules 6 to 8. */
function refusedRepeat(s: State, o: Owner, m: Admission): Verdict | undefined {
  if (o.failed > tolerated) {
    // The 101st newest has to leave the window.
    const times: number[] = [];
    o.failures.forEach((t) => times.push(t));
    const retry = untilSeconds(s, times[times.length - 1 - tolerated]! + minute);
    return refusal("TOO_MANY_FAILURES", { final: true, retry_after_seconds: retry });
  }
  if (s.known.has(m.request)) return refusal("IDEMPOTENCY_IN_FLIGHT", {});
  const id = idempotencyOf(m);
  const other = id === "" ? undefined : s.byIdempotency.get(id);
  if (other === undefined) return undefined;
  const hash = readHashOf(m);
  if (other.readHash.slice(0, 2) !== hash.slice(0, 2)) return refusal("IDEMPOTENCY_OTHER", {});
  if (other.result === open) return refusal("IDEMPOTENCY_IN_FLIGHT", {});
  if (other.readHash === noId) return refusal("IDEMPOTENCY_SERVED", {});
  if (other.readHash === hash && other.repeats < freeRepeats && s.time - other.time < minute) {
    other.repeats++;
    return refusal("IDEMPOTENCY_SERVED", {});
  }
  return undefined;
}

function isHashedRead(m: Admission): boolean {
  return !m.hasIdempotency && !m.write && !m.anonymous && m.readHash !== noId && m.readId !== "";
}

function idempotencyOf(m: Admission): string {
  return isHashedRead(m) ? m.readId : m.idempotency;
}

function readHashOf(m: Admission): string {
  return isHashedRead(m) ? m.readHash : noId;
}

/** Rules 9 to 15. */
function decide(s: State, a: Account, key: Key, m: Admission, admitted: Admitted, index: number): Verdict {
  const month = a.current;
  const terms = planOf(s.book, a.tier).terms[m.quotaKey]!;
  const used = month.used[m.quotaKey]!;
  const own = keyLimit(key.lineage, m.quotaKey);
  if (own !== undefined && usedBy(key.lineage, month.month, m.quotaKey) >= own && (terms.limit !== 0 || terms.overage)) {
    const v = refusal("KEY_QUOTA_EXHAUSTED", {});
    u64(v, "key_limit", own);
    if (!s.answers) return v;
    const reset = untilSeconds(s, monthStart(month.month + 1));
    return waits(v, room(s, a, m), heldByKeyLimit(a, key.lineage, m.quotaKey, own), own === 0 ? 0 : reset);
  }
  if (terms.limit < 0) return take15(s, a, key, m, admitted, index, chargeNone, 0);
  if (used < terms.limit) return take15(s, a, key, m, admitted, index, chargeQuota, 0);
  if (terms.limit === 0 && !terms.overage) {
    const v = refusal("PLAN_UPGRADE_REQUIRED", { final: true });
    return s.answers ? { ...v, ...room(s, a, m) } : v;
  }
  const reached = terms.overage ? reachedCap(s, a, key.lineage, terms.price) : undefined;
  if (reached !== undefined) return capReached(s, a, key, m, terms, reached);
  if (!terms.overage || available(a) < terms.price) {
    const v = refusal("QUOTA_EXHAUSTED", {});
    if (!s.answers) return v;
    return waits(v, room(s, a, m), heldByQuota(a, m.quotaKey, terms), untilSeconds(s, monthStart(month.month + 1)));
  }
  return take15(s, a, key, m, admitted, index, chargeCredits, terms.price);
}

export function available(a: Account): number {
  return a.owed > 0 ? 0 : a.available;
}

function capReached(s: State, a: Account, key: Key, m: Admission, terms: Terms, reached: Reached): Verdict {
  const v = refusal("SPENDING_CAP_REACHED", {});
  if (!s.answers) return v;
  if (reached.ofKey) v["key_cap"] = true;
  v["cap"] = showCap(reached.cap);
  const end = capEnd(reached.cap, daySpent(s, a), a.current.month);
  const retry = end === 0 || terms.price > reached.cap.amount ? 0 : untilSeconds(s, end);
  return waits(v, room(s, a, m), heldByCap(s, a, key.lineage, m.quotaKey, terms, reached), retry);
}

/** A refusal that ends by itself, or that open holds may undo. */
function waits(v: Verdict, more: Verdict, held: boolean, retry: number): Verdict {
  Object.assign(v, more);
  if (held) return Object.assign(v, { held: true, retry_after_seconds: 1 });
  v["final"] = true;
  if (retry > 0) v["retry_after_seconds"] = retry;
  return v;
}

function newHold(s: State, o: Owner, m: Admission, admitted: Admitted, index: number): Hold {
  const h: Hold = {
    request: m.request, account: undefined, network: undefined, quotaKey: m.quotaKey, time: s.time, month: 0, day: 0,
    charge: chargeQuota, cost: 0, returned: 0, uses: undefined, write: m.write, idempotency: idempotencyOf(m),
    readHash: readHashOf(m), repeats: 0, result: open, closed: 0, timedOut: false, confirmed: false, remembered: false, makesRoom: false,
    message: admitted, sequence: admitted.sequence, index, terms: 0, key: 0, lineage: undefined, period: undefined,
  };
  s.known.set(h.request, h);
  admitted.holds[index] = h;
  admitted.known++;
  o.open++;
  o.known++;
  if (h.idempotency !== "") replaceIdempotent(s, h);
  return h;
}

/** A hold that goes on under the id of another one replaces it. */
function replaceIdempotent(s: State, h: Hold): void {
  const other = s.byIdempotency.get(h.idempotency);
  if (other !== undefined) other.idempotency = "";
  s.byIdempotency.set(h.idempotency, h);
}

export function forgetKnown(s: State, h: Hold): void {
  if (s.known.get(h.request) === h) s.known.delete(h.request);
  const { message } = h;
  if (message === undefined) return;
  (h.account ?? h.network)!.known--;
  h.message = undefined;
  message.holds[h.index] = undefined;
  if (--message.known === 0) s.admitted.delete(message.sequence);
}

/** Rules 10, 11 and 15: admits the request. */
function take15(
  s: State, a: Account, key: Key, m: Admission, admitted: Admitted, index: number, charge: number, price: number,
): Verdict {
  const h = newHold(s, a, m, admitted, index);
  h.account = a;
  h.charge = charge;
  h.cost = price;
  h.month = a.current.month;
  h.day = h.month === monthOf(s.time) ? dayOf(s.time) : countingDay(a, s.time);
  h.terms = s.terms + a.ownTerms;
  h.key = key.number;
  h.lineage = key.lineage;
  h.period = openPeriod(a);
  key.lastUsed = s.time;
  countUse(a, h);
  const before = a.available;
  if (charge === chargeCredits) {
    h.uses = take(a, price);
    countPaid(a, a.current, h, price, 1, h.terms);
  }
  linkRequest(s, a, h, kinds.admitted, s.time);
  a.holds.add(h);
  a.openByKey[h.quotaKey]!++;
  countMaker(a, h, makesRoom(s, a, h));
  reportUse(s, a, h, 1, charge === chargeCredits ? 1 : 0, price);
  if (!s.answers) return noVerdict;
  return admittedVerdict(s, a, m, h, before);
}

function admittedVerdict(s: State, a: Account, m: Admission, h: Hold, before: number): Verdict {
  const v: Verdict = { decision: "ADMITTED", ...room(s, a, m) };
  if (h.charge !== chargeNone) v["charge"] = h.charge === chargeQuota ? "CHARGE_QUOTA" : "CHARGE_CREDITS";
  if (h.charge === chargeCredits) {
    u64(v, "cost_micros", h.cost);
    u64(v, "balance_micros", available(a));
  }
  if (m.write && wantsContent(a)) v["announce"] = true;
  if (a.receipt.number > 0) {
    u64(v, "receipt_number", a.receipt.number);
    v["receipt"] = base64(a.receipt.hash);
  }
  alertAdmitted(s, a, h, before);
  return v;
}

/** used + 1, for the account, its period and the key. */
export function countUse(a: Account, h: Hold): void {
  a.current.used[h.quotaKey]!++;
  openPeriod(a).used[h.quotaKey]!++;
  if (h.lineage === undefined) return;
  enterMonth(h.lineage, a.current.month);
  if (h.lineage.month === a.current.month) h.lineage.used[h.quotaKey]!++;
}

/** The entry of what a request has now. */
export function linkRequest(s: State, a: Account, h: Hold, kind: number, time: number): void {
  const { month, quotaKey, charge, cost: amount, key, request } = h;
  link(s, a, { kind, time, month, quotaKey, charge, amount, key, request });
}

/** The effect "usage": what a day's counters change by. */
export function reportUse(s: State, a: Account, h: Hold, used: number, overage: number, spent: number): void {
  if (!s.answers) return;
  const j: Record<string, unknown> = { account: showId(a.id), day: h.day, quota_key: h.quotaKey };
  if (h.key !== 0) j["key"] = h.key;
  if (used !== 0) j["used"] = used;
  if (overage !== 0) j["overage"] = overage;
  u64(j, "spent_micros", spent);
  (s.effects.usage ??= []).push(j);
}

function admitNetwork(s: State, m: Admission, admitted: Admitted, index: number): Verdict {
  const n = s.networks.get(m.account) ?? newNetwork(m.account);
  const repeated = refusedRepeat(s, n, m);
  if (repeated !== undefined) return s.answers ? { ...repeated, ...windowRoom(s, n) } : repeated;
  const limit = s.book!.anonymousLimit;
  if (n.admitted.length >= limit) {
    const v = refusal("ANONYMOUS_LIMIT", {});
    if (!s.answers) return v;
    const retry = windowReset(s, n);
    const more = windowRoom(s, n);
    put(more, "reset_seconds", retry);
    return waits(v, more, heldByWindow(n, limit), retry);
  }
  s.networks.set(n.id, n);
  const h = newHold(s, n, m, admitted, index);
  h.network = n;
  enterWindow(s, n, s.time);
  if (!s.answers) return noVerdict;
  const v: Verdict = { decision: "ADMITTED", charge: "CHARGE_QUOTA", ...windowRoom(s, n) };
  put(v, "reset_seconds", windowReset(s, n));
  return v;
}

export function enterWindow(s: State, n: Network, time: number): void {
  n.admitted.push(time);
  s.windows.push({ network: n, time });
}

function windowRoom(s: State, n: Network): Verdict {
  const limit = s.book!.anonymousLimit;
  const v: Verdict = {};
  u64(v, "limit", limit);
  u64(v, "remaining", Math.max(0, limit - n.admitted.length));
  return v;
}

/** Seconds until the oldest admission leaves the window. After the limit was lowered more than one has to. */
export function windowReset(s: State, n: Network): number {
  const { anonymousLimit: limit, anonymousWindow: window } = s.book!;
  const leaves = n.admitted[Math.max(0, n.admitted.length - limit)];
  return leaves === undefined ? 0 : untilSeconds(s, leaves + window);
}
