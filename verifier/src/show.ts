// Accounts as the vectors and books have them.

import { touch } from "./accounts.ts";
import { dayOf, monthOf, monthStart } from "./calendar.ts";
import type { Cap } from "./command_messages.ts";
import { idNumber, showId } from "./ids.ts";
import { put, u64 } from "./json.ts";
import { capEnd, capSpent } from "./keys.ts";
import { quotaKeys } from "./prices.ts";
import { showReceipt } from "./receipts.ts";
import type { Account, Key, Lineage, Network, Payment, State, Subscription, TopUp } from "./state.ts";
import { windowReset } from "./admission.ts";
import { billStorage, bookIndexAt, countStorage, planOf, showStatement, showUsage } from "./statements.ts";

type Json = Record<string, unknown>;

const periods = ["CAP_NONE", "CAP_DAY", "CAP_MONTH", "CAP_TOTAL"];

export function showCap(cap: Cap): Json {
  const j: Json = {};
  if (cap.period !== 0) j["period"] = periods[cap.period];
  u64(j, "amount_micros", cap.amount);
  return j;
}

/** A cap as of a time, or of a later day on which its own owner has spent. */
export function showCapStatus(a: Account, owner: Account | Lineage, cap: Cap, at: number): Json {
  const j: Json = { cap: showCap(cap) };
  u64(j, "spent_micros", shownSpent(a, owner, cap, at));
  u64(j, "reset_ms", capEnd(cap, shownDay(owner, at), monthOf(at)));
  return j;
}

function shownDay(owner: Account | Lineage, at: number): number {
  return Math.max(owner.spending.day, dayOf(at));
}

function shownSpent(a: Account, owner: Account | Lineage, cap: Cap, at: number): number {
  return capSpent(a, owner, cap.period, shownDay(owner, at));
}

/** As of when the caps of keys are shown: the account's month has begun. */
function keysAt(s: State, a: Account): number {
  return Math.max(s.time, monthStart(a.current.month));
}

export function balanceOf(a: Account): number {
  return a.available - a.owed;
}

/** A key as its owner sees it; in an outcome without its fingerprint. */
export function showKey(s: State, a: Account, k: Key, inOutcome: boolean): Json {
  const j: Json = {};
  const l = k.lineage;
  put(j, "number", k.number);
  put(j, "version", k.version);
  put(j, "name", l.name);
  put(j, "prefix", k.prefix);
  if (l.scopes.length > 0) j["scopes"] = l.scopes;
  u64(j, "created_ms", k.created);
  u64(j, "last_used_ms", k.lastUsed);
  u64(j, "expires_ms", k.expires);
  u64(j, "revoked_ms", k.revoked);
  put(j, "replaced", k.replaced);
  put(j, "replaced_by", k.replacedBy);
  if (l.quotas.length > 0) {
    j["quotas"] = l.quotas.map((q) => {
      const line: Json = { quota_key: q.quotaKey };
      put(line, "limit", q.limit);
      return line;
    });
  }
  if (l.cap !== undefined) j["cap"] = showCapStatus(a, l, l.cap, keysAt(s, a));
  const usage = showKeyUsage(a, l);
  if (usage.length > 0) j["usage"] = usage;
  if (!inOutcome) u64(j, "fingerprint", idNumber(k.fingerprint));
  put(j, "capped", s.rules >= 2 && isCapped(s, a, k));
  return j;
}

function showKeyUsage(a: Account, l: Lineage): Json[] {
  const lines: Json[] = [];
  if (l.month !== a.current.month) return lines;
  for (let key = 1; key <= quotaKeys; key++) {
    if (l.used[key] === 0 && l.overage[key] === 0 && l.spent[key] === 0) continue;
    const line: Json = { quota_key: key };
    u64(line, "used", l.used[key]!);
    u64(line, "overage", l.overage[key]!);
    u64(line, "spent_micros", l.spent[key]!);
    lines.push(line);
  }
  return lines;
}

/** A cap leaves too little for any request over quota that the key's scopes admit. */
function isCapped(s: State, a: Account, k: Key): boolean {
  const l = k.lineage;
  const admits = (quotaKey: number): boolean => l.scopes.length === 0 || l.scopes.includes(quotaKey);
  const sold = planOf(s.book, a.tier).terms.filter((t, quotaKey) => t.overage && t.price > 0 && admits(quotaKey));
  if (sold.length === 0) return false;
  const cheapest = Math.min(...sold.map((t) => t.price));
  return [l, a].some((owner) => owner.cap !== undefined && shownSpent(a, owner, owner.cap, keysAt(s, a)) + cheapest > owner.cap.amount);
}

export function showAccount(s: State, a: Account): Json {
  touch(s, a, s.time);
  countStorage(a, s.time);
  const statements = [a.previous, a.current].filter((m) => m !== undefined).map((m) => showStatement(s, a, m));
  const j: Json = { account: showId(a.id), usage: showUsageAnswer(s, a), statements };
  if (a.subscriptions.length > 0 || a.topUp !== undefined) j["plan"] = showPlan(s, a);
  return j;
}

export function showTier(s: State, a: Account, j: Json): void {
  j["tier"] = a.tier;
  put(j, "plan", s.book?.planName(a.tier));
  put(j, "next_tier", a.nextTier);
  put(j, "next_plan", s.book?.planName(a.nextTier));
}

export function defaultKey(a: Account): Key | undefined {
  const first = a.keys[0];
  return first?.number === 0 ? first : undefined;
}

function showUsageAnswer(s: State, a: Account): Json {
  const m = a.current;
  const book = s.books[bookIndexAt(s, monthStart(m.month + 1) - 1)];
  const plan = planOf(book, a.tier);
  const bill = billStorage(m, plan);
  const key = defaultKey(a);
  const j: Json = { account: idNumber(a.id).toString(), usage: showUsage(m, plan, book) };
  showTier(s, a, j);
  u64(j, "period_start_ms", monthStart(m.month));
  u64(j, "period_end_ms", monthStart(m.month + 1));
  u64(j, "balance_micros", balanceOf(a));
  u64(j, "spent_micros", m.spentSum);
  u64(j, "storage_used_bytes", a.storageBytes);
  u64(j, "storage_free_bytes", plan.freeStorage);
  u64(j, "storage_average_bytes", bill.average);
  u64(j, "storage_overage_cents", bill.cents);
  put(j, "key_prefix", key?.prefix);
  put(j, "key_version", key?.version);
  u64(j, "key_created_ms", key?.created ?? 0);
  u64(j, "created_ms", a.created);
  u64(j, "suspended_ms", a.suspended);
  put(j, "suspension_reason", a.suspensionReason);
  if (a.keys.length > 0) j["keys"] = a.keys.map((k) => showKey(s, a, k, false));
  if (a.cap !== undefined) j["cap"] = showCapStatus(a, a, a.cap, s.time);
  const grants = a.grants.filter((g) => g.left > 0);
  if (grants.length > 0) {
    j["grants"] = grants.map((g) => {
      const line: Json = {};
      u64(line, "amount_micros", g.amount);
      u64(line, "left_micros", g.left);
      u64(line, "expires_ms", g.expires);
      u64(line, "created_ms", g.created);
      put(line, "reason", g.reason);
      return line;
    });
    j["grant_count"] = grants.length;
  }
  u64(j, "deletes_ms", a.deletes);
  u64(j, "erased_ms", a.erased);
  put(j, "receipt", showReceipt(a.receipt));
  return j;
}

function showPlan(s: State, a: Account): Json {
  const j: Json = {};
  showTier(s, a, j);
  u64(j, "balance_micros", balanceOf(a));
  const active = a.subscriptions.filter((x) => x.active);
  if (active.length > 0) j["subscriptions"] = active.map(showSubscription);
  if (a.topUp !== undefined) j["top_up"] = showTopUp(a.topUp, a.current.month);
  u64(j, "deletes_ms", a.deletes);
  u64(j, "payments", a.payments.size);
  return j;
}

function showSubscription(x: Subscription): Json {
  const j: Json = { provider: x.provider, id: x.id };
  put(j, "tier", x.tier);
  put(j, "active", x.active);
  put(j, "past_due", x.pastDue);
  put(j, "cancels", x.cancels);
  u64(j, "created_ms", x.created);
  u64(j, "period_end_ms", x.periodEnd);
  u64(j, "as_of_ms", x.asOf);
  put(j, "next_tier", x.nextTier);
  u64(j, "fee_cents", x.feeCents);
  return j;
}

function showTopUp(t: TopUp, present: number): Json {
  const month = Math.max(t.month, present);
  const rule: Json = {};
  u64(rule, "below_micros", t.below);
  u64(rule, "credits_micros", t.credits);
  u64(rule, "month_micros", t.monthMicros);
  const j: Json = { rule };
  u64(j, "last", t.last);
  u64(j, "due_ms", t.due);
  u64(j, "due_micros", t.dueMicros);
  put(j, "month", month);
  u64(j, "spent_micros", month === t.month ? t.spent : 0);
  put(j, "failures", t.failures);
  put(j, "reason", t.reason);
  put(j, "off", t.off);
  u64(j, "retry_ms", t.retry);
  return j;
}

export function showPayment(p: Payment): Json {
  const j: Json = { provider: p.provider, id: p.id };
  u64(j, "credits_micros", p.credits);
  u64(j, "reversed_micros", p.reversed);
  u64(j, "as_of_ms", p.asOf);
  u64(j, "number", p.number);
  u64(j, "time_ms", p.time);
  put(j, "plan", p.plan);
  u64(j, "amount_cents", p.amountCents);
  u64(j, "tax_cents", p.taxCents);
  u64(j, "top_up", p.topUp);
  u64(j, "reversed_cents", p.reversedCents);
  return j;
}

export function showNetwork(s: State, n: Network): Json {
  const { book } = s;
  const j: Json = {};
  put(j, "limit", book?.anonymousLimit);
  put(j, "remaining", Math.max(0, (book?.anonymousLimit ?? 0) - n.admitted.length));
  put(j, "reset_seconds", book === undefined ? 0 : windowReset(s, n));
  u64(j, "window_ms", book?.anonymousWindow ?? 0);
  return { network: showId(n.id), allowance: j };
}
