// Alerts for webhooks and account holders. They decide nothing that costs. See "Webhooks".

import { day, monthStart } from "./calendar.ts";
import type { Cap } from "./command_messages.ts";
import { base62, idNumber, keyBytes, position } from "./ids.ts";
import { put, u64 } from "./json.ts";
import { capDay, capEnd, capMonth, capSpent, daySpent, isLive } from "./keys.ts";
import type { ContentChange } from "./messages.ts";
import { type Account, chargeCredits, type Hold, type Key, type Lineage, type State, type Webhook } from "./state.ts";
import { planOf } from "./statements.ts";

type Json = Record<string, unknown>;

export const alertTypes = [
  "", "ALERT_QUOTA", "ALERT_CAP", "ALERT_BALANCE", "ALERT_KEY", "ALERT_KEY_CREATED", "ALERT_KEY_REVOKED",
  "ALERT_PASTE_CREATED", "ALERT_PASTE_UPDATED", "ALERT_PASTE_DELETED", "ALERT_PASTE_BURNED", "ALERT_LITE_CREATED",
  "ALERT_LITE_UPDATED", "ALERT_LITE_DELETED", "ALERT_LITE_BURNED", "ALERT_TEST", "ALERT_FILE_CREATED",
  "ALERT_FILE_DELETED", "ALERT_TOP_UP_OFF", "ALERT_PAYMENT",
];
const quota = 1;
const capAlert = 2;
const balance = 3;
const keyExpires = 4;
const keyCreated = 5;
const keyRevoked = 6;
export const test = 15;
export const topUpOff = 18;
export const payment = 19;
const contentTypes = 0b1_1011_1111_1100_0000;
const defaultThresholds = [50, 80, 100];
const warnings = [7 * day, day];

function wants(w: Webhook, type: number): boolean {
  return (w.events & (1 << (type - 1))) !== 0;
}

export function wantsContent(a: Account): boolean {
  return a.webhooks.some((w) => (w.events & contentTypes) !== 0);
}

export function subscribed(a: Account, type: number): Webhook[] {
  return a.webhooks.filter((w) => wants(w, type));
}

/** Adds an alert, and returns its id. */
export function alert(s: State, a: Account, type: number, webhooks: Webhook[], fields: Json): string {
  const index = s.alertCounts.get(a.id) ?? 0;
  s.alertCounts.set(a.id, index + 1);
  const order = new Uint8Array(4);
  new DataView(order.buffer).setUint32(0, index);
  const sum = s.hash([new TextEncoder().encode("alert"), s.chain, keyBytes(a.id), order]);
  const view = new DataView(sum.buffer, sum.byteOffset);
  const id = `evt_${base62(view.getBigUint64(0), 11)}${base62(view.getBigUint64(8), 11)}`;
  const alerts = (s.effects.alerts ??= []);
  const j: Json = {
    id, position: position(s.sequence, alerts.length), account: idNumber(a.id).toString(), time_ms: String(s.time),
    type: alertTypes[type],
  };
  if (webhooks.length > 0) j["webhooks"] = webhooks.map((w) => idNumber(w.id).toString());
  alerts.push(Object.assign(j, fields));
  return id;
}

/** Of a request that was admitted or charged late. */
export function alertAdmitted(s: State, a: Account, h: Hold, before: number): void {
  if (a.webhooks.length === 0) return;
  const { limit } = planOf(s.book, a.tier).terms[h.quotaKey]!;
  const [from, until] = [monthStart(a.current.month), monthStart(a.current.month + 1)];
  if (limit > 0) {
    const used = a.current.used[h.quotaKey]!;
    const fields: Json = { quota_key: h.quotaKey };
    crossings(s, a, quota, `${h.quotaKey}`, used - 1, used, limit, from, until, fields);
  }
  if (h.charge !== chargeCredits) return;
  alertBalance(s, a, before);
  if (h.lineage?.cap !== undefined) alertCap(s, a, h, h.lineage, h.lineage.cap);
  if (a.cap !== undefined) alertCap(s, a, h, undefined, a.cap);
}

function alertCap(s: State, a: Account, h: Hold, l: Lineage | undefined, cap: Cap): void {
  const on = daySpent(s, a);
  const spent = capSpent(a, l ?? a, cap.period, on);
  const until = capEnd(cap, on, a.current.month);
  const from = cap.period === capDay ? until - day : cap.period === capMonth ? monthStart(a.current.month) : 0;
  const fields: Json = {};
  put(fields, "key_cap", l !== undefined);
  if (l !== undefined) put(fields, "key", a.keys.find((k) => k.lineage === l && !k.replaced)?.number ?? l.line);
  crossings(s, a, capAlert, `${l?.line ?? ""}/${cap.period}`, spent - h.cost, spent, cap.amount, from, until, fields);
}

function crossings(
  s: State, a: Account, type: number, of: string, before: number, after: number, limit: number, from: number,
  until: number, fields: Json,
): void {
  const name = `${type} ${of} ${limit} ${from}`;
  const by = new Map<number, Webhook[]>();
  for (const w of subscribed(a, type)) {
    for (const t of w.thresholds.length > 0 ? w.thresholds : defaultThresholds) {
      if (before * 100 >= t * limit || after * 100 < t * limit || t <= (a.notified.get(name) ?? 0)) continue;
      by.set(t, [...(by.get(t) ?? []), w]);
    }
  }
  for (const [threshold, webhooks] of [...by].sort(([x], [y]) => x - y)) {
    a.notified.set(name, threshold);
    const j: Json = { ...fields, threshold };
    u64(j, "used", after);
    u64(j, "limit", limit);
    u64(j, "from_ms", from);
    u64(j, "until_ms", until);
    alert(s, a, type, webhooks, j);
  }
}

/** When available falls from at or above a webhook's value to below it. */
export function alertBalance(s: State, a: Account, before: number): void {
  const by = new Map<number, Webhook[]>();
  for (const w of s.answers ? subscribed(a, balance) : []) {
    const value = w.balanceBelow;
    if (value === 0 || before < value || a.available >= value || a.low.has(value)) continue;
    by.set(value, [...(by.get(value) ?? []), w]);
  }
  for (const [value, webhooks] of [...by].sort(([x], [y]) => y - x)) {
    a.low.add(value);
    const j: Json = {};
    u64(j, "balance_micros", a.available);
    u64(j, "below_micros", value);
    alert(s, a, balance, webhooks, j);
  }
}

/** Forgets what no webhook is notified of any more. */
export function forgetNotified(a: Account): void {
  const watched = new Set(subscribed(a, balance).map((w) => w.balanceBelow));
  for (const value of a.low) if (!watched.has(value)) a.low.delete(value);
  if (a.webhooks.length === 0) a.notified.clear();
}

/** A grant that lifts the balance to a value lets it be notified again. */
export function raised(a: Account): void {
  for (const value of a.low) if (a.available >= value) a.low.delete(value);
}

/** After a command of the account: the live keys whose expiry is still to be notified, and which warnings of it are done. */
export function watchKeys(s: State, a: Account): void {
  if (!s.answers) return;
  const before = a.warned;
  a.warned = new Map();
  const wanted = subscribed(a, keyExpires).length > 0;
  for (const k of wanted ? a.keys : []) {
    if (k.expires === 0 || k.replaced || !isLive(k, s.time)) continue;
    const same = before.get(k.number);
    const given = warnings.filter((w) => k.expires - w <= s.time).length;
    a.warned.set(k.number, same?.expires === k.expires ? same : { expires: k.expires, given });
  }
  if (a.warned.size > 0) s.warnings.add(a);
  else s.warnings.delete(a);
}

/** Notifies what is due by now, in the order of its time. A key may have expired meanwhile. */
export function warnExpiring(s: State): void {
  const due: { at: number; account: Account; fields: Json }[] = [];
  for (const account of s.warnings) {
    for (const [number, state] of account.warned) {
      for (let w = warnings[state.given]; w !== undefined && state.expires - w <= s.time; w = warnings[state.given]) {
        state.given++;
        const fields: Json = {};
        put(fields, "key", number);
        u64(fields, "expires_ms", state.expires);
        fields["days_before"] = w / day;
        due.push({ at: state.expires - w, account, fields });
      }
    }
  }
  due.sort((x, y) => x.at - y.at || (x.account.id < y.account.id ? -1 : x.account.id > y.account.id ? 1 : 0));
  for (const { account, fields } of due) alert(s, account, keyExpires, subscribed(account, keyExpires), fields);
}

/** A key as it was before a command. */
interface KnownKey {
  key: Key;
  version: number;
  replaced: boolean;
  live: boolean;
  expires: number;
}

/** The keys of an account whose webhooks are notified of created and revoked ones. */
export function knownKeys(s: State, a: Account): KnownKey[] | undefined {
  const watched = s.answers && subscribed(a, keyCreated).length + subscribed(a, keyRevoked).length > 0;
  if (!watched) return undefined;
  return a.keys.map((key) => ({ key, version: key.version, replaced: key.replaced, live: isLive(key, s.time), expires: key.expires }));
}

/** Notifies of the keys that a command has created, and of those that it has ended or replaced. */
export function alertKeys(s: State, a: Account, before: KnownKey[] | undefined): void {
  if (before === undefined) return;
  for (const k of a.keys) {
    if (!before.some((b) => b.key === k && b.version === k.version)) alertKey(s, a, keyCreated, k, k.expires);
  }
  for (const b of before) {
    if (!b.live) continue;
    const live = a.keys.includes(b.key) && b.key.version === b.version && isLive(b.key, s.time);
    if (!live || b.key.replaced !== b.replaced) alertKey(s, a, keyRevoked, b.key, live ? b.key.expires : 0);
  }
}

function alertKey(s: State, a: Account, type: number, k: Key, expires: number): void {
  const webhooks = subscribed(a, type);
  if (webhooks.length === 0) return;
  const fields: Json = {};
  put(fields, "key", k.number);
  u64(fields, "expires_ms", expires);
  fields["key_name"] = k.lineage.name;
  alert(s, a, type, webhooks, fields);
}

const actions = ["", "CONTENT_CREATED", "CONTENT_UPDATED", "CONTENT_DELETED", "CONTENT_BURNED"];
const contentAlerts: Record<string, number[]> = { paste: [0, 7, 8, 9, 10], lite: [0, 11, 12, 13, 14], file: [0, 16, 0, 17, 0] };

export function alertContent(s: State, a: Account, domain: string, c: ContentChange): void {
  const type = contentAlerts[domain]?.[c.action] ?? 0;
  const webhooks = type === 0 ? [] : subscribed(a, type);
  if (webhooks.length === 0) return;
  const content: Json = {};
  put(content, "action", actions[c.action]);
  put(content, "item", c.item);
  u64(content, "version", c.version);
  put(content, "visibility", c.visibility);
  u64(content, "size_bytes", c.size);
  u64(content, "expires_ms", c.expires);
  alert(s, a, type, webhooks, { content });
}
