// Draws journals from a seed: accounts that spend, fail, refund and replace keys, over several months.

import { commandBatch, encode, priceBook, usageBatch } from "./protobuf.mjs";

export function random(seed) {
  let s = seed >>> 0;
  return (n) => {
    s = (s + 0x6d2b79f5) >>> 0;
    let t = Math.imul(s ^ (s >>> 15), s | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) % n;
  };
}

/** Draws the seed of a test and prints it. VERIFIER_SEED repeats a run. */
export function drawSeed() {
  const seed = Number(process.env.VERIFIER_SEED ?? Date.now() % 1_000_000);
  console.log(`VERIFIER_SEED=${seed}`);
  return seed;
}

/** How many forgeries a test draws, unless VERIFIER_FORGERIES sets it. */
export const forgeryCount = (usual) => Number(process.env.VERIFIER_FORGERIES ?? usual);

const start = Date.UTC(2026, 9, 15, 12);
const hour = 3_600_000;

export function tiers(limit, price, fee) {
  const terms = (n) => Array.from({ length: 13 }, (_, i) => (i >= 11 ? { limit: -1 } : n));
  return [
    { tier: 1, terms: terms({ limit }), name: fee && "free", fee: 0, free: 1000, cents: 3 },
    { tier: 2, terms: terms({ limit, price }), name: fee && "pro", fee, free: 1000, cents: 3 },
    { tier: 3, terms: terms({ limit: limit + 2, price: price + 500 }), name: fee && "max", fee: fee && fee * 3, free: 5000, cents: 2 },
    { tier: 4, terms: terms({ limit: -1 }), name: fee && "admin", fee: 0, free: 1000, cents: 3 },
  ];
}

export class Drawn {
  /** With rules before the latest, draw() comes to the latest at some message. */
  constructor(seed, { accounts = 8, rules = 5 } = {}) {
    this.pick = random(seed);
    this.now = start;
    this.messages = [];
    this.sources = new Map();
    this.open = [];
    this.requests = 0;
    this.stored = 0;
    this.accounts = Array.from({ length: accounts }, (_, i) => ({ id: 1_000_003n * BigInt(i + 1), version: 1 }));
    this.prices({ rules, agreed: 1, tiers: tiers(3, 2000), free: 1 << 20, cents: 3 });
    for (const [i, a] of this.accounts.entries()) {
      this.command(a, 10, [[1, "varint", 1 + (i % 3)], [2, "bytes", encode([[1, "fixed64", a.id], [2, "bytes", "qk_a"]])]]);
      this.command(a, 12, [[1, "zigzag", 5000 + this.pick(60_000)], [2, "bytes", `welcome ${i}`]]);
    }
  }

  add(subject, data) {
    const time = `${this.now}${String(this.pick(1_000_000)).padStart(6, "0")}`;
    this.messages.push({ sequence: this.messages.length + 1, time, subject: `billing.0.${subject}`, data });
  }

  number(source) {
    const n = (this.sources.get(source) ?? 0) + 1;
    this.sources.set(source, n);
    return n;
  }

  prices(m) {
    this.add("prices", priceBook({ stamp: this.now, anonymousLimit: 3, anonymousWindow: hour, ...m }));
  }

  command(a, kind, fields, admin) {
    const c = { account: a.id, kind, fields, admin };
    this.add("account", commandBatch({ source: "admin", number: this.number("admin"), stamp: this.now, commands: [c] }));
  }

  requestId() {
    const id = Buffer.alloc(16);
    id.writeUIntBE(this.now, 0, 6);
    id.writeUInt32BE(++this.requests, 12);
    return id;
  }

  admission(a) {
    const key = [1, 2, 5, 6, 9, 12][this.pick(6)];
    const write = [1, 3, 4, 5, 7, 8, 10, 11].includes(key) ? 1 : undefined;
    return { request: this.requestId(), account: a.id, key, version: a.version, fingerprint: a.id, write };
  }

  usage() {
    const admissions = Array.from({ length: 1 + this.pick(5) }, () => this.admission(this.accounts[this.pick(this.accounts.length)]));
    const settlements = [];
    while (this.open.length > 0 && this.pick(3) > 0) {
      const [x] = this.open.splice(this.pick(this.open.length), 1);
      const isVoid = this.pick(3) === 0;
      settlements.push({ request: x.request, result: isVoid ? 2 : 1, account: x.account, key: x.key, failed: isVoid && this.pick(2) ? 1 : undefined });
    }
    for (const x of admissions) if (this.pick(5) > 0) this.open.push(x);
    this.add("usage", usageBatch({ source: "edge", number: this.number("edge"), stamp: this.now, admissions, settlements }));
  }

  storage() {
    const a = this.accounts[this.pick(this.accounts.length)];
    const delta = (this.pick(3) === 0 ? -1 : 1) * this.pick(1 << 30);
    const settlement = { account: a.id, sequence: ++this.stored, delta, stored: this.now };
    this.add("settle.file", usageBatch({ source: "FILE_0", stamp: this.now, settlements: [settlement] }));
  }

  account() {
    const a = this.accounts[this.pick(this.accounts.length)];
    const month = new Date(this.now).getUTCFullYear() * 12 + new Date(this.now).getUTCMonth();
    switch (this.pick(9)) {
      case 0: return this.command(a, 11, [[1, "varint", 1 + this.pick(3)]], "root");
      case 1: return this.command(a, 17, [[1, "varint", 1 + this.pick(3)]]);
      case 2: return this.command(a, 18, [[2, "varint", month - this.pick(2)], [3, "varint", [1, 2, 5, 6, 9][this.pick(5)]], [4, "zigzag", 1 + this.pick(3000)], [5, "bytes", "sorry"]], "root");
      case 3: return this.command(a, 19, [[1, "bytes", "bank"], [2, "bytes", `in_${this.pick(6)}`], [3, "varint", 1000 + this.pick(5) * 1000]]);
      case 4: return this.command(a, 50, [[1, "bytes", "bank"], [2, "bytes", `in_${this.pick(6)}`], [3, "varint", this.pick(1000)], [4, "varint", this.now]]);
      case 5: return this.command(a, 12, [[1, "zigzag", -1 - this.pick(2000)], [2, "bytes", "back"]], "root");
      case 6: return this.command(a, 24, [[1, "bytes", encode([[1, "varint", 1 + this.pick(3)], [2, "varint", 10_000 + this.pick(20_000)]])]]);
      case 7: return this.command(a, 52, [[1, "varint", 3000], [2, "varint", 1_000_000], [3, "varint", 2_000_000]]);
      default: return this.command(a, 12, [[1, "zigzag", 1 + this.pick(20_000)], [2, "bytes", "more"], [3, "varint", this.now + this.pick(60) * hour + 1]]);
    }
  }

  /** Adds that many messages. */
  draw(n) {
    for (let i = 0; i < n; i++) {
      this.now += this.pick(40) === 0 ? this.pick(5 * 24) * hour : this.pick(60_000);
      const kind = this.pick(20);
      if (kind < 13) this.usage();
      else if (kind < 15) this.storage();
      else if (kind < 19) this.account();
      else if (this.pick(12) === 0) {
        this.prices({ id: `book ${i}`, effective: this.now + this.pick(48) * hour + 1, tiers: tiers(2 + this.pick(3), 1000 + this.pick(9) * 500, 900 + this.pick(3) * 100) });
      } else this.add("usage", usageBatch({ source: "tick", stamp: this.now }));
    }
    return this;
  }
}
