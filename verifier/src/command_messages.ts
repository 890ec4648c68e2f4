// Account commands, as pkg/event/event.proto declares them.

import { noId } from "./messages.ts";
import type { Reader } from "./wire.ts";

const varint = 0;
const fixed = 1;
const bytes = 2;
const tag = (field: number, wire: number): number => field * 8 + wire;

export interface Cap {
  period: number;
  amount: number;
}

export interface KeyRules {
  name: string | undefined;
  scopes: number[] | undefined;
  expires: number | undefined;
  expiresIn: number | undefined;
  quotas: { quotaKey: number; limit: number }[] | undefined;
  cap: Cap | undefined;
}

/** All fields of all actions. Each action has those that its message has. */
export interface Action {
  kind: number;
  tier: number;
  key: Action | undefined;
  number: number;
  fingerprint: string;
  prefix: string;
  rules: KeyRules | undefined;
  overlap: number;
  cap: Cap | undefined;
  amount: number;
  reason: string;
  expires: number;
  request: string;
  requestLength: number;
  month: number;
  quotaKey: number;
  provider: string;
  id: string;
  credits: number;
  plan: string;
  amountCents: number;
  taxCents: number;
  topUp: number;
  asOf: number;
  active: boolean;
  pastDue: boolean;
  cancels: boolean;
  created: number;
  periodEnd: number;
  feeCents: number;
  nextTier: number;
  below: number;
  monthMicros: number;
  webhook: string;
  create: boolean;
  events: number | undefined;
  thresholds: number[] | undefined;
  balanceBelow: number | undefined;
  detail: string;
}

export interface Command {
  request: string;
  account: string;
  idempotency: string;
  bodyHash: string;
  admin: string | undefined;
  action: Action | undefined;
}

export interface CommandBatch {
  source: string;
  number: number;
  stamp: number;
  commands: Command[];
}

export const kinds = {
  create: 10, setTier: 11, grant: 12, rotateKey: 13, suspend: 14, resume: 15, note: 16, setNextTier: 17, refund: 18,
  payment: 19, createKey: 20, updateKey: 21, replaceKey: 22, revokeKey: 23, setSpendingCap: 24, setWebhook: 30,
  deleteWebhook: 31, testWebhook: 32, deleteAccount: 40, keepAccount: 41, eraseAccount: 42, reverse: 50,
  setSubscription: 51, setTopUp: 52, topUpFailed: 53,
} as const;

export function decodeCommands(r: Reader): CommandBatch {
  const m: CommandBatch = { source: "", number: 0, stamp: 0, commands: [] };
  while (r.next()) {
    switch (r.tag) {
      case tag(1, bytes): m.source = r.text(); break;
      case tag(2, varint): m.number = r.u64(); break;
      case tag(3, varint): m.stamp = r.i64(); break;
      case tag(5, bytes):
        m.commands.push(r.message(command, {
          request: "", account: noId, idempotency: "", bodyHash: noId, admin: undefined, action: undefined,
        }));
        break;
      default: r.skip();
    }
  }
  return m;
}

const decoders = new Map<number, (r: Reader, m: Action) => Action>();

function command(r: Reader, m: Command): Command {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, bytes): m.request = r.key16(); break;
      case tag(2, fixed): m.account = r.id(); break;
      case tag(3, bytes): m.idempotency = r.key16(); break;
      case tag(4, fixed): m.bodyHash = r.id(); break;
      case tag(5, bytes): m.admin = r.message(admin, { token: m.admin ?? "" }).token; break;
      default: {
        const kind = r.tag >>> 3;
        const decode = (r.tag & 7) === bytes ? decoders.get(kind) : undefined;
        if (decode === undefined) r.skip();
        // Of a oneof the last one counts; the same one again is merged.
        else m.action = r.message(decode, m.action?.kind === kind ? m.action : newAction(kind));
      }
    }
  }
  return m;
}

function admin(r: Reader, m: { token: string }): { token: string } {
  while (r.next()) {
    if (r.tag === tag(1, bytes)) m.token = r.text();
    else r.skip();
  }
  return m;
}

function newAction(kind: number): Action {
  return {
    kind, tier: 0, key: undefined, number: 0, fingerprint: noId, prefix: "", rules: undefined, overlap: 0, cap: undefined,
    amount: 0, reason: "", expires: 0, request: "", requestLength: 0, month: 0, quotaKey: 0, provider: "", id: "",
    credits: 0, plan: "", amountCents: 0, taxCents: 0, topUp: 0, asOf: 0, active: false, pastDue: false, cancels: false,
    created: 0, periodEnd: 0, feeCents: 0, nextTier: 0, below: 0, monthMicros: 0, webhook: noId, create: false,
    events: undefined, thresholds: undefined, balanceBelow: undefined, detail: "",
  };
}

/** Reads one field of an action, if the message has it. */
type Field = (r: Reader, m: Action) => void;

function fields(kind: number, table: Record<number, Field>): void {
  const known = new Map(Object.entries(table).map(([t, f]) => [Number(t), f]));
  decoders.set(kind, (r, m) => {
    while (r.next()) {
      const field = known.get(r.tag);
      if (field === undefined) r.skip();
      else field(r, m);
    }
    return m;
  });
}

const tier: Field = (r, m) => (m.tier = r.u32());
const provider: Field = (r, m) => (m.provider = r.text());
const externalId: Field = (r, m) => (m.id = r.text());
const webhook: Field = (r, m) => (m.webhook = r.id());
const fingerprint: Field = (r, m) => (m.fingerprint = r.id());
const prefix: Field = (r, m) => (m.prefix = r.text());
const number: Field = (r, m) => (m.number = r.u32());
const rules: Field = (r, m) => (m.rules = r.message(keyRules, m.rules ?? newRules()));
const asOf: Field = (r, m) => (m.asOf = r.i64());
const topUp: Field = (r, m) => (m.topUp = r.u64());

function reason(field: number): Record<number, Field> {
  return { [tag(field, bytes)]: (r, m) => (m.reason = r.text()) };
}

fields(kinds.create, {
  [tag(1, varint)]: tier,
  [tag(2, bytes)]: (r, m) => (m.key = r.message(decoders.get(kinds.rotateKey)!, m.key ?? newAction(kinds.rotateKey))),
});
fields(kinds.setTier, { [tag(1, varint)]: tier });
fields(kinds.setNextTier, { [tag(1, varint)]: tier });
fields(kinds.grant, {
  [tag(1, varint)]: (r, m) => (m.amount = r.s64()),
  ...reason(2),
  [tag(3, varint)]: (r, m) => (m.expires = r.i64()),
});
fields(kinds.rotateKey, { [tag(1, fixed)]: fingerprint, [tag(2, bytes)]: prefix });
fields(kinds.suspend, reason(1));
fields(kinds.resume, reason(1));
fields(kinds.note, { ...reason(1), [tag(2, bytes)]: (r, m) => (m.detail = r.text()) });
fields(kinds.refund, {
  [tag(1, bytes)]: (r, m) => {
    const at = r.at;
    m.request = r.key16();
    m.requestLength = r.at - at - 1;
  },
  [tag(2, varint)]: (r, m) => (m.month = r.u32()),
  [tag(3, varint)]: (r, m) => (m.quotaKey = r.u32()),
  [tag(4, varint)]: (r, m) => (m.amount = r.s64()),
  ...reason(5),
});
fields(kinds.payment, {
  [tag(1, bytes)]: provider,
  [tag(2, bytes)]: externalId,
  [tag(3, varint)]: (r, m) => (m.credits = r.u64()),
  ...reason(4),
  [tag(5, bytes)]: (r, m) => (m.plan = r.text()),
  [tag(6, varint)]: (r, m) => (m.amountCents = r.u64()),
  [tag(7, varint)]: (r, m) => (m.taxCents = r.u64()),
  [tag(8, varint)]: topUp,
});
fields(kinds.reverse, {
  [tag(1, bytes)]: provider,
  [tag(2, bytes)]: externalId,
  [tag(3, varint)]: (r, m) => (m.amount = r.u64()),
  [tag(4, varint)]: asOf,
  ...reason(5),
  [tag(7, varint)]: (r, m) => (m.amountCents = r.u64()),
});
fields(kinds.setSubscription, {
  [tag(1, bytes)]: provider,
  [tag(2, bytes)]: externalId,
  [tag(3, varint)]: tier,
  [tag(4, varint)]: (r, m) => (m.active = r.bool()),
  [tag(5, varint)]: (r, m) => (m.pastDue = r.bool()),
  [tag(6, varint)]: (r, m) => (m.cancels = r.bool()),
  [tag(7, varint)]: (r, m) => (m.created = r.i64()),
  [tag(8, varint)]: (r, m) => (m.periodEnd = r.i64()),
  [tag(9, varint)]: asOf,
  [tag(10, varint)]: (r, m) => (m.nextTier = r.u32()),
  [tag(11, varint)]: (r, m) => (m.feeCents = r.u64()),
});
fields(kinds.setTopUp, {
  [tag(1, varint)]: (r, m) => (m.below = r.u64()),
  [tag(2, varint)]: (r, m) => (m.credits = r.u64()),
  [tag(3, varint)]: (r, m) => (m.monthMicros = r.u64()),
});
fields(kinds.topUpFailed, { [tag(1, varint)]: topUp, ...reason(2) });
fields(kinds.createKey, { [tag(1, fixed)]: fingerprint, [tag(2, bytes)]: prefix, [tag(3, bytes)]: rules });
fields(kinds.updateKey, { [tag(1, varint)]: number, [tag(2, bytes)]: rules });
fields(kinds.replaceKey, {
  [tag(1, varint)]: number,
  [tag(2, fixed)]: fingerprint,
  [tag(3, bytes)]: prefix,
  [tag(4, varint)]: (r, m) => (m.overlap = r.i64()),
});
fields(kinds.revokeKey, { [tag(1, varint)]: number });
fields(kinds.setSpendingCap, { [tag(1, bytes)]: (r, m) => (m.cap = r.message(cap, m.cap ?? { period: 0, amount: 0 })) });
fields(kinds.deleteAccount, {});
fields(kinds.keepAccount, {});
fields(kinds.eraseAccount, {});
fields(kinds.setWebhook, {
  [tag(1, fixed)]: webhook,
  [tag(2, varint)]: (r, m) => (m.create = r.bool()),
  [tag(3, varint)]: (r, m) => (m.events = r.u32()),
  [tag(4, bytes)]: (r, m) => (m.thresholds = r.message(percents, m.thresholds ?? [])),
  [tag(5, varint)]: (r, m) => (m.balanceBelow = r.u64()),
});
fields(kinds.deleteWebhook, { [tag(1, fixed)]: webhook });
fields(kinds.testWebhook, { [tag(1, fixed)]: webhook });

function newRules(): KeyRules {
  return { name: undefined, scopes: undefined, expires: undefined, expiresIn: undefined, quotas: undefined, cap: undefined };
}

function keyRules(r: Reader, m: KeyRules): KeyRules {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, bytes): m.name = r.text(); break;
      case tag(2, bytes): m.scopes = r.message(percents, m.scopes ?? []); break;
      case tag(3, varint): m.expires = r.i64(); break;
      case tag(4, varint): m.expiresIn = r.i64(); break;
      case tag(5, bytes): m.quotas = r.message(keyQuotas, m.quotas ?? []); break;
      case tag(6, bytes): m.cap = r.message(cap, m.cap ?? { period: 0, amount: 0 }); break;
      default: r.skip();
    }
  }
  return m;
}

/** A message whose only field is a repeated uint32. */
function percents(r: Reader, m: number[]): number[] {
  while (r.next()) {
    if (r.tag === tag(1, varint) || r.tag === tag(1, bytes)) r.u32s(m);
    else r.skip();
  }
  return m;
}

function keyQuotas(r: Reader, m: { quotaKey: number; limit: number }[]): { quotaKey: number; limit: number }[] {
  while (r.next()) {
    if (r.tag === tag(1, bytes)) m.push(r.message(keyQuota, { quotaKey: 0, limit: 0 }));
    else r.skip();
  }
  return m;
}

function keyQuota(r: Reader, m: { quotaKey: number; limit: number }): { quotaKey: number; limit: number } {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint): m.quotaKey = r.u32(); break;
      case tag(2, varint): m.limit = r.u32(); break;
      default: r.skip();
    }
  }
  return m;
}

function cap(r: Reader, m: Cap): Cap {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint): m.period = r.u32(); break;
      case tag(2, varint): m.amount = r.u64(); break;
      default: r.skip();
    }
  }
  return m;
}
