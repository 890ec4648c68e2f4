// Folds usage batches, of edges and of domains. See "Order within a usage batch" and "Settlements of domains".

import { networkOf, touch } from "./accounts.ts";
import { admit } from "./admission.ts";
import { alertContent } from "./alerts.ts";
import { minute } from "./calendar.ts";
import { u64 } from "./json.ts";
import { type Loss, served, type Settlement, type UsageBatch, voided } from "./messages.ts";
import { addFailure, chargeLate, ownerOf, settle, takeLate } from "./settle.ts";
import { type Admitted, type Owner, type Source, type State } from "./state.ts";
import { changeStorage } from "./statements.ts";

type Json = Record<string, unknown>;

export const domains: Record<string, { kind: number; stream: string; keys: number[] }> = {
  paste: { kind: 4, stream: "PASTE", keys: [1, 3, 4] },
  lite: { kind: 5, stream: "LITE", keys: [8, 10, 11] },
  file: { kind: 6, stream: "FILE", keys: [5, 7] },
};

export function sourceOf(s: State, name: string): Source {
  let source = s.sources.get(name);
  if (source === undefined) {
    source = { seen: 0, usage: 0, usageAnswer: undefined, command: 0, commandAnswer: undefined };
    s.sources.set(name, source);
  }
  source.seen = s.time;
  return source;
}

/** What Served says of a position. */
const placed = { result: served, failed: false, account: "", quotaKey: 0, anonymous: false };

export function foldUsage(s: State, m: UsageBatch): void {
  if (m.number === 0) {
    // A tick.
    if (m.settlements.length > 0) refuse(s, "source", m.settlements.length);
    return;
  }
  const source = sourceOf(s, m.source);
  if (m.number <= source.usage) {
    if (m.number === source.usage && s.answers) s.effects.verdicts = source.usageAnswer;
    return;
  }
  for (const x of m.served) {
    const holds = s.admitted.get(x.sequence)?.holds;
    if (holds === undefined) continue;
    for (const place of x.places.length > 0 ? x.places : [0]) {
      const h = holds[place];
      if (h?.message !== undefined && !h.write) settle(s, h, placed, true);
    }
  }
  const rest: Settlement[] = [];
  for (const x of m.settlements) {
    if (x.request === "" || s.known.has(x.request)) settleFromEdge(s, x);
    else rest.push(x);
  }
  const verdicts: Json[] = [];
  if (m.admissions.length > 0) {
    const admitted: Admitted = { sequence: s.sequence, holds: new Array<undefined>(m.admissions.length).fill(undefined), known: 0, next: 0 };
    s.admitted.set(s.sequence, admitted);
    m.admissions.forEach((x, i) => {
      const v = admit(s, x, admitted, i);
      if (s.answers) verdicts.push(v);
    });
    if (admitted.known === 0) s.admitted.delete(s.sequence);
    else s.timeouts.push(admitted);
  }
  for (const x of rest) settleFromEdge(s, x);
  source.usage = m.number;
  if (!s.answers) return;
  const answer: Json = { source: m.source, rules: s.rules };
  u64(answer, "number", m.number);
  u64(answer, "sequence", s.sequence);
  u64(answer, "time_ms", s.time);
  if (verdicts.length > 0) answer["verdicts"] = verdicts;
  source.usageAnswer = answer;
  s.effects.verdicts = answer;
}

function settledOwner(s: State, x: Settlement): Owner | undefined {
  return x.anonymous ? s.networks.get(x.account) : s.accounts.get(x.account);
}

function store(s: State, x: Settlement): void {
  const a = x.storageDelta === 0 || x.anonymous ? undefined : s.accounts.get(x.account);
  if (a === undefined) return;
  touch(s, a, s.time);
  changeStorage(s, a, x.storageDelta, x.storageAt);
}

function settleFromEdge(s: State, x: Settlement): void {
  s.counts.settlements++;
  store(s, x);
  if (x.request === "" || (x.result !== served && x.result !== voided)) return;
  const h = s.known.get(x.request);
  if (h !== undefined) {
    settle(s, h, x, true);
    return;
  }
  if (x.result !== voided || !x.failed) return;
  const a = x.anonymous ? undefined : s.accounts.get(x.account);
  if (a !== undefined) touch(s, a, s.time);
  const o = x.anonymous ? networkOf(s, x.account) : a;
  if (o !== undefined) addFailure(s, o);
}

function refuse(s: State, reason: string, count: number): void {
  const refused = (s.effects.refused ??= []);
  const same = refused.find((r) => r.reason === reason);
  if (same !== undefined) same.count += count;
  else refused.push({ reason, count });
}

function ofDomain(stream: string, source: string): boolean {
  const match = /^([A-Z]+)_(0|[1-9][0-9]{0,3})$/.exec(source);
  return match !== null && match[1] === stream && Number(match[2]) < 4096;
}

const ahead = 10 * minute;

export function foldDomain(s: State, domain: string, m: UsageBatch, clock: number): void {
  const { stream, keys } = domains[domain]!;
  if (m.number !== 0 || m.admissions.length > 0) return refuse(s, "malformed", m.admissions.length + m.settlements.length);
  if (m.loss !== undefined) recordLoss(s, m.loss);
  if (m.settlements.length === 0) return;
  if (!ofDomain(stream, m.source)) return refuse(s, "source", m.settlements.length);
  const mark = s.domains.get(m.source) ?? { watermark: 0, latest: 0, floor: 0 };
  s.domains.set(m.source, mark);
  const before = { ...mark };
  const fresh = { watermark: 0, latest: 0 };
  let recreated = false;
  for (const x of m.settlements) {
    s.counts.settlements++;
    if (x.sequence === 0 || x.stored === 0) {
      refuse(s, "malformed", 1);
      continue;
    }
    const old = x.sequence <= before.watermark && (x.stored <= before.latest || x.stored > clock + ahead);
    const seen = x.stored <= before.floor || old;
    const stored = Math.min(x.stored, clock + ahead);
    if (!seen) {
      recreated ||= x.sequence <= before.watermark;
      fresh.watermark = Math.max(fresh.watermark, x.sequence);
      fresh.latest = Math.max(fresh.latest, stored);
    }
    settleFromDomain(s, domain, keys, x, seen);
  }
  mark.latest = Math.max(mark.latest, fresh.latest);
  mark.watermark = recreated ? fresh.watermark : Math.max(mark.watermark, fresh.watermark);
  if (!recreated) return;
  mark.floor = before.latest;
  (s.effects.recreated ??= []).push({
    stream: m.source, watermark: String(before.watermark), sequence: String(fresh.watermark),
  });
}

function settleFromDomain(s: State, domain: string, keys: number[], x: Settlement, seen: boolean): void {
  if (x.storageDelta !== 0 && (domain !== "file" || x.anonymous)) return refuse(s, "storage", 1);
  if (x.hasRequest) {
    if (x.request === "" || (x.result !== served && x.result !== voided)) return refuse(s, "malformed", 1);
    if (!keys.includes(x.quotaKey)) return refuse(s, "quota_key", 1);
  }
  if (!seen) {
    store(s, x);
    const a = x.anonymous || x.content === undefined ? undefined : s.accounts.get(x.account);
    if (a !== undefined) touch(s, a, s.time);
    if (a !== undefined && s.answers) alertContent(s, a, domain, x.content!);
  }
  if (x.request === "") return;
  const h = s.known.get(x.request);
  const o = settledOwner(s, x);
  const late = o === undefined ? undefined : takeLate(o, x.request, x.quotaKey);
  if (h !== undefined && h.write && h.quotaKey === x.quotaKey && ownerOf(h) === o) settle(s, h, x, false);
  else if (late === undefined) {
    if (!seen) refuse(s, "hold", 1);
  } else if (x.result === served) chargeLate(s, late);
}

function recordLoss(s: State, l: Loss): void {
  const name = `${l.stream} ${l.first} ${l.last}`;
  if (s.losses.has(name)) return;
  s.losses.add(name);
  if (!l.logged || !s.answers) return;
  (s.effects.admin ??= []).push({
    time_ms: String(s.time), token: l.actor, action: "journal.loss", status: "COMMAND_OK",
    detail: `${l.stream}: messages ${l.first} to ${l.last}`,
  });
}
