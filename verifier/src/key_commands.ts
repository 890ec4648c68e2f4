// Commands about keys and spending caps. See "Keys".

import { newLineage } from "./accounts.ts";
import { day } from "./calendar.ts";
import type { Action, Cap, KeyRules } from "./command_messages.ts";
import { isLive } from "./keys.ts";
import { counts, maxBalance } from "./prices.ts";
import type { Account, Key, Lineage, State } from "./state.ts";
import { defaultKey, showCapStatus, showKey } from "./show.ts";
import { type Result, status } from "./status.ts";

const checkoutScope = 63;
const mostLive = 20;
const mostEnded = 20;
const mostOverlap = 7 * day;
const mostCharacters = 100;

export function newKey(a: Account, number: number, lineage: Lineage, m: Action, now: number): Key {
  const key: Key = {
    number, lineage, former: false, version: 1, fingerprint: m.fingerprint, prefix: m.prefix, created: now, lastUsed: 0,
    expires: 0, revoked: 0, replaced: false, replacedBy: 0,
  };
  if (number === 0) a.keys.unshift(key);
  else a.keys.push(key);
  return key;
}

export function validCap(cap: Cap | undefined): boolean {
  if (cap === undefined) return true;
  return cap.period <= 3 && cap.amount <= maxBalance && (cap.period !== 0 || cap.amount === 0);
}

function validRules(s: State, r: KeyRules): boolean {
  if (r.name !== undefined && (r.name === "" || [...r.name].length > mostCharacters)) return false;
  const known = (k: number): boolean => counts(s.rules, k);
  for (const k of r.scopes ?? []) if (!known(k) && !(k === checkoutScope && s.rules >= 4)) return false;
  let last = 0;
  for (const q of r.quotas ?? []) {
    if (!known(q.quotaKey) || q.quotaKey <= last) return false;
    last = q.quotaKey;
  }
  if (r.expiresIn !== undefined && r.expiresIn <= 0) return false;
  if (r.expires !== undefined && r.expires !== 0 && r.expires <= s.time) return false;
  return validCap(r.cap);
}

function setRules(s: State, k: Key, r: KeyRules): void {
  const l = k.lineage;
  if (r.name !== undefined) l.name = r.name;
  if (r.scopes !== undefined) l.scopes = r.scopes;
  if (r.quotas !== undefined) l.quotas = r.quotas;
  if (r.cap !== undefined) l.cap = r.cap.period === 0 ? undefined : r.cap;
  if (r.expiresIn !== undefined) k.expires = s.time + r.expiresIn;
  else if (r.expires !== undefined) k.expires = r.expires;
}

/** The default key's name is always taken. */
function nameTaken(s: State, a: Account, name: string): boolean {
  return a.defaultLineage.name === name || a.keys.some((k) => k.lineage.name === name && isLive(k, s.time));
}

function freeName(s: State, a: Account): string {
  for (let n = 2; ; n++) if (!nameTaken(s, a, `default ${n}`)) return `default ${n}`;
}

export function createKey(s: State, a: Account, m: Action): Result {
  const { rules } = m;
  if (rules === undefined || !validRules(s, rules) || (rules.name === undefined && s.rules < 2)) return status.invalid;
  const live = a.keys.filter((k) => k.number !== 0 && !k.replaced && isLive(k, s.time)).length + 1;
  if (live >= mostLive) return status.tooManyKeys;
  if (s.rules >= 2 && rules.name !== undefined && nameTaken(s, a, rules.name)) return status.keyNameTaken;
  a.keyed = true;
  const number = a.nextKey++;
  const lineage = newLineage(number, rules.name ?? freeName(s, a));
  const key = newKey(a, number, lineage, m, s.time);
  setRules(s, key, rules);
  forgetEnded(s, a);
  return { status: status.ok, key: showKey(s, a, key, true) };
}

function find(a: Account, number: number): Key | undefined {
  const key = a.keys.find((k) => k.number === number);
  if (key !== undefined) a.keyed = true;
  return key;
}

function findLive(s: State, a: Account, number: number): Key | undefined {
  const k = find(a, number);
  return k === undefined || k.replaced || !isLive(k, s.time) ? undefined : k;
}

export function updateKey(s: State, a: Account, m: Action): Result {
  const key = findLive(s, a, m.number);
  if (key === undefined) return status.keyNotFound;
  const { rules } = m;
  if (rules === undefined || !validRules(s, rules)) return status.invalid;
  const renamed = rules.name !== undefined && rules.name !== key.lineage.name;
  if (s.rules >= 2 && renamed && nameTaken(s, a, rules.name!)) return status.keyNameTaken;
  setRules(s, key, rules);
  return { status: status.ok, key: showKey(s, a, key, true) };
}

export function replaceKey(s: State, a: Account, m: Action): Result {
  if (m.overlap < 0 || m.overlap > mostOverlap) return status.invalid;
  const old = findLive(s, a, m.number);
  if (old === undefined) return status.keyNotFound;
  if (m.overlap > 0 && a.keys.filter((k) => k.replaced && isLive(k, s.time)).length >= mostLive) return status.tooManyKeys;
  const lifetime = old.expires === 0 ? 0 : old.expires - old.created;
  const ends = s.time + m.overlap;
  old.expires = old.expires === 0 ? ends : Math.min(old.expires, ends);
  old.replaced = true;
  let key: Key;
  if (old.number === 0) {
    a.keys.shift();
    old.number = a.nextKey++;
    old.former = true;
    a.keys.push(old);
    key = newKey(a, 0, old.lineage, m, s.time);
    key.version = old.version + 1;
  } else {
    old.replacedBy = a.nextKey++;
    key = newKey(a, old.replacedBy, old.lineage, m, s.time);
  }
  key.expires = lifetime === 0 ? 0 : s.time + lifetime;
  forgetEnded(s, a);
  return { status: status.ok, key: showKey(s, a, key, true), old_key_expires_ms: String(old.expires) };
}

export function revokeKey(s: State, a: Account, m: Action): Result {
  const key = find(a, m.number);
  if (key === undefined) return status.keyNotFound;
  if (isLive(key, s.time)) key.revoked = s.time;
  return { status: status.ok, key: showKey(s, a, key, true) };
}

export function rotateKey(s: State, a: Account, m: Action): Result {
  const key = defaultKey(a);
  if (key === undefined) {
    newKey(a, 0, a.defaultLineage, m, s.time);
    return status.ok;
  }
  for (const k of a.keys) if (k.former && isLive(k, s.time)) k.revoked = s.time;
  Object.assign(key, {
    version: key.version + 1, fingerprint: m.fingerprint, prefix: m.prefix, created: s.time, lastUsed: 0, expires: 0,
    revoked: 0,
  });
  return status.ok;
}

export function setSpendingCap(s: State, a: Account, m: Action): Result {
  if (!validCap(m.cap)) return status.invalid;
  a.keyed = true;
  a.cap = m.cap === undefined || m.cap.period === 0 ? undefined : m.cap;
  return a.cap === undefined ? status.ok : { status: status.ok, cap: showCapStatus(a, a, a.cap, s.time) };
}

/** Forgets the ended keys that got their numbers first, after one was added. */
function forgetEnded(s: State, a: Account): void {
  const ended = a.keys.filter((k) => k.number !== 0 && !isLive(k, s.time));
  for (const k of ended.slice(0, Math.max(0, ended.length - mostEnded))) a.keys.splice(a.keys.indexOf(k), 1);
}
