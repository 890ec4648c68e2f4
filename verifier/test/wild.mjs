// Draws journals in which everything happens that the document has a rule for. Whether the service has voided a write is drawn
// once (isVoid): no service contradicts itself, and no edge reports as served what its service has voided.

import { Drawn as Plain, tiers } from "./journal.mjs";
import { commandBatch, encode, priceBook, usageBatch } from "./protobuf.mjs";

const hour = 3_600_000;
const day = 24 * hour;
const domains = { paste: ["PASTE", [1, 3, 4]], lite: ["LITE", [8, 10, 11]], file: ["FILE", [5, 7]] };
const cap = (period, amount) => encode([[1, "varint", period], [2, "varint", amount]]);

export class Drawn extends Plain {
  constructor(seed) {
    super(seed, 5);
    this.rules = 4;
    this.sequences = { paste: 0, lite: 0, file: 0 };
    this.past = [];
    for (const a of this.accounts) a.keys = [{ number: 0, version: 1, fingerprint: a.id }];
    this.nextFingerprint = 5_000n;
    this.books = 0;
  }

  one(list) {
    return list[this.pick(list.length)];
  }

  admission(a) {
    const key = this.one([1, 2, 3, 5, 5, 6, 8, 9, 12]);
    const write = [1, 3, 5, 8].includes(key) && this.pick(4) > 0 ? 1 : undefined;
    const k = this.one(a.keys.slice(-4).concat(a.keys[0]));
    const x = { request: this.requestId(), account: a.id, key, version: k.version, fingerprint: k.fingerprint, number: k.number || undefined, write };
    if (this.pick(5) === 0) x.idempotency = Buffer.from(`idempotency ${this.pick(4)}   `);
    else if (!write && this.pick(3) === 0) Object.assign(x, { readId: Buffer.from(`read id ${this.pick(3)}       `), readHash: (BigInt(1 + this.pick(2)) << 32n) + BigInt(this.pick(2)) });
    if (this.pick(40) === 0) x.key = 14;
    if (write) x.isVoid = this.pick(3) === 0;
    if (this.pick(12) === 0 && this.past.length > 0) {
      const { request, isVoid } = this.one(this.past);
      Object.assign(x, { request, isVoid });
    }
    return x;
  }

  anonymous() {
    return { request: this.requestId(), account: 70_001n + BigInt(this.pick(2)), key: 8, anonymous: 1, write: 1, isVoid: this.pick(3) === 0 };
  }

  usage() {
    const admissions = Array.from({ length: this.pick(5) }, () => (this.pick(6) === 0 ? this.anonymous() : this.admission(this.one(this.accounts))));
    const settlements = [];
    while (this.open.length > 0 && this.pick(3) > 0) {
      const [x] = this.open.splice(this.pick(this.open.length), 1);
      if (this.pick(6) > 0) this.past.push(x);
      else this.open.push(x);
      const isVoid = this.pick(2) === 0 || x.isVoid;
      settlements.push({ request: x.request, result: isVoid ? 2 : 1, account: x.account, key: x.key, anonymous: x.anonymous, failed: isVoid && this.pick(2) ? 1 : undefined });
    }
    if (this.pick(10) === 0 && admissions.length > 0) settlements.push({ request: admissions[0].request, result: admissions[0].isVoid ? 2 : 1 + this.pick(2), account: admissions[0].account, key: admissions[0].key, anonymous: admissions[0].anonymous });
    if (this.pick(15) === 0) settlements.push({ account: this.one(this.accounts).id, delta: this.pick(1e6) - 3e5 });
    const served = this.pick(4) === 0 ? [{ sequence: Math.max(1, this.messages.length - this.pick(4)), places: this.pick(2) ? [] : [this.pick(3), this.pick(3)] }] : [];
    for (const x of admissions) this.open.push(x);
    const source = this.one(["edge", "edge", "other"]);
    const number = this.pick(25) === 0 ? Math.max(1, (this.sources.get(source) ?? 1) - this.pick(2)) : this.number(source);
    const stamp = this.pick(10) === 0 ? undefined : this.now + this.pick(20_000) - 10_000;
    this.add("usage", usageBatch({ source, number, stamp, admissions, settlements, served }));
    if (this.past.length > 60) this.past.splice(0, 20);
  }

  domain() {
    const domain = this.one(Object.keys(domains));
    const [stream, keys] = domains[domain];
    const settlements = [];
    for (const x of [...this.open, ...this.past.slice(-30)].filter((y) => y.write && keys.includes(y.key)).slice(0, 1 + this.pick(3))) {
      if (this.pick(3) === 0) continue;
      this.open = this.open.filter((y) => y !== x);
      this.past.push(x);
      const { isVoid } = x;
      if (this.pick(30) === 0) this.sequences[domain] = 0;
      settlements.push({
        request: x.request, result: isVoid ? 2 : 1, account: x.account, key: this.pick(30) === 0 ? 2 : x.key, anonymous: x.anonymous,
        failed: isVoid && this.pick(2) ? 1 : undefined, sequence: this.pick(25) === 0 ? this.sequences[domain] : ++this.sequences[domain],
        stored: this.now - this.pick(3000), delta: domain === "file" && !x.anonymous && this.pick(2) ? this.pick(1e9) - 2e8 : undefined,
        at: this.pick(4) === 0 ? this.now - this.pick(40 * 24) * hour : undefined,
      });
    }
    this.add(`settle.${domain}`, usageBatch({ source: `${stream}_${this.pick(40) === 0 ? "x" : 0}`, stamp: this.now, settlements }));
  }

  rulesOfKey() {
    return encode([
      [1, "bytes", this.pick(3) ? `name ${this.pick(6)}` : undefined],
      [2, "bytes", this.pick(4) ? undefined : encode([[1, "varint", 5], [1, "varint", 6]])],
      [3, "varint", this.pick(6) ? undefined : this.now + this.pick(40) * day],
      [4, "varint", this.pick(6) ? undefined : this.pick(10) * day + 1],
      [5, "bytes", this.pick(3) ? undefined : encode([[1, "bytes", encode([[1, "varint", 5], [2, "varint", this.pick(4)]])], [1, "bytes", encode([[1, "varint", 9], [2, "varint", this.pick(4)]])]])],
      [6, "bytes", this.pick(3) ? undefined : cap(this.pick(4), this.pick(2) * this.pick(9000))],
    ]);
  }

  keyCommand(a) {
    const fingerprint = ++this.nextFingerprint;
    const target = this.one(a.keys).number;
    const next = 1 + Math.max(...a.keys.map((k) => k.number));
    const text = [2, "bytes", "qk_new"];
    switch (this.pick(6)) {
      case 0:
        a.keys.push({ number: next, version: 1, fingerprint });
        return this.command(a, 20, [[1, "fixed64", fingerprint], text, [3, "bytes", this.rulesOfKey()]]);
      case 1: return this.command(a, 21, [[1, "varint", target], [2, "bytes", this.rulesOfKey()]]);
      case 2:
        if (target === 0) a.keys[0] = { number: 0, version: a.keys[0].version + 1, fingerprint };
        else a.keys.push({ number: next, version: 1, fingerprint });
        return this.command(a, 22, [[1, "varint", target], [2, "fixed64", fingerprint], [3, "bytes", "qk_next"], [4, "varint", this.pick(4) * hour]]);
      case 3: return this.command(a, 23, [[1, "varint", target || this.pick(2)]]);
      case 4:
        a.keys[0] = { number: 0, version: a.keys[0].version + 1, fingerprint };
        return this.command(a, 13, [[1, "fixed64", fingerprint], text]);
      default: return this.command(a, 24, [[1, "bytes", cap(this.pick(4), this.pick(2) * (5_000 + this.pick(20_000)))]]);
    }
  }

  webhook(a) {
    const id = BigInt(1 + this.pick(3));
    if (this.pick(6) === 0) return this.command(a, 31, [[1, "fixed64", id]]);
    if (this.pick(6) === 0) return this.command(a, 32, [[1, "fixed64", id]]);
    return this.command(a, 30, [
      [1, "fixed64", id], [2, "varint", this.pick(3) ? 1 : undefined], [3, "varint", this.pick(4) ? this.pick(1 << 19) : undefined],
      [4, "bytes", this.pick(2) ? encode([[1, "varint", 20 + this.pick(30)], [1, "varint", 60 + this.pick(41)]]) : undefined],
      [5, "varint", this.pick(3) ? 1 + this.pick(20_000) : undefined],
    ]);
  }

  standing(a) {
    const kind = this.one([14, 15, 15, 15, 40, 41, 41, 42, 16]);
    const reason = kind < 17 ? [[1, "bytes", "because"]] : [];
    return this.command(a, kind, reason);
  }

  external(a) {
    const name = [[1, "bytes", this.one(["bank", "card"])], [2, "bytes", `x_${this.pick(5)}`]];
    switch (this.pick(4)) {
      case 0: return this.command(a, 51, [...name, [3, "varint", 1 + this.pick(4)], [4, "varint", this.pick(2)], [7, "varint", 1 + this.pick(3)], [9, "varint", this.now - this.pick(5) * hour]]);
      case 1: return this.command(a, 53, [[1, "varint", 1 + this.pick(4)], [2, "bytes", "declined"]]);
      case 2: return this.command(a, 19, [...name, [3, "varint", this.pick(2) * 1_000_000], [5, "bytes", this.pick(3) ? undefined : "pro"], [6, "varint", 1000], [8, "varint", this.pick(4)]]);
      default: return this.command(a, 50, [...name, [3, "varint", this.pick(2) * this.pick(1_000_001)], [4, "varint", this.now - this.pick(3) * hour], [7, "varint", this.pick(3) ? undefined : this.pick(1000)]]);
    }
  }

  refundOne(a) {
    const x = this.past.filter((y) => y.account === a.id).at(-1);
    if (x === undefined) return;
    const month = new Date(this.now).getUTCFullYear() * 12 + new Date(this.now).getUTCMonth() - this.pick(2);
    this.command(a, 18, [[1, "bytes", x.request], [2, "varint", month], [3, "varint", x.key], [4, "zigzag", (this.pick(3) ? 1 : -1) * this.one([2000, 1500, 1000])], [5, "bytes", "sorry"]], "root");
  }

  twice(a) {
    const c = { account: a.id, idempotency: Buffer.from(`command ${this.pick(3)}       `), bodyHash: BigInt(1 + this.pick(2)), kind: 12, fields: [[1, "zigzag", 100 + this.pick(3)], [2, "bytes", "twice"]], admin: "root" };
    this.add("account", commandBatch({ source: "admin", number: this.number("admin"), stamp: this.now, commands: [c, c] }));
  }

  price() {
    const kind = this.pick(5);
    if (kind < 2) return this.prices({ rules: this.rules, agreed: this.pick(3) ? 1 : undefined, tiers: tiers(2 + this.pick(3), 1000 + this.pick(4) * 500), free: 1 << 20, cents: 3 });
    if (kind === 2) return this.add("prices", encode([[1, "varint", this.now], [10, "bytes", `book ${this.pick(this.books + 1)}`], [13, "varint", 1]]));
    const named = tiers(2 + this.pick(3), 1000 + this.pick(4) * 500, 900 + this.pick(3) * 100);
    if (this.pick(2)) named.push({ ...named[1], tier: 5, name: "team" });
    this.add("prices", priceBook({ stamp: this.now, anonymousLimit: 2 + this.pick(3), anonymousWindow: hour * (1 + this.pick(2)), id: `book ${this.books++}`, effective: this.now + (this.pick(4) - 1) * 12 * hour, tiers: named }));
  }

  draw(n) {
    for (let i = 0; i < n; i++) {
      const jump = this.pick(60);
      if (jump === 0) this.now += this.pick(8 * 24) * hour;
      else if (jump === 1) this.now -= this.pick(30) * hour;
      else this.now += this.pick(40_000);
      const a = this.one(this.accounts);
      const kind = this.pick(40);
      if (kind < 18) this.usage();
      else if (kind < 24) this.domain();
      else if (kind < 28) this.account();
      else if (kind < 31) this.keyCommand(a);
      else if (kind === 31) this.webhook(a);
      else if (kind === 32) this.standing(a);
      else if (kind === 33) this.external(a);
      else if (kind === 34) this.refundOne(a);
      else if (kind === 35) this.twice(a);
      else if (kind === 36 && this.pick(4) === 0) this.price();
      else if (kind === 37 && this.pick(4) === 0) this.add("usage", Uint8Array.from([255]));
      else if (kind === 38) this.command(a, 11, [[1, "varint", 1 + this.pick(5)]], "root");
      else this.add("usage", usageBatch({ source: "tick", stamp: this.now }));
    }
    return this;
  }
}
