// Executes account commands. See "Commands".

import { newAccount, setTier, touch } from "./accounts.ts";
import { alert, alertKeys, forgetNotified, knownKeys, test, watchKeys } from "./alerts.ts";
import { day } from "./calendar.ts";
import { type Action, type Command, kinds } from "./command_messages.ts";
import { base64, idNumber, keyBytes } from "./ids.ts";
import { put, u64 } from "./json.ts";
import { createKey, newKey, replaceKey, revokeKey, rotateKey, setSpendingCap, updateKey } from "./key_commands.ts";
import { noId } from "./messages.ts";
import { grant, pay, refund, refusesTier, reverse, setSubscription, setTopUp, topUpFailed } from "./payments.ts";
import { free, maxBalance } from "./prices.ts";
import { balanceOf, defaultKey, showTier } from "./show.ts";
import type { Account, State, Webhook } from "./state.ts";
import { type Result, status, statusNames } from "./status.ts";

type Json = Record<string, unknown>;

const untilErasure = 14 * day;
const mostWebhooks = 10;
const mostThresholds = 10;
const balanceBit = 1 << 2;
const since4: number[] = [
  kinds.setNextTier, kinds.refund, kinds.payment, kinds.reverse, kinds.setSubscription, kinds.setTopUp, kinds.topUpFailed,
];

export function execute(s: State, c: Command, position: number): Json {
  s.counts.commands++;
  const kept = c.idempotency === "" ? undefined : s.commands.get(c.idempotency);
  if (kept !== undefined) {
    const same = kept.bodyHash === c.bodyHash;
    const outcome = same ? { ...kept.outcome, replayed: true } : { status: statusNames[status.mismatch], time_ms: String(s.time) };
    log(s, c, outcome);
    return outcome;
  }
  let account = s.accounts.get(c.account);
  if (account !== undefined) touch(s, account, s.time);
  const result = run(s, c, account, position);
  account ??= s.accounts.get(c.account);
  const { status: code, ...more } = typeof result === "number" ? { status: result } : result;
  const outcome = show(s, account, code, more);
  if (c.idempotency !== "") {
    const keep = { id: c.idempotency, bodyHash: c.bodyHash, time: s.time, status: code, outcome };
    s.commands.set(c.idempotency, keep);
    s.keptCommands.push(keep);
  }
  log(s, c, outcome);
  return outcome;
}

function show(s: State, a: Account | undefined, code: number, more: Json): Json {
  const j: Json = { status: statusNames[code] };
  u64(j, "time_ms", s.time);
  if (a === undefined || code === status.accountNotFound) return j;
  showTier(s, a, j);
  const key = defaultKey(a);
  put(j, "key_version", key?.version);
  u64(j, "key_created_ms", key?.created ?? 0);
  u64(j, "balance_micros", balanceOf(a));
  u64(j, "suspended_ms", a.suspended);
  u64(j, "deletes_ms", a.deletes);
  return Object.assign(j, more);
}

function run(s: State, c: Command, a: Account | undefined, position: number): Result {
  const m = c.action;
  if (m === undefined) return status.invalid;
  if (c.account === noId) return m.kind === kinds.note ? status.ok : status.invalid;
  if (m.kind === kinds.create) {
    if (a !== undefined) return status.accountExists;
    if (!(s.book?.hasTier(m.tier) ?? (m.tier >= free && m.tier <= 4))) return status.invalid;
    return create(s, c.account, m);
  }
  if (a === undefined) return status.accountNotFound;
  if (m.kind === kinds.note) return status.ok;
  if (a.erased !== 0) return status.accountNotFound;
  const keys = knownKeys(s, a);
  const result = s.rules < 4 && since4.includes(m.kind) ? status.invalid : act(s, a, m, c.admin ?? "", position);
  watchKeys(s, a);
  alertKeys(s, a, keys);
  return result;
}

function create(s: State, id: string, m: Action): Result {
  const a = newAccount(s, id, m.tier);
  s.accounts.set(id, a);
  if (m.key !== undefined) newKey(a, 0, a.defaultLineage, m.key, s.time);
  return status.ok;
}

function act(s: State, a: Account, m: Action, actor: string, position: number): Result {
  switch (m.kind) {
    case kinds.setTier: return changeTier(s, a, m.tier);
    case kinds.setNextTier: return setNextTier(s, a, m.tier);
    case kinds.grant: return grant(s, a, m, actor, position);
    case kinds.refund: return refund(s, a, m, actor, position);
    case kinds.payment: return pay(s, a, m, actor, position);
    case kinds.reverse: return reverse(s, a, m, actor, position);
    case kinds.setSubscription: return setSubscription(s, a, m);
    case kinds.setTopUp: return setTopUp(s, a, m);
    case kinds.topUpFailed: return topUpFailed(s, a, m);
    case kinds.createKey: return createKey(s, a, m);
    case kinds.updateKey: return updateKey(s, a, m);
    case kinds.replaceKey: return replaceKey(s, a, m);
    case kinds.revokeKey: return revokeKey(s, a, m);
    case kinds.rotateKey: return rotateKey(s, a, m);
    case kinds.setSpendingCap: return setSpendingCap(s, a, m);
    case kinds.setWebhook: return setWebhook(s, a, m);
    case kinds.deleteWebhook: return deleteWebhook(a, m);
    case kinds.testWebhook: return testWebhook(s, a, m);
    default: return standing(s, a, m);
  }
}

function changeTier(s: State, a: Account, tier: number): Result {
  if (refusesTier(s, a, tier)) return status.invalid;
  setTier(s, a, tier);
  return status.ok;
}

function setNextTier(s: State, a: Account, tier: number): Result {
  if (tier !== 0 && tier !== a.tier && !(s.book?.hasTier(tier) ?? tier <= 4)) return status.invalid;
  a.nextTier = tier === a.tier ? 0 : tier;
  return status.ok;
}

/** Suspension and deletion. */
function standing(s: State, a: Account, m: Action): Result {
  switch (m.kind) {
    case kinds.suspend:
      if (a.suspended === 0) a.suspended = s.time;
      a.suspensionReason = m.reason;
      break;
    case kinds.resume:
      a.suspended = 0;
      a.suspensionReason = "";
      break;
    case kinds.deleteAccount:
      if (a.deletes === 0) a.deletes = s.time + untilErasure;
      break;
    case kinds.keepAccount:
      a.deletes = 0;
      break;
    case kinds.eraseAccount:
      if (a.deletes === 0 || s.time < a.deletes) return status.invalid;
      Object.assign(a, {
        erased: s.time, deletes: 0, suspended: 0, suspensionReason: "", keys: [], webhooks: [], cap: undefined, topUp: undefined,
      });
      s.topUps.delete(a);
  }
  return status.ok;
}

/** Bits of the types that the rules allow. */
function allowedEvents(rules: number): number {
  if (rules < 3) return 0b1111;
  const types = 0b1_1011_1111_1111_1111;
  return rules < 4 ? types : types | 0b110_0000_0000_0000_0000;
}

function setWebhook(s: State, a: Account, m: Action): Result {
  const known = a.webhooks.find((w) => w.id === m.webhook);
  if (known === undefined) {
    if (m.webhook === noId) return status.webhookInvalid;
    if (!m.create) return status.webhookNotFound;
    if (a.webhooks.length >= mostWebhooks) return status.tooManyWebhooks;
  }
  const w: Webhook = {
    id: m.webhook, events: m.events ?? known?.events ?? 0, thresholds: m.thresholds ?? known?.thresholds ?? [],
    balanceBelow: m.balanceBelow ?? known?.balanceBelow ?? 0, created: known?.created ?? s.time,
  };
  const badThresholds = w.thresholds.length > mostThresholds || w.thresholds.some((t) => t < 1 || t > 100);
  if (w.events === 0 || (w.events & ~allowedEvents(s.rules)) !== 0 || badThresholds) return status.webhookInvalid;
  if (w.balanceBelow > maxBalance || ((w.events & balanceBit) !== 0 && w.balanceBelow === 0)) return status.webhookInvalid;
  w.thresholds = [...new Set(w.thresholds)].sort((x, y) => x - y);
  if (known === undefined) a.webhooks.push(w);
  else Object.assign(known, w);
  forgetNotified(a);
  const shown: Json = { webhook: idNumber(w.id).toString() };
  put(shown, "events", w.events);
  if (w.thresholds.length > 0) shown["thresholds"] = w.thresholds;
  u64(shown, "balance_below_micros", w.balanceBelow);
  u64(shown, "created_ms", w.created);
  return { status: status.ok, webhook: shown };
}

function deleteWebhook(a: Account, m: Action): Result {
  const at = a.webhooks.findIndex((w) => w.id === m.webhook);
  if (at < 0) return status.webhookNotFound;
  a.webhooks.splice(at, 1);
  forgetNotified(a);
  return status.ok;
}

function testWebhook(s: State, a: Account, m: Action): Result {
  const w = a.webhooks.find((x) => x.id === m.webhook);
  if (w === undefined) return status.webhookNotFound;
  return s.answers ? { status: status.ok, alert: alert(s, a, test, [w], {}) } : status.ok;
}

/** Names of the admin log's actions that the documents have. They do not name the actions of other commands. */
const adminActions: Record<number, string> = {
  [kinds.create]: "account.create", [kinds.setTier]: "tier.set", [kinds.grant]: "credits.grant",
  [kinds.refund]: "credits.refund",
};

function log(s: State, c: Command, outcome: Json): void {
  if (!s.answers || c.admin === undefined || c.action === undefined) return;
  const m = c.action;
  const j: Json = {};
  u64(j, "time_ms", s.time);
  put(j, "token", c.admin);
  put(j, "action", m.kind === kinds.note ? m.reason : (adminActions[m.kind] ?? "unknown"));
  u64(j, "account", idNumber(c.account));
  if (c.request !== "") j["request_id"] = base64(keyBytes(c.request));
  j["status"] = outcome["status"];
  put(j, "replayed", outcome["replayed"] === true);
  put(j, "tier", m.kind === kinds.create || m.kind === kinds.setTier ? m.tier : 0);
  put(j, "plan", j["tier"] === undefined ? "" : s.book?.planName(m.tier));
  u64(j, "amount_micros", m.kind === kinds.grant || m.kind === kinds.refund ? m.amount : 0);
  u64(j, "expires_ms", m.kind === kinds.grant ? m.expires : 0);
  put(j, "detail", m.kind === kinds.note ? m.detail : m.reason);
  (s.effects.admin ??= []).push(j);
}
