// The messages of a billing journal that are sent for each request, as pkg/event/event.proto declares them.

import { DecodeError, type Reader } from "./wire.ts";

/** Field number and wire type, as Reader.tag has them. */
const varint = 0;
const fixed = 1;
const bytes = 2;
const tag = (field: number, wire: number): number => field * 8 + wire;

export const noId = "\0\0\0\0";

export interface Admission {
  request: string;
  account: string;
  quotaKey: number;
  anonymous: boolean;
  keyVersion: number;
  fingerprint: string;
  write: boolean;
  idempotency: string;
  hasIdempotency: boolean;
  key: number;
  readId: string;
  readHash: string;
}

export interface ContentChange {
  action: number;
  item: string;
  version: number;
  visibility: number;
  size: number;
  expires: number;
}

export const served = 1;
export const voided = 2;

export interface Settlement {
  request: string;
  hasRequest: boolean;
  result: number;
  account: string;
  quotaKey: number;
  anonymous: boolean;
  failed: boolean;
  sequence: number;
  storageDelta: number;
  storageAt: number;
  stored: number;
  content: ContentChange | undefined;
}

export interface Served {
  sequence: number;
  places: number[];
}

export interface UsageBatch {
  source: string;
  number: number;
  stamp: number;
  since: number;
  admissions: Admission[];
  settlements: Settlement[];
  served: Served[];
  loss: Loss | undefined;
  seal: Seal | undefined;
}

/** Roots of trees over accounts. See "Seals". */
export interface Seal {
  partitions: number;
  sequence: number;
  accounts: SealedTree | undefined;
  statements: SealedTree[];
}

export interface SealedTree {
  /** YYYYMM; 0 of the accounts tree. */
  month: number;
  hash: Uint8Array;
  /** Three, or none: zeros. */
  sums: bigint[];
}

export interface Loss {
  stream: string;
  first: number;
  last: number;
  actor: string;
  logged: boolean;
}

export function decodeUsage(r: Reader): UsageBatch {
  const m: UsageBatch = {
    source: "", number: 0, stamp: 0, since: 0, admissions: [], settlements: [], served: [], loss: undefined, seal: undefined,
  };
  while (r.next()) {
    switch (r.tag) {
      case tag(1, bytes): m.source = r.text(); break;
      case tag(2, varint): m.number = r.u64(); break;
      case tag(3, varint): m.stamp = r.i64(); break;
      case tag(5, bytes): m.admissions.push(r.message(admission, newAdmission())); break;
      case tag(6, bytes): m.settlements.push(r.message(settlement, newSettlement())); break;
      case tag(7, bytes): m.served.push(r.message(servedPlaces, { sequence: 0, places: [] })); break;
      case tag(8, varint): m.since = r.s64(); break;
      case tag(9, bytes): m.loss = r.message(loss, m.loss ?? { stream: "", first: 0, last: 0, actor: "", logged: false }); break;
      case tag(10, bytes): m.seal = r.message(seal, m.seal ?? newSeal()); break;
      default: r.skip();
    }
  }
  return m;
}

function newAdmission(): Admission {
  return {
    request: "", account: noId, quotaKey: 0, anonymous: false, keyVersion: 0, fingerprint: noId, write: false,
    idempotency: "", hasIdempotency: false, key: 0, readId: "", readHash: noId,
  };
}

function admission(r: Reader, m: Admission): Admission {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, bytes): m.request = r.key16(); break;
      case tag(2, fixed): m.account = r.id(); break;
      case tag(3, varint): m.quotaKey = r.u32(); break;
      case tag(4, varint): m.anonymous = r.bool(); break;
      case tag(5, varint): m.keyVersion = r.u32(); break;
      case tag(6, fixed): m.fingerprint = r.id(); break;
      case tag(7, varint): m.write = r.bool(); break;
      case tag(8, bytes): {
        const at = r.at;
        m.idempotency = r.key16();
        m.hasIdempotency = r.at - at > 1;
        break;
      }
      case tag(20, varint): m.key = r.u32(); break;
      case tag(40, bytes): m.readId = r.key16(); break;
      case tag(41, fixed): m.readHash = r.id(); break;
      default: r.skip();
    }
  }
  return m;
}

function newSettlement(): Settlement {
  return {
    request: "", hasRequest: false, result: 0, account: noId, quotaKey: 0, anonymous: false, failed: false, sequence: 0,
    storageDelta: 0, storageAt: 0, stored: 0, content: undefined,
  };
}

function settlement(r: Reader, m: Settlement): Settlement {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, bytes): {
        const at = r.at;
        m.request = r.key16();
        m.hasRequest = r.at - at > 1;
        break;
      }
      case tag(2, varint): m.result = r.u32(); break;
      case tag(3, fixed): m.account = r.id(); break;
      case tag(4, varint): m.quotaKey = r.u32(); break;
      case tag(5, varint): m.anonymous = r.bool(); break;
      case tag(6, varint): m.failed = r.bool(); break;
      case tag(7, varint): m.sequence = r.u64(); break;
      case tag(8, varint): m.storageDelta = r.s64(); break;
      case tag(9, varint): m.storageAt = r.i64(); break;
      case tag(10, varint): m.stored = r.i64(); break;
      case tag(11, bytes): m.content = r.message(content, m.content ?? newContent()); break;
      default: r.skip();
    }
  }
  return m;
}

function newContent(): ContentChange {
  return { action: 0, item: "", version: 0, visibility: 0, size: 0, expires: 0 };
}

function content(r: Reader, m: ContentChange): ContentChange {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint): m.action = r.u32(); break;
      case tag(2, bytes): m.item = r.text(); break;
      case tag(3, varint): m.version = r.u64(); break;
      case tag(4, varint): m.visibility = r.u32(); break;
      case tag(5, varint): m.size = r.u64(); break;
      case tag(6, varint): m.expires = r.i64(); break;
      default: r.skip();
    }
  }
  return m;
}

function servedPlaces(r: Reader, m: Served): Served {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint): m.sequence = r.u64(); break;
      case tag(2, varint): case tag(2, bytes): r.u32s(m.places); break;
      default: r.skip();
    }
  }
  return m;
}

function loss(r: Reader, m: Loss): Loss {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, bytes): m.stream = r.text(); break;
      case tag(2, varint): m.first = r.u64(); break;
      case tag(3, varint): m.last = r.u64(); break;
      case tag(4, bytes): m.actor = r.text(); break;
      case tag(8, varint): m.logged = r.bool(); break;
      default: r.skip();
    }
  }
  return m;
}

function newSeal(): Seal {
  return { partitions: 0, sequence: 0, accounts: undefined, statements: [] };
}

function seal(r: Reader, m: Seal): Seal {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint): m.partitions = r.u32(); break;
      case tag(2, varint): m.sequence = r.u64(); break;
      case tag(3, bytes): m.accounts = r.message(sealedTree, m.accounts ?? newTree()); break;
      case tag(4, bytes): m.statements.push(r.message(sealedTree, newTree())); break;
      default: r.skip();
    }
  }
  return m;
}

function newTree(): SealedTree {
  return { month: 0, hash: new Uint8Array(), sums: [] };
}

function sealedTree(r: Reader, m: SealedTree): SealedTree {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint): m.month = r.u32(); break;
      case tag(2, bytes): m.hash = r.raw(); break;
      case tag(3, varint): case tag(3, bytes): r.bigs(m.sums); break;
      default: r.skip();
    }
  }
  return m;
}

export interface Term {
  quotaKey: number;
  limit: number;
  price: number;
  overage: boolean;
}

export interface TierPlan {
  tier: number;
  terms: Term[];
  name: string;
  fee: number;
  freeStorage: number;
  storageCents: number;
}

export interface PriceBook {
  stamp: number;
  offset: number;
  tiers: TierPlan[];
  anonymousLimit: number;
  anonymousWindow: number;
  freeStorage: number;
  storageCents: number;
  rules: number;
  agreed: boolean;
  id: string;
  effective: number;
  withdrawn: boolean;
}

export function decodePrices(r: Reader): PriceBook {
  const m: PriceBook = {
    stamp: 0, offset: 0, tiers: [], anonymousLimit: 0, anonymousWindow: 0, freeStorage: 0, storageCents: 0, rules: 0,
    agreed: false, id: "", effective: 0, withdrawn: false,
  };
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint): m.stamp = r.i64(); break;
      case tag(2, varint): m.offset = r.i64(); break;
      case tag(3, bytes):
        m.tiers.push(r.message(tierPlan, { tier: 0, terms: [], name: "", fee: 0, freeStorage: 0, storageCents: 0 }));
        break;
      case tag(4, varint): m.anonymousLimit = r.u32(); break;
      case tag(5, varint): m.anonymousWindow = r.i64(); break;
      case tag(6, varint): m.freeStorage = r.u64(); break;
      case tag(7, varint): m.storageCents = r.u64(); break;
      case tag(8, varint): m.rules = r.u32(); break;
      case tag(9, varint): m.agreed = r.bool(); break;
      case tag(10, bytes): m.id = r.text(); break;
      case tag(11, varint): m.effective = r.i64(); break;
      case tag(13, varint): m.withdrawn = r.bool(); break;
      default: r.skip();
    }
  }
  return m;
}

function tierPlan(r: Reader, m: TierPlan): TierPlan {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint): m.tier = r.u32(); break;
      case tag(2, bytes): m.terms.push(r.message(term, { quotaKey: 0, limit: 0, price: 0, overage: false })); break;
      case tag(3, bytes): m.name = r.text(); break;
      case tag(4, varint): m.fee = r.u64(); break;
      case tag(5, varint): m.freeStorage = r.u64(); break;
      case tag(6, varint): m.storageCents = r.u64(); break;
      default: r.skip();
    }
  }
  return m;
}

function term(r: Reader, m: Term): Term {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint): m.quotaKey = r.u32(); break;
      case tag(2, varint): m.limit = r.s64(); break;
      case tag(3, varint): m.price = r.u64(); break;
      case tag(4, varint): m.overage = r.bool(); break;
      default: r.skip();
    }
  }
  return m;
}

export { DecodeError };
