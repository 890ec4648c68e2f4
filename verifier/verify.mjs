// Generated from src by `npm run generate`: do not edit. README.md says what it checks.

// src/ids.ts
var digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
function base62(n, width) {
  let s = "";
  for (let i = 0; i < width; i++) {
    s = digits[Number(n % 62n)] + s;
    n /= 62n;
  }
  return s;
}
function idNumber(id) {
  let n = 0n;
  for (let i = 0; i < id.length; i++) n = n << 16n | BigInt(id.charCodeAt(i));
  return n;
}
function idFromNumber(n) {
  return String.fromCharCode(
    Number(n >> 48n),
    Number(n >> 32n & 0xffffn),
    Number(n >> 16n & 0xffffn),
    Number(n & 0xffffn)
  );
}
function showId(id) {
  return base62(idNumber(id), 11);
}
function parseId(text3) {
  if (!/^[0-9A-Za-z]{11}$/.test(text3)) return void 0;
  let n = 0n;
  for (const c of text3) n = n * 62n + BigInt(digits.indexOf(c));
  return n < 1n << 64n ? idFromNumber(n) : void 0;
}
function keyBytes(key) {
  const b = new Uint8Array(key.length * 2);
  for (let i = 0; i < key.length; i++) {
    b[2 * i] = key.charCodeAt(i) >> 8;
    b[2 * i + 1] = key.charCodeAt(i) & 255;
  }
  return b;
}
function position(sequence, index) {
  return base62(BigInt(sequence), 11) + base62(BigInt(index), 6);
}
var alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
function base64(b) {
  let s = "";
  for (let i = 0; i < b.length; i += 3) {
    const n = b[i] << 16 | (b[i + 1] ?? 0) << 8 | (b[i + 2] ?? 0);
    s += alphabet[n >> 18] + alphabet[n >> 12 & 63];
    s += i + 1 < b.length ? alphabet[n >> 6 & 63] : "=";
    s += i + 2 < b.length ? alphabet[n & 63] : "=";
  }
  return s;
}
var values = new Int8Array(128).fill(-1);
for (let i = 0; i < 64; i++) values[alphabet.charCodeAt(i)] = i;
function fromBase64(s) {
  if (s.length % 4 !== 0) return void 0;
  const padding = s.endsWith("==") ? 2 : s.endsWith("=") ? 1 : 0;
  const out = new Uint8Array(s.length / 4 * 3 - padding);
  let at = 0;
  let n = 0;
  for (let i = 0; i < s.length - padding; i++) {
    const v = values[s.charCodeAt(i)] ?? -1;
    if (v < 0) return void 0;
    n = (n << 6 | v) & 16777215;
    if (i % 4 === 1) out[at++] = n >> 4;
    else if (i % 4 === 2) out[at++] = n >> 2 & 255;
    else if (i % 4 === 3) out[at++] = n & 255;
  }
  if (padding === 1 && (n & 3) !== 0 || padding === 2 && (n & 15) !== 0) return void 0;
  return out;
}
function hex(b) {
  let s = "";
  for (const x of b) s += (x < 16 ? "0" : "") + x.toString(16);
  return s;
}

// src/calendar.ts
var second = 1e3;
var minute = 60 * second;
var hour = 60 * minute;
var day = 24 * hour;
function dayOf(ms) {
  return Math.floor(ms / day);
}
var cachedFrom = 1;
var cachedUntil = 0;
var cachedMonth = 0;
function monthOf(ms) {
  if (ms < cachedFrom || ms >= cachedUntil) {
    const d = new Date(ms);
    cachedMonth = d.getUTCFullYear() * 12 + d.getUTCMonth();
    cachedFrom = monthStart(cachedMonth);
    cachedUntil = monthStart(cachedMonth + 1);
  }
  return cachedMonth;
}
function monthStart(month) {
  const d = /* @__PURE__ */ new Date(0);
  d.setUTCFullYear(Math.floor(month / 12), month % 12, 1);
  return d.getTime();
}
function monthName(month) {
  return `${String(Math.floor(month / 12)).padStart(4, "0")}-${String(month % 12 + 1).padStart(2, "0")}`;
}
function monthNumber(name) {
  const m = /^([0-9]{4})-(0[1-9]|1[0-2])$/.exec(name);
  return m === null ? void 0 : Number(m[1]) * 12 + Number(m[2]) - 1;
}
function monthDigits(month) {
  return Math.floor(month / 12) * 100 + month % 12 + 1;
}
function monthOfDigits(digits2) {
  const month = digits2 % 100;
  return month >= 1 && month <= 12 && digits2 <= 999912 ? Math.floor(digits2 / 100) * 12 + month - 1 : void 0;
}

// src/queue.ts
var Queue = class {
  items = [];
  head = 0;
  push(item) {
    this.items.push(item);
  }
  peek() {
    return this.items[this.head];
  }
  shift() {
    this.items[this.head++] = void 0;
    if (this.head > 4096 && this.head * 2 > this.items.length) {
      this.items = this.items.slice(this.head);
      this.head = 0;
    }
  }
  map(f) {
    for (let i = this.head; i < this.items.length; i++) this.items[i] = f(this.items[i]);
  }
  forEach(f) {
    for (let i = this.head; i < this.items.length; i++) f(this.items[i]);
  }
};
var Heap = class {
  constructor(less) {
    this.less = less;
  }
  less;
  items = [];
  peek() {
    return this.items[0];
  }
  push(item) {
    const { items } = this;
    let at = items.length;
    items.push(item);
    while (at > 0) {
      const up = at - 1 >> 1;
      if (!this.less(item, items[up])) break;
      items[at] = items[up];
      at = up;
    }
    items[at] = item;
  }
  pop() {
    const { items } = this;
    const last = items.pop();
    if (last === void 0 || items.length === 0) return;
    let at = 0;
    for (; ; ) {
      let down = 2 * at + 1;
      if (down >= items.length) break;
      if (down + 1 < items.length && this.less(items[down + 1], items[down])) down++;
      if (!this.less(items[down], last)) break;
      items[at] = items[down];
      at = down;
    }
    items[at] = last;
  }
};

// src/note.ts
var Malformed = class extends Error {
};
var ed25519 = 1;
var utf8 = new TextEncoder();
function parseKey(hash, text3) {
  const m = /^([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(text3.trim());
  const data = m === null ? void 0 : fromBase64(m[3]);
  if (m === null || data === void 0) throw new Malformed("the key is not of the form name+hash+base64");
  if (data.length !== 33 || data[0] !== ed25519) throw new Malformed("the key is not one of Ed25519");
  const sum = hex(hash([utf8.encode(`${m[1]}
`), data]).subarray(0, 4));
  if (sum !== m[2]) throw new Malformed(`the key's hash is ${sum}, not ${m[2]}`);
  return { name: m[1], hash: sum, publicKey: data.subarray(1) };
}
function showKey(key) {
  return `${key.name}+${key.hash}+${base64(Uint8Array.of(ed25519, ...key.publicKey))}`;
}
async function openCheckpoint(bytes3, key, verify) {
  let note;
  try {
    note = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes3);
  } catch {
    throw new Malformed("the checkpoint is not UTF-8");
  }
  const end2 = note.lastIndexOf("\n\n");
  if (end2 < 0 || !note.endsWith("\n")) throw new Malformed("the checkpoint has no signatures");
  const text3 = note.slice(0, end2 + 1);
  const [origin, size, root] = text3.split("\n");
  const hash = fromBase64(root ?? "");
  if (origin === void 0 || !/^(0|[1-9][0-9]{0,14})$/.test(size ?? "") || hash?.length !== 32) {
    throw new Malformed("the checkpoint has no origin, size and root");
  }
  if (origin !== key.name) throw new Malformed(`the checkpoint is of ${origin}, and the key of ${key.name}`);
  let signed3 = false;
  for (const line2 of note.slice(end2 + 2, -1).split("\n")) {
    const m = /^— (\S+) ([A-Za-z0-9+/=]+)$/u.exec(line2);
    const signature = m === null ? void 0 : fromBase64(m[2]);
    if (m === null || signature === void 0 || signature.length < 5) throw new Malformed("the checkpoint has a malformed signature");
    if (m[1] !== key.name || hex(signature.subarray(0, 4)) !== key.hash) continue;
    if (!await verify(key.publicKey, utf8.encode(text3), signature.subarray(4))) throw new Malformed("the key did not sign the checkpoint");
    signed3 = true;
  }
  if (!signed3) throw new Malformed("the checkpoint has no signature of the key");
  return { origin, size: Number(size), root: hash };
}
var webEd25519 = async (key, message2, signature) => {
  const { subtle } = globalThis.crypto;
  const imported = await subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  return await subtle.verify({ name: "Ed25519" }, imported, signature, message2);
};

// src/receipts.ts
var kinds = { begins: 1, admitted: 2, undone: 3, free: 4, late: 5, ledger: 6 };
var waived = 255;
var noReceipt = { number: 0, hash: new Uint8Array() };
var length = 43;
function encode(e) {
  const bytes3 = new Uint8Array(length);
  const view2 = new DataView(bytes3.buffer);
  bytes3[0] = e.kind;
  view2.setBigUint64(1, BigInt(e.time));
  view2.setUint32(9, monthDigits(e.month));
  bytes3[13] = e.quotaKey;
  bytes3[14] = e.charge;
  view2.setBigInt64(15, BigInt(e.amount));
  view2.setUint32(23, e.key);
  if (e.request !== "") bytes3.set(keyBytes(e.request), 27);
  return bytes3;
}
function chainBefore(hash, account2) {
  const id = new Uint8Array(8);
  new DataView(id.buffer).setBigUint64(0, account2);
  return hash([new TextEncoder().encode("quire account\n"), id]);
}
function link(s, a, e) {
  if (s.rules < 5) return;
  if (a.receipt.number === 0) {
    a.receipt = { number: 0, hash: chainBefore(s.hash, idNumber(a.id)) };
    const begins = { kind: kinds.begins, month: a.current.month, quotaKey: 0, charge: 0, amount: a.settled, key: 0, request: "" };
    append(s, a, { ...begins, time: e.time });
  }
  append(s, a, e);
}
function append(s, a, e) {
  const bytes3 = encode(e);
  a.receipt = { number: a.receipt.number + 1, hash: s.hash([a.receipt.hash, bytes3]) };
  s.sink.linked?.(s, a, bytes3);
}
function showReceipt(r) {
  return r.number === 0 ? "" : `${r.number}.${hex(r.hash)}`;
}
var shape = /^([0-9A-Za-z]{11}) ([1-9][0-9]{0,15})\.([0-9a-f]{64})$/;
function parseLine(line2) {
  const [, id, number2, hash] = shape.exec(line2) ?? [];
  const account2 = parseId(id ?? "");
  return account2 === void 0 ? void 0 : { account: account2, number: Number(number2), hash };
}
function parseReceipts(text3, account2) {
  const lines = text3.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  const all = lines.map((line2, i) => {
    const kept = parseLine(line2);
    if (kept === void 0) throw new Malformed(`line ${i + 1} of the receipts has no account and receipt: ${line2.slice(0, 120)}`);
    return kept;
  });
  return all.filter((k2) => k2.account === account2).sort((x, y) => x.number - y.number);
}
var KeptReceipts = class {
  byAccount = /* @__PURE__ */ new Map();
  /** Adds a line of a file of receipts. False: it is malformed. */
  add(line2) {
    const kept = parseLine(line2);
    if (kept === void 0) return false;
    const of = this.byAccount.get(kept.account) ?? { kept: [], compared: 0, fits: 0 };
    of.kept.push(kept);
    this.byAccount.set(kept.account, of);
    return true;
  }
  /** After the last line. */
  sort() {
    for (const { kept } of this.byAccount.values()) kept.sort((x, y) => x.number - y.number);
  }
  get size() {
    let n = 0;
    for (const { kept } of this.byAccount.values()) n += kept.length;
    return n;
  }
  get compared() {
    let n = 0;
    for (const { compared } of this.byAccount.values()) n += compared;
    return n;
  }
  /** After each entry of an account. */
  compare(s, a, report) {
    const of = this.byAccount.get(a.id);
    if (of === void 0) return;
    const { number: number2 } = a.receipt;
    const hash = hex(a.receipt.hash);
    for (let kept = of.kept[of.compared]; kept?.number === number2; kept = of.kept[++of.compared]) {
      if (kept.hash === hash) {
        of.fits = number2;
        continue;
      }
      report.add({
        partition: s.partition,
        account: showId(a.id),
        what: `receipt ${number2} of message ${s.sequence}`,
        field: `entries ${of.fits + 1} to ${number2}`,
        expected: hash,
        found: kept.hash
      });
    }
  }
  /** After the last message: receipts whose entries the journal of their account does not have. */
  end(s, belongs, report) {
    for (const [id, of] of this.byAccount) {
      if (!belongs(id)) continue;
      const last = s.accounts.get(id)?.receipt.number ?? 0;
      for (const { number: number2 } of of.kept.slice(of.compared)) {
        const base = { partition: s.partition, account: showId(id), what: `receipt ${number2}`, field: "number" };
        report.add({ ...base, expected: `at most ${last}`, found: String(number2) });
      }
      of.compared = of.kept.length;
    }
  }
};

// src/json.ts
function u64(into, name, n) {
  if (n !== 0 && n !== 0n) into[name] = n.toString();
}
function put(into, name, value) {
  if (value !== "" && value !== 0 && value !== false && value !== void 0) into[name] = value;
}
function credits64(fields3) {
  const j = {};
  for (const [name, n] of Object.entries(fields3)) u64(j, name, n);
  return j;
}
function canonical(value) {
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const members = Object.entries(value).filter(([, v]) => v !== void 0);
  members.sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0);
  return `{${members.map(([k2, v]) => `${JSON.stringify(k2)}:${canonical(v)}`).join(",")}}`;
}

// src/prices.ts
var quotaKeys = 13;
var lastInitialKey = 13;
var maxBalance = 1e15;
var latestRules = 5;
var free = 1;
var admin = 4;
function counts(_rules, quotaKey) {
  return quotaKey >= 1 && quotaKey <= quotaKeys;
}
var nothing = { limit: 0, price: 0, overage: false };
var noPlan = {
  name: "",
  terms: Array.from({ length: quotaKeys + 1 }, () => nothing),
  fee: 0,
  freeStorage: 0,
  storageCents: 0
};
var Book = class {
  constructor(message2, from, sequence) {
    this.message = message2;
    this.from = from;
    this.sequence = sequence;
    this.applied = message2.id !== "";
    this.anonymousLimit = message2.anonymousLimit;
    this.anonymousWindow = message2.anonymousWindow;
    for (const tier2 of message2.tiers) {
      const terms = noPlan.terms.slice();
      for (const t of tier2.terms) {
        if (t.quotaKey < 1 || t.quotaKey > quotaKeys) continue;
        terms[t.quotaKey] = { limit: t.limit, price: Math.min(t.price, maxBalance + 1), overage: t.overage };
      }
      this.plans.set(tier2.tier, {
        name: this.applied ? tier2.name : "",
        terms,
        fee: this.applied ? tier2.fee : 0,
        freeStorage: this.applied ? tier2.freeStorage : message2.freeStorage,
        storageCents: this.applied ? tier2.storageCents : message2.storageCents
      });
    }
    if (this.applied) return;
    for (let tier2 = free; tier2 <= admin; tier2++) {
      if (this.plans.has(tier2)) continue;
      this.plans.set(tier2, { ...noPlan, freeStorage: message2.freeStorage, storageCents: message2.storageCents });
    }
  }
  message;
  from;
  sequence;
  plans = /* @__PURE__ */ new Map();
  anonymousLimit;
  anonymousWindow;
  applied;
  withdrawn = false;
  plan(tier2) {
    return this.plans.get(tier2) ?? noPlan;
  }
  /** The name of a tier that is not built in, if this book has it. */
  planName(tier2) {
    return tier2 > admin ? this.plan(tier2).name : "";
  }
  hasTier(tier2) {
    return tier2 >= free && tier2 <= admin || tier2 > admin && tier2 <= 15 && this.plan(tier2).name !== "";
  }
  /** Whether a plan has terms for a quota key. */
  has(quotaKey) {
    return [...this.plans.values()].some(({ terms }) => terms[quotaKey].limit !== 0 || terms[quotaKey].overage || terms[quotaKey].price > 0);
  }
  /** Whether plans, limits and prices are the same. */
  sameAs(other) {
    return this.comparable() === other.comparable();
  }
  comparable() {
    const plans = [...this.plans].sort(([a], [b]) => a - b);
    return JSON.stringify([this.anonymousLimit, this.anonymousWindow, plans]);
  }
};
function listed(book, quotaKey) {
  return quotaKey <= lastInitialKey || book?.has(quotaKey) === true;
}

// src/statements.ts
var gigabyte = 1n << 30n;
function changeStorage(s, a, delta, at) {
  countStorage(a, s.time);
  let change2 = BigInt(delta);
  if (change2 < -a.storageBytes) change2 = -a.storageBytes;
  a.storageBytes += change2;
  const from = Math.max(at > 0 ? at : s.time, a.created);
  const start = monthStart(a.current.month);
  if (from < start && isClosed(s, a.current.month - 1)) {
    const late = Math.max(from, monthStart(a.current.month - 1));
    count(a.current, Math.floor(a.storageSince / day), change2 * BigInt(start - late));
    spread(a, change2, start, a.storageSince);
  } else spread(a, change2, from, a.storageSince);
}
function countStorage(a, until) {
  if (until <= a.storageSince) return;
  spread(a, a.storageBytes, a.storageSince, until);
  a.storageSince = until;
}
function spread(a, bytes3, from, until) {
  const start = monthStart(a.current.month);
  const first = a.previous === void 0 ? start : monthStart(a.previous.month);
  for (let at = Math.max(from, first); at < until; ) {
    const d = Math.floor(at / day);
    const next = Math.min(until, (d + 1) * day);
    count(at >= start ? a.current : a.previous, d, bytes3 * BigInt(next - at));
    at = next;
  }
}
function count(m, d, byteMillis) {
  m.storage.set(d, (m.storage.get(d) ?? 0n) + byteMillis);
}
function isClosed(s, month) {
  return s.peak >= monthStart(month + 1) + day;
}
function billStorage(m, plan) {
  const days = [...m.storage].map(([d, integral]) => ({ day: d, integral })).filter((d) => d.integral !== 0n);
  days.sort((x, y) => x.day - y.day);
  const sum = days.reduce((n, d) => n + d.integral, 0n);
  const length2 = BigInt(monthStart(m.month + 1) - monthStart(m.month));
  const positive = sum > 0n ? sum : 0n;
  const over = sum - BigInt(plan.freeStorage) * length2;
  const billed = over > 0n ? over : 0n;
  return {
    sum,
    days,
    average: positive / length2,
    billed: billed / length2,
    cents: billed * BigInt(plan.storageCents) / (gigabyte * length2)
  };
}
var mask = (1n << 64n) - 1n;
function put128(into, name, n) {
  const high = n >> 64n & mask;
  const low = n & mask;
  if (high !== 0n) into[`${name}_high`] = high.toString();
  if (low !== 0n) into[`${name}_low`] = low.toString();
}
function showUsage(m, plan, book) {
  const lines = [];
  for (let key = 1; key <= quotaKeys; key++) {
    if (!listed(book, key)) continue;
    const { limit: limit3 } = plan.terms[key];
    const used = m.used[key];
    const line2 = { quota_key: key };
    u64(line2, "used", used);
    u64(line2, "limit", limit3);
    u64(line2, "remaining", limit3 < 0 ? -1 : Math.max(0, limit3 - used));
    u64(line2, "overage", m.overage[key]);
    u64(line2, "spent_micros", m.spent[key]);
    u64(line2, "waived", m.waived[key]);
    u64(line2, "refunded_micros", m.refunded[key]);
    lines.push(line2);
  }
  return lines;
}
function showStatement(s, a, m) {
  const tier2 = m === a.current ? a.tier : m.tier;
  const book = s.books[bookIndexAt(s, monthStart(m.month + 1) - 1)];
  const plan = planOf(book, tier2);
  const bill = billStorage(m, plan);
  const periods2 = showPeriods(s, a, m);
  const j = { period: monthName(m.month), usage: showUsage(m, plan, book), tier: tier2, storage_by_day: true };
  put(j, "closed", m !== a.current && isClosed(s, m.month));
  u64(j, "spent_micros", m.spentSum);
  u64(j, "storage_average_bytes", bill.average);
  u64(j, "storage_free_bytes", plan.freeStorage);
  u64(j, "storage_billed_bytes", bill.billed);
  u64(j, "storage_overage_cents", bill.cents);
  put128(j, "storage_byte_ms", bill.sum);
  const days = bill.days.filter((d) => d.day * day < a.storageSince);
  if (days.length > 0) {
    j["storage_days"] = days.map((d) => {
      const line2 = { day: d.day };
      put128(line2, "byte_ms", d.integral);
      return line2;
    });
  }
  j["periods"] = periods2.shown;
  j["credits"] = showCredits(a, m);
  u64(j, "storage_cents_per_gb_month", plan.storageCents);
  u64(j, "fees_cents", periods2.fees);
  put(j, "plan", s.book?.planName(tier2) ?? "");
  return j;
}
function bookIndexAt(s, ms) {
  let at = s.books.length - 1;
  while (at > 0 && s.books[at].from > ms) at--;
  return at;
}
var noTerms = { limit: 0, price: 0, overage: false };
var emptyPlan = {
  name: "",
  terms: Array.from({ length: quotaKeys + 1 }, () => noTerms),
  fee: 0,
  freeStorage: 0,
  storageCents: 0
};
function planOf(book, tier2) {
  return book?.plan(tier2) ?? emptyPlan;
}
var Divided = class {
  constructor(books, start, at) {
    this.books = books;
    this.start = start;
    this.at = at;
  }
  books;
  start;
  at;
  list = [];
  /** Ends a period. It continues the previous one if that has the same tier, limits, prices and fee. */
  cut(p, tier2, until) {
    const end2 = Math.max(until, this.start);
    if (end2 === this.start && isEmpty(p)) return;
    const shown2 = { ...p, start: this.start, end: end2, tier: tier2, book: this.books[this.at] };
    const last = this.list[this.list.length - 1];
    if (last === void 0 || !equalPeriods(last, shown2)) this.list.push(shown2);
    else {
      const { used, paid, amount } = last;
      Object.assign(last, { end: end2, used: add(used, p.used), paid: add(paid, p.paid), amount: add(amount, p.amount) });
    }
    this.start = end2;
  }
  /** Ends the periods of books that were replaced before anything happened to the account. */
  skip(to, tier2, end2) {
    for (; this.at < to; this.at++) this.cut(newPeriod(), tier2, Math.min(this.books[this.at + 1].from, end2));
  }
};
function dividedPeriods(s, a, m) {
  const { books } = s;
  if (books.length === 0) return [];
  const monthEnd = monthStart(m.month + 1);
  let open2 = m.periods[m.periods.length - 1];
  const [tier2, bookIndex] = m === a.current ? [a.tier, a.bookIndex] : [m.tier, open2.bookIndex];
  const ended = m.periods.slice(0, -1);
  const divided = new Divided(books, m.start, Math.min(bookIndexAt(s, m.start), ended[0]?.bookIndex ?? bookIndex));
  for (const p of ended) {
    divided.skip(p.bookIndex, p.tier, p.end);
    divided.cut(p, p.tier, p.end);
  }
  divided.skip(bookIndex, tier2, monthEnd);
  for (let next = books[divided.at + 1]; next !== void 0 && next.from < monthEnd; next = books[divided.at + 1]) {
    divided.cut(open2, tier2, next.from);
    open2 = newPeriod();
    divided.at++;
  }
  divided.cut(open2, tier2, monthEnd);
  return divided.list;
}
function add(x, y) {
  return x.map((n, i) => n + y[i]);
}
function equalPeriods(x, y) {
  if (x.tier !== y.tier) return false;
  if (x.book === y.book) return true;
  const [p, q] = [planOf(x.book, x.tier), planOf(y.book, y.tier)];
  return p.fee === q.fee && p.terms.every((t, i) => {
    const u = q.terms[i];
    return t.limit === u.limit && t.price === u.price && t.overage === u.overage;
  });
}
function showPeriods(s, a, m) {
  const monthSeconds = BigInt((monthStart(m.month + 1) - monthStart(m.month)) / 1e3);
  let fees = 0n;
  const shown2 = dividedPeriods(s, a, m).map((p) => {
    const plan = planOf(p.book, p.tier);
    const until = (ms) => Math.floor((a.erased > 0 ? Math.min(ms, a.erased) : ms) / 1e3);
    const seconds = Math.max(0, until(p.end) - until(p.start));
    const fee = BigInt(plan.fee) * BigInt(seconds) / monthSeconds;
    fees += fee;
    const j = { start_ms: String(p.start), end_ms: String(p.end), tier: p.tier, lines: showLines(p, plan) };
    u64(j, "fee_cents", plan.fee);
    u64(j, "fee_seconds", seconds);
    u64(j, "fee_amount_cents", fee);
    put(j, "plan", s.book?.planName(p.tier) ?? "");
    return j;
  });
  return { shown: shown2, fees };
}
function showLines(p, plan) {
  const lines = [];
  for (let key = 1; key <= quotaKeys; key++) {
    if (!listed(p.book, key)) continue;
    const t = plan.terms[key];
    const line2 = { quota_key: key };
    u64(line2, "limit", t.limit);
    put(line2, "overage", t.overage);
    u64(line2, "price_micros", t.price);
    u64(line2, "used", p.used[key]);
    u64(line2, "paid", p.paid[key]);
    u64(line2, "amount_micros", p.amount[key]);
    lines.push(line2);
  }
  return lines;
}
function change(m) {
  return m.granted + m.refundedSum + m.adjusted - m.expired - m.charged;
}
function showCredits(a, m) {
  let closing = a.settled;
  if (m !== a.current) closing -= change(a.current);
  if (m !== a.current && m !== a.previous && a.previous !== void 0) closing -= change(a.previous);
  return credits64({
    opening_micros: closing - change(m),
    granted_micros: m.granted,
    expired_micros: m.expired,
    adjusted_micros: m.adjusted,
    charged_micros: m.charged,
    refunded_micros: m.refundedSum,
    pending_micros: m.spentSum - m.charged + m.refundedSum,
    closing_micros: closing
  });
}

// src/sha256.ts
var k = new Uint32Array(64);
var initial = new Uint32Array(8);
for (let n = 2, i = 0; i < 64; n++) {
  let prime = true;
  for (let d = 2; d * d <= n; d++) if (n % d === 0) prime = false;
  if (!prime) continue;
  if (i < 8) initial[i] = fraction(n, 2n);
  k[i++] = fraction(n, 3n);
}
function fraction(n, root) {
  const target = BigInt(n) << 32n * root;
  let low = 0n;
  let high = 1n << 40n;
  while (high - low > 1n) {
    const middle = low + high >> 1n;
    if (middle ** root <= target) low = middle;
    else high = middle;
  }
  return Number(low & 0xffffffffn);
}
var w = new Uint32Array(64);
function block(h, bytes3, at) {
  for (let i = 0; i < 16; i++, at += 4) {
    w[i] = bytes3[at] << 24 | bytes3[at + 1] << 16 | bytes3[at + 2] << 8 | bytes3[at + 3];
  }
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15];
    const y = w[i - 2];
    const s0 = (x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3;
    const s1 = (y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1 | 0;
  }
  let [a, b, c, d, e, f, g, j] = h;
  for (let i = 0; i < 64; i++) {
    const s1 = (e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7);
    const t1 = j + s1 + (e & f ^ ~e & g) + k[i] + w[i] | 0;
    const s0 = (a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10);
    const t2 = s0 + (a & b ^ a & c ^ b & c) | 0;
    j = g;
    g = f;
    f = e;
    e = d + t1 | 0;
    d = c;
    c = b;
    b = a;
    a = t1 + t2 | 0;
  }
  h[0] += a;
  h[1] += b;
  h[2] += c;
  h[3] += d;
  h[4] += e;
  h[5] += f;
  h[6] += g;
  h[7] += j;
}
var sha256 = (parts) => {
  const h = initial.slice();
  const buffer = new Uint8Array(64);
  let filled = 0;
  let length2 = 0;
  for (const part of parts) {
    length2 += part.length;
    let at = 0;
    if (filled > 0) {
      at = Math.min(64 - filled, part.length);
      buffer.set(part.subarray(0, at), filled);
      filled += at;
      if (filled < 64) continue;
      block(h, buffer, 0);
      filled = 0;
    }
    for (; at + 64 <= part.length; at += 64) block(h, part, at);
    buffer.set(part.subarray(at));
    filled = part.length - at;
  }
  buffer[filled++] = 128;
  if (filled > 56) {
    buffer.fill(0, filled);
    block(h, buffer, 0);
    filled = 0;
  }
  buffer.fill(0, filled);
  const view2 = new DataView(buffer.buffer);
  view2.setUint32(56, Math.floor(length2 / 536870912));
  view2.setUint32(60, length2 * 8 >>> 0);
  block(h, buffer, 0);
  const out = new Uint8Array(32);
  const words = new DataView(out.buffer);
  h.forEach((x, i) => words.setUint32(4 * i, x));
  return out;
};

// src/state.ts
function counters() {
  return new Array(quotaKeys + 1).fill(0);
}
var chargeNone = 0;
var chargeQuota = 1;
var chargeCredits = 2;
var open = 0;
var closedServed = 1;
var closedVoid = 2;
var maxKeys = 64;
function keptOf(month, quotaKey) {
  return month * maxKeys + quotaKey;
}
function monthOfKept(kept) {
  return Math.floor(kept / maxKeys);
}
function keyOfKept(kept) {
  return kept % maxKeys;
}
var State = class {
  constructor(partition, answers, sink, hash = sha256) {
    this.partition = partition;
    this.answers = answers;
    this.sink = sink;
    this.hash = hash;
  }
  partition;
  answers;
  sink;
  hash;
  sequence = 0;
  chain = new Uint8Array(32);
  time = 0;
  peak = 0;
  rules = 1;
  offset = 0;
  book;
  books = [];
  upcoming = [];
  bookCount = 0;
  /** Changes with each price book and version of the rules. */
  terms = 0;
  accounts = /* @__PURE__ */ new Map();
  networks = /* @__PURE__ */ new Map();
  sources = /* @__PURE__ */ new Map();
  domains = /* @__PURE__ */ new Map();
  commands = /* @__PURE__ */ new Map();
  losses = /* @__PURE__ */ new Set();
  /** Open and remembered holds by request id. */
  known = /* @__PURE__ */ new Map();
  byIdempotency = /* @__PURE__ */ new Map();
  admitted = /* @__PURE__ */ new Map();
  // Everything that time ends, oldest first. What has ended otherwise is skipped when its turn comes.
  timeouts = new Queue();
  remembered = new Queue();
  windows = new Queue();
  failures = new Queue();
  late = new Queue();
  keptCommands = new Queue();
  expiries = new Heap((a, b) => a.grant.expires !== b.grant.expires ? a.grant.expires < b.grant.expires : a.account.id !== b.account.id ? a.account.id < b.account.id : a.grant.id < b.grant.id);
  topUps = /* @__PURE__ */ new Set();
  warnings = /* @__PURE__ */ new Set();
  /** Of the message that is folded. */
  effects = {};
  entries = 0;
  alertCounts = /* @__PURE__ */ new Map();
  clock = 0;
  counts = { messages: 0, admissions: 0, settlements: 0, commands: 0, ledger: 0, closed: 0 };
};

// src/accounts.ts
function newOwner(id) {
  return { id, failures: new Queue(), failed: 0, late: [], open: 0, known: 0 };
}
function newNetwork(id) {
  return { ...newOwner(id), admitted: [] };
}
function networkOf(s, id) {
  let n = s.networks.get(id);
  if (n === void 0) s.networks.set(id, n = newNetwork(id));
  return n;
}
function reap(s, o) {
  if (!("admitted" in o)) return;
  const n = o;
  if (n.admitted.length + n.known + n.failed + n.late.length === 0 && s.networks.get(n.id) === n) s.networks.delete(n.id);
}
function newLineage(line2, name) {
  return {
    line: line2,
    name,
    scopes: [],
    quotas: [],
    cap: void 0,
    spending: { day: 0, today: 0, total: 0 },
    month: 0,
    used: counters(),
    overage: counters(),
    spent: counters()
  };
}
function newAccount(s, id, tier2) {
  return {
    ...newOwner(id),
    tier: tier2,
    nextTier: 0,
    created: s.time,
    previous: void 0,
    current: newMonth(monthOf(s.time), s.time, tier2),
    grants: [],
    available: 0,
    owed: 0,
    settled: 0,
    receipt: noReceipt,
    ownTerms: 0,
    seenTerms: s.terms,
    bookIndex: s.books.length - 1,
    holds: /* @__PURE__ */ new Set(),
    openByKey: counters(),
    makers: counters(),
    kept: /* @__PURE__ */ new Map(),
    keys: [],
    nextKey: 1,
    defaultLineage: newLineage(0, "default"),
    keyed: false,
    cap: void 0,
    spending: { day: 0, today: 0, total: 0 },
    suspended: 0,
    suspensionReason: "",
    deletes: 0,
    erased: 0,
    storageBytes: 0n,
    storageSince: s.time,
    payments: /* @__PURE__ */ new Map(),
    subscriptions: [],
    topUp: void 0,
    webhooks: [],
    notified: /* @__PURE__ */ new Map(),
    low: /* @__PURE__ */ new Set(),
    warned: /* @__PURE__ */ new Map()
  };
}
function newMonth(month, start, tier2) {
  return {
    month,
    start,
    used: counters(),
    overage: counters(),
    spent: counters(),
    waived: counters(),
    refunded: counters(),
    paid: counters(),
    spentSum: 0,
    periods: [newPeriod()],
    granted: 0,
    expired: 0,
    adjusted: 0,
    charged: 0,
    refundedSum: 0,
    refunds: [],
    tier: tier2,
    storage: /* @__PURE__ */ new Map()
  };
}
function newPeriod() {
  return { end: 0, tier: 0, bookIndex: 0, used: counters(), paid: counters(), amount: counters() };
}
function isEmpty(p) {
  return [p.used, p.paid, p.amount].every((list) => list.every((n) => n === 0));
}
function openPeriod(a) {
  return a.current.periods[a.current.periods.length - 1];
}
function touch(s, a, now) {
  rollTo(s, a, now);
  refresh(s, a);
}
function rollTo(s, a, now) {
  const target = monthOf(now);
  while (a.current.month < target) beginMonth(s, a);
}
function refresh(s, a) {
  if (a.nextTier !== 0) rollTo(s, a, s.time);
  if (a.bookIndex === s.books.length - 1 && a.seenTerms === s.terms + a.ownTerms) return;
  const next = s.books[a.bookIndex + 1];
  if (next !== void 0) endPeriod(a, next.from);
  a.bookIndex = s.books.length - 1;
  followTerms(s, a);
}
function endPeriod(a, at) {
  const { month, start, periods: periods2 } = a.current;
  const open2 = openPeriod(a);
  const began = periods2.length > 1 ? periods2[periods2.length - 2].end : start;
  const end2 = Math.max(began, Math.min(at, monthStart(month + 1)));
  if (end2 === began && isEmpty(open2)) return;
  Object.assign(open2, { end: end2, tier: a.tier, bookIndex: a.bookIndex });
  periods2.push(newPeriod());
}
function beginMonth(s, a) {
  const start = monthStart(a.current.month + 1);
  countStorage(a, start);
  Object.assign(openPeriod(a), { end: start, tier: a.tier, bookIndex: a.bookIndex });
  a.current.tier = a.tier;
  const leaving = a.previous;
  if (leaving !== void 0) {
    s.sink.closed(a, showStatement(s, a, leaving));
    s.counts.closed++;
    for (const key of a.kept.keys()) if (monthOfKept(key) < a.current.month) a.kept.delete(key);
  }
  a.previous = a.current;
  a.current = newMonth(a.current.month + 1, start, a.tier);
  const { nextTier } = a;
  a.nextTier = 0;
  if (nextTier === 0 || nextTier === a.tier) return;
  a.tier = nextTier;
  a.bookIndex = s.books.length - 1;
  a.ownTerms++;
  followTerms(s, a);
}
function followTerms(s, a) {
  const terms = s.terms + a.ownTerms;
  if (a.seenTerms === terms) return;
  a.seenTerms = terms;
  a.current.paid.fill(0);
  a.previous?.paid.fill(0);
  a.kept.clear();
  for (const h of a.holds) {
    if (h.makesRoom) continue;
    h.makesRoom = true;
    a.makers[h.quotaKey]++;
  }
}
function setTier(s, a, tier2) {
  a.nextTier = 0;
  if (tier2 === a.tier) return;
  endPeriod(a, s.time);
  a.tier = tier2;
  a.ownTerms++;
  followTerms(s, a);
}
function monthIn(a, month) {
  if (a.current.month === month) return a.current;
  return a.previous?.month === month ? a.previous : void 0;
}
function countingDay(a, time2) {
  return Math.max(Math.floor(time2 / day), monthStart(a.current.month) / day);
}
function makesRoom(s, a, h) {
  return h.charge !== chargeCredits || h.terms !== s.terms + a.ownTerms;
}
function countMaker(a, h, makes) {
  if (h.makesRoom === makes) return;
  h.makesRoom = makes;
  a.makers[h.quotaKey] += makes ? 1 : -1;
}
function removeHold(a, h) {
  if (!a.holds.delete(h)) return;
  countMaker(a, h, false);
  trimKept(a, h.quotaKey);
}
function trimKept(a, quotaKey) {
  if (a.kept.size === 0) return;
  const most = a.makers[quotaKey];
  for (const [key, list] of a.kept) {
    if (keyOfKept(key) !== quotaKey) continue;
    if (most === 0) a.kept.delete(key);
    else if (list.length > most) list.splice(0, list.length - most);
  }
}
function inOrder(x, y) {
  return x.sequence - y.sequence || x.index - y.index;
}
function keepPaid(a, served2) {
  const h = { ...served2 };
  const most = a.makers[h.quotaKey];
  if (most === 0) return;
  const key = keptOf(h.month, h.quotaKey);
  const list = a.kept.get(key);
  if (list === void 0) {
    a.kept.set(key, [h]);
    return;
  }
  let at = list.length;
  while (at > 0 && inOrder(h, list[at - 1]) < 0) at--;
  list.splice(at, 0, h);
  trimKept(a, h.quotaKey);
}

// src/report.ts
var shown = 20;
var longest = 120;
var Report = class {
  differences = [];
  count = 0;
  /** There may be more than were counted. */
  more = false;
  add(d) {
    this.count++;
    if (this.differences.length < shown) this.differences.push({ ...d, expected: short(d.expected), found: short(d.found) });
  }
  /** Adds all of another report. Half of what is shown is left for it: the consequences of a difference must not hide its place in the log. */
  take(r) {
    this.differences.splice(shown - Math.min(r.differences.length, shown / 2));
    this.differences.push(...r.differences.slice(0, shown - this.differences.length));
    this.count += r.count;
    this.more ||= r.more;
  }
};
function short(text3) {
  return text3.length > longest ? `${text3.slice(0, longest)}…` : text3;
}
function showDifference(d) {
  const account2 = d.account === void 0 ? "" : `, account ${d.account}`;
  const field = d.field === void 0 ? "" : `, field ${d.field}`;
  const partition = d.partition === void 0 ? "" : `partition ${d.partition}${account2}, `;
  return `${partition}${d.what}${field}: expected ${d.expected}, found ${d.found}`;
}
function isObject(v) {
  return typeof v === "object" && v !== null;
}
function text(v) {
  return v === void 0 ? "missing" : typeof v === "string" ? v : JSON.stringify(v);
}
function compareValues(expected, found, path2, add3) {
  if (isObject(expected) && isObject(found) && Array.isArray(expected) === Array.isArray(found)) {
    const names = /* @__PURE__ */ new Set([...Object.keys(expected), ...Object.keys(found)]);
    for (const name of names) {
      const at = Array.isArray(expected) ? `${path2}[${name}]` : path2 === "" ? name : `${path2}.${name}`;
      compareValues(expected[name], found[name], at, add3);
    }
    return;
  }
  if (expected !== found) add3(path2, text(expected), text(found));
}

// src/keys.ts
var capDay = 1;
var capMonth = 2;
var capTotal = 3;
function isLive(k2, now) {
  return k2.revoked === 0 && (k2.expires === 0 || now < k2.expires);
}
function validKey(a, m, now) {
  if (m.keyVersion === 0) return void 0;
  for (const k2 of a.keys) {
    const number2 = k2.former ? 0 : k2.number;
    if (number2 === m.key && k2.version === m.keyVersion && k2.fingerprint === m.fingerprint && isLive(k2, now)) return k2;
  }
  return void 0;
}
function currentVersion(a, now) {
  let lowest = 0;
  for (const k2 of a.keys) {
    if (k2.number !== 0 && !k2.former) continue;
    if (k2.version > 0 && (k2.number === 0 || isLive(k2, now)) && (lowest === 0 || k2.version < lowest)) lowest = k2.version;
  }
  return lowest;
}
function enterMonth(l, month) {
  if (l.month >= month) return;
  l.month = month;
  l.used.fill(0);
  l.overage.fill(0);
  l.spent.fill(0);
}
function usedBy(l, month, quotaKey) {
  return l.month === month ? l.used[quotaKey] : 0;
}
function keyLimit(l, quotaKey) {
  for (const q of l.quotas) if (q.quotaKey === quotaKey) return q.limit;
  return void 0;
}
function daySpent(s, a) {
  return Math.max(a.spending.day, countingDay(a, s.time));
}
function capSpent(a, owner, period, on) {
  const { spending } = owner;
  if (period === capTotal) return spending.total;
  if (period === capDay) return spending.day === on ? spending.today : 0;
  if ("current" in owner) return owner.current.spentSum;
  return owner.month === a.current.month ? owner.spent.reduce((x, y) => x + y, 0) : 0;
}
function capEnd(cap2, on, month) {
  if (cap2.period === capDay) return (on + 1) * day;
  return cap2.period === capMonth ? monthStart(month + 1) : 0;
}
function reachedCap(s, a, l, price) {
  if (price === 0) return void 0;
  const on = daySpent(s, a);
  if (l?.cap !== void 0 && capSpent(a, l, l.cap.period, on) + price > l.cap.amount) return { cap: l.cap, ofKey: true };
  if (a.cap !== void 0 && capSpent(a, a, a.cap.period, on) + price > a.cap.amount) return { cap: a.cap, ofKey: false };
  return void 0;
}

// src/alerts.ts
var alertTypes = [
  "",
  "ALERT_QUOTA",
  "ALERT_CAP",
  "ALERT_BALANCE",
  "ALERT_KEY",
  "ALERT_KEY_CREATED",
  "ALERT_KEY_REVOKED",
  "ALERT_PASTE_CREATED",
  "ALERT_PASTE_UPDATED",
  "ALERT_PASTE_DELETED",
  "ALERT_PASTE_BURNED",
  "ALERT_LITE_CREATED",
  "ALERT_LITE_UPDATED",
  "ALERT_LITE_DELETED",
  "ALERT_LITE_BURNED",
  "ALERT_TEST",
  "ALERT_FILE_CREATED",
  "ALERT_FILE_DELETED",
  "ALERT_TOP_UP_OFF",
  "ALERT_PAYMENT"
];
var quota = 1;
var capAlert = 2;
var balance = 3;
var keyExpires = 4;
var keyCreated = 5;
var keyRevoked = 6;
var test = 15;
var topUpOff = 18;
var payment = 19;
var contentTypes = 114624;
var defaultThresholds = [50, 80, 100];
var warnings = [7 * day, day];
function wants(w2, type) {
  return (w2.events & 1 << type - 1) !== 0;
}
function wantsContent(a) {
  return a.webhooks.some((w2) => (w2.events & contentTypes) !== 0);
}
function subscribed(a, type) {
  return a.webhooks.filter((w2) => wants(w2, type));
}
function alert(s, a, type, webhooks, fields3) {
  const index = s.alertCounts.get(a.id) ?? 0;
  s.alertCounts.set(a.id, index + 1);
  const order = new Uint8Array(4);
  new DataView(order.buffer).setUint32(0, index);
  const sum = s.hash([new TextEncoder().encode("alert"), s.chain, keyBytes(a.id), order]);
  const view2 = new DataView(sum.buffer, sum.byteOffset);
  const id = `evt_${base62(view2.getBigUint64(0), 11)}${base62(view2.getBigUint64(8), 11)}`;
  const alerts = s.effects.alerts ??= [];
  const j = {
    id,
    position: position(s.sequence, alerts.length),
    account: idNumber(a.id).toString(),
    time_ms: String(s.time),
    type: alertTypes[type]
  };
  if (webhooks.length > 0) j["webhooks"] = webhooks.map((w2) => idNumber(w2.id).toString());
  alerts.push(Object.assign(j, fields3));
  return id;
}
function alertAdmitted(s, a, h, before2) {
  if (a.webhooks.length === 0) return;
  const { limit: limit3 } = planOf(s.book, a.tier).terms[h.quotaKey];
  const [from, until] = [monthStart(a.current.month), monthStart(a.current.month + 1)];
  if (limit3 > 0) {
    const used = a.current.used[h.quotaKey];
    const fields3 = { quota_key: h.quotaKey };
    crossings(s, a, quota, `${h.quotaKey}`, used - 1, used, limit3, from, until, fields3);
  }
  if (h.charge !== chargeCredits) return;
  alertBalance(s, a, before2);
  if (h.lineage?.cap !== void 0) alertCap(s, a, h, h.lineage, h.lineage.cap);
  if (a.cap !== void 0) alertCap(s, a, h, void 0, a.cap);
}
function alertCap(s, a, h, l, cap2) {
  const on = daySpent(s, a);
  const spent = capSpent(a, l ?? a, cap2.period, on);
  const until = capEnd(cap2, on, a.current.month);
  const from = cap2.period === capDay ? until - day : cap2.period === capMonth ? monthStart(a.current.month) : 0;
  const fields3 = {};
  put(fields3, "key_cap", l !== void 0);
  if (l !== void 0) put(fields3, "key", a.keys.find((k2) => k2.lineage === l && !k2.replaced)?.number ?? l.line);
  crossings(s, a, capAlert, `${l?.line ?? ""}/${cap2.period}`, spent - h.cost, spent, cap2.amount, from, until, fields3);
}
function crossings(s, a, type, of, before2, after, limit3, from, until, fields3) {
  const name = `${type} ${of} ${limit3} ${from}`;
  const by = /* @__PURE__ */ new Map();
  for (const w2 of subscribed(a, type)) {
    for (const t of w2.thresholds.length > 0 ? w2.thresholds : defaultThresholds) {
      if (before2 * 100 >= t * limit3 || after * 100 < t * limit3 || t <= (a.notified.get(name) ?? 0)) continue;
      by.set(t, [...by.get(t) ?? [], w2]);
    }
  }
  for (const [threshold, webhooks] of [...by].sort(([x], [y]) => x - y)) {
    a.notified.set(name, threshold);
    const j = { ...fields3, threshold };
    u64(j, "used", after);
    u64(j, "limit", limit3);
    u64(j, "from_ms", from);
    u64(j, "until_ms", until);
    alert(s, a, type, webhooks, j);
  }
}
function alertBalance(s, a, before2) {
  const by = /* @__PURE__ */ new Map();
  for (const w2 of s.answers ? subscribed(a, balance) : []) {
    const value = w2.balanceBelow;
    if (value === 0 || before2 < value || a.available >= value || a.low.has(value)) continue;
    by.set(value, [...by.get(value) ?? [], w2]);
  }
  for (const [value, webhooks] of [...by].sort(([x], [y]) => y - x)) {
    a.low.add(value);
    const j = {};
    u64(j, "balance_micros", a.available);
    u64(j, "below_micros", value);
    alert(s, a, balance, webhooks, j);
  }
}
function forgetNotified(a) {
  const watched = new Set(subscribed(a, balance).map((w2) => w2.balanceBelow));
  for (const value of a.low) if (!watched.has(value)) a.low.delete(value);
  if (a.webhooks.length === 0) a.notified.clear();
}
function raised(a) {
  for (const value of a.low) if (a.available >= value) a.low.delete(value);
}
function watchKeys(s, a) {
  if (!s.answers) return;
  const before2 = a.warned;
  a.warned = /* @__PURE__ */ new Map();
  const wanted = subscribed(a, keyExpires).length > 0;
  for (const k2 of wanted ? a.keys : []) {
    if (k2.expires === 0 || k2.replaced || !isLive(k2, s.time)) continue;
    const same3 = before2.get(k2.number);
    const given = warnings.filter((w2) => k2.expires - w2 <= s.time).length;
    a.warned.set(k2.number, same3?.expires === k2.expires ? same3 : { expires: k2.expires, given });
  }
  if (a.warned.size > 0) s.warnings.add(a);
  else s.warnings.delete(a);
}
function warnExpiring(s) {
  const due2 = [];
  for (const account2 of s.warnings) {
    for (const [number2, state] of account2.warned) {
      for (let w2 = warnings[state.given]; w2 !== void 0 && state.expires - w2 <= s.time; w2 = warnings[state.given]) {
        state.given++;
        const fields3 = {};
        put(fields3, "key", number2);
        u64(fields3, "expires_ms", state.expires);
        fields3["days_before"] = w2 / day;
        due2.push({ at: state.expires - w2, account: account2, fields: fields3 });
      }
    }
  }
  due2.sort((x, y) => x.at - y.at || (x.account.id < y.account.id ? -1 : x.account.id > y.account.id ? 1 : 0));
  for (const { account: account2, fields: fields3 } of due2) alert(s, account2, keyExpires, subscribed(account2, keyExpires), fields3);
}
function knownKeys(s, a) {
  const watched = s.answers && subscribed(a, keyCreated).length + subscribed(a, keyRevoked).length > 0;
  if (!watched) return void 0;
  return a.keys.map((key) => ({ key, version: key.version, replaced: key.replaced, live: isLive(key, s.time), expires: key.expires }));
}
function alertKeys(s, a, before2) {
  if (before2 === void 0) return;
  for (const k2 of a.keys) {
    if (!before2.some((b) => b.key === k2 && b.version === k2.version)) alertKey(s, a, keyCreated, k2, k2.expires);
  }
  for (const b of before2) {
    if (!b.live) continue;
    const live = a.keys.includes(b.key) && b.key.version === b.version && isLive(b.key, s.time);
    if (!live || b.key.replaced !== b.replaced) alertKey(s, a, keyRevoked, b.key, live ? b.key.expires : 0);
  }
}
function alertKey(s, a, type, k2, expires) {
  const webhooks = subscribed(a, type);
  if (webhooks.length === 0) return;
  const fields3 = {};
  put(fields3, "key", k2.number);
  u64(fields3, "expires_ms", expires);
  fields3["key_name"] = k2.lineage.name;
  alert(s, a, type, webhooks, fields3);
}
var actions = ["", "CONTENT_CREATED", "CONTENT_UPDATED", "CONTENT_DELETED", "CONTENT_BURNED"];
var contentAlerts = { paste: [0, 7, 8, 9, 10], lite: [0, 11, 12, 13, 14], file: [0, 16, 0, 17, 0] };
function alertContent(s, a, domain, c) {
  const type = contentAlerts[domain]?.[c.action] ?? 0;
  const webhooks = type === 0 ? [] : subscribed(a, type);
  if (webhooks.length === 0) return;
  const content2 = {};
  put(content2, "action", actions[c.action]);
  put(content2, "item", c.item);
  u64(content2, "version", c.version);
  put(content2, "visibility", c.visibility);
  u64(content2, "size_bytes", c.size);
  u64(content2, "expires_ms", c.expires);
  alert(s, a, type, webhooks, { content: content2 });
}

// src/credits.ts
var types = {
  grant: "LEDGER_GRANT",
  adjustment: "LEDGER_ADJUSTMENT",
  charge: "LEDGER_CHARGE",
  expiry: "LEDGER_EXPIRY",
  refund: "LEDGER_REFUND",
  payment: "LEDGER_PAYMENT",
  reversal: "LEDGER_REVERSAL"
};
var typeNumbers = new Map(Object.values(types).map((type, i) => [type, i + 1]));
function count2(m, e, aboutRequest, left) {
  if (left) m.adjusted += e.amount;
  else if (e.type === types.grant || e.type === types.payment) m.granted += e.amount;
  else if (e.type === types.charge) m.charged -= e.amount;
  else if (e.type === types.expiry) m.expired -= e.amount;
  else if (e.type === types.adjustment && aboutRequest) m.refundedSum += e.amount;
  else m.adjusted += e.amount;
}
function enter(s, a, e) {
  const { hold } = e;
  const month = hold === void 0 ? a.current : monthIn(a, hold.month);
  link(s, a, {
    kind: kinds.ledger,
    time: e.settled,
    month: (month ?? a.current).month,
    quotaKey: hold?.quotaKey ?? e.quotaKey ?? 0,
    charge: typeNumbers.get(e.type),
    amount: e.amount,
    key: 0,
    request: hold?.request ?? e.request ?? ""
  });
  a.settled += e.amount;
  count2(month ?? a.current, e, hold !== void 0, month === void 0);
  s.counts.ledger++;
  const j = { id: position(s.sequence, s.entries++), account: idNumber(a.id).toString() };
  u64(j, "time_ms", hold === void 0 ? e.settled : Math.min(Math.max(hold.time, hold.day * day), (hold.day + 1) * day - 1));
  j["type"] = e.type;
  put(j, "quota_key", hold?.quotaKey ?? e.quotaKey);
  u64(j, "amount_micros", e.amount);
  u64(j, "balance_micros", a.settled);
  const request = hold?.request ?? e.request ?? "";
  if (request !== "") j["request_id"] = base64(keyBytes(request));
  put(j, "reason", e.reason);
  u64(j, "settled_ms", e.settled);
  if (hold !== void 0) {
    u64(j, "admitted_before", s.sequence - hold.sequence);
    u64(j, "admitted_index", hold.index + 1);
  }
  put(j, "month", hold === void 0 && request === "" ? e.month : 0);
  put(j, "actor", e.actor);
  put(j, "payment", e.payment);
  s.sink.ledger(a, j);
  if (s.answers) (s.effects.ledger ??= []).push(j);
}
function before(x, y) {
  const ex = x.expires === 0 ? Infinity : x.expires;
  const ey = y.expires === 0 ? Infinity : y.expires;
  return ex !== ey ? ex < ey : x.id < y.id;
}
function insert(a, g) {
  let at = a.grants.length;
  while (at > 0 && before(g, a.grants[at - 1])) at--;
  a.grants.splice(at, 0, g);
}
function addGrant(s, a, g) {
  insert(a, g);
  a.available += g.left;
  if (g.expires !== 0) s.expiries.push({ account: a, grant: g });
  payOwed(a);
}
function addToLastGrant(a, amount) {
  const last = a.grants[a.grants.length - 1];
  if (last === void 0 || last.expires !== 0) return false;
  last.amount += amount;
  last.left += amount;
  a.available += amount;
  payOwed(a);
  return true;
}
function payOwed(a) {
  if (a.owed === 0) return;
  const paid = Math.min(a.owed, a.available);
  a.owed -= paid;
  take(a, paid);
}
function take(a, amount) {
  const uses = [];
  a.available -= amount;
  let spent = 0;
  while (amount > 0) {
    const g = a.grants[spent];
    const part = Math.min(g.left, amount);
    g.left -= part;
    amount -= part;
    if (part > 0) uses.push({ grant: g, amount: part });
    if (g.left > 0) break;
    spent++;
  }
  if (spent > 0) a.grants.splice(0, spent);
  return uses;
}
function giveBack(s, a, uses, now) {
  const expired = [];
  for (const { grant: grant2, amount } of uses) {
    if (grant2.left === 0) {
      if (grant2.over) expired.push(grant2);
      else insert(a, grant2);
    }
    grant2.left += amount;
    a.available += amount;
  }
  for (const g of expired) leave(s, a, g, now);
  payOwed(a);
}
function leave(s, a, g, now) {
  const { left } = g;
  g.left = 0;
  a.available -= left;
  enter(s, a, { type: types.expiry, amount: -left, settled: now, reason: g.reason });
}
function isKept(a, g) {
  const took = (h) => h.uses?.some((u) => u.grant === g) ?? false;
  return g.left > 0 || [...a.holds].some(took) || [...a.kept.values()].some((list) => list.some(took));
}
function expire(s, a, g, now) {
  g.over = true;
  if (g.left === 0) return;
  a.grants.splice(a.grants.indexOf(g), 1);
  const before2 = a.available;
  leave(s, a, g, now);
  alertBalance(s, a, before2);
}
function countSpending(a, h, price, sign) {
  const amount = sign * price;
  const on = sign > 0 ? Math.max(a.spending.day, h.day) : h.day;
  for (const spending of [a.spending, h.lineage?.spending]) {
    if (spending === void 0) continue;
    if (spending.day < on) {
      spending.day = on;
      spending.today = 0;
    }
    if (spending.day === on) spending.today += amount;
    spending.total += amount;
  }
  if (h.lineage?.month === h.month) {
    h.lineage.overage[h.quotaKey] += sign;
    h.lineage.spent[h.quotaKey] += amount;
  }
}
function countPaid(a, m, h, price, sign, terms) {
  if (m !== void 0) {
    m.overage[h.quotaKey] += sign;
    m.spent[h.quotaKey] += sign * price;
    m.spentSum += sign * price;
    if (h.terms === terms) m.paid[h.quotaKey] += sign;
    const p = h.period ?? openPeriod(a);
    p.paid[h.quotaKey] += sign;
    p.amount[h.quotaKey] += sign * price;
  }
  countSpending(a, h, price, sign);
}

// src/wire.ts
var DecodeError = class extends Error {
};
var maxSafeHigh = 2097151;
var utf82 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
var bounded = { count: 0 };
var Reader = class {
  constructor(bytes3, at = 0, end2 = bytes3.length) {
    this.bytes = bytes3;
    this.at = at;
    this.end = end2;
  }
  bytes;
  at;
  end;
  low = 0;
  high = 0;
  /** Tag of the field after next(): number × 8 + wire type. */
  tag = 0;
  /** Moves to the next field. False at the end of the message. */
  next() {
    if (this.at >= this.end) return false;
    this.varint();
    if (this.high !== 0 || this.low < 8) throw new DecodeError("field number");
    this.tag = this.low;
    return true;
  }
  varint() {
    const { bytes: bytes3, end: end2 } = this;
    let at = this.at;
    let low = 0;
    let high = 0;
    for (let shift = 0; ; shift += 7) {
      if (at >= end2) throw new DecodeError("varint is cut off");
      const b = bytes3[at++];
      const bits = b & 127;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >> 4;
      } else if (shift < 63) high |= bits << shift - 32;
      else if (b > 1) throw new DecodeError("varint is too long");
      else high |= bits << 31;
      if (b < 128) break;
    }
    this.at = at;
    this.low = low >>> 0;
    this.high = high >>> 0;
  }
  u32() {
    this.varint();
    return this.low;
  }
  bool() {
    this.varint();
    return this.low !== 0 || this.high !== 0;
  }
  u64() {
    this.varint();
    return safe(this.high, this.low);
  }
  /** All 64 bits. */
  big() {
    this.varint();
    return BigInt(this.high) << 32n | BigInt(this.low);
  }
  i64() {
    this.varint();
    return signed(this.high, this.low);
  }
  s64() {
    this.varint();
    const negative = (this.low & 1) === 1;
    const n = safe(this.high >>> 1, (this.low >>> 1 | this.high << 31) >>> 0);
    return negative ? -n - 1 : n;
  }
  /** A fixed64 as an id: four UTF-16 units, most significant first, which order as the number does. */
  id() {
    const { bytes: bytes3, at } = this;
    if (at + 8 > this.end) throw new DecodeError("fixed64 is cut off");
    this.at = at + 8;
    return String.fromCharCode(
      bytes3[at + 7] << 8 | bytes3[at + 6],
      bytes3[at + 5] << 8 | bytes3[at + 4],
      bytes3[at + 3] << 8 | bytes3[at + 2],
      bytes3[at + 1] << 8 | bytes3[at]
    );
  }
  length() {
    this.varint();
    if (this.high !== 0 || this.at + this.low > this.end) throw new DecodeError("bytes are cut off");
    return this.low;
  }
  /** Bytes as a string: 16 bytes in eight UTF-16 units; "" for any other length, which counts as none. */
  key16() {
    const n = this.length();
    const { bytes: bytes3, at } = this;
    this.at = at + n;
    if (n !== 16) return "";
    return String.fromCharCode(
      bytes3[at] << 8 | bytes3[at + 1],
      bytes3[at + 2] << 8 | bytes3[at + 3],
      bytes3[at + 4] << 8 | bytes3[at + 5],
      bytes3[at + 6] << 8 | bytes3[at + 7],
      bytes3[at + 8] << 8 | bytes3[at + 9],
      bytes3[at + 10] << 8 | bytes3[at + 11],
      bytes3[at + 12] << 8 | bytes3[at + 13],
      bytes3[at + 14] << 8 | bytes3[at + 15]
    );
  }
  raw() {
    const n = this.length();
    this.at += n;
    return this.bytes.subarray(this.at - n, this.at);
  }
  text() {
    const bytes3 = this.raw();
    if (bytes3.length < 24) {
      let s = "";
      let i = 0;
      for (; i < bytes3.length && bytes3[i] < 128; i++) s += String.fromCharCode(bytes3[i]);
      if (i === bytes3.length) return s;
    }
    try {
      return utf82.decode(bytes3);
    } catch {
      throw new DecodeError("string is not UTF-8");
    }
  }
  /** Decodes a message within this one. */
  message(decode3, into) {
    const n = this.length();
    const { tag: tag3, end: end2 } = this;
    this.end = this.at + n;
    decode3(this, into);
    this.at = this.end;
    this.end = end2;
    this.tag = tag3;
    return into;
  }
  /** Appends a repeated uint32, packed or not. */
  u32s(into) {
    this.repeated(() => into.push(this.u32()));
  }
  /** Appends a repeated uint64, packed or not. */
  bigs(into) {
    this.repeated(() => into.push(this.big()));
  }
  repeated(next) {
    if ((this.tag & 7) === 0) {
      next();
      return;
    }
    const n = this.length();
    const stop = this.at + n;
    const { end: end2 } = this;
    this.end = stop;
    while (this.at < stop) next();
    this.end = end2;
  }
  /** Skips a field that is not known, or that has another wire type. */
  skip() {
    const number2 = this.tag >>> 3;
    switch (this.tag & 7) {
      case 0:
        this.varint();
        return;
      case 1:
        this.forward(8);
        return;
      case 2:
        this.forward(this.length());
        return;
      case 3:
        this.group(number2);
        return;
      case 5:
        this.forward(4);
        return;
      default:
        throw new DecodeError("wire type");
    }
  }
  group(number2) {
    for (; ; ) {
      if (!this.next()) throw new DecodeError("group is cut off");
      if ((this.tag & 7) === 4) {
        if (this.tag >>> 3 !== number2) throw new DecodeError("group ends another one");
        return;
      }
      this.skip();
    }
  }
  forward(n) {
    if (this.at + n > this.end) throw new DecodeError("field is cut off");
    this.at += n;
  }
};
function safe(high, low) {
  if (high <= maxSafeHigh) return high * 4294967296 + low;
  bounded.count++;
  return Number.MAX_SAFE_INTEGER;
}
function signed(high, low) {
  if (high < 2147483648) return safe(high, low);
  const l = (~low >>> 0) + 1;
  const carry = l > 4294967295 ? 1 : 0;
  return -safe((~high >>> 0) + carry, l >>> 0);
}

// src/messages.ts
var varint = 0;
var fixed = 1;
var bytes = 2;
var tag = (field, wire) => field * 8 + wire;
var noId = "\0\0\0\0";
var served = 1;
var voided = 2;
function decodeUsage(r) {
  const m = {
    source: "",
    number: 0,
    stamp: 0,
    since: 0,
    admissions: [],
    settlements: [],
    served: [],
    loss: void 0,
    seal: void 0
  };
  while (r.next()) {
    switch (r.tag) {
      case tag(1, bytes):
        m.source = r.text();
        break;
      case tag(2, varint):
        m.number = r.u64();
        break;
      case tag(3, varint):
        m.stamp = r.i64();
        break;
      case tag(5, bytes):
        m.admissions.push(r.message(admission, newAdmission()));
        break;
      case tag(6, bytes):
        m.settlements.push(r.message(settlement, newSettlement()));
        break;
      case tag(7, bytes):
        m.served.push(r.message(servedPlaces, { sequence: 0, places: [] }));
        break;
      case tag(8, varint):
        m.since = r.s64();
        break;
      case tag(9, bytes):
        m.loss = r.message(loss, m.loss ?? { stream: "", first: 0, last: 0, actor: "", logged: false });
        break;
      case tag(10, bytes):
        m.seal = r.message(seal, m.seal ?? newSeal());
        break;
      default:
        r.skip();
    }
  }
  return m;
}
function newAdmission() {
  return {
    request: "",
    account: noId,
    quotaKey: 0,
    anonymous: false,
    keyVersion: 0,
    fingerprint: noId,
    write: false,
    idempotency: "",
    hasIdempotency: false,
    key: 0,
    readId: "",
    readHash: noId
  };
}
function admission(r, m) {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, bytes):
        m.request = r.key16();
        break;
      case tag(2, fixed):
        m.account = r.id();
        break;
      case tag(3, varint):
        m.quotaKey = r.u32();
        break;
      case tag(4, varint):
        m.anonymous = r.bool();
        break;
      case tag(5, varint):
        m.keyVersion = r.u32();
        break;
      case tag(6, fixed):
        m.fingerprint = r.id();
        break;
      case tag(7, varint):
        m.write = r.bool();
        break;
      case tag(8, bytes): {
        const at = r.at;
        m.idempotency = r.key16();
        m.hasIdempotency = r.at - at > 1;
        break;
      }
      case tag(20, varint):
        m.key = r.u32();
        break;
      case tag(40, bytes):
        m.readId = r.key16();
        break;
      case tag(41, fixed):
        m.readHash = r.id();
        break;
      default:
        r.skip();
    }
  }
  return m;
}
function newSettlement() {
  return {
    request: "",
    hasRequest: false,
    result: 0,
    account: noId,
    quotaKey: 0,
    anonymous: false,
    failed: false,
    sequence: 0,
    storageDelta: 0,
    storageAt: 0,
    stored: 0,
    content: void 0
  };
}
function settlement(r, m) {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, bytes): {
        const at = r.at;
        m.request = r.key16();
        m.hasRequest = r.at - at > 1;
        break;
      }
      case tag(2, varint):
        m.result = r.u32();
        break;
      case tag(3, fixed):
        m.account = r.id();
        break;
      case tag(4, varint):
        m.quotaKey = r.u32();
        break;
      case tag(5, varint):
        m.anonymous = r.bool();
        break;
      case tag(6, varint):
        m.failed = r.bool();
        break;
      case tag(7, varint):
        m.sequence = r.u64();
        break;
      case tag(8, varint):
        m.storageDelta = r.s64();
        break;
      case tag(9, varint):
        m.storageAt = r.i64();
        break;
      case tag(10, varint):
        m.stored = r.i64();
        break;
      case tag(11, bytes):
        m.content = r.message(content, m.content ?? newContent());
        break;
      default:
        r.skip();
    }
  }
  return m;
}
function newContent() {
  return { action: 0, item: "", version: 0, visibility: 0, size: 0, expires: 0 };
}
function content(r, m) {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint):
        m.action = r.u32();
        break;
      case tag(2, bytes):
        m.item = r.text();
        break;
      case tag(3, varint):
        m.version = r.u64();
        break;
      case tag(4, varint):
        m.visibility = r.u32();
        break;
      case tag(5, varint):
        m.size = r.u64();
        break;
      case tag(6, varint):
        m.expires = r.i64();
        break;
      default:
        r.skip();
    }
  }
  return m;
}
function servedPlaces(r, m) {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint):
        m.sequence = r.u64();
        break;
      case tag(2, varint):
      case tag(2, bytes):
        r.u32s(m.places);
        break;
      default:
        r.skip();
    }
  }
  return m;
}
function loss(r, m) {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, bytes):
        m.stream = r.text();
        break;
      case tag(2, varint):
        m.first = r.u64();
        break;
      case tag(3, varint):
        m.last = r.u64();
        break;
      case tag(4, bytes):
        m.actor = r.text();
        break;
      case tag(8, varint):
        m.logged = r.bool();
        break;
      default:
        r.skip();
    }
  }
  return m;
}
function newSeal() {
  return { partitions: 0, sequence: 0, accounts: void 0, statements: [] };
}
function seal(r, m) {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint):
        m.partitions = r.u32();
        break;
      case tag(2, varint):
        m.sequence = r.u64();
        break;
      case tag(3, bytes):
        m.accounts = r.message(sealedTree, m.accounts ?? newTree());
        break;
      case tag(4, bytes):
        m.statements.push(r.message(sealedTree, newTree()));
        break;
      default:
        r.skip();
    }
  }
  return m;
}
function newTree() {
  return { month: 0, hash: new Uint8Array(), sums: [] };
}
function sealedTree(r, m) {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint):
        m.month = r.u32();
        break;
      case tag(2, bytes):
        m.hash = r.raw();
        break;
      case tag(3, varint):
      case tag(3, bytes):
        r.bigs(m.sums);
        break;
      default:
        r.skip();
    }
  }
  return m;
}
function decodePrices(r) {
  const m = {
    stamp: 0,
    offset: 0,
    tiers: [],
    anonymousLimit: 0,
    anonymousWindow: 0,
    freeStorage: 0,
    storageCents: 0,
    rules: 0,
    agreed: false,
    id: "",
    effective: 0,
    withdrawn: false
  };
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint):
        m.stamp = r.i64();
        break;
      case tag(2, varint):
        m.offset = r.i64();
        break;
      case tag(3, bytes):
        m.tiers.push(r.message(tierPlan, { tier: 0, terms: [], name: "", fee: 0, freeStorage: 0, storageCents: 0 }));
        break;
      case tag(4, varint):
        m.anonymousLimit = r.u32();
        break;
      case tag(5, varint):
        m.anonymousWindow = r.i64();
        break;
      case tag(6, varint):
        m.freeStorage = r.u64();
        break;
      case tag(7, varint):
        m.storageCents = r.u64();
        break;
      case tag(8, varint):
        m.rules = r.u32();
        break;
      case tag(9, varint):
        m.agreed = r.bool();
        break;
      case tag(10, bytes):
        m.id = r.text();
        break;
      case tag(11, varint):
        m.effective = r.i64();
        break;
      case tag(13, varint):
        m.withdrawn = r.bool();
        break;
      default:
        r.skip();
    }
  }
  return m;
}
function tierPlan(r, m) {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint):
        m.tier = r.u32();
        break;
      case tag(2, bytes):
        m.terms.push(r.message(term, { quotaKey: 0, limit: 0, price: 0, overage: false }));
        break;
      case tag(3, bytes):
        m.name = r.text();
        break;
      case tag(4, varint):
        m.fee = r.u64();
        break;
      case tag(5, varint):
        m.freeStorage = r.u64();
        break;
      case tag(6, varint):
        m.storageCents = r.u64();
        break;
      default:
        r.skip();
    }
  }
  return m;
}
function term(r, m) {
  while (r.next()) {
    switch (r.tag) {
      case tag(1, varint):
        m.quotaKey = r.u32();
        break;
      case tag(2, varint):
        m.limit = r.s64();
        break;
      case tag(3, varint):
        m.price = r.u64();
        break;
      case tag(4, varint):
        m.overage = r.bool();
        break;
      default:
        r.skip();
    }
  }
  return m;
}

// src/held.ts
function quotaFree(a, quotaKey, limit3) {
  return a.current.used[quotaKey] - a.openByKey[quotaKey] < limit3;
}
function keptCosts(a, counts2) {
  let sum = 0;
  for (const [key, list] of a.kept) {
    if (a.openByKey[keyOfKept(key)] === 0) continue;
    for (const h of list) if (counts2(h)) sum += h.cost;
  }
  return sum;
}
function heldByQuota(a, quotaKey, terms) {
  if (a.open === 0) return false;
  if (quotaFree(a, quotaKey, terms.limit)) return true;
  return terms.overage && a.settled + keptCosts(a, () => true) >= terms.price;
}
function heldByKeyLimit(a, l, quotaKey, limit3) {
  let used = usedBy(l, a.current.month, quotaKey);
  for (const h of a.holds) {
    if (h.result === open && h.lineage === l && h.quotaKey === quotaKey && h.month === a.current.month) used--;
  }
  return used < limit3;
}
function heldByCap(s, a, l, quotaKey, terms, reached) {
  if (a.open === 0) return false;
  if (quotaFree(a, quotaKey, terms.limit)) return true;
  const { cap: cap2, ofKey } = reached;
  const on = daySpent(s, a);
  const counts2 = (h) => h.charge === chargeCredits && (!ofKey || h.lineage === l) && (cap2.period !== capDay || h.day === on) && (cap2.period !== capMonth || h.month === a.current.month);
  let spent = capSpent(a, ofKey ? l : a, cap2.period, on);
  for (const h of a.holds) if ((h.result === open || !h.makesRoom) && counts2(h)) spent -= h.cost;
  spent -= keptCosts(a, counts2);
  return spent + terms.price <= cap2.amount;
}
function heldByWindow(n, limit3) {
  return n.open > 0 && n.admitted.length - n.open < limit3;
}

// src/admission.ts
var freeRepeats = 2;
var anonymousKey = 8;
var noVerdict = {};
var tolerated = 100;
function admit(s, m, admitted, index) {
  s.counts.admissions++;
  const known = counts(s.rules, m.quotaKey);
  if (s.book === void 0 || m.request === "" || !known || m.anonymous && m.quotaKey !== anonymousKey) return noVerdict;
  return m.anonymous ? admitNetwork(s, m, admitted, index) : admitAccount(s, m, admitted, index);
}
function refusal(decision, more) {
  return { decision, ...more };
}
function admitAccount(s, m, admitted, index) {
  const a = s.accounts.get(m.account);
  if (a === void 0) return refusal("INVALID_KEY", { final: true });
  if (a.nextTier !== 0 && a.current.month < monthOf(s.time)) touch(s, a, s.time);
  const key = validKey(a, m, s.time);
  const early = earlyRefusal(s, a, m, key);
  if (early !== void 0) return s.answers ? { ...early, ...tierOf(s, a), final: true } : early;
  const repeated = refusedRepeat(s, a, m);
  if (repeated !== void 0) return s.answers ? { ...repeated, ...room(s, a, m) } : repeated;
  touch(s, a, s.time);
  return decide(s, a, key, m, admitted, index);
}
function tierOf(s, a) {
  const v = { tier: a.tier };
  const plan = s.book.planName(a.tier);
  if (plan !== "") v["plan"] = plan;
  return v;
}
function earlyRefusal(s, a, m, key) {
  if (key === void 0) {
    const version = currentVersion(a, s.time);
    return refusal("INVALID_KEY", version > 0 ? { current_key_version: version } : {});
  }
  if (a.suspended !== 0 || a.deletes !== 0) return refusal("ACCOUNT_SUSPENDED", {});
  const { scopes } = key.lineage;
  return scopes.length > 0 && !scopes.includes(m.quotaKey) ? refusal("KEY_SCOPE", {}) : void 0;
}
function room(s, a, m) {
  const { limit: limit3 } = planOf(s.book, a.tier).terms[m.quotaKey];
  const month = Math.max(a.current.month, monthOf(s.time));
  const used = month === a.current.month ? a.current.used[m.quotaKey] : 0;
  const v = tierOf(s, a);
  u64(v, "limit", limit3);
  u64(v, "remaining", limit3 < 0 ? -1 : Math.max(0, limit3 - used));
  v["reset_seconds"] = untilSeconds(s, monthStart(month + 1));
  return v;
}
function untilSeconds(s, ms) {
  return Math.max(0, Math.ceil((ms - s.time) / 1e3));
}
function refusedRepeat(s, o, m) {
  if (o.failed > tolerated) {
    const times = [];
    o.failures.forEach((t) => times.push(t));
    const retry = untilSeconds(s, times[times.length - 1 - tolerated] + minute);
    return refusal("TOO_MANY_FAILURES", { final: true, retry_after_seconds: retry });
  }
  if (s.known.has(m.request)) return refusal("IDEMPOTENCY_IN_FLIGHT", {});
  const id = idempotencyOf(m);
  const other = id === "" ? void 0 : s.byIdempotency.get(id);
  if (other === void 0) return void 0;
  const hash = readHashOf(m);
  if (other.readHash.slice(0, 2) !== hash.slice(0, 2)) return refusal("IDEMPOTENCY_OTHER", {});
  if (other.result === open) return refusal("IDEMPOTENCY_IN_FLIGHT", {});
  if (other.readHash === noId) return refusal("IDEMPOTENCY_SERVED", {});
  if (other.readHash === hash && other.repeats < freeRepeats && s.time - other.time < minute) {
    other.repeats++;
    return refusal("IDEMPOTENCY_SERVED", {});
  }
  return void 0;
}
function isHashedRead(m) {
  return !m.hasIdempotency && !m.write && !m.anonymous && m.readHash !== noId && m.readId !== "";
}
function idempotencyOf(m) {
  return isHashedRead(m) ? m.readId : m.idempotency;
}
function readHashOf(m) {
  return isHashedRead(m) ? m.readHash : noId;
}
function decide(s, a, key, m, admitted, index) {
  const month = a.current;
  const terms = planOf(s.book, a.tier).terms[m.quotaKey];
  const used = month.used[m.quotaKey];
  const own = keyLimit(key.lineage, m.quotaKey);
  if (own !== void 0 && usedBy(key.lineage, month.month, m.quotaKey) >= own && (terms.limit !== 0 || terms.overage)) {
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
  const reached = terms.overage ? reachedCap(s, a, key.lineage, terms.price) : void 0;
  if (reached !== void 0) return capReached(s, a, key, m, terms, reached);
  if (!terms.overage || available(a) < terms.price) {
    const v = refusal("QUOTA_EXHAUSTED", {});
    if (!s.answers) return v;
    return waits(v, room(s, a, m), heldByQuota(a, m.quotaKey, terms), untilSeconds(s, monthStart(month.month + 1)));
  }
  return take15(s, a, key, m, admitted, index, chargeCredits, terms.price);
}
function available(a) {
  return a.owed > 0 ? 0 : a.available;
}
function capReached(s, a, key, m, terms, reached) {
  const v = refusal("SPENDING_CAP_REACHED", {});
  if (!s.answers) return v;
  if (reached.ofKey) v["key_cap"] = true;
  v["cap"] = showCap(reached.cap);
  const end2 = capEnd(reached.cap, daySpent(s, a), a.current.month);
  const retry = end2 === 0 || terms.price > reached.cap.amount ? 0 : untilSeconds(s, end2);
  return waits(v, room(s, a, m), heldByCap(s, a, key.lineage, m.quotaKey, terms, reached), retry);
}
function waits(v, more, held, retry) {
  Object.assign(v, more);
  if (held) return Object.assign(v, { held: true, retry_after_seconds: 1 });
  v["final"] = true;
  if (retry > 0) v["retry_after_seconds"] = retry;
  return v;
}
function newHold(s, o, m, admitted, index) {
  const h = {
    request: m.request,
    account: void 0,
    network: void 0,
    quotaKey: m.quotaKey,
    time: s.time,
    month: 0,
    day: 0,
    charge: chargeQuota,
    cost: 0,
    returned: 0,
    uses: void 0,
    write: m.write,
    idempotency: idempotencyOf(m),
    readHash: readHashOf(m),
    repeats: 0,
    result: open,
    closed: 0,
    timedOut: false,
    confirmed: false,
    remembered: false,
    makesRoom: false,
    message: admitted,
    sequence: admitted.sequence,
    index,
    terms: 0,
    key: 0,
    lineage: void 0,
    period: void 0
  };
  s.known.set(h.request, h);
  admitted.holds[index] = h;
  admitted.known++;
  o.open++;
  o.known++;
  if (h.idempotency !== "") replaceIdempotent(s, h);
  return h;
}
function replaceIdempotent(s, h) {
  const other = s.byIdempotency.get(h.idempotency);
  if (other !== void 0) other.idempotency = "";
  s.byIdempotency.set(h.idempotency, h);
}
function forgetKnown(s, h) {
  if (s.known.get(h.request) === h) s.known.delete(h.request);
  const { message: message2 } = h;
  if (message2 === void 0) return;
  (h.account ?? h.network).known--;
  h.message = void 0;
  message2.holds[h.index] = void 0;
  if (--message2.known === 0) s.admitted.delete(message2.sequence);
}
function take15(s, a, key, m, admitted, index, charge, price) {
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
  const before2 = a.available;
  if (charge === chargeCredits) {
    h.uses = take(a, price);
    countPaid(a, a.current, h, price, 1, h.terms);
  }
  linkRequest(s, a, h, kinds.admitted, s.time);
  a.holds.add(h);
  a.openByKey[h.quotaKey]++;
  countMaker(a, h, makesRoom(s, a, h));
  reportUse(s, a, h, 1, charge === chargeCredits ? 1 : 0, price);
  if (!s.answers) return noVerdict;
  return admittedVerdict(s, a, m, h, before2);
}
function admittedVerdict(s, a, m, h, before2) {
  const v = { decision: "ADMITTED", ...room(s, a, m) };
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
  alertAdmitted(s, a, h, before2);
  return v;
}
function countUse(a, h) {
  a.current.used[h.quotaKey]++;
  openPeriod(a).used[h.quotaKey]++;
  if (h.lineage === void 0) return;
  enterMonth(h.lineage, a.current.month);
  if (h.lineage.month === a.current.month) h.lineage.used[h.quotaKey]++;
}
function linkRequest(s, a, h, kind, time2) {
  const { month, quotaKey, charge, cost: amount, key, request } = h;
  link(s, a, { kind, time: time2, month, quotaKey, charge, amount, key, request });
}
function reportUse(s, a, h, used, overage, spent) {
  if (!s.answers) return;
  const j = { account: showId(a.id), day: h.day, quota_key: h.quotaKey };
  if (h.key !== 0) j["key"] = h.key;
  if (used !== 0) j["used"] = used;
  if (overage !== 0) j["overage"] = overage;
  u64(j, "spent_micros", spent);
  (s.effects.usage ??= []).push(j);
}
function admitNetwork(s, m, admitted, index) {
  const n = s.networks.get(m.account) ?? newNetwork(m.account);
  const repeated = refusedRepeat(s, n, m);
  if (repeated !== void 0) return s.answers ? { ...repeated, ...windowRoom(s, n) } : repeated;
  const limit3 = s.book.anonymousLimit;
  if (n.admitted.length >= limit3) {
    const v2 = refusal("ANONYMOUS_LIMIT", {});
    if (!s.answers) return v2;
    const retry = windowReset(s, n);
    const more = windowRoom(s, n);
    put(more, "reset_seconds", retry);
    return waits(v2, more, heldByWindow(n, limit3), retry);
  }
  s.networks.set(n.id, n);
  const h = newHold(s, n, m, admitted, index);
  h.network = n;
  enterWindow(s, n, s.time);
  if (!s.answers) return noVerdict;
  const v = { decision: "ADMITTED", charge: "CHARGE_QUOTA", ...windowRoom(s, n) };
  put(v, "reset_seconds", windowReset(s, n));
  return v;
}
function enterWindow(s, n, time2) {
  n.admitted.push(time2);
  s.windows.push({ network: n, time: time2 });
}
function windowRoom(s, n) {
  const limit3 = s.book.anonymousLimit;
  const v = {};
  u64(v, "limit", limit3);
  u64(v, "remaining", Math.max(0, limit3 - n.admitted.length));
  return v;
}
function windowReset(s, n) {
  const { anonymousLimit: limit3, anonymousWindow: window } = s.book;
  const leaves = n.admitted[Math.max(0, n.admitted.length - limit3)];
  return leaves === void 0 ? 0 : untilSeconds(s, leaves + window);
}

// src/show.ts
var periods = ["CAP_NONE", "CAP_DAY", "CAP_MONTH", "CAP_TOTAL"];
function showCap(cap2) {
  const j = {};
  if (cap2.period !== 0) j["period"] = periods[cap2.period];
  u64(j, "amount_micros", cap2.amount);
  return j;
}
function showCapStatus(a, owner, cap2, at) {
  const j = { cap: showCap(cap2) };
  u64(j, "spent_micros", shownSpent(a, owner, cap2, at));
  u64(j, "reset_ms", capEnd(cap2, shownDay(owner, at), monthOf(at)));
  return j;
}
function shownDay(owner, at) {
  return Math.max(owner.spending.day, dayOf(at));
}
function shownSpent(a, owner, cap2, at) {
  return capSpent(a, owner, cap2.period, shownDay(owner, at));
}
function keysAt(s, a) {
  return Math.max(s.time, monthStart(a.current.month));
}
function balanceOf(a) {
  return a.available - a.owed;
}
function showKey2(s, a, k2, inOutcome) {
  const j = {};
  const l = k2.lineage;
  put(j, "number", k2.number);
  put(j, "version", k2.version);
  put(j, "name", l.name);
  put(j, "prefix", k2.prefix);
  if (l.scopes.length > 0) j["scopes"] = l.scopes;
  u64(j, "created_ms", k2.created);
  u64(j, "last_used_ms", k2.lastUsed);
  u64(j, "expires_ms", k2.expires);
  u64(j, "revoked_ms", k2.revoked);
  put(j, "replaced", k2.replaced);
  put(j, "replaced_by", k2.replacedBy);
  if (l.quotas.length > 0) {
    j["quotas"] = l.quotas.map((q) => {
      const line2 = { quota_key: q.quotaKey };
      put(line2, "limit", q.limit);
      return line2;
    });
  }
  if (l.cap !== void 0) j["cap"] = showCapStatus(a, l, l.cap, keysAt(s, a));
  const usage2 = showKeyUsage(a, l);
  if (usage2.length > 0) j["usage"] = usage2;
  if (!inOutcome) u64(j, "fingerprint", idNumber(k2.fingerprint));
  put(j, "capped", s.rules >= 2 && isCapped(s, a, k2));
  return j;
}
function showKeyUsage(a, l) {
  const lines = [];
  if (l.month !== a.current.month) return lines;
  for (let key = 1; key <= quotaKeys; key++) {
    if (l.used[key] === 0 && l.overage[key] === 0 && l.spent[key] === 0) continue;
    const line2 = { quota_key: key };
    u64(line2, "used", l.used[key]);
    u64(line2, "overage", l.overage[key]);
    u64(line2, "spent_micros", l.spent[key]);
    lines.push(line2);
  }
  return lines;
}
function isCapped(s, a, k2) {
  const l = k2.lineage;
  const admits = (quotaKey) => l.scopes.length === 0 || l.scopes.includes(quotaKey);
  const sold = planOf(s.book, a.tier).terms.filter((t, quotaKey) => t.overage && t.price > 0 && admits(quotaKey));
  if (sold.length === 0) return false;
  const cheapest = Math.min(...sold.map((t) => t.price));
  return [l, a].some((owner) => owner.cap !== void 0 && shownSpent(a, owner, owner.cap, keysAt(s, a)) + cheapest > owner.cap.amount);
}
function showAccount(s, a) {
  touch(s, a, s.time);
  countStorage(a, s.time);
  const statements = [a.previous, a.current].filter((m) => m !== void 0).map((m) => showStatement(s, a, m));
  const j = { account: showId(a.id), usage: showUsageAnswer(s, a), statements };
  if (a.subscriptions.length > 0 || a.topUp !== void 0) j["plan"] = showPlan(s, a);
  return j;
}
function showTier(s, a, j) {
  j["tier"] = a.tier;
  put(j, "plan", s.book?.planName(a.tier));
  put(j, "next_tier", a.nextTier);
  put(j, "next_plan", s.book?.planName(a.nextTier));
}
function defaultKey(a) {
  const first = a.keys[0];
  return first?.number === 0 ? first : void 0;
}
function showUsageAnswer(s, a) {
  const m = a.current;
  const book = s.books[bookIndexAt(s, monthStart(m.month + 1) - 1)];
  const plan = planOf(book, a.tier);
  const bill = billStorage(m, plan);
  const key = defaultKey(a);
  const j = { account: idNumber(a.id).toString(), usage: showUsage(m, plan, book) };
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
  if (a.keys.length > 0) j["keys"] = a.keys.map((k2) => showKey2(s, a, k2, false));
  if (a.cap !== void 0) j["cap"] = showCapStatus(a, a, a.cap, s.time);
  const grants = a.grants.filter((g) => g.left > 0);
  if (grants.length > 0) {
    j["grants"] = grants.map((g) => {
      const line2 = {};
      u64(line2, "amount_micros", g.amount);
      u64(line2, "left_micros", g.left);
      u64(line2, "expires_ms", g.expires);
      u64(line2, "created_ms", g.created);
      put(line2, "reason", g.reason);
      return line2;
    });
    j["grant_count"] = grants.length;
  }
  u64(j, "deletes_ms", a.deletes);
  u64(j, "erased_ms", a.erased);
  put(j, "receipt", showReceipt(a.receipt));
  return j;
}
function showPlan(s, a) {
  const j = {};
  showTier(s, a, j);
  u64(j, "balance_micros", balanceOf(a));
  const active = a.subscriptions.filter((x) => x.active);
  if (active.length > 0) j["subscriptions"] = active.map(showSubscription);
  if (a.topUp !== void 0) j["top_up"] = showTopUp(a.topUp, a.current.month);
  u64(j, "deletes_ms", a.deletes);
  u64(j, "payments", a.payments.size);
  return j;
}
function showSubscription(x) {
  const j = { provider: x.provider, id: x.id };
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
function showTopUp(t, present) {
  const month = Math.max(t.month, present);
  const rule = {};
  u64(rule, "below_micros", t.below);
  u64(rule, "credits_micros", t.credits);
  u64(rule, "month_micros", t.monthMicros);
  const j = { rule };
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
function showPayment(p) {
  const j = { provider: p.provider, id: p.id };
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
function showNetwork(s, n) {
  const { book } = s;
  const j = {};
  put(j, "limit", book?.anonymousLimit);
  put(j, "remaining", Math.max(0, (book?.anonymousLimit ?? 0) - n.admitted.length));
  put(j, "reset_seconds", book === void 0 ? 0 : windowReset(s, n));
  u64(j, "window_ms", book?.anonymousWindow ?? 0);
  return { network: showId(n.id), allowance: j };
}

// src/books.ts
var tables = ["ledger", "closed", "account"];
var nothing2 = new Uint8Array(32);
var encoder = new TextEncoder();
var Digests = class {
  constructor(hash) {
    this.hash = hash;
  }
  hash;
  byAccount = /* @__PURE__ */ new Map();
  sums(id) {
    let sums2 = this.byAccount.get(id);
    if (sums2 === void 0) {
      sums2 = { ledger: nothing2, closed: nothing2, ledgerCount: 0, closedCount: 0, idle: [] };
      this.byAccount.set(id, sums2);
    }
    return sums2;
  }
  addIdle(id, line2) {
    const { idle, closed } = this.sums(id);
    idle.push(this.hash([idle[idle.length - 1] ?? closed, encoder.encode(line2)]));
  }
  add(id, table, line2) {
    const sums2 = this.sums(id);
    sums2[table] = this.hash([sums2[table], encoder.encode(line2)]);
    sums2[`${table}Count`]++;
  }
};
var Recorder = class {
  constructor(enabled, hash) {
    this.enabled = enabled;
    this.digests = new Digests(hash);
  }
  enabled;
  digests;
  linked;
  sealed;
  ended = false;
  /**
   * After the last message: closes the months that are over. Billing closes them when something happens to an account, so the
   * books may or may not have these statements of an idle account.
   */
  end(s) {
    this.ended = true;
    if (this.enabled) for (const a of s.accounts.values()) touch(s, a, s.time);
  }
  ledger(a, entry2) {
    if (this.enabled) this.digests.add(a.id, "ledger", canonical(entry2));
  }
  closed(a, statement) {
    if (!this.enabled) return;
    const line2 = canonical({ account: showId(a.id), statement });
    if (this.ended) this.digests.addIdle(a.id, line2);
    else this.digests.add(a.id, "closed", line2);
  }
};
var Collector = class {
  lines = /* @__PURE__ */ new Map();
  /** Number of closed statements before end(). */
  closedCounts = /* @__PURE__ */ new Map();
  constructor(ids) {
    for (const id of ids) this.lines.set(id, { ledger: [], closed: [] });
  }
  ledger(a, entry2) {
    this.lines.get(a.id)?.ledger.push(entry2);
  }
  closed(a, statement) {
    this.lines.get(a.id)?.closed.push({ account: showId(a.id), statement });
  }
  /** As Recorder.end(). */
  end(s) {
    for (const [id, { closed }] of this.lines) {
      this.closedCounts.set(id, closed.length);
      const a = s.accounts.get(id);
      if (a !== void 0) touch(s, a, s.time);
    }
  }
};
function parseLine2(text3) {
  let line2;
  try {
    line2 = JSON.parse(text3);
  } catch {
    return void 0;
  }
  if (typeof line2 !== "object" || line2 === null || Array.isArray(line2)) return void 0;
  const [entry2, second2] = Object.entries(line2);
  if (entry2 === void 0 || second2 !== void 0) return void 0;
  const [table, value] = entry2;
  if (!tables.includes(table) || typeof value !== "object" || value === null || Array.isArray(value)) return void 0;
  const account2 = accountOf(table, value["account"]);
  return account2 === void 0 ? void 0 : { table, account: account2, value };
}
function accountOf(table, shown2) {
  if (typeof shown2 !== "string") return void 0;
  if (table !== "ledger") return parseId(shown2);
  if (!/^[0-9]{1,20}$/.test(shown2)) return void 0;
  const n = BigInt(shown2);
  return n < 1n << 64n ? idFromNumber(n) : void 0;
}
async function compareBooks(s, recorder, lines, hash, report) {
  const partition = s.partition;
  const found = new Digests(hash);
  const shown2 = /* @__PURE__ */ new Set();
  recorder.end(s);
  let count4 = 0;
  let last = { account: "", table: 0 };
  for await (const text3 of lines) {
    count4++;
    const line2 = parseLine2(text3);
    const what = `books line ${count4}`;
    if (line2 === void 0) {
      report.add({ partition, what, expected: "an entry, a statement or an account", found: text3 });
      continue;
    }
    const account2 = showId(line2.account);
    const table = tables.indexOf(line2.table);
    if (line2.account < last.account || line2.account === last.account && table < last.table) {
      report.add({ partition, account: account2, what, field: "order", expected: "after the line before", found: "before it" });
    }
    last = { account: line2.account, table };
    if (line2.table !== "account") found.add(line2.account, line2.table, canonical(line2.value));
    else if (shown2.has(line2.account)) report.add({ partition, account: account2, what: "account", expected: "once", found: "again" });
    else {
      shown2.add(line2.account);
      compareAccount(s, line2, report);
    }
  }
  for (const id of s.accounts.keys()) {
    if (!shown2.has(id)) report.add({ partition, account: showId(id), what: "account", expected: "present", found: "missing" });
  }
  return { lines: count4, suspects: suspectsOf(recorder.digests, found) };
}
function compareAccount(s, line2, report) {
  const a = s.accounts.get(line2.account);
  const base = { partition: s.partition, account: showId(line2.account), what: "account" };
  if (a === void 0) {
    report.add({ ...base, expected: "missing", found: "present" });
    return;
  }
  const expected = showAccount(s, a);
  if (canonical(expected) === canonical(line2.value)) return;
  compareValues(expected, line2.value, "", (field, e, f) => report.add({ ...base, field, expected: e, found: f }));
}
function suspectsOf(expected, found) {
  const suspects = /* @__PURE__ */ new Set();
  const none2 = { ledger: nothing2, closed: nothing2, ledgerCount: 0, closedCount: 0, idle: [] };
  const same3 = (x, y) => x.every((b, i) => b === y[i]);
  for (const id of /* @__PURE__ */ new Set([...expected.byAccount.keys(), ...found.byAccount.keys()])) {
    const x = expected.byAccount.get(id) ?? none2;
    const y = found.byAccount.get(id) ?? none2;
    if (!same3(x.ledger, y.ledger) || ![x.closed, ...x.idle].some((d) => same3(d, y.closed))) suspects.add(id);
  }
  return suspects;
}
async function collectBooks(lines, ids) {
  const c = new Collector(ids);
  for await (const text3 of lines) {
    const line2 = parseLine2(text3);
    if (line2 !== void 0 && line2.table !== "account") c.lines.get(line2.account)?.[line2.table].push(line2.value);
  }
  return c;
}
function locate(partition, expected, found, report) {
  for (const [id, e] of [...expected.lines].sort(([x], [y]) => x < y ? -1 : 1)) {
    const f = found.lines.get(id);
    const base = { partition, account: showId(id) };
    compareRows(e.ledger, f.ledger, (row) => String(row["id"]), "ledger", base, report);
    const period = (row) => String(row["statement"]?.["period"]);
    const least = expected.closedCounts.get(id) ?? 0;
    const closed = e.closed.slice(0, Math.max(least, f.closed.length));
    compareRows(closed, f.closed, period, "closed", base, report);
  }
}
function compareRows(expected, found, nameOf2, table, base, report) {
  const before2 = report.count;
  const rows = new Map(expected.map((row) => [nameOf2(row), row]));
  const seen = /* @__PURE__ */ new Map();
  for (const row of found) {
    const name = nameOf2(row);
    const what = `${table} ${name}`;
    const times = (seen.get(name) ?? 0) + 1;
    seen.set(name, times);
    const want = rows.get(name);
    if (want === void 0) report.add({ ...base, what, expected: "missing", found: "present" });
    else if (times > 1) report.add({ ...base, what, expected: "once", found: "again" });
    else compareValues(want, row, "", (field, e, f) => report.add({ ...base, what, field, expected: e, found: f }));
  }
  for (const name of rows.keys()) {
    if (!seen.has(name)) report.add({ ...base, what: `${table} ${name}`, expected: "present", found: "missing" });
  }
  if (report.count > before2) return;
  const at = expected.findIndex((row, i) => nameOf2(row) !== nameOf2(found[i] ?? {}));
  if (at < 0) return;
  report.add({
    ...base,
    what: `${table} row ${at + 1}`,
    field: "order",
    expected: nameOf2(expected[at]),
    found: nameOf2(found[at] ?? {})
  });
}

// src/settle.ts
var lateIndex = 4294967295;
var mostLate = 1e4;
var freed = "a request beside it failed: this one is free";
var Impossible = class extends Error {
};
function ownerOf(h) {
  return h.account ?? h.network;
}
function addFailure(s, o) {
  o.failures.push(s.time);
  o.failed++;
  s.failures.push({ owner: o, time: s.time });
}
function remember(s, h, at) {
  h.closed = at;
  h.remembered = true;
  s.remembered.push(h);
}
function isMovable(h) {
  return h.charge === chargeCredits && !h.makesRoom;
}
function forget(s, h) {
  h.remembered = false;
  forgetKnown(s, h);
  freeId(s, h);
  if (h.account === void 0) return reap(s, h.network);
  if (!h.timedOut || h.result !== closedServed) return removeHold(h.account, h);
  if (isMovable(h)) refresh(s, h.account);
  finish(s, h.account, h);
}
function finish(s, a, h) {
  removeHold(a, h);
  if (h.charge === chargeCredits && !makesRoom(s, a, h)) keepPaid(a, h);
}
function leaveOpen(h) {
  ownerOf(h).open--;
  if (h.account !== void 0) h.account.openByKey[h.quotaKey]--;
}
function serve(s, h, at, byTimeout) {
  leaveOpen(h);
  h.result = closedServed;
  h.timedOut = byTimeout;
  const a = h.account;
  if (a !== void 0) {
    if (byTimeout) rollTo(s, a, at);
    if (isMovable(h)) refresh(s, a);
    if (h.returned > 0) {
      enter(s, a, { type: types.adjustment, amount: h.returned, settled: at, reason: freed, hold: h });
      enter(s, a, { type: types.charge, amount: -h.returned, settled: at, hold: h });
    } else if (h.charge === chargeCredits) {
      enter(s, a, { type: types.charge, amount: -h.cost, settled: at, hold: h });
    }
    if (!byTimeout) finish(s, a, h);
  }
  if (byTimeout || h.idempotency !== "") remember(s, h, at);
  else forgetKnown(s, h);
}
function freeId(s, h) {
  if (h.idempotency !== "" && s.byIdempotency.get(h.idempotency) === h) s.byIdempotency.delete(h.idempotency);
}
function voidOpen(s, h, at, byTimeout, fromEdge) {
  leaveOpen(h);
  h.result = closedVoid;
  h.timedOut = byTimeout;
  freeId(s, h);
  if (byTimeout && h.account !== void 0) rollTo(s, h.account, at);
  undo(s, h, at);
  if (h.write && (byTimeout || fromEdge)) addLate(s, h, at);
  if (byTimeout) remember(s, h, at);
  else forgetKnown(s, h);
}
function undo(s, h, at) {
  if (h.network !== void 0) {
    const i = h.network.admitted.indexOf(h.time);
    if (i >= 0) h.network.admitted.splice(i, 1);
    return;
  }
  const a = h.account;
  refresh(s, a);
  if (a.holds.delete(h)) countMaker(a, h, false);
  const paid = h.charge === chargeCredits;
  const final = makesRoom(s, a, h);
  if (h.lineage?.month === h.month) h.lineage.used[h.quotaKey] = atLeastZero(h.lineage.used[h.quotaKey] - 1);
  const m = monthIn(a, h.month);
  if (m !== void 0) {
    m.used[h.quotaKey] = atLeastZero(m.used[h.quotaKey] - 1);
    h.period.used[h.quotaKey]--;
  }
  if (paid) countPaid(a, m, h, h.cost, -1, s.terms + a.ownTerms);
  if (m !== void 0) linkRequest(s, a, h, kinds.undone, at);
  reportUse(s, a, h, -1, paid ? -1 : 0, -h.cost);
  dropKept(a, h);
  if (paid) giveBack(s, a, h.uses, at);
  if (final) makeRoom(s, a, h.month, h.quotaKey, at);
  trimKept(a, h.quotaKey);
}
function atLeastZero(n) {
  if (n < 0) throw new Impossible("a counter would fall below zero: the rules put the account into quarantine");
  return n;
}
function dropKept(a, h) {
  const list = a.kept.get(keptOf(h.month, h.quotaKey));
  const i = list?.indexOf(h) ?? -1;
  if (i >= 0) list.splice(i, 1);
}
function makeRoom(s, a, month, quotaKey, at) {
  const m = monthIn(a, month);
  const { limit: limit3 } = planOf(s.book, a.tier).terms[quotaKey];
  if (m === void 0 || limit3 < 0) return;
  while (m.paid[quotaKey] > 0 && m.paid[quotaKey] > m.used[quotaKey] - limit3) {
    const newest = newestPaid(s, a, month, quotaKey);
    if (newest === void 0) throw new Impossible("no paid request is left to be made free");
    makeFree(s, a, newest, at);
  }
}
function newestPaid(s, a, month, quotaKey) {
  const list = a.kept.get(keptOf(month, quotaKey));
  let newest = list?.[list.length - 1];
  for (const h of a.holds) {
    if (h.quotaKey !== quotaKey || h.month !== month || makesRoom(s, a, h)) continue;
    if (newest === void 0 || inOrder(h, newest) > 0) newest = h;
  }
  return newest;
}
function makeFree(s, a, h, at) {
  const price = h.cost;
  const uses = h.uses;
  countPaid(a, monthIn(a, h.month), h, price, -1, s.terms + a.ownTerms);
  reportUse(s, a, h, 0, -1, -price);
  dropKept(a, h);
  if (h.result === open) h.returned = price;
  else enter(s, a, { type: types.adjustment, amount: price, settled: at, reason: freed, hold: h });
  linkRequest(s, a, h, kinds.free, at);
  h.charge = chargeQuota;
  h.cost = 0;
  h.uses = void 0;
  if (a.holds.has(h)) countMaker(a, h, true);
  giveBack(s, a, uses, at);
}
function settle(s, h, x, fromEdge) {
  const { result, failed } = x;
  const isVoid = result === closedVoid;
  const o = ownerOf(h);
  if (h.result === open) {
    if (isVoid) {
      voidOpen(s, h, s.time, false, fromEdge);
      if (failed) addFailure(s, o);
    } else serve(s, h, s.time, false);
    return;
  }
  if (!h.timedOut) return;
  if (h.account !== void 0) touch(s, h.account, s.time);
  if (h.result === result) {
    if (!isVoid || !fromEdge) h.timedOut = false;
    if (h.confirmed) return;
    h.confirmed = true;
    if (h.account !== void 0) {
      if (isVoid) removeHold(h.account, h);
      else finish(s, h.account, h);
    }
    if (isVoid && failed) addFailure(s, o);
  } else if (isVoid) {
    correct(s, h);
    if (failed) addFailure(s, o);
  } else {
    if (s.rules >= 5) takeLate(o, h.request, h.quotaKey);
    h.result = closedServed;
    h.timedOut = false;
    if (!counts(s.rules, x.quotaKey)) return;
    const charged = lateOf(h, s.time);
    const named = x.anonymous ? networkOf(s, x.account) : s.accounts.get(x.account);
    if (named !== void 0) chargeLate(s, { ...charged, owner: named, quotaKey: x.quotaKey, lineage: lineageIn(named, charged) });
  }
}
function lineageIn(o, late) {
  if (o === late.owner || !("keys" in o)) return late.lineage;
  const a = o;
  const line2 = late.lineage?.line ?? 0;
  if (line2 === 0 || !a.keyed) return a.defaultLineage;
  return a.keys.find((k2) => k2.lineage.line === line2)?.lineage;
}
function correct(s, h) {
  const a = h.account;
  if (a !== void 0 && h.charge === chargeCredits) {
    enter(s, a, { type: types.adjustment, amount: h.cost, settled: s.time, reason: "request failed", hold: h });
  }
  freeId(s, h);
  undo(s, h, s.time);
  h.result = closedVoid;
  h.timedOut = false;
  h.remembered = false;
  forgetKnown(s, h);
}
function lateOf(h, time2) {
  return { request: h.request, quotaKey: h.quotaKey, time: time2, key: h.key, lineage: h.lineage, owner: ownerOf(h) };
}
function addLate(s, h, at) {
  const late = lateOf(h, at);
  const { late: all } = late.owner;
  if (all.length >= mostLate) all.shift();
  all.push(late);
  s.late.push(late);
}
function takeLate(o, request, quotaKey) {
  const i = o.late.findIndex((l) => l.request === request && l.quotaKey === quotaKey);
  return i < 0 ? void 0 : o.late.splice(i, 1)[0];
}
function chargeLate(s, late) {
  if ("admitted" in late.owner) {
    const n = late.owner;
    if (n.admitted.length < (s.book?.anonymousLimit ?? 0)) enterWindow(s, n, s.time);
    return reap(s, n);
  }
  const a = late.owner;
  touch(s, a, s.time);
  const { quotaKey, lineage } = late;
  const m = a.current;
  const terms = planOf(s.book, a.tier).terms[quotaKey];
  const own = lineage === void 0 ? void 0 : keyLimit(lineage, quotaKey);
  const h = lateHold(s, a, late);
  if (own !== void 0 && usedBy(lineage, m.month, quotaKey) >= own) {
    waive(s, a, h);
    return;
  }
  if (terms.limit < 0) h.charge = chargeNone;
  else if (m.used[quotaKey] < terms.limit) h.charge = chargeQuota;
  else if (terms.overage && available(a) >= terms.price && reachedCap(s, a, lineage, terms.price) === void 0) {
    h.charge = chargeCredits;
  } else {
    waive(s, a, h);
    return;
  }
  countUse(a, h);
  const before2 = a.available;
  if (h.charge === chargeCredits) {
    h.cost = terms.price;
    h.uses = take(a, h.cost);
    countPaid(a, m, h, h.cost, 1, h.terms);
    enter(s, a, { type: types.charge, amount: -h.cost, settled: s.time, hold: h });
    keepPaid(a, h);
  }
  linkRequest(s, a, h, kinds.late, s.time);
  reportUse(s, a, h, 1, h.cost > 0 || h.charge === chargeCredits ? 1 : 0, h.cost);
  if (s.answers) alertAdmitted(s, a, h, before2);
}
function waive(s, a, h) {
  a.current.waived[h.quotaKey]++;
  linkRequest(s, a, { ...h, charge: waived }, kinds.late, s.time);
}
function lateHold(s, a, late) {
  const month = a.current.month;
  return {
    request: late.request,
    account: a,
    network: void 0,
    quotaKey: late.quotaKey,
    time: s.time,
    month,
    day: month === monthOf(s.time) ? dayOf(s.time) : countingDay(a, s.time),
    charge: chargeQuota,
    cost: 0,
    returned: 0,
    uses: void 0,
    write: true,
    idempotency: "",
    readHash: noId,
    repeats: 0,
    result: closedServed,
    closed: s.time,
    timedOut: false,
    confirmed: false,
    remembered: false,
    makesRoom: false,
    message: void 0,
    sequence: s.sequence,
    index: lateIndex,
    terms: s.terms + a.ownTerms,
    key: late.key,
    lineage: late.lineage,
    period: openPeriod(a)
  };
}

// src/batches.ts
var domains = {
  paste: { kind: 4, stream: "PASTE", keys: [1, 3, 4] },
  lite: { kind: 5, stream: "LITE", keys: [8, 10, 11] },
  file: { kind: 6, stream: "FILE", keys: [5, 7] }
};
function sourceOf(s, name) {
  let source = s.sources.get(name);
  if (source === void 0) {
    source = { seen: 0, usage: 0, usageAnswer: void 0, command: 0, commandAnswer: void 0 };
    s.sources.set(name, source);
  }
  source.seen = s.time;
  return source;
}
var placed = { result: served, failed: false, account: "", quotaKey: 0, anonymous: false };
function foldUsage(s, m) {
  if (m.number === 0) {
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
    if (holds === void 0) continue;
    for (const place of x.places.length > 0 ? x.places : [0]) {
      const h = holds[place];
      if (h?.message !== void 0 && !h.write) settle(s, h, placed, true);
    }
  }
  const rest = [];
  for (const x of m.settlements) {
    if (x.request === "" || s.known.has(x.request)) settleFromEdge(s, x);
    else rest.push(x);
  }
  const verdicts = [];
  if (m.admissions.length > 0) {
    const admitted = { sequence: s.sequence, holds: new Array(m.admissions.length).fill(void 0), known: 0, next: 0 };
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
  const answer = { source: m.source, rules: s.rules };
  u64(answer, "number", m.number);
  u64(answer, "sequence", s.sequence);
  u64(answer, "time_ms", s.time);
  if (verdicts.length > 0) answer["verdicts"] = verdicts;
  source.usageAnswer = answer;
  s.effects.verdicts = answer;
}
function settledOwner(s, x) {
  return x.anonymous ? s.networks.get(x.account) : s.accounts.get(x.account);
}
function store(s, x) {
  const a = x.storageDelta === 0 || x.anonymous ? void 0 : s.accounts.get(x.account);
  if (a === void 0) return;
  touch(s, a, s.time);
  changeStorage(s, a, x.storageDelta, x.storageAt);
}
function settleFromEdge(s, x) {
  s.counts.settlements++;
  store(s, x);
  if (x.request === "" || x.result !== served && x.result !== voided) return;
  const h = s.known.get(x.request);
  if (h !== void 0) {
    settle(s, h, x, true);
    return;
  }
  if (x.result !== voided || !x.failed) return;
  const a = x.anonymous ? void 0 : s.accounts.get(x.account);
  if (a !== void 0) touch(s, a, s.time);
  const o = x.anonymous ? networkOf(s, x.account) : a;
  if (o !== void 0) addFailure(s, o);
}
function refuse(s, reason2, count4) {
  const refused = s.effects.refused ??= [];
  const same3 = refused.find((r) => r.reason === reason2);
  if (same3 !== void 0) same3.count += count4;
  else refused.push({ reason: reason2, count: count4 });
}
function ofDomain(stream, source) {
  const match = /^([A-Z]+)_(0|[1-9][0-9]{0,3})$/.exec(source);
  return match !== null && match[1] === stream && Number(match[2]) < 4096;
}
var ahead = 10 * minute;
function foldDomain(s, domain, m, clock) {
  const { stream, keys } = domains[domain];
  if (m.number !== 0 || m.admissions.length > 0) return refuse(s, "malformed", m.admissions.length + m.settlements.length);
  if (m.loss !== void 0) recordLoss(s, m.loss);
  if (m.settlements.length === 0) return;
  if (!ofDomain(stream, m.source)) return refuse(s, "source", m.settlements.length);
  const mark = s.domains.get(m.source) ?? { watermark: 0, latest: 0, floor: 0 };
  s.domains.set(m.source, mark);
  const before2 = { ...mark };
  const fresh = { watermark: 0, latest: 0 };
  let recreated = false;
  for (const x of m.settlements) {
    s.counts.settlements++;
    if (x.sequence === 0 || x.stored === 0) {
      refuse(s, "malformed", 1);
      continue;
    }
    const old = x.sequence <= before2.watermark && (x.stored <= before2.latest || x.stored > clock + ahead);
    const seen = x.stored <= before2.floor || old;
    const stored = Math.min(x.stored, clock + ahead);
    if (!seen) {
      recreated ||= x.sequence <= before2.watermark;
      fresh.watermark = Math.max(fresh.watermark, x.sequence);
      fresh.latest = Math.max(fresh.latest, stored);
    }
    settleFromDomain(s, domain, keys, x, seen);
  }
  mark.latest = Math.max(mark.latest, fresh.latest);
  mark.watermark = recreated ? fresh.watermark : Math.max(mark.watermark, fresh.watermark);
  if (!recreated) return;
  mark.floor = before2.latest;
  (s.effects.recreated ??= []).push({
    stream: m.source,
    watermark: String(before2.watermark),
    sequence: String(fresh.watermark)
  });
}
function settleFromDomain(s, domain, keys, x, seen) {
  if (x.storageDelta !== 0 && (domain !== "file" || x.anonymous)) return refuse(s, "storage", 1);
  if (x.hasRequest) {
    if (x.request === "" || x.result !== served && x.result !== voided) return refuse(s, "malformed", 1);
    if (!keys.includes(x.quotaKey)) return refuse(s, "quota_key", 1);
  }
  if (!seen) {
    store(s, x);
    const a = x.anonymous || x.content === void 0 ? void 0 : s.accounts.get(x.account);
    if (a !== void 0) touch(s, a, s.time);
    if (a !== void 0 && s.answers) alertContent(s, a, domain, x.content);
  }
  if (x.request === "") return;
  const h = s.known.get(x.request);
  const o = settledOwner(s, x);
  const late = o === void 0 ? void 0 : takeLate(o, x.request, x.quotaKey);
  if (h !== void 0 && h.write && h.quotaKey === x.quotaKey && ownerOf(h) === o) settle(s, h, x, false);
  else if (late === void 0) {
    if (!seen) refuse(s, "hold", 1);
  } else if (x.result === served) chargeLate(s, late);
}
function recordLoss(s, l) {
  const name = `${l.stream} ${l.first} ${l.last}`;
  if (s.losses.has(name)) return;
  s.losses.add(name);
  if (!l.logged || !s.answers) return;
  (s.effects.admin ??= []).push({
    time_ms: String(s.time),
    token: l.actor,
    action: "journal.loss",
    status: "COMMAND_OK",
    detail: `${l.stream}: messages ${l.first} to ${l.last}`
  });
}

// src/command_messages.ts
var varint2 = 0;
var fixed2 = 1;
var bytes2 = 2;
var tag2 = (field, wire) => field * 8 + wire;
var kinds2 = {
  create: 10,
  setTier: 11,
  grant: 12,
  rotateKey: 13,
  suspend: 14,
  resume: 15,
  note: 16,
  setNextTier: 17,
  refund: 18,
  payment: 19,
  createKey: 20,
  updateKey: 21,
  replaceKey: 22,
  revokeKey: 23,
  setSpendingCap: 24,
  setWebhook: 30,
  deleteWebhook: 31,
  testWebhook: 32,
  deleteAccount: 40,
  keepAccount: 41,
  eraseAccount: 42,
  reverse: 50,
  setSubscription: 51,
  setTopUp: 52,
  topUpFailed: 53
};
function decodeCommands(r) {
  const m = { source: "", number: 0, stamp: 0, commands: [] };
  while (r.next()) {
    switch (r.tag) {
      case tag2(1, bytes2):
        m.source = r.text();
        break;
      case tag2(2, varint2):
        m.number = r.u64();
        break;
      case tag2(3, varint2):
        m.stamp = r.i64();
        break;
      case tag2(5, bytes2):
        m.commands.push(r.message(command, {
          request: "",
          account: noId,
          idempotency: "",
          bodyHash: noId,
          admin: void 0,
          action: void 0
        }));
        break;
      default:
        r.skip();
    }
  }
  return m;
}
var decoders = /* @__PURE__ */ new Map();
function command(r, m) {
  while (r.next()) {
    switch (r.tag) {
      case tag2(1, bytes2):
        m.request = r.key16();
        break;
      case tag2(2, fixed2):
        m.account = r.id();
        break;
      case tag2(3, bytes2):
        m.idempotency = r.key16();
        break;
      case tag2(4, fixed2):
        m.bodyHash = r.id();
        break;
      case tag2(5, bytes2):
        m.admin = r.message(admin2, { token: m.admin ?? "" }).token;
        break;
      default: {
        const kind = r.tag >>> 3;
        const decode3 = (r.tag & 7) === bytes2 ? decoders.get(kind) : void 0;
        if (decode3 === void 0) r.skip();
        else m.action = r.message(decode3, m.action?.kind === kind ? m.action : newAction(kind));
      }
    }
  }
  return m;
}
function admin2(r, m) {
  while (r.next()) {
    if (r.tag === tag2(1, bytes2)) m.token = r.text();
    else r.skip();
  }
  return m;
}
function newAction(kind) {
  return {
    kind,
    tier: 0,
    key: void 0,
    number: 0,
    fingerprint: noId,
    prefix: "",
    rules: void 0,
    overlap: 0,
    cap: void 0,
    amount: 0,
    reason: "",
    expires: 0,
    request: "",
    requestLength: 0,
    month: 0,
    quotaKey: 0,
    provider: "",
    id: "",
    credits: 0,
    plan: "",
    amountCents: 0,
    taxCents: 0,
    topUp: 0,
    asOf: 0,
    active: false,
    pastDue: false,
    cancels: false,
    created: 0,
    periodEnd: 0,
    feeCents: 0,
    nextTier: 0,
    below: 0,
    monthMicros: 0,
    webhook: noId,
    create: false,
    events: void 0,
    thresholds: void 0,
    balanceBelow: void 0,
    detail: ""
  };
}
function fields(kind, table) {
  const known = new Map(Object.entries(table).map(([t, f]) => [Number(t), f]));
  decoders.set(kind, (r, m) => {
    while (r.next()) {
      const field = known.get(r.tag);
      if (field === void 0) r.skip();
      else field(r, m);
    }
    return m;
  });
}
var tier = (r, m) => m.tier = r.u32();
var provider = (r, m) => m.provider = r.text();
var externalId = (r, m) => m.id = r.text();
var webhook = (r, m) => m.webhook = r.id();
var fingerprint = (r, m) => m.fingerprint = r.id();
var prefix = (r, m) => m.prefix = r.text();
var number = (r, m) => m.number = r.u32();
var rules = (r, m) => m.rules = r.message(keyRules, m.rules ?? newRules());
var asOf = (r, m) => m.asOf = r.i64();
var topUp = (r, m) => m.topUp = r.u64();
function reason(field) {
  return { [tag2(field, bytes2)]: (r, m) => m.reason = r.text() };
}
fields(kinds2.create, {
  [tag2(1, varint2)]: tier,
  [tag2(2, bytes2)]: (r, m) => m.key = r.message(decoders.get(kinds2.rotateKey), m.key ?? newAction(kinds2.rotateKey))
});
fields(kinds2.setTier, { [tag2(1, varint2)]: tier });
fields(kinds2.setNextTier, { [tag2(1, varint2)]: tier });
fields(kinds2.grant, {
  [tag2(1, varint2)]: (r, m) => m.amount = r.s64(),
  ...reason(2),
  [tag2(3, varint2)]: (r, m) => m.expires = r.i64()
});
fields(kinds2.rotateKey, { [tag2(1, fixed2)]: fingerprint, [tag2(2, bytes2)]: prefix });
fields(kinds2.suspend, reason(1));
fields(kinds2.resume, reason(1));
fields(kinds2.note, { ...reason(1), [tag2(2, bytes2)]: (r, m) => m.detail = r.text() });
fields(kinds2.refund, {
  [tag2(1, bytes2)]: (r, m) => {
    const at = r.at;
    m.request = r.key16();
    m.requestLength = r.at - at - 1;
  },
  [tag2(2, varint2)]: (r, m) => m.month = r.u32(),
  [tag2(3, varint2)]: (r, m) => m.quotaKey = r.u32(),
  [tag2(4, varint2)]: (r, m) => m.amount = r.s64(),
  ...reason(5)
});
fields(kinds2.payment, {
  [tag2(1, bytes2)]: provider,
  [tag2(2, bytes2)]: externalId,
  [tag2(3, varint2)]: (r, m) => m.credits = r.u64(),
  ...reason(4),
  [tag2(5, bytes2)]: (r, m) => m.plan = r.text(),
  [tag2(6, varint2)]: (r, m) => m.amountCents = r.u64(),
  [tag2(7, varint2)]: (r, m) => m.taxCents = r.u64(),
  [tag2(8, varint2)]: topUp
});
fields(kinds2.reverse, {
  [tag2(1, bytes2)]: provider,
  [tag2(2, bytes2)]: externalId,
  [tag2(3, varint2)]: (r, m) => m.amount = r.u64(),
  [tag2(4, varint2)]: asOf,
  ...reason(5),
  [tag2(7, varint2)]: (r, m) => m.amountCents = r.u64()
});
fields(kinds2.setSubscription, {
  [tag2(1, bytes2)]: provider,
  [tag2(2, bytes2)]: externalId,
  [tag2(3, varint2)]: tier,
  [tag2(4, varint2)]: (r, m) => m.active = r.bool(),
  [tag2(5, varint2)]: (r, m) => m.pastDue = r.bool(),
  [tag2(6, varint2)]: (r, m) => m.cancels = r.bool(),
  [tag2(7, varint2)]: (r, m) => m.created = r.i64(),
  [tag2(8, varint2)]: (r, m) => m.periodEnd = r.i64(),
  [tag2(9, varint2)]: asOf,
  [tag2(10, varint2)]: (r, m) => m.nextTier = r.u32(),
  [tag2(11, varint2)]: (r, m) => m.feeCents = r.u64()
});
fields(kinds2.setTopUp, {
  [tag2(1, varint2)]: (r, m) => m.below = r.u64(),
  [tag2(2, varint2)]: (r, m) => m.credits = r.u64(),
  [tag2(3, varint2)]: (r, m) => m.monthMicros = r.u64()
});
fields(kinds2.topUpFailed, { [tag2(1, varint2)]: topUp, ...reason(2) });
fields(kinds2.createKey, { [tag2(1, fixed2)]: fingerprint, [tag2(2, bytes2)]: prefix, [tag2(3, bytes2)]: rules });
fields(kinds2.updateKey, { [tag2(1, varint2)]: number, [tag2(2, bytes2)]: rules });
fields(kinds2.replaceKey, {
  [tag2(1, varint2)]: number,
  [tag2(2, fixed2)]: fingerprint,
  [tag2(3, bytes2)]: prefix,
  [tag2(4, varint2)]: (r, m) => m.overlap = r.i64()
});
fields(kinds2.revokeKey, { [tag2(1, varint2)]: number });
fields(kinds2.setSpendingCap, { [tag2(1, bytes2)]: (r, m) => m.cap = r.message(cap, m.cap ?? { period: 0, amount: 0 }) });
fields(kinds2.deleteAccount, {});
fields(kinds2.keepAccount, {});
fields(kinds2.eraseAccount, {});
fields(kinds2.setWebhook, {
  [tag2(1, fixed2)]: webhook,
  [tag2(2, varint2)]: (r, m) => m.create = r.bool(),
  [tag2(3, varint2)]: (r, m) => m.events = r.u32(),
  [tag2(4, bytes2)]: (r, m) => m.thresholds = r.message(percents, m.thresholds ?? []),
  [tag2(5, varint2)]: (r, m) => m.balanceBelow = r.u64()
});
fields(kinds2.deleteWebhook, { [tag2(1, fixed2)]: webhook });
fields(kinds2.testWebhook, { [tag2(1, fixed2)]: webhook });
function newRules() {
  return { name: void 0, scopes: void 0, expires: void 0, expiresIn: void 0, quotas: void 0, cap: void 0 };
}
function keyRules(r, m) {
  while (r.next()) {
    switch (r.tag) {
      case tag2(1, bytes2):
        m.name = r.text();
        break;
      case tag2(2, bytes2):
        m.scopes = r.message(percents, m.scopes ?? []);
        break;
      case tag2(3, varint2):
        m.expires = r.i64();
        break;
      case tag2(4, varint2):
        m.expiresIn = r.i64();
        break;
      case tag2(5, bytes2):
        m.quotas = r.message(keyQuotas, m.quotas ?? []);
        break;
      case tag2(6, bytes2):
        m.cap = r.message(cap, m.cap ?? { period: 0, amount: 0 });
        break;
      default:
        r.skip();
    }
  }
  return m;
}
function percents(r, m) {
  while (r.next()) {
    if (r.tag === tag2(1, varint2) || r.tag === tag2(1, bytes2)) r.u32s(m);
    else r.skip();
  }
  return m;
}
function keyQuotas(r, m) {
  while (r.next()) {
    if (r.tag === tag2(1, bytes2)) m.push(r.message(keyQuota, { quotaKey: 0, limit: 0 }));
    else r.skip();
  }
  return m;
}
function keyQuota(r, m) {
  while (r.next()) {
    switch (r.tag) {
      case tag2(1, varint2):
        m.quotaKey = r.u32();
        break;
      case tag2(2, varint2):
        m.limit = r.u32();
        break;
      default:
        r.skip();
    }
  }
  return m;
}
function cap(r, m) {
  while (r.next()) {
    switch (r.tag) {
      case tag2(1, varint2):
        m.period = r.u32();
        break;
      case tag2(2, varint2):
        m.amount = r.u64();
        break;
      default:
        r.skip();
    }
  }
  return m;
}

// src/status.ts
var status = {
  ok: 1,
  accountNotFound: 2,
  accountExists: 3,
  insufficientCredits: 4,
  mismatch: 5,
  invalid: 6,
  notRefundable: 7,
  overRefunded: 8,
  paymentNotFound: 9,
  paymentMismatch: 10,
  keyNotFound: 20,
  tooManyKeys: 21,
  keyNameTaken: 22,
  webhookNotFound: 30,
  tooManyWebhooks: 31,
  webhookInvalid: 32
};
var statusNames = {
  1: "COMMAND_OK",
  2: "COMMAND_ACCOUNT_NOT_FOUND",
  3: "COMMAND_ACCOUNT_EXISTS",
  4: "COMMAND_INSUFFICIENT_CREDITS",
  5: "COMMAND_IDEMPOTENCY_MISMATCH",
  6: "COMMAND_INVALID",
  7: "COMMAND_NOT_REFUNDABLE",
  8: "COMMAND_OVER_REFUNDED",
  9: "COMMAND_PAYMENT_NOT_FOUND",
  10: "COMMAND_PAYMENT_MISMATCH",
  20: "COMMAND_KEY_NOT_FOUND",
  21: "COMMAND_TOO_MANY_KEYS",
  22: "COMMAND_KEY_NAME_TAKEN",
  30: "COMMAND_WEBHOOK_NOT_FOUND",
  31: "COMMAND_TOO_MANY_WEBHOOKS",
  32: "COMMAND_WEBHOOK_INVALID"
};

// src/key_commands.ts
var checkoutScope = 63;
var mostLive = 20;
var mostEnded = 20;
var mostOverlap = 7 * day;
var mostCharacters = 100;
function newKey(a, number2, lineage, m, now) {
  const key = {
    number: number2,
    lineage,
    former: false,
    version: 1,
    fingerprint: m.fingerprint,
    prefix: m.prefix,
    created: now,
    lastUsed: 0,
    expires: 0,
    revoked: 0,
    replaced: false,
    replacedBy: 0
  };
  if (number2 === 0) a.keys.unshift(key);
  else a.keys.push(key);
  return key;
}
function validCap(cap2) {
  if (cap2 === void 0) return true;
  return cap2.period <= 3 && cap2.amount <= maxBalance && (cap2.period !== 0 || cap2.amount === 0);
}
function validRules(s, r) {
  if (r.name !== void 0 && (r.name === "" || [...r.name].length > mostCharacters)) return false;
  const known = (k2) => counts(s.rules, k2);
  for (const k2 of r.scopes ?? []) if (!known(k2) && !(k2 === checkoutScope && s.rules >= 4)) return false;
  let last = 0;
  for (const q of r.quotas ?? []) {
    if (!known(q.quotaKey) || q.quotaKey <= last) return false;
    last = q.quotaKey;
  }
  if (r.expiresIn !== void 0 && r.expiresIn <= 0) return false;
  if (r.expires !== void 0 && r.expires !== 0 && r.expires <= s.time) return false;
  return validCap(r.cap);
}
function setRules(s, k2, r) {
  const l = k2.lineage;
  if (r.name !== void 0) l.name = r.name;
  if (r.scopes !== void 0) l.scopes = r.scopes;
  if (r.quotas !== void 0) l.quotas = r.quotas;
  if (r.cap !== void 0) l.cap = r.cap.period === 0 ? void 0 : r.cap;
  if (r.expiresIn !== void 0) k2.expires = s.time + r.expiresIn;
  else if (r.expires !== void 0) k2.expires = r.expires;
}
function nameTaken(s, a, name) {
  return a.defaultLineage.name === name || a.keys.some((k2) => k2.lineage.name === name && isLive(k2, s.time));
}
function freeName(s, a) {
  for (let n = 2; ; n++) if (!nameTaken(s, a, `default ${n}`)) return `default ${n}`;
}
function createKey(s, a, m) {
  const { rules: rules2 } = m;
  if (rules2 === void 0 || !validRules(s, rules2) || rules2.name === void 0 && s.rules < 2) return status.invalid;
  const live = a.keys.filter((k2) => k2.number !== 0 && !k2.replaced && isLive(k2, s.time)).length + 1;
  if (live >= mostLive) return status.tooManyKeys;
  if (s.rules >= 2 && rules2.name !== void 0 && nameTaken(s, a, rules2.name)) return status.keyNameTaken;
  a.keyed = true;
  const number2 = a.nextKey++;
  const lineage = newLineage(number2, rules2.name ?? freeName(s, a));
  const key = newKey(a, number2, lineage, m, s.time);
  setRules(s, key, rules2);
  forgetEnded(s, a);
  return { status: status.ok, key: showKey2(s, a, key, true) };
}
function find(a, number2) {
  const key = a.keys.find((k2) => k2.number === number2);
  if (key !== void 0) a.keyed = true;
  return key;
}
function findLive(s, a, number2) {
  const k2 = find(a, number2);
  return k2 === void 0 || k2.replaced || !isLive(k2, s.time) ? void 0 : k2;
}
function updateKey(s, a, m) {
  const key = findLive(s, a, m.number);
  if (key === void 0) return status.keyNotFound;
  const { rules: rules2 } = m;
  if (rules2 === void 0 || !validRules(s, rules2)) return status.invalid;
  const renamed = rules2.name !== void 0 && rules2.name !== key.lineage.name;
  if (s.rules >= 2 && renamed && nameTaken(s, a, rules2.name)) return status.keyNameTaken;
  setRules(s, key, rules2);
  return { status: status.ok, key: showKey2(s, a, key, true) };
}
function replaceKey(s, a, m) {
  if (m.overlap < 0 || m.overlap > mostOverlap) return status.invalid;
  const old = findLive(s, a, m.number);
  if (old === void 0) return status.keyNotFound;
  if (m.overlap > 0 && a.keys.filter((k2) => k2.replaced && isLive(k2, s.time)).length >= mostLive) return status.tooManyKeys;
  const lifetime = old.expires === 0 ? 0 : old.expires - old.created;
  const ends = s.time + m.overlap;
  old.expires = old.expires === 0 ? ends : Math.min(old.expires, ends);
  old.replaced = true;
  let key;
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
  return { status: status.ok, key: showKey2(s, a, key, true), old_key_expires_ms: String(old.expires) };
}
function revokeKey(s, a, m) {
  const key = find(a, m.number);
  if (key === void 0) return status.keyNotFound;
  if (isLive(key, s.time)) key.revoked = s.time;
  return { status: status.ok, key: showKey2(s, a, key, true) };
}
function rotateKey(s, a, m) {
  const key = defaultKey(a);
  if (key === void 0) {
    newKey(a, 0, a.defaultLineage, m, s.time);
    return status.ok;
  }
  for (const k2 of a.keys) if (k2.former && isLive(k2, s.time)) k2.revoked = s.time;
  Object.assign(key, {
    version: key.version + 1,
    fingerprint: m.fingerprint,
    prefix: m.prefix,
    created: s.time,
    lastUsed: 0,
    expires: 0,
    revoked: 0
  });
  return status.ok;
}
function setSpendingCap(s, a, m) {
  if (!validCap(m.cap)) return status.invalid;
  a.keyed = true;
  a.cap = m.cap === void 0 || m.cap.period === 0 ? void 0 : m.cap;
  return a.cap === void 0 ? status.ok : { status: status.ok, cap: showCapStatus(a, a, a.cap, s.time) };
}
function forgetEnded(s, a) {
  const ended = a.keys.filter((k2) => k2.number !== 0 && !isLive(k2, s.time));
  for (const k2 of ended.slice(0, Math.max(0, ended.length - mostEnded))) a.keys.splice(a.keys.indexOf(k2), 1);
}

// src/payments.ts
var mostGrants = 4096;
var mostRefunds = 1e3;
var mostEnded2 = 20;
var mostPeriods = 100;
var oneCredit = 1e6;
var mostBytes = 200;
var admin3 = 4;
function byteLength(text3) {
  return new TextEncoder().encode(text3).length;
}
function fitsAsGrant(a, amount, position2) {
  return amount <= maxBalance && a.settled + amount <= maxBalance && position2 < mostGrants;
}
function add2(s, a, amount, expires, reason2, position2) {
  addGrant(s, a, {
    id: s.sequence * mostGrants + position2,
    amount,
    left: amount,
    expires,
    created: s.time,
    reason: reason2,
    over: false
  });
}
function takeAway(s, a, amount) {
  const before2 = a.available;
  take(a, amount);
  alertBalance(s, a, before2);
}
function grant(s, a, m, actor, position2) {
  const { amount, reason: reason2 } = m;
  if (amount === 0 || Math.abs(amount) > maxBalance) return status.invalid;
  if (amount < 0) {
    if (available(a) < -amount) return status.insufficientCredits;
    takeAway(s, a, -amount);
    enter(s, a, { type: types.adjustment, amount, settled: s.time, reason: reason2, actor });
    return status.ok;
  }
  if (m.expires !== 0 && m.expires <= s.time) return status.invalid;
  if (!fitsAsGrant(a, amount, position2) || a.grants.length >= mostGrants) return status.invalid;
  add2(s, a, amount, m.expires, reason2, position2);
  enter(s, a, { type: types.grant, amount, settled: s.time, reason: reason2, actor });
  raised(a);
  return status.ok;
}
function openPrices(a, month, quotaKey) {
  let sum = 0;
  for (const h of a.holds) if (h.month === month && h.quotaKey === quotaKey) sum += h.cost;
  return sum;
}
function refund(s, a, m, actor, position2) {
  const { amount, quotaKey, request } = m;
  if (!counts(s.rules, quotaKey) || amount === 0 || Math.abs(amount) > maxBalance) return status.invalid;
  if (m.requestLength !== 0 && m.requestLength !== 16) return status.invalid;
  const month = monthIn(a, m.month);
  if (month === void 0 && m.month !== a.current.month - 1) return status.notRefundable;
  if (amount < 0) return month === void 0 ? status.overRefunded : takeBack(s, a, m, month, actor);
  if (request !== "") {
    if (month?.refunds.some((r) => r.request === request)) return status.overRefunded;
    const hold = s.known.get(request);
    if (hold?.account === a && a.holds.has(hold)) return status.notRefundable;
    if (month !== void 0 && month.refunds.length >= mostRefunds) return status.notRefundable;
  }
  if (month === void 0) return status.overRefunded;
  const left = month.spent[quotaKey] - month.refunded[quotaKey] - openPrices(a, month.month, quotaKey);
  if (amount > left) return status.overRefunded;
  if (!fitsAsGrant(a, amount, position2) || a.grants.length >= mostGrants) return status.invalid;
  add2(s, a, amount, 0, m.reason, position2);
  enterRefund(s, a, m, actor);
  month.refunded[quotaKey] += amount;
  if (request !== "") month.refunds.push({ request, quotaKey, amount });
  a.ownTerms++;
  followTerms(s, a);
  raised(a);
  return status.ok;
}
function takeBack(s, a, m, month, actor) {
  const at = month.refunds.findIndex((r) => r.request === m.request && r.quotaKey === m.quotaKey);
  if (m.request !== "") {
    if (at < 0 || month.refunds[at].amount !== -m.amount) return status.overRefunded;
  } else {
    const single = month.refunds.reduce((sum, r) => r.quotaKey === m.quotaKey ? sum + r.amount : sum, 0);
    if (-m.amount > month.refunded[m.quotaKey] - single) return status.overRefunded;
  }
  if (available(a) < -m.amount) return status.insufficientCredits;
  takeAway(s, a, -m.amount);
  enterRefund(s, a, m, actor);
  month.refunded[m.quotaKey] += m.amount;
  if (m.request !== "") month.refunds.splice(at, 1);
  return status.ok;
}
function enterRefund(s, a, m, actor) {
  enter(s, a, {
    type: types.refund,
    amount: m.amount,
    settled: s.time,
    reason: m.reason,
    actor,
    quotaKey: m.quotaKey,
    month: m.month,
    request: m.request
  });
}
function validName(text3) {
  const n = byteLength(text3);
  return n >= 1 && n <= mostBytes;
}
function pay(s, a, m, actor, position2) {
  if (!validName(m.provider) || !validName(m.id) || m.credits > 0 === (m.plan !== "")) return status.invalid;
  if (byteLength(m.plan) > mostBytes || m.taxCents > m.amountCents) return status.invalid;
  if (m.amountCents > maxBalance || m.credits > maxBalance) return status.invalid;
  const name = `${m.provider}\0${m.id}`;
  const known = a.payments.get(name);
  if (known !== void 0) {
    if (known.credits !== m.credits || known.plan !== m.plan) return status.paymentMismatch;
    if (known.topUp === 0 && m.topUp !== 0) {
      known.topUp = m.topUp;
      endTopUp(a, m.topUp);
    }
    return status.ok;
  }
  if (m.credits > 0 && !fitsAsGrant(a, m.credits, position2)) return status.invalid;
  const p = {
    provider: m.provider,
    id: m.id,
    credits: m.credits,
    reversed: 0,
    asOf: 0,
    number: a.payments.size + 1,
    time: s.time,
    plan: m.plan,
    amountCents: m.amountCents,
    taxCents: m.taxCents,
    topUp: m.topUp,
    reversedCents: 0
  };
  a.payments.set(name, p);
  if (m.credits > 0) {
    addPaid(s, a, m.credits, m.reason, position2);
    enter(s, a, {
      type: types.payment,
      amount: m.credits,
      settled: s.time,
      reason: m.reason,
      actor: actor || m.provider,
      payment: m.id
    });
  }
  endTopUp(a, m.topUp);
  raised(a);
  if (s.answers) alert(s, a, payment, subscribed(a, payment), { payment: showPayment(p), mail: true });
  return status.ok;
}
function addPaid(s, a, amount, reason2, position2) {
  if (a.grants.length >= mostGrants && addToLastGrant(a, amount)) return;
  add2(s, a, amount, 0, reason2, position2);
}
function reverse(s, a, m, actor, position2) {
  const p = a.payments.get(`${m.provider}\0${m.id}`);
  if (p === void 0) return status.paymentNotFound;
  if (m.amount > p.credits || m.amountCents > p.amountCents) return status.overRefunded;
  const asOf2 = Math.min(m.asOf, s.time);
  if (asOf2 < p.asOf) return status.ok;
  const more = m.amount - p.reversed;
  p.asOf = asOf2;
  p.reversed = m.amount;
  p.reversedCents = m.amountCents !== 0 || p.credits === 0 ? m.amountCents : Number(BigInt(p.amountCents) * BigInt(m.amount) / BigInt(p.credits));
  if (more === 0) return status.ok;
  if (more > 0) {
    const taken = Math.min(available(a), more);
    takeAway(s, a, taken);
    a.owed += more - taken;
  } else addPaid(s, a, -more, m.reason, position2);
  enter(s, a, {
    type: types.reversal,
    amount: -more,
    settled: s.time,
    reason: m.reason,
    actor: actor || m.provider,
    payment: m.id
  });
  if (more < 0) raised(a);
  return status.ok;
}
function refusesTier(s, a, tier2) {
  if (!(s.book?.hasTier(tier2) ?? (tier2 >= free && tier2 <= admin3))) return true;
  return tier2 !== a.tier && a.current.periods.length - 1 >= mostPeriods;
}
function compareBytes(x, y) {
  const [p, q] = [[...x], [...y]];
  for (let i = 0; i < p.length && i < q.length; i++) {
    const d = p[i].codePointAt(0) - q[i].codePointAt(0);
    if (d !== 0) return d;
  }
  return p.length - q.length;
}
function byCreation(x, y) {
  return x.created - y.created || compareBytes(x.provider, y.provider) || compareBytes(x.id, y.id);
}
function currentOf(list) {
  return list.filter((x) => x.active).pop();
}
function setSubscription(s, a, m) {
  if (!validName(m.provider) || !validName(m.id) || m.nextTier > 15) return status.invalid;
  const known = s.book?.hasTier(m.tier) ?? (m.tier >= free && m.tier <= admin3);
  if (m.active && (!known || m.tier === free || m.tier === admin3)) return status.invalid;
  const asOf2 = Math.min(m.asOf, s.time);
  const same3 = (x) => x.provider === m.provider && x.id === m.id;
  const before2 = a.subscriptions.find(same3);
  if (before2 !== void 0 && asOf2 < before2.asOf) return status.ok;
  const list = a.subscriptions.filter((x) => !same3(x));
  list.push({
    provider: m.provider,
    id: m.id,
    tier: m.tier,
    active: m.active,
    pastDue: m.pastDue,
    cancels: m.cancels,
    created: m.created,
    periodEnd: m.periodEnd,
    asOf: asOf2,
    feeCents: m.feeCents,
    nextTier: m.nextTier
  });
  list.sort(byCreation);
  const was = currentOf(a.subscriptions);
  const is = currentOf(list);
  let tier2 = 0;
  if (is !== void 0) {
    const other = was === void 0 || was.provider !== is.provider || was.id !== is.id || was.tier !== is.tier;
    if (other) tier2 = is.tier;
  } else if (was !== void 0 && a.tier === was.tier) tier2 = free;
  if (tier2 !== 0 && refusesTier(s, a, tier2)) return status.invalid;
  let ended = list.filter((x) => !x.active).length;
  a.subscriptions = list.filter((x) => x.active || ended-- <= mostEnded2);
  if (tier2 !== 0) setTier(s, a, tier2);
  return status.ok;
}
var noTopUp = {
  below: 0,
  credits: 0,
  monthMicros: 0,
  last: 0,
  due: 0,
  dueMicros: 0,
  month: 0,
  spent: 0,
  failures: 0,
  reason: "",
  off: false,
  retry: 0
};
function setTopUp(s, a, m) {
  if (m.credits === 0) {
    if (m.below !== 0 || m.monthMicros !== 0) return status.invalid;
  } else if (m.credits < oneCredit || m.credits > m.monthMicros || m.monthMicros > maxBalance || m.below > maxBalance) {
    return status.invalid;
  }
  const t = { ...a.topUp ?? noTopUp, below: m.below, credits: m.credits, monthMicros: m.monthMicros };
  Object.assign(t, { failures: 0, reason: "", off: false, retry: 0 });
  if (m.credits === 0 && t.due !== 0) Object.assign(t, { due: 0, dueMicros: 0, retry: s.time + hour });
  a.topUp = t;
  if (m.credits > 0) s.topUps.add(a);
  else s.topUps.delete(a);
  return status.ok;
}
function endTopUp(a, id) {
  const t = a.topUp;
  if (t === void 0 || t.due === 0 || t.last !== id) return;
  Object.assign(t, { due: 0, dueMicros: 0, failures: 0 });
}
function topUpFailed(s, a, m) {
  if (byteLength(m.reason) > mostBytes) return status.invalid;
  const t = a.topUp;
  if (t === void 0 || t.due === 0 || t.last !== m.topUp) return status.ok;
  t.spent -= t.dueMicros;
  Object.assign(t, { due: 0, dueMicros: 0, reason: m.reason, failures: t.failures + 1, retry: s.time + hour });
  if (t.failures < 2) return status.ok;
  t.off = true;
  const webhooks = subscribed(a, topUpOff);
  const mail = a.payments.size > 0;
  if (s.answers && (webhooks.length > 0 || mail)) {
    alert(s, a, topUpOff, webhooks, { reason: m.reason, ...mail ? { mail } : {} });
  }
  return status.ok;
}
function decideTopUps(s) {
  for (const a of s.topUps) {
    const t = a.topUp;
    if (t.off || t.due !== 0 || a.suspended !== 0 || a.deletes !== 0 || a.erased !== 0) continue;
    if (balanceOf(a) >= t.below || s.time < t.retry) continue;
    const month = Math.max(t.month, a.current.month, monthOf(s.time));
    const spent = month === t.month ? t.spent : 0;
    if (spent + t.credits > t.monthMicros) continue;
    Object.assign(t, { last: t.last + 1, due: Math.max(1, s.time), dueMicros: t.credits, month, spent: spent + t.credits });
  }
}

// src/commands.ts
var untilErasure = 14 * day;
var mostWebhooks = 10;
var mostThresholds = 10;
var balanceBit = 1 << 2;
var since4 = [
  kinds2.setNextTier,
  kinds2.refund,
  kinds2.payment,
  kinds2.reverse,
  kinds2.setSubscription,
  kinds2.setTopUp,
  kinds2.topUpFailed
];
function execute(s, c, position2) {
  s.counts.commands++;
  const kept = c.idempotency === "" ? void 0 : s.commands.get(c.idempotency);
  if (kept !== void 0) {
    const same3 = kept.bodyHash === c.bodyHash;
    const outcome2 = same3 ? { ...kept.outcome, replayed: true } : { status: statusNames[status.mismatch], time_ms: String(s.time) };
    log(s, c, outcome2);
    return outcome2;
  }
  let account2 = s.accounts.get(c.account);
  if (account2 !== void 0) touch(s, account2, s.time);
  const result = run(s, c, account2, position2);
  account2 ??= s.accounts.get(c.account);
  const { status: code, ...more } = typeof result === "number" ? { status: result } : result;
  const outcome = show(s, account2, code, more);
  if (c.idempotency !== "") {
    const keep = { id: c.idempotency, bodyHash: c.bodyHash, time: s.time, status: code, outcome };
    s.commands.set(c.idempotency, keep);
    s.keptCommands.push(keep);
  }
  log(s, c, outcome);
  return outcome;
}
function show(s, a, code, more) {
  const j = { status: statusNames[code] };
  u64(j, "time_ms", s.time);
  if (a === void 0 || code === status.accountNotFound) return j;
  showTier(s, a, j);
  const key = defaultKey(a);
  put(j, "key_version", key?.version);
  u64(j, "key_created_ms", key?.created ?? 0);
  u64(j, "balance_micros", balanceOf(a));
  u64(j, "suspended_ms", a.suspended);
  u64(j, "deletes_ms", a.deletes);
  return Object.assign(j, more);
}
function run(s, c, a, position2) {
  const m = c.action;
  if (m === void 0) return status.invalid;
  if (c.account === noId) return m.kind === kinds2.note ? status.ok : status.invalid;
  if (m.kind === kinds2.create) {
    if (a !== void 0) return status.accountExists;
    if (!(s.book?.hasTier(m.tier) ?? (m.tier >= free && m.tier <= 4))) return status.invalid;
    return create(s, c.account, m);
  }
  if (a === void 0) return status.accountNotFound;
  if (m.kind === kinds2.note) return status.ok;
  if (a.erased !== 0) return status.accountNotFound;
  const keys = knownKeys(s, a);
  const result = s.rules < 4 && since4.includes(m.kind) ? status.invalid : act(s, a, m, c.admin ?? "", position2);
  watchKeys(s, a);
  alertKeys(s, a, keys);
  return result;
}
function create(s, id, m) {
  const a = newAccount(s, id, m.tier);
  s.accounts.set(id, a);
  if (m.key !== void 0) newKey(a, 0, a.defaultLineage, m.key, s.time);
  return status.ok;
}
function act(s, a, m, actor, position2) {
  switch (m.kind) {
    case kinds2.setTier:
      return changeTier(s, a, m.tier);
    case kinds2.setNextTier:
      return setNextTier(s, a, m.tier);
    case kinds2.grant:
      return grant(s, a, m, actor, position2);
    case kinds2.refund:
      return refund(s, a, m, actor, position2);
    case kinds2.payment:
      return pay(s, a, m, actor, position2);
    case kinds2.reverse:
      return reverse(s, a, m, actor, position2);
    case kinds2.setSubscription:
      return setSubscription(s, a, m);
    case kinds2.setTopUp:
      return setTopUp(s, a, m);
    case kinds2.topUpFailed:
      return topUpFailed(s, a, m);
    case kinds2.createKey:
      return createKey(s, a, m);
    case kinds2.updateKey:
      return updateKey(s, a, m);
    case kinds2.replaceKey:
      return replaceKey(s, a, m);
    case kinds2.revokeKey:
      return revokeKey(s, a, m);
    case kinds2.rotateKey:
      return rotateKey(s, a, m);
    case kinds2.setSpendingCap:
      return setSpendingCap(s, a, m);
    case kinds2.setWebhook:
      return setWebhook(s, a, m);
    case kinds2.deleteWebhook:
      return deleteWebhook(a, m);
    case kinds2.testWebhook:
      return testWebhook(s, a, m);
    default:
      return standing(s, a, m);
  }
}
function changeTier(s, a, tier2) {
  if (refusesTier(s, a, tier2)) return status.invalid;
  setTier(s, a, tier2);
  return status.ok;
}
function setNextTier(s, a, tier2) {
  if (tier2 !== 0 && tier2 !== a.tier && !(s.book?.hasTier(tier2) ?? tier2 <= 4)) return status.invalid;
  a.nextTier = tier2 === a.tier ? 0 : tier2;
  return status.ok;
}
function standing(s, a, m) {
  switch (m.kind) {
    case kinds2.suspend:
      if (a.suspended === 0) a.suspended = s.time;
      a.suspensionReason = m.reason;
      break;
    case kinds2.resume:
      a.suspended = 0;
      a.suspensionReason = "";
      break;
    case kinds2.deleteAccount:
      if (a.deletes === 0) a.deletes = s.time + untilErasure;
      break;
    case kinds2.keepAccount:
      a.deletes = 0;
      break;
    case kinds2.eraseAccount:
      if (a.deletes === 0 || s.time < a.deletes) return status.invalid;
      Object.assign(a, {
        erased: s.time,
        deletes: 0,
        suspended: 0,
        suspensionReason: "",
        keys: [],
        webhooks: [],
        cap: void 0,
        topUp: void 0
      });
      s.topUps.delete(a);
  }
  return status.ok;
}
function allowedEvents(rules2) {
  if (rules2 < 3) return 15;
  const types2 = 114687;
  return rules2 < 4 ? types2 : types2 | 393216;
}
function setWebhook(s, a, m) {
  const known = a.webhooks.find((w3) => w3.id === m.webhook);
  if (known === void 0) {
    if (m.webhook === noId) return status.webhookInvalid;
    if (!m.create) return status.webhookNotFound;
    if (a.webhooks.length >= mostWebhooks) return status.tooManyWebhooks;
  }
  const w2 = {
    id: m.webhook,
    events: m.events ?? known?.events ?? 0,
    thresholds: m.thresholds ?? known?.thresholds ?? [],
    balanceBelow: m.balanceBelow ?? known?.balanceBelow ?? 0,
    created: known?.created ?? s.time
  };
  const badThresholds = w2.thresholds.length > mostThresholds || w2.thresholds.some((t) => t < 1 || t > 100);
  if (w2.events === 0 || (w2.events & ~allowedEvents(s.rules)) !== 0 || badThresholds) return status.webhookInvalid;
  if (w2.balanceBelow > maxBalance || (w2.events & balanceBit) !== 0 && w2.balanceBelow === 0) return status.webhookInvalid;
  w2.thresholds = [...new Set(w2.thresholds)].sort((x, y) => x - y);
  if (known === void 0) a.webhooks.push(w2);
  else Object.assign(known, w2);
  forgetNotified(a);
  const shown2 = { webhook: idNumber(w2.id).toString() };
  put(shown2, "events", w2.events);
  if (w2.thresholds.length > 0) shown2["thresholds"] = w2.thresholds;
  u64(shown2, "balance_below_micros", w2.balanceBelow);
  u64(shown2, "created_ms", w2.created);
  return { status: status.ok, webhook: shown2 };
}
function deleteWebhook(a, m) {
  const at = a.webhooks.findIndex((w2) => w2.id === m.webhook);
  if (at < 0) return status.webhookNotFound;
  a.webhooks.splice(at, 1);
  forgetNotified(a);
  return status.ok;
}
function testWebhook(s, a, m) {
  const w2 = a.webhooks.find((x) => x.id === m.webhook);
  if (w2 === void 0) return status.webhookNotFound;
  return s.answers ? { status: status.ok, alert: alert(s, a, test, [w2], {}) } : status.ok;
}
var adminActions = {
  [kinds2.create]: "account.create",
  [kinds2.setTier]: "tier.set",
  [kinds2.grant]: "credits.grant",
  [kinds2.refund]: "credits.refund"
};
function log(s, c, outcome) {
  if (!s.answers || c.admin === void 0 || c.action === void 0) return;
  const m = c.action;
  const j = {};
  u64(j, "time_ms", s.time);
  put(j, "token", c.admin);
  put(j, "action", m.kind === kinds2.note ? m.reason : adminActions[m.kind] ?? "unknown");
  u64(j, "account", idNumber(c.account));
  if (c.request !== "") j["request_id"] = base64(keyBytes(c.request));
  j["status"] = outcome["status"];
  put(j, "replayed", outcome["replayed"] === true);
  put(j, "tier", m.kind === kinds2.create || m.kind === kinds2.setTier ? m.tier : 0);
  put(j, "plan", j["tier"] === void 0 ? "" : s.book?.planName(m.tier));
  u64(j, "amount_micros", m.kind === kinds2.grant || m.kind === kinds2.refund ? m.amount : 0);
  u64(j, "expires_ms", m.kind === kinds2.grant ? m.expires : 0);
  put(j, "detail", m.kind === kinds2.note ? m.detail : m.reason);
  (s.effects.admin ??= []).push(j);
}

// src/upcoming.ts
var mostBooks = 200;
var maxOffset = 3650 * day;
var UnknownRules = class extends Error {
};
function takeForce(s, b) {
  s.book = b;
  s.books.push(b);
  s.terms++;
  trimWindows(s);
}
function limitOffset(ms) {
  return Math.max(-maxOffset, Math.min(maxOffset, ms));
}
function checkRules(m) {
  if (m.id === "" && m.rules > latestRules) {
    throw new UnknownRules(`rules ${m.rules}: this program knows 1 to ${latestRules}`);
  }
}
function foldPrices(s, m) {
  if (m.id === "") configured(s, m);
  else if (s.rules >= 4 && s.book !== void 0) applied(s, m);
}
function configured(s, m) {
  if (m.rules > s.rules) {
    s.rules = m.rules;
    s.terms++;
    for (const [id, kept] of s.commands) if (kept.status === 6) s.commands.delete(id);
  }
  const b = new Book(m, s.time, s.sequence);
  const present = s.book;
  if (present !== void 0) {
    if (!m.agreed || present.applied || b.sameAs(present)) return;
    if (m.stamp - limitOffset(m.offset) < present.message.stamp - limitOffset(present.message.offset)) return;
  }
  s.bookCount++;
  takeForce(s, b);
}
function applied(s, m) {
  if (m.withdrawn) {
    for (const b of s.upcoming) if (b.message.id === m.id) b.withdrawn = true;
    return;
  }
  const all = [...s.books, ...s.upcoming];
  if (all.some((b) => b.message.id === m.id) || all.length >= mostBooks || !namesFit(all, m)) return;
  if (m.effective > s.time) {
    const b = new Book(m, m.effective, s.sequence);
    let at = s.upcoming.length;
    while (at > 0 && s.upcoming[at - 1].from > b.from) at--;
    s.upcoming.splice(at, 0, b);
  } else if (m.stamp >= m.effective) takeForce(s, new Book(m, s.time, s.sequence));
}
function namesFit(all, m) {
  for (const b of all) {
    for (const t of b.message.tiers) {
      for (const u of m.tiers) {
        if (t.name === "" || u.name === "") continue;
        if (t.tier === u.tier !== (t.name === u.name)) return false;
      }
    }
  }
  return true;
}

// src/time.ts
var holdTime = 120 * second;
var memory = 600 * second;
var stampReach = 5 * second;
var tolerance = 10 * second;
var deletionDays = 14;
function moveTime(s, clock, backClock, stamp) {
  if (s.time > backClock + tolerance) goBack(s, backClock);
  const now = Math.max(s.time, clock - stampReach, Math.min(stamp, clock + stampReach));
  if (now > s.time) forward(s, now);
}
function forward(s, now) {
  due(s, now);
  const minuteBefore = Math.floor(s.time / minute);
  s.time = now;
  if (now > s.peak) s.peak = now;
  warnExpiring(s);
  end(s, now);
  if (Math.floor(now / minute) === minuteBefore) return;
  for (const [name, source] of s.sources) if (now - source.seen >= hour) s.sources.delete(name);
}
function oldestOpen(s) {
  for (let m = s.timeouts.peek(); m !== void 0; m = s.timeouts.peek()) {
    for (; m.next < m.holds.length; m.next++) {
      const hold = m.holds[m.next];
      if (hold?.result === open) return hold;
    }
    s.timeouts.shift();
  }
  return void 0;
}
function due(s, now) {
  for (; ; ) {
    const book = s.upcoming[0];
    const expiry = s.expiries.peek();
    const hold = oldestOpen(s);
    const expires = expiry?.grant.expires ?? Infinity;
    const timesOut = hold === void 0 ? Infinity : hold.time + holdTime;
    if (book !== void 0 && book.from <= now && book.from <= expires && book.from <= timesOut) {
      s.upcoming.shift();
      s.time = Math.max(s.time, book.from);
      if (!book.withdrawn) takeForce(s, book);
    } else if (expires <= now && expires <= timesOut) {
      s.expiries.pop();
      s.time = Math.max(s.time, expires);
      if (isKept(expiry.account, expiry.grant)) rollTo(s, expiry.account, expires);
      expire(s, expiry.account, expiry.grant, expires);
    } else if (timesOut <= now) {
      s.time = Math.max(s.time, timesOut);
      if (hold.write) voidOpen(s, hold, timesOut, true, false);
      else serve(s, hold, timesOut, true);
    } else return;
  }
}
function end(s, now) {
  for (let h = s.remembered.peek(); h !== void 0 && (!h.remembered || h.closed <= now - memory); h = s.remembered.peek()) {
    s.remembered.shift();
    if (h.remembered) forget(s, h);
  }
  trimWindows(s);
  for (let f = s.failures.peek(); f !== void 0 && f.time <= now - minute; f = s.failures.peek()) {
    s.failures.shift();
    f.owner.failures.shift();
    f.owner.failed--;
    reap(s, f.owner);
  }
  for (let l = s.late.peek(); l !== void 0 && l.time <= now - day; l = s.late.peek()) {
    s.late.shift();
    if (l.owner.late[0] === l) l.owner.late.shift();
    reap(s, l.owner);
  }
  for (let c = s.keptCommands.peek(); c !== void 0 && c.time <= now - day; c = s.keptCommands.peek()) {
    s.keptCommands.shift();
    if (s.commands.get(c.id) === c) s.commands.delete(c.id);
  }
}
function trimWindows(s) {
  const since = s.time - (s.book?.anonymousWindow ?? 0);
  for (let w2 = s.windows.peek(); w2 !== void 0 && w2.time <= since; w2 = s.windows.peek()) {
    s.windows.shift();
    if (w2.network.admitted[0] === w2.time) w2.network.admitted.shift();
    reap(s, w2.network);
  }
}
function goBack(s, now) {
  s.time = now;
  const earlier = (t) => Math.min(t, now);
  s.timeouts.forEach((m) => {
    for (const h of m.holds) if (h !== void 0) h.time = earlier(h.time);
  });
  s.remembered.forEach((h) => {
    h.time = earlier(h.time);
    h.closed = earlier(h.closed);
  });
  s.windows.forEach((w2) => w2.time = earlier(w2.time));
  for (const n of s.networks.values()) {
    n.admitted = n.admitted.map(earlier);
    n.failures.map(earlier);
  }
  s.failures.forEach((f) => f.time = earlier(f.time));
  s.late.forEach((l) => l.time = earlier(l.time));
  s.keptCommands.forEach((c) => c.time = earlier(c.time));
  for (const source of s.sources.values()) source.seen = earlier(source.seen);
  for (const a of s.accounts.values()) {
    a.failures.map(earlier);
    for (const p of a.payments.values()) p.asOf = earlier(p.asOf);
    for (const x of a.subscriptions) x.asOf = earlier(x.asOf);
    if (a.deletes !== 0) a.deletes = Math.min(a.deletes, now + deletionDays * day);
    if (a.topUp === void 0) continue;
    a.topUp.due = earlier(a.topUp.due);
    a.topUp.retry = Math.min(a.topUp.retry, now + hour);
  }
}

// src/fold.ts
var Fold = class {
  state;
  kinds = /* @__PURE__ */ new Map();
  subjects = /* @__PURE__ */ new Map();
  constructor(partition, answers, sink, hash = sha256) {
    this.state = new State(partition, answers, sink, hash);
    const prefix3 = `billing.${partition}.`;
    this.kinds.set(`${prefix3}usage`, { number: 1, domain: "" });
    this.kinds.set(`${prefix3}account`, { number: 2, domain: "" });
    this.kinds.set(`${prefix3}prices`, { number: 3, domain: "" });
    for (const [domain, d] of Object.entries(domains)) this.kinds.set(`${prefix3}settle.${domain}`, { number: d.kind, domain });
  }
  add(m) {
    const s = this.state;
    const kind = this.kinds.get(m.subject);
    const decoded2 = kind === void 0 ? void 0 : decode(kind.number, kind.domain, m.data);
    if (decoded2?.kind === 3) checkRules(decoded2.prices);
    s.sequence = m.sequence;
    s.chain = this.link(m, kind?.number ?? 0);
    s.counts.messages++;
    s.entries = 0;
    if (s.answers) {
      s.effects = {};
      s.alertCounts.clear();
    }
    if (decoded2 === void 0) s.effects.undecodable = true;
    else this.fold(decoded2, clockOf(m.time));
    return s.effects;
  }
  link(m, kind) {
    let subject = this.subjects.get(m.subject);
    if (subject === void 0) {
      subject = new TextEncoder().encode(m.subject);
      if (this.subjects.size < 100) this.subjects.set(m.subject, subject);
    }
    const head = new Uint8Array(19);
    const view2 = new DataView(head.buffer);
    view2.setBigUint64(0, BigInt(m.sequence));
    view2.setBigUint64(8, BigInt.asUintN(64, BigInt(m.time)));
    head[16] = kind;
    view2.setUint16(17, subject.length);
    const { hash } = this.state;
    return hash([this.state.chain, hash([head, subject, m.data])]);
  }
  fold(d, journal) {
    const s = this.state;
    switch (d.kind) {
      case 1:
        this.move(journal, stampOf(d.usage));
        foldUsage(s, d.usage);
        break;
      case 2:
        this.move(journal, d.commands.stamp);
        foldCommands(s, d.commands);
        break;
      case 3: {
        const offset = limitOffset(d.prices.offset);
        s.offset = Math.max(s.offset, offset);
        this.move(journal, d.prices.stamp, offset);
        foldPrices(s, d.prices);
        break;
      }
      case 4:
        this.move(journal, d.usage.stamp);
        foldDomain(s, d.domain, d.usage, journal);
    }
    if (s.topUps.size > 0) decideTopUps(s);
    if (d.kind === 1 && d.usage.number === 0 && d.usage.seal !== void 0) s.sink.sealed?.(s, d.usage.seal);
  }
  move(journal, stamp, offset = this.state.offset) {
    moveTime(this.state, journal + offset, journal + this.state.offset, stamp);
  }
};
function clockOf(time2) {
  return time2.length > 6 && !time2.startsWith("-") ? Number(time2.slice(0, -6)) : Number(BigInt(time2) / 1000000n);
}
function decode(number2, domain, data) {
  try {
    const r = new Reader(data);
    if (number2 === 2) return { kind: 2, commands: decodeCommands(r) };
    if (number2 === 3) return { kind: 3, prices: decodePrices(r) };
    const usage2 = decodeUsage(r);
    return number2 === 1 ? { kind: 1, usage: usage2 } : { kind: 4, usage: usage2, domain };
  } catch (e) {
    if (e instanceof DecodeError) return void 0;
    throw e;
  }
}
function stampOf(m) {
  const id = m.admissions[0]?.request ?? "";
  if (m.stamp !== 0 || id === "") return m.stamp;
  return id.charCodeAt(0) * 2 ** 32 + id.charCodeAt(1) * 65536 + id.charCodeAt(2) + m.since;
}
function foldCommands(s, m) {
  const source = sourceOf(s, m.source);
  if (m.number <= source.command) {
    if (m.number !== 0 && m.number === source.command && s.answers) s.effects.outcomes = source.commandAnswer;
    return;
  }
  const outcomes = m.commands.map((c, i) => execute(s, c, i));
  source.command = m.number;
  if (!s.answers) return;
  const answer = { source: m.source };
  u64(answer, "number", m.number);
  u64(answer, "sequence", s.sequence);
  if (outcomes.length > 0) answer["outcomes"] = outcomes;
  source.commandAnswer = answer;
  s.effects.outcomes = answer;
}

// src/merkle.ts
var leafPrefix = Uint8Array.of(0);
var nodePrefix = Uint8Array.of(1);
function leafHash(hash, data) {
  return hash([leafPrefix, data]);
}
function rootOf(hash, hashes, from = 0, to = hashes.length) {
  if (from === to) return hash([]);
  if (to - from === 1) return hashes[from];
  let left = 1;
  while (left * 2 < to - from) left *= 2;
  return nodeHash(hash, rootOf(hash, hashes, from, from + left), rootOf(hash, hashes, from + left, to));
}
function itemsRoot(hash, data) {
  const leaves = [];
  const r = new Reader(data);
  try {
    for (let at = 0; r.next(); at = r.at) {
      r.skip();
      leaves.push(leafHash(hash, data.subarray(at, r.at)));
    }
  } catch (e) {
    if (!(e instanceof DecodeError)) throw e;
    return leafHash(hash, data);
  }
  return leaves.length === 0 ? leafHash(hash, data) : rootOf(hash, leaves);
}
function nodeHash(hash, left, right) {
  return hash([nodePrefix, left, right]);
}
function rootByInclusion(hash, leaf, index, size, proof) {
  if (index >= size) return void 0;
  let root = leaf;
  let used = 0;
  for (let at = index, last = size - 1; last > 0; at = Math.floor(at / 2), last = Math.floor(last / 2)) {
    if (at === last && at % 2 === 0) continue;
    const beside = proof[used++];
    if (beside === void 0) return void 0;
    root = at % 2 === 1 ? nodeHash(hash, beside, root) : nodeHash(hash, root, beside);
  }
  return used === proof.length ? root : void 0;
}
function rootsByConsistency(hash, from, to, root, proof) {
  if (from < 1 || from > to) return void 0;
  if (from === to) return proof.length === 0 ? { earlier: root, later: root } : void 0;
  const rest = [...proof];
  let at = from - 1;
  let last = to - 1;
  for (; at % 2 === 1; at = Math.floor(at / 2)) last = Math.floor(last / 2);
  const first = at === 0 ? root : rest.shift();
  if (first === void 0) return void 0;
  const roots = { earlier: first, later: first };
  for (; last > 0; at = Math.floor(at / 2), last = Math.floor(last / 2)) {
    if (at === last && at % 2 === 0) continue;
    const beside = rest.shift();
    if (beside === void 0) return void 0;
    if (at % 2 === 1) {
      roots.earlier = nodeHash(hash, beside, roots.earlier);
      roots.later = nodeHash(hash, beside, roots.later);
    } else roots.later = nodeHash(hash, roots.later, beside);
  }
  return rest.length === 0 ? roots : void 0;
}

// src/log.ts
var tileWidth = 256;
var longestBundle = tileWidth * (2 + 65535);
var hashSize = 32;
var prefix2 = 87;
var lossSize = 11;
var utf83 = new TextEncoder();
var text2 = new TextDecoder();
function tilePath(level, index, width) {
  const digits2 = String(index).padStart(Math.ceil(String(index).length / 3) * 3, "0").match(/.../g);
  const last = digits2.pop();
  return `tile/${level}/${digits2.map((d) => `x${d}/`).join("")}${last}${width === tileWidth ? "" : `.p/${width}`}`;
}
function messageEntry(hash, partition, m) {
  const subject = utf83.encode(m.subject);
  const out = new Uint8Array(prefix2 + subject.length);
  const view2 = new DataView(out.buffer);
  out[0] = 1;
  view2.setUint16(1, partition);
  view2.setBigUint64(3, BigInt(m.sequence));
  view2.setBigInt64(11, BigInt(m.time));
  view2.setUint32(19, m.data.length);
  out.set(hash([m.data]), 23);
  out.set(itemsRoot(hash, m.data), 55);
  out.set(subject, prefix2);
  return out;
}
var view = (b) => new DataView(b.buffer, b.byteOffset, b.byteLength);
function same(a, b) {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
var fields2 = [
  ["time", (e) => view(e).getBigInt64(11).toString()],
  ["subject", (e) => text2.decode(e.subarray(prefix2))],
  ["length", (e) => String(view(e).getUint32(19))],
  ["sha256", (e) => hex(e.subarray(23, 55))],
  ["items", (e) => hex(e.subarray(55, prefix2))]
];
var Cursor = class {
  constructor(journal) {
    this.journal = journal;
    this.messages = journal.open();
  }
  journal;
  /** Sequence of the partition's next entry. */
  next = 1;
  messages;
  at = 0;
  /** The message with a sequence. Undefined: the export doesn't have it. */
  message(sequence) {
    if (sequence <= this.at) {
      this.messages.return?.();
      this.messages = this.journal.open();
      this.at = 0;
    }
    for (; ; ) {
      const { value, done } = this.messages.next();
      if (done === true) return void 0;
      this.at = value.sequence;
      if (this.at >= sequence) return this.at === sequence ? value : void 0;
    }
  }
  close() {
    this.messages.return?.();
  }
};
var Tiles = class {
  constructor(hash, check) {
    this.hash = hash;
    this.check = check;
  }
  hash;
  check;
  levels = [{ hashes: [], complete: 0 }];
  async add(leaf) {
    for (let level = 0, h = leaf; ; level++) {
      const l = this.levels[level] ??= { hashes: [], complete: 0 };
      l.hashes.push(h);
      if (l.hashes.length < tileWidth) return;
      await this.check(level, l.complete++, l.hashes);
      h = rootOf(this.hash, l.hashes);
      l.hashes = [];
    }
  }
  async end() {
    for (const [level, l] of this.levels.entries()) if (l.hashes.length > 0) await this.check(level, l.complete, l.hashes);
  }
  root() {
    let rest;
    for (const { hashes } of this.levels) {
      if (hashes.length > 0 || rest !== void 0) rest = rootOf(this.hash, rest === void 0 ? hashes : [...hashes, rest]);
    }
    return rest ?? this.hash([]);
  }
};
var Broken = class extends Error {
};
var LogCheck = class {
  constructor(files, hash, checkpoint, kept, partitions, journals) {
    this.files = files;
    this.hash = hash;
    this.checkpoint = checkpoint;
    this.kept = kept;
    this.partitions = partitions;
    this.journals = journals;
  }
  files;
  hash;
  checkpoint;
  kept;
  partitions;
  journals;
  async run(report) {
    let losses = [];
    let pass = await this.pass(losses);
    if (pass.losses.length > 0) {
      losses = pass.losses;
      pass = await this.pass(losses);
    }
    report.take(pass.report);
    return pass.result;
  }
  async pass(known) {
    const { checkpoint, kept } = this;
    const { size } = checkpoint;
    const report = new Report();
    const losses = [];
    const result = {
      origin: checkpoint.origin,
      size,
      root: base64(checkpoint.root),
      equal: 0,
      notYet: 0,
      newer: 0,
      others: 0,
      losses: 0,
      lost: 0
    };
    const cursors = new Map(this.journals.map((j) => [j.partition, new Cursor(j)]));
    const tiles = new Tiles(this.hash, (level, index, hashes) => this.tile(level, index, hashes, report));
    const old = (count4) => {
      if (kept?.size !== count4) return;
      const root = tiles.root();
      if (!same(root, kept.root)) report.add({ what: "kept checkpoint", field: "root", expected: base64(kept.root), found: base64(root) });
    };
    try {
      old(0);
      for (let first = 0; first < size; first += tileWidth) {
        const entries = await this.bundle(first / tileWidth, Math.min(tileWidth, size - first));
        for (const [i, entry2] of entries.entries()) {
          this.entry(first + i, entry2, cursors, known, { losses, report, result });
          await tiles.add(leafHash(this.hash, entry2));
          old(first + i + 1);
        }
      }
      await tiles.end();
      const root = tiles.root();
      if (!same(root, checkpoint.root)) report.add({ what: "checkpoint", field: "root", expected: result.root, found: base64(root) });
      if (kept !== void 0 && kept.size > size) {
        report.add({ what: "kept checkpoint", field: "size", expected: `at most ${size} entries`, found: String(kept.size) });
      }
      for (const c of cursors.values()) result.notYet += Math.max(0, c.journal.messages - c.next + 1);
    } catch (e) {
      if (!(e instanceof Broken)) throw e;
      const [what, expected, found] = e.message.split("|");
      report.add({ what, field: "entries", expected, found });
    } finally {
      for (const c of cursors.values()) c.close();
    }
    result.losses = losses.length;
    return { losses, report, result };
  }
  /** Reads a tile, or the complete one that has replaced it. */
  async read(level, index, width, limit3) {
    let path2 = tilePath(level, index, width);
    let bytes3 = await this.files.read(path2, limit3);
    if (bytes3 !== void 0 || width === tileWidth) return { path: path2, bytes: bytes3, whole: false };
    path2 = tilePath(level, index, tileWidth);
    bytes3 = await this.files.read(path2, limit3);
    return { path: path2, bytes: bytes3, whole: true };
  }
  async bundle(index, width) {
    const { path: path2, bytes: bytes3, whole } = await this.read("entries", index, width, longestBundle);
    if (bytes3 === void 0) throw new Broken(`log, ${tilePath("entries", index, width)}|${width}|no file`);
    const entries = [];
    let at = 0;
    while (at < bytes3.length && !(whole && entries.length === width)) {
      const end2 = at + 2 <= bytes3.length ? at + 2 + view(bytes3).getUint16(at) : Infinity;
      if (end2 > bytes3.length) throw new Broken(`log, ${path2}|${width}|${entries.length} and a part of one`);
      entries.push(bytes3.subarray(at + 2, end2));
      at = end2;
    }
    if (entries.length !== width) throw new Broken(`log, ${path2}|${width}|${entries.length}`);
    return entries;
  }
  async tile(level, index, hashes, report) {
    const { path: path2, bytes: bytes3, whole } = await this.read(level, index, hashes.length, tileWidth * hashSize);
    const size = (whole ? tileWidth : hashes.length) * hashSize;
    if (bytes3?.length !== size) {
      report.add({ what: `log, ${path2}`, field: "bytes", expected: String(size), found: bytes3 === void 0 ? "no file" : String(bytes3.length) });
      return;
    }
    for (const [i, h] of hashes.entries()) {
      const is = bytes3.subarray(i * hashSize, (i + 1) * hashSize);
      if (same(is, h)) continue;
      const first = (index * tileWidth + i) * tileWidth ** level;
      const of = level === 0 ? `entry ${first}` : `entries ${first} to ${first + tileWidth ** level - 1}`;
      report.add({ what: `log, ${path2}`, field: `hash of ${of}`, expected: hex(h), found: hex(is) });
      return;
    }
  }
  entry(index, e, cursors, known, { losses, report, result }) {
    const kind = e[0];
    if (kind !== 1 && kind !== 2) {
      if (e.length === 0) report.add({ what: `log, entry ${index}`, field: "kind", expected: "one", found: "no byte" });
      result.others++;
      return;
    }
    if (kind === 1 ? e.length < prefix2 : e.length !== lossSize) {
      report.add({ what: `log, entry ${index}`, field: "bytes", expected: String(kind === 1 ? prefix2 : lossSize), found: String(e.length) });
      return;
    }
    const partition = view(e).getUint16(1);
    const sequence = Number(view(e).getBigUint64(3));
    const cursor = cursors.get(partition);
    if (cursor === void 0) {
      if (partition >= this.partitions) {
        report.add({ partition, what: `log, entry ${index}`, field: "partition", expected: `below ${this.partitions}`, found: String(partition) });
      }
      result.others++;
      return;
    }
    if (kind === 2) {
      losses.push({ index, partition, last: sequence });
      if (sequence >= cursor.next) {
        report.add({ partition, what: `log, entry ${index} (a loss)`, field: "sequence", expected: `at most ${cursor.next - 1}`, found: String(sequence) });
      }
      cursor.next = sequence + 1;
      return;
    }
    const what = `log, entry ${index} (message ${sequence})`;
    if (sequence !== cursor.next) {
      report.add({ partition, what, field: "sequence", expected: String(cursor.next), found: String(sequence) });
      if (sequence < cursor.next) return;
    }
    cursor.next = sequence + 1;
    if (known.some((l) => l.partition === partition && l.index > index && l.last < sequence)) {
      result.lost++;
      return;
    }
    if (sequence > cursor.journal.messages) {
      result.newer++;
      return;
    }
    const m = cursor.message(sequence);
    if (m === void 0) {
      report.add({ partition, what, field: "message", expected: "one in the export", found: "none" });
      return;
    }
    const is = messageEntry(this.hash, partition, m);
    if (same(e, is)) {
      result.equal++;
      return;
    }
    for (const [field, show2] of fields2) {
      if (show2(e) === show2(is)) continue;
      report.add({ partition, what, field, expected: show2(e), found: show2(is) });
      return;
    }
    report.add({ partition, what, field: "subject", expected: hex(e.subarray(prefix2)), found: hex(is.subarray(prefix2)) });
  }
};

// src/entries.ts
var figures = ["used", "overage", "spent", "waived"];
var creditFigures = ["granted", "refunded", "adjusted", "expired", "charged"];
var ledger = { grant: 1, adjustment: 2, charge: 3, expiry: 4, reversal: 7, payment: 6 };
function decodeEntry(bytes3) {
  const view2 = new DataView(bytes3.buffer, bytes3.byteOffset, bytes3.byteLength);
  return {
    kind: bytes3[0],
    time: Number(view2.getBigUint64(1)),
    month: view2.getUint32(9),
    quotaKey: bytes3[13],
    charge: bytes3[14],
    amount: view2.getBigInt64(15),
    request: bytes3.subarray(27).some((b) => b !== 0)
  };
}
function malformedField(e, begins) {
  if (begins ? e.kind !== kinds.begins : e.kind <= kinds.begins || e.kind > kinds.ledger) return "kind";
  if (e.month % 100 < 1 || e.month % 100 > 12) return "month";
  const counts2 = e.kind !== kinds.begins && e.kind !== kinds.ledger;
  if (e.quotaKey > quotaKeys || counts2 && e.quotaKey === 0) return "quota key";
  if (e.kind === kinds.begins) return e.charge === 0 ? void 0 : "charge";
  if (e.kind === kinds.ledger) return e.charge < ledger.grant || e.charge > ledger.reversal ? "charge" : void 0;
  const paid = e.charge === chargeCredits;
  if (e.kind === kinds.free ? !paid : e.charge > chargeCredits && !(e.kind === kinds.late && e.charge === waived)) return "charge";
  return e.amount < 0n || !paid && e.amount !== 0n ? "amount" : void 0;
}
var MonthSums = class {
  constructor(month) {
    this.month = month;
    this.number = monthDigits(month);
  }
  month;
  /** By quota key; [0] is not used. */
  keys = Array.from({ length: quotaKeys + 1 }, () => ({ used: 0n, overage: 0n, spent: 0n, waived: 0n }));
  credits = { granted: 0n, refunded: 0n, adjusted: 0n, expired: 0n, charged: 0n };
  /** What the entries up to the month change of what is settled. */
  settled = 0n;
  entries = 0;
  number;
  add(e) {
    if (e.kind === kinds.ledger && e.month <= this.number || e.kind === kinds.begins) this.settled += e.amount;
    if (e.month !== this.number || e.kind === kinds.begins) return;
    this.entries++;
    if (e.kind === kinds.ledger) this.enter(e);
    else this.count(e);
  }
  count(e) {
    const figures2 = this.keys[e.quotaKey];
    if (e.charge === waived) {
      figures2.waived++;
      return;
    }
    const sign = e.kind === kinds.undone || e.kind === kinds.free ? -1n : 1n;
    if (e.kind !== kinds.free) figures2.used += sign;
    if (e.charge !== chargeCredits) return;
    figures2.overage += sign;
    figures2.spent += sign * e.amount;
  }
  enter(e) {
    const { credits } = this;
    if (e.charge === ledger.grant || e.charge === ledger.payment) credits.granted += e.amount;
    else if (e.charge === ledger.charge) credits.charged -= e.amount;
    else if (e.charge === ledger.expiry) credits.expired -= e.amount;
    else if (e.charge === ledger.adjustment && e.request) credits.refunded += e.amount;
    else credits.adjusted += e.amount;
  }
};
function isBefore(e, month) {
  return e.time < monthStart(month) && e.month < monthDigits(month);
}

// src/members.ts
var limit = 1n << 64n;
var Member = class _Member {
  constructor(value, at) {
    this.value = value;
    this.at = at;
  }
  value;
  at;
  static parse(text3, at) {
    try {
      return new _Member(JSON.parse(text3), at);
    } catch {
      throw new Malformed(`${at} is not JSON`);
    }
  }
  fail(expected) {
    throw new Malformed(`${this.at} is not ${expected}`);
  }
  optional(name) {
    const { value } = this;
    if (typeof value !== "object" || value === null || Array.isArray(value)) return this.fail("an object");
    const member = Object.hasOwn(value, name) ? value[name] : void 0;
    return member === void 0 ? void 0 : new _Member(member, `${this.at}.${name}`);
  }
  get(name) {
    return this.optional(name) ?? new _Member(void 0, `${this.at}.${name}`);
  }
  list(most) {
    const { value } = this;
    if (!Array.isArray(value) || value.length > most) return this.fail(`a list of at most ${most}`);
    return value.map((v, i) => new _Member(v, `${this.at}[${i}]`));
  }
  text(shape3 = /^/, expected = "a string") {
    const { value } = this;
    return typeof value === "string" && shape3.test(value) ? value : this.fail(expected);
  }
  flag() {
    return typeof this.value === "boolean" ? this.value : this.fail("true or false");
  }
  /** A JSON number. */
  small(most) {
    const { value } = this;
    return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= most ? value : this.fail(`a number of 0 to ${most}`);
  }
  /** An unsigned number of 64 bits as a decimal string. */
  unsigned() {
    const n = BigInt(this.text(/^(0|[1-9][0-9]{0,19})$/, "a decimal string"));
    return n < limit ? n : this.fail("a number of 64 bits");
  }
  /** A signed one. */
  signed() {
    const n = BigInt(this.text(/^(0|-?[1-9][0-9]{0,18})$/, "a decimal string"));
    return BigInt.asIntN(64, n) === n ? n : this.fail("a number of 64 bits");
  }
  /** A decimal string that counts something: at most 2^53 − 1. */
  count() {
    const n = Number(this.text(/^(0|[1-9][0-9]{0,15})$/, "a decimal string of a count"));
    return Number.isSafeInteger(n) ? n : this.fail("below 2^53");
  }
  hash() {
    const text3 = this.text(/^[0-9a-f]{64}$/, "64 lower-case hex digits");
    return Uint8Array.from({ length: 32 }, (_, i) => Number.parseInt(text3.slice(2 * i, 2 * i + 2), 16));
  }
  bytes() {
    return fromBase64(this.text()) ?? this.fail("Base64");
  }
  month() {
    return monthNumber(this.text()) ?? this.fail("a month such as 2026-11");
  }
};

// src/bill.ts
var nameOf = { used: "used", overage: "overage", spent: "spent_micros", waived: "waived" };
var mostPeriods2 = 1e4;
var unsigned = (m, name) => m?.optional(name)?.unsigned() ?? 0n;
var signed2 = (m, name) => m?.optional(name)?.signed() ?? 0n;
function byKey(list) {
  const lines = new Array(quotaKeys + 1).fill(void 0);
  for (const line2 of list) {
    const key = line2.get("quota_key").small(quotaKeys);
    if (key === 0 || lines[key] !== void 0) line2.get("quota_key").fail("a quota key that has no other line");
    lines[key] = line2;
  }
  return lines;
}
function parsePeriod(m) {
  return {
    start: m.get("start_ms").count(),
    end: m.get("end_ms").count(),
    tier: m.get("tier").small(15),
    plan: m.optional("plan")?.text() ?? "",
    fee: unsigned(m, "fee_cents"),
    feeSeconds: unsigned(m, "fee_seconds"),
    feeAmount: unsigned(m, "fee_amount_cents"),
    lines: byKey(m.get("lines").list(quotaKeys)).map((l) => ({
      limit: signed2(l, "limit"),
      overage: l?.optional("overage")?.flag() ?? false,
      price: unsigned(l, "price_micros"),
      used: unsigned(l, "used"),
      paid: unsigned(l, "paid"),
      amount: unsigned(l, "amount_micros")
    }))
  };
}
function parseBill(text3) {
  const m = Member.parse(text3, "statement");
  const usage2 = byKey(m.get("usage").list(quotaKeys));
  const credits = m.optional("credits");
  const c = (name) => signed2(credits, `${name}_micros`);
  const integral = unsigned(m, "storage_byte_ms_high") << 64n | unsigned(m, "storage_byte_ms_low");
  return {
    month: m.get("period").month(),
    closed: m.optional("closed")?.flag() ?? false,
    tier: m.optional("tier")?.small(15) ?? 0,
    spent: unsigned(m, "spent_micros"),
    fees: unsigned(m, "fees_cents"),
    limits: usage2.map((l) => signed2(l, "limit")),
    remaining: usage2.map((l) => signed2(l, "remaining")),
    keys: usage2.map((l) => ({
      used: unsigned(l, "used"),
      overage: unsigned(l, "overage"),
      spent: unsigned(l, "spent_micros"),
      waived: unsigned(l, "waived")
    })),
    credits: {
      opening: c("opening"),
      granted: c("granted"),
      refunded: c("refunded"),
      adjusted: c("adjusted"),
      expired: c("expired"),
      charged: c("charged"),
      closing: c("closing"),
      pending: c("pending")
    },
    storage: {
      integral: BigInt.asIntN(128, integral),
      average: unsigned(m, "storage_average_bytes"),
      free: unsigned(m, "storage_free_bytes"),
      billed: unsigned(m, "storage_billed_bytes"),
      price: unsigned(m, "storage_cents_per_gb_month"),
      cents: unsigned(m, "storage_overage_cents")
    },
    periods: (m.optional("periods")?.list(mostPeriods2) ?? []).map(parsePeriod)
  };
}
function isCanonical(text3) {
  try {
    return canonical(JSON.parse(text3)) === text3;
  } catch (e) {
    if (e instanceof RangeError) return false;
    throw e;
  }
}
function leafSums(b) {
  return [b.keys.reduce((n, k2) => n + k2.used, 0n), b.spent, b.fees + b.storage.cents];
}
var total = (list) => list.reduce((n, x) => n + x, 0n);
var BillCheck = class {
  constructor(bill, report) {
    this.bill = bill;
    this.report = report;
  }
  bill;
  report;
  compare(field, expected, found) {
    if (expected !== found) this.report.add({ what: "statement", field, expected: expected.toString(), found: found.toString() });
  }
  /** What must be so of any statement of the month. */
  inItself(month) {
    const { bill } = this;
    this.compare("period", monthName(month), monthName(bill.month));
    this.compare("closed", "true", String(bill.closed));
    bill.keys.forEach((k2, key) => {
      if (key === 0) return;
      const at = `usage of quota key ${key}`;
      const limit3 = bill.limits[key];
      const left = limit3 > k2.used ? limit3 - k2.used : 0n;
      this.compare(`${at}, remaining`, limit3 < 0n ? -1n : left, bill.remaining[key]);
      const sum = (name) => total(bill.periods.map((p) => p.lines[key][name]));
      this.compare(`${at}, used`, sum("used"), k2.used);
      this.compare(`${at}, overage`, sum("paid"), k2.overage);
      this.compare(`${at}, spent_micros`, sum("amount"), k2.spent);
    });
    this.compare("spent_micros", total(bill.keys.map((k2) => k2.spent)), bill.spent);
    const { opening, granted, refunded, adjusted, expired, charged, closing, pending } = bill.credits;
    this.compare("credits.closing_micros", opening + granted + refunded + adjusted - expired - charged, closing);
    this.compare("credits.pending_micros", bill.spent - charged + refunded, pending);
    this.periods();
    this.storage();
  }
  periods() {
    const { bill } = this;
    const start = monthStart(bill.month);
    const end2 = monthStart(bill.month + 1);
    const seconds = BigInt((end2 - start) / 1e3);
    let next = start;
    bill.periods.forEach((p, i) => {
      const at = `periods[${i}]`;
      if (i === 0 ? p.start < start : p.start !== next) this.compare(`${at}.start_ms`, String(next), String(p.start));
      if (p.end < p.start) this.compare(`${at}.end_ms`, `at least ${p.start}`, String(p.end));
      next = p.end;
      const most = BigInt(Math.max(0, Math.floor(p.end / 1e3) - Math.floor(p.start / 1e3)));
      if (p.feeSeconds > most) this.compare(`${at}.fee_seconds`, `at most ${most}`, p.feeSeconds);
      this.compare(`${at}.fee_amount_cents`, p.fee * p.feeSeconds / seconds, p.feeAmount);
      p.lines.forEach((l, key) => {
        if (key > 0) this.compare(`${at}, quota key ${key}, amount_micros`, l.paid * l.price, l.amount);
      });
    });
    if (next !== end2) this.compare("end of the last period", String(end2), String(next));
    this.compare("fees_cents", total(bill.periods.map((p) => p.feeAmount)), bill.fees);
  }
  storage() {
    const s = this.bill.storage;
    const length2 = BigInt(monthStart(this.bill.month + 1) - monthStart(this.bill.month));
    const positive = (n) => n > 0n ? n : 0n;
    const over = positive(s.integral - s.free * length2);
    this.compare("storage_average_bytes", positive(s.integral) / length2, s.average);
    this.compare("storage_billed_bytes", over / length2, s.billed);
    this.compare("storage_overage_cents", over * s.price / ((1n << 30n) * length2), s.cents);
  }
  /**
   * Compares the figures with sums of entries. If earlier entries of the month may be missing, the statement may have more:
   * what it has more is returned, by name.
   */
  figures(sums2, whole) {
    const more = [];
    sums2.keys.forEach((expected, key) => {
      for (const name of key === 0 ? [] : figures) {
        const found = this.bill.keys[key][name];
        const field = `usage of quota key ${key}, ${nameOf[name]}`;
        if (whole || found < expected[name]) this.compare(field, expected[name], found);
        else if (found > expected[name]) more.push(`${found - expected[name]} of ${field}`);
      }
    });
    for (const name of creditFigures) {
      const found = this.bill.credits[name];
      const field = `credits.${name}_micros`;
      if (whole) this.compare(field, sums2.credits[name], found);
      else if (found !== sums2.credits[name]) more.push(`${found - sums2.credits[name]} of ${field}`);
    }
    return more;
  }
  /** Compares the balance at the month's end, if it follows from the entries. */
  closing(settled) {
    this.compare("credits.closing_micros", settled, this.bill.credits.closing);
  }
};

// src/tree.ts
var none = { hash: new Uint8Array(32), sums: [0n, 0n, 0n] };
var leafPrefix2 = Uint8Array.of(0);
var account = new TextEncoder().encode("quire account tree\n");
var limit2 = 1n << 64n;
function keyOf(hash, id) {
  const bytes3 = new Uint8Array(8);
  new DataView(bytes3.buffer).setBigUint64(0, id);
  return hash([account, bytes3]);
}
function bitOf(key, bit) {
  return key[bit >> 3] >> 7 - (bit & 7) & 1;
}
function encode2(sums2) {
  const bytes3 = new Uint8Array(24);
  const view2 = new DataView(bytes3.buffer);
  sums2.forEach((n, i) => view2.setBigUint64(8 * i, n));
  return bytes3;
}
function leafOf(hash, key, sums2, content2) {
  return { hash: hash([leafPrefix2, key, encode2(sums2), content2]), sums: sums2 };
}
function nodeOf(hash, bit, left, right) {
  const head = Uint8Array.of(1, bit >> 8, bit & 255);
  return {
    hash: hash([head, left.hash, encode2(left.sums), right.hash, encode2(right.sums)]),
    sums: left.sums.map((n, i) => n + right.sums[i])
  };
}
function fits(t) {
  return t.sums.every((n) => n < limit2);
}
function differingBit(x, y) {
  for (let i = 0; i < x.length; i++) {
    if (x[i] !== y[i]) return 8 * i + Math.clz32(x[i] ^ y[i]) - 24;
  }
  return 8 * x.length;
}
var ChangingTree = class {
  constructor(hash) {
    this.hash = hash;
  }
  hash;
  top;
  /** Adds the leaf of a key, or replaces it. */
  set(key, sums2, content2) {
    const leaf = { key, tree: leafOf(this.hash, key, sums2, content2) };
    let near = this.top;
    while (near !== void 0 && "bit" in near) near = bitOf(key, near.bit) === 0 ? near.left : near.right;
    this.top = near === void 0 ? leaf : put2(this.top, leaf, differingBit(key, near.key));
  }
  root() {
    return this.top === void 0 ? none : this.treeOf(this.top);
  }
  treeOf(side) {
    if ("bit" in side) side.tree ??= nodeOf(this.hash, side.bit, this.treeOf(side.left), this.treeOf(side.right));
    return side.tree;
  }
};
function put2(at, leaf, bit) {
  if ("bit" in at && at.bit < bit) {
    if (bitOf(leaf.key, at.bit) === 0) at.left = put2(at.left, leaf, bit);
    else at.right = put2(at.right, leaf, bit);
    at.tree = void 0;
    return at;
  }
  if (bit === 8 * leaf.key.length) return leaf;
  const [left, right] = bitOf(leaf.key, bit) === 0 ? [leaf, at] : [at, leaf];
  return { bit, left, right, tree: void 0 };
}

// src/seals.ts
var mostEarlier = 64;
var SealCheck = class {
  constructor(hash, partitions, report) {
    this.hash = hash;
    this.partitions = partitions;
    this.report = report;
    this.accounts = new ChangingTree(hash);
  }
  hash;
  partitions;
  report;
  count = 0;
  accounts;
  changed = /* @__PURE__ */ new Set();
  /** Roots of the accounts tree right after the newest messages with a seal. */
  earlier = /* @__PURE__ */ new Map();
  /** After each entry of an account's chain. */
  linked(a) {
    this.changed.add(a);
  }
  /** After a message with a seal. */
  sealed(s, seal2) {
    this.count++;
    if (seal2.partitions !== this.partitions) this.differs(s, "partitions", String(this.partitions), String(seal2.partitions));
    this.receipts(s, seal2);
    const months = /* @__PURE__ */ new Set();
    for (const tree of seal2.statements) {
      const month = monthOfDigits(tree.month);
      const name = `statements tree of ${month === void 0 ? tree.month : monthName(month)}`;
      if (months.has(tree.month)) this.differs(s, name, "once", "again");
      months.add(tree.month);
      if (month !== void 0 && isClosed(s, month) && s.time < monthStart(month + 2)) this.compare(s, name, this.statements(s, month), tree);
      else this.differs(s, name, "a month that is closed, and followed by the present one", "another month");
    }
    this.remember(s.sequence);
  }
  differs(s, field, expected, found) {
    this.report.add({ partition: s.partition, what: `seal of message ${s.sequence}`, field, expected, found });
  }
  compare(s, tree, is, sealed) {
    if (hex(is.hash) !== hex(sealed.hash)) this.differs(s, `${tree}, hash`, hex(is.hash), hex(sealed.hash));
    const sums2 = sealed.sums.length === 0 ? none.sums : sealed.sums;
    if (is.sums.join() !== sums2.join()) this.differs(s, `${tree}, sums`, is.sums.join(", "), sums2.join(", "));
  }
  receipts(s, { sequence, accounts }) {
    const root = this.earlier.get(sequence);
    if (sequence === 0) {
      if (accounts !== void 0) this.differs(s, "accounts tree", "none without a sequence", "one");
    } else if (root === void 0) this.differs(s, "sequence", `0 or one of the ${mostEarlier} newest messages with a seal`, String(sequence));
    else if (accounts === void 0) this.differs(s, "accounts tree", `the tree of message ${sequence}`, "none");
    else this.compare(s, "accounts tree", root, accounts);
  }
  remember(sequence) {
    for (const a of this.changed) this.accounts.set(keyOf(this.hash, idNumber(a.id)), [BigInt(a.receipt.number), 0n, 0n], a.receipt.hash);
    this.changed.clear();
    this.earlier.set(sequence, this.accounts.root());
    if (this.earlier.size > mostEarlier) this.earlier.delete(this.earlier.keys().next().value);
  }
  statements(s, month) {
    const tree = new ChangingTree(this.hash);
    for (const a of s.accounts.values()) {
      if (a.created >= monthStart(month + 1)) continue;
      const statement = statementAt(s, a, month);
      if (statement === void 0) continue;
      const text3 = canonical(withoutRefunds(statement));
      tree.set(keyOf(this.hash, idNumber(a.id)), leafSums(parseBill(text3)), this.hash([new TextEncoder().encode(text3)]));
    }
    return tree.root();
  }
};
function withoutRefunds(statement) {
  const usage2 = statement["usage"].map(({ refunded_micros: _, ...line2 }) => line2);
  return { ...statement, usage: usage2 };
}
function statementAt(s, a, month) {
  if (a.previous?.month === month) return showStatement(s, a, a.previous);
  const silent = Object.assign(Object.create(s), { sink: { ledger() {
  }, closed() {
  } }, counts: { ...s.counts } });
  const copy = copyOf(a);
  touch(silent, copy, Math.max(s.time, monthStart(month + 1)));
  return copy.previous?.month === month ? showStatement(silent, copy, copy.previous) : void 0;
}
function copyOf(a) {
  const monthCopy = (m) => ({
    ...m,
    paid: [...m.paid],
    periods: m.periods.map((p) => ({ ...p })),
    storage: new Map(m.storage)
  });
  return {
    ...a,
    previous: a.previous && monthCopy(a.previous),
    current: monthCopy(a.current),
    holds: /* @__PURE__ */ new Set(),
    kept: /* @__PURE__ */ new Map(),
    makers: [...a.makers]
  };
}

// src/xxhash.ts
var mask2 = (1n << 64n) - 1n;
var p1 = 0x9e3779b185ebca87n;
var p2 = 0xc2b2ae3d27d4eb4fn;
var p3 = 0x165667b19e3779f9n;
var p4 = 0x85ebca77c2b2ae63n;
var p5 = 0x27d4eb2f165667c5n;
function rotate(x, n) {
  return (x << n | x >> 64n - n) & mask2;
}
function partitionOf(id, partitions) {
  let lane = 0n;
  for (let i = 0n; i < 8n; i++) lane = lane << 8n | id >> 8n * i & 255n;
  let h = p5 + 8n & mask2;
  h ^= rotate(lane * p2 & mask2, 31n) * p1 & mask2;
  h = rotate(h, 27n) * p1 + p4 & mask2;
  h = (h ^ h >> 33n) * p2 & mask2;
  h = (h ^ h >> 29n) * p3 & mask2;
  return Number((h ^ h >> 32n) % BigInt(partitions));
}

// src/verify.ts
var Unreadable = class extends Error {
};
function entry(object, name, is) {
  const value = object?.[name];
  if (!is(value)) throw new Unreadable(`manifest.json: ${name} is missing or malformed`);
  return value;
}
var isText = (v) => typeof v === "string";
var isCount = (v) => typeof v === "number" && Number.isSafeInteger(v) && v >= 0;
var isList = (v) => Array.isArray(v);
var isFile = (v) => isText(v) && /^[A-Za-z0-9_.-]+$/.test(v) && !v.startsWith(".");
function fileEntry(o) {
  return { file: entry(o, "file", isFile), bytes: entry(o, "bytes", isCount), sha256: entry(o, "sha256", isText) };
}
function parseManifest(text3) {
  let o;
  try {
    o = JSON.parse(text3);
  } catch {
    throw new Unreadable("manifest.json: is not JSON");
  }
  const format = entry(o, "format", isCount);
  if (format !== 1) throw new Unreadable(`manifest.json: format ${format} is not known, only 1 is`);
  const journals = entry(o, "journals", isList).map((j) => {
    const books = j?.["books"];
    return {
      ...fileEntry(j),
      stream: entry(j, "stream", isText),
      partition: entry(j, "partition", isCount),
      messages: entry(j, "messages", isCount),
      chain: entry(j, "chain", isText),
      books: books === void 0 ? void 0 : { ...fileEntry(books), lines: entry(books, "lines", isCount), sequence: entry(books, "sequence", isText) }
    };
  });
  const partitions = entry(o, "partitions", isCount);
  if (partitions === 0) throw new Unreadable("manifest.json: partitions is 0");
  return { version: entry(o, "version", isText), installation: entry(o, "installation", isText), partitions, journals };
}
function parseMessage(line2) {
  let o;
  try {
    o = JSON.parse(line2);
  } catch {
    return void 0;
  }
  if (typeof o !== "object" || o === null) return void 0;
  const { sequence, time: time2, subject, data } = o;
  if (!isText(sequence) || !isText(time2) || !isText(subject) || !isText(data)) return void 0;
  if (!/^[1-9][0-9]{0,15}$/.test(sequence) || !/^-?[0-9]{1,19}$/.test(time2)) return void 0;
  const bytes3 = fromBase64(data);
  return bytes3 === void 0 ? void 0 : { sequence: Number(sequence), time: time2, subject, data: bytes3 };
}
var Verifier = class {
  constructor(folder, manifest, hash, decode3 = () => void 0, kept) {
    this.folder = folder;
    this.manifest = manifest;
    this.hash = hash;
    this.decode = decode3;
    this.kept = kept;
  }
  folder;
  manifest;
  hash;
  decode;
  kept;
  report = new Report();
  checked = [];
  async run(only) {
    const { journals, partitions } = this.manifest;
    const chosen = journals.filter((j) => only === void 0 || j.partition === only);
    if (chosen.length === 0) throw new Unreadable(only === void 0 ? "manifest.json: no journals" : `no partition ${only}`);
    const seen = /* @__PURE__ */ new Set();
    for (const j of chosen) {
      const expected = `BILLING_${j.partition}`;
      if (j.stream !== expected || j.partition >= partitions || seen.has(j.partition)) {
        this.report.add({ partition: j.partition, what: "manifest", field: "stream", expected, found: j.stream });
        continue;
      }
      seen.add(j.partition);
      await this.journal(j);
    }
    return { manifest: this.manifest, checked: this.checked, report: this.report, bounded: bounded.count, log: void 0 };
  }
  async journal(j) {
    const before2 = this.kept?.compared ?? 0;
    const recorder = new Recorder(j.books !== void 0, this.hash);
    const seals = new SealCheck(this.hash, this.manifest.partitions, this.report);
    recorder.linked = (s2, a) => {
      seals.linked(a);
      this.kept?.compare(s2, a, this.report);
    };
    recorder.sealed = (s2, seal2) => seals.sealed(s2, seal2);
    const { fold, undecodable, complete } = await this.fold(j, recorder, true);
    const s = fold.state;
    if (complete) {
      const chain = hex(s.chain);
      if (chain !== j.chain) this.differs(j, "chain", "sha256", j.chain, chain);
      this.kept?.end(s, (id) => this.partitionOf(id) === j.partition, this.report);
    }
    const counted2 = {
      stream: j.stream,
      partition: j.partition,
      sequence: s.sequence,
      chain: hex(s.chain),
      messages: s.counts.messages,
      undecodable,
      admissions: s.counts.admissions,
      settlements: s.counts.settlements,
      commands: s.counts.commands,
      accounts: s.accounts.size,
      ledgerEntries: s.counts.ledger,
      statements: 0,
      seals: seals.count,
      books: void 0,
      receipts: void 0
    };
    if (this.kept !== void 0) counted2.receipts = this.kept.compared - before2;
    this.checked.push(counted2);
    if (j.books !== void 0 && complete) counted2.books = await this.books(j, j.books, fold, recorder);
    counted2.statements = s.counts.closed;
    for (const a of s.accounts.values()) counted2.statements += a.previous === void 0 ? 1 : 2;
  }
  differs(j, what, field, expected, found) {
    this.report.add({ partition: j.partition, what, field, expected: String(expected), found: String(found) });
  }
  checkFile(j, want, is) {
    if (is.bytes !== want.bytes) this.differs(j, want.file, "bytes", want.bytes, is.bytes);
    if (is.sha256 !== want.sha256) this.differs(j, want.file, "sha256", want.sha256, is.sha256);
  }
  /** Folds a journal. With check, differences of the file are reported too. */
  async fold(j, sink, check) {
    const fold = new Fold(j.partition, false, sink, this.hash);
    const file = this.folder.open(j.file);
    let undecodable = 0;
    let lines = 0;
    let complete = true;
    for await (const line2 of file.lines) {
      lines++;
      if (!complete) continue;
      const m = this.decode(line2) ?? parseMessage(line2);
      const what = `${j.file} line ${lines}`;
      if (m === void 0 || m.sequence !== lines) {
        const found = m === void 0 ? line2 : String(m.sequence);
        if (check) this.differs(j, what, m === void 0 ? "message" : "sequence", m === void 0 ? "one" : lines, found);
        complete = false;
        continue;
      }
      try {
        const effects = fold.add(m);
        if (effects.undecodable && m.subject !== `billing.${j.partition}.closed`) undecodable++;
        effects.undecodable = false;
      } catch (e) {
        if (e instanceof UnknownRules) throw new Unreadable(`${what}: ${e.message}`);
        if (!(e instanceof Impossible)) throw e;
        if (check) this.differs(j, what, "fold", "a possible state", e.message);
        complete = false;
      }
    }
    if (check) {
      this.checkFile(j, j, file.end());
      if (lines !== j.messages) this.differs(j, j.file, "messages", j.messages, lines);
      this.checkPartition(j, fold);
    }
    return { fold, undecodable, complete };
  }
  partitionOf(id) {
    return partitionOf(idNumber(id), this.manifest.partitions);
  }
  checkPartition(j, fold) {
    for (const id of fold.state.accounts.keys()) {
      const right = this.partitionOf(id);
      if (right === j.partition) continue;
      this.report.add({
        partition: j.partition,
        account: showId(id),
        what: "account",
        field: "partition",
        expected: String(right),
        found: String(j.partition)
      });
    }
  }
  async books(j, books, fold, recorder) {
    if (books.sequence !== String(fold.state.sequence)) {
      this.differs(j, "books", "sequence", fold.state.sequence, books.sequence);
    }
    const file = this.folder.open(books.file);
    const { lines, suspects } = await compareBooks(fold.state, recorder, file.lines, this.hash, this.report);
    this.checkFile(j, books, file.end());
    if (lines !== books.lines) this.differs(j, books.file, "lines", books.lines, lines);
    if (suspects.size > 0) await this.locate(j, books, suspects, recorder);
    return lines;
  }
  /** Folds again, keeping the entries of the accounts that differ. */
  async locate(j, books, suspects, recorder) {
    const most = 2e5;
    const chosen = /* @__PURE__ */ new Set();
    let rows = 0;
    for (const id of [...suspects].sort()) {
      const sums2 = recorder.digests.byAccount.get(id);
      rows += (sums2?.ledgerCount ?? 0) + (sums2?.closedCount ?? 0);
      if (chosen.size > 0 && (rows > most || chosen.size >= 1e4)) break;
      chosen.add(id);
    }
    const expected = new Collector(chosen);
    const { fold } = await this.fold(j, expected, false);
    expected.end(fold.state);
    const found = await collectBooks(this.folder.open(books.file).lines, chosen);
    const before2 = this.report.count;
    locate(j.partition, expected, found, this.report);
    for (const id of [...suspects].filter((x) => !chosen.has(x))) {
      this.report.more = true;
      this.report.add({ partition: j.partition, account: showId(id), what: "ledger or closed", expected: "as folded", found: "other rows" });
    }
    if (this.report.count === before2) this.differs(j, "books", "rows", "as folded", "others");
  }
  /** Compares the export with a log. Kept is an earlier checkpoint of it. */
  async log(files, checkpoint, kept, only) {
    const { installation, journals, partitions } = this.manifest;
    if (!checkpoint.origin.startsWith(`quire/${installation}/`)) {
      this.report.add({ what: "log", field: "origin", expected: `quire/${installation}/…`, found: checkpoint.origin });
    }
    const chosen = journals.filter((j) => (only === void 0 || j.partition === only) && j.partition < partitions);
    const list = chosen.map((j) => ({ partition: j.partition, messages: j.messages, open: () => this.messages(j) }));
    return await new LogCheck(files, this.hash, checkpoint, kept, partitions, list).run(this.report);
  }
  *messages(j) {
    let sequence = 0;
    for (const line2 of this.folder.open(j.file).lines) {
      const m = this.decode(line2) ?? parseMessage(line2);
      if (m?.sequence !== ++sequence) return;
      yield m;
    }
  }
  /** One account, with all of its entries. */
  async account(id, show2) {
    const partition = this.partitionOf(id);
    const j = this.manifest.journals.find((x) => x.partition === partition);
    if (j === void 0) throw new Unreadable(`no journal of partition ${partition}, to which ${showId(id)} belongs`);
    const collector = new Collector([id]);
    const { fold, complete } = await this.fold(j, collector, true);
    if (!complete) return void 0;
    const shown2 = show2(fold);
    return shown2 === void 0 ? void 0 : { ...shown2, ...collector.lines.get(id) };
  }
};

// src/node.ts
var chunk = 1 << 20;
async function loadNode() {
  const fs = await import("node:fs");
  const crypto = await import("node:crypto");
  const path2 = await import("node:path");
  const hash = (parts) => {
    const h = crypto.createHash("sha256");
    for (const p of parts) h.update(p);
    return h.digest();
  };
  function open2(file) {
    const sum = crypto.createHash("sha256");
    let bytes3 = 0;
    function* lines() {
      const fd = fs.openSync(file, "r");
      try {
        let rest = Buffer.alloc(0);
        for (; ; ) {
          const buffer = Buffer.allocUnsafe(chunk);
          const n = fs.readSync(fd, buffer, 0, chunk, null);
          if (n === 0) break;
          const part = buffer.subarray(0, n);
          bytes3 += n;
          sum.update(part);
          let from = 0;
          for (let at = part.indexOf(10); at >= 0; at = part.indexOf(10, from)) {
            const end2 = part.subarray(from, at);
            yield (rest.length > 0 ? Buffer.concat([rest, end2]) : end2).toString();
            rest = Buffer.alloc(0);
            from = at + 1;
          }
          if (from < n) rest = Buffer.concat([rest, part.subarray(from)]);
        }
        if (rest.length > 0) yield rest.toString();
      } finally {
        fs.closeSync(fd);
      }
    }
    return { lines: readable(lines), end: () => ({ bytes: bytes3, sha256: sum.digest("hex") }) };
  }
  function readable(lines) {
    return {
      *[Symbol.iterator]() {
        try {
          yield* lines();
        } catch (e) {
          throw isFileError(e) ? new Unreadable(e.message) : e;
        }
      }
    };
  }
  const folder = (dir) => ({
    async manifest() {
      try {
        return fs.readFileSync(path2.join(dir, "manifest.json"), "utf8");
      } catch (e) {
        throw new Unreadable(e.message);
      }
    },
    open: (file) => open2(path2.join(dir, file))
  });
  const ed255192 = async (key, message2, signature) => {
    const jwk = { kty: "OKP", crv: "Ed25519", x: Buffer.from(key).toString("base64url") };
    return crypto.verify(null, message2, crypto.createPublicKey({ key: jwk, format: "jwk" }), signature);
  };
  function read(file, limit3) {
    try {
      const { size } = fs.statSync(file);
      if (size > limit3) throw new Unreadable(`${file} has ${size} bytes, more than ${limit3}`);
      return fs.readFileSync(file);
    } catch (e) {
      throw isFileError(e) ? new Unreadable(e.message) : e;
    }
  }
  function log2(place) {
    if (/^https?:\/\//.test(place)) return { read: (name, limit3) => download(`${place.replace(/\/+$/, "")}/${name}`, limit3) };
    return {
      async read(name, limit3) {
        const file = path2.join(place, name);
        return fs.existsSync(file) ? read(file, limit3) : void 0;
      }
    };
  }
  return { folder, hash, decode: decode2, ed25519: ed255192, log: log2, read, lines: (file) => open2(file).lines };
}
var patience = 6e4;
async function download(url, limit3) {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(patience) });
    if (response.status === 404) return void 0;
    if (!response.ok) throw new Unreadable(`${url}: ${response.status}`);
    const parts = [];
    let size = 0;
    for await (const part of response.body ?? []) {
      parts.push(part);
      size += part.length;
      if (size > limit3) throw new Unreadable(`${url} has more than ${limit3} bytes`);
    }
    return Buffer.concat(parts);
  } catch (e) {
    if (e instanceof Unreadable) throw e;
    throw new Unreadable(`${url}: ${e.cause?.message ?? e.message}`);
  }
}
function isFileError(e) {
  return e instanceof Error && typeof e.code === "string" && "syscall" in e;
}
var shape2 = /^\{"sequence":"([1-9][0-9]{0,15})","time":"(-?[0-9]{1,19})","subject":"([A-Za-z0-9._*>-]*)","data":"([A-Za-z0-9+/=]*)"\}$/;
function decode2(line2) {
  const m = shape2.exec(line2);
  if (m === null) return void 0;
  const data = Buffer.from(m[4], "base64");
  if (data.length !== m[4].length / 4 * 3 - (m[4].endsWith("==") ? 2 : m[4].endsWith("=") ? 1 : 0)) return void 0;
  return { sequence: Number(m[1]), time: m[2], subject: m[3], data };
}

// src/bill_books.ts
var behind = 5 * second;
var ahead2 = 15 * second;
var lastBuiltIn = 4;
var KnownBooks = class {
  list;
  constructor(books) {
    const largest = books.reduce((n, b) => Math.max(n, limitOffset(b.message.offset)), 0);
    this.list = books.map(({ message: message2, time: time2, sequence }) => {
      const clock = Number(BigInt(time2) / 1000000n);
      const from = clock + limitOffset(message2.offset) - behind;
      const until = clock + largest + ahead2;
      const due2 = message2.id === "" ? 0 : message2.effective;
      return { book: new Book(message2, from, sequence), earliest: Math.max(from, due2), latest: Math.max(until, due2) };
    });
  }
  get size() {
    return this.list.length;
  }
  /** Whether a request of a quota key has this price in any of the books. */
  sells(quotaKey, price) {
    return this.list.some(({ book }) => [...book.plans.values()].some((p) => {
      const t = p.terms[quotaKey];
      return t.overage && BigInt(t.price) === price;
    }));
  }
  /** The books that may have been in force in a period. */
  inForce(p) {
    return this.list.filter((b) => b.earliest <= p.end && !this.list.some((other) => other.earliest > b.latest && other.latest <= p.start));
  }
  compare(bill, report) {
    bill.periods.forEach((p, i) => {
      const m = nearest(this.inForce(p).map(({ book }) => mismatches(p, book)));
      if (m !== void 0) report.add({ what: "statement", ...m, field: `periods[${i}]${m.field}` });
    });
    const last = nearest(this.list.map(({ book }) => atEnd(bill, book.plan(bill.tier))));
    if (last !== void 0) report.add({ what: "statement", ...last });
  }
};
function nearest(books) {
  if (books.length === 0) return { field: "", expected: "a price book that was in force", found: "none among books" };
  return books.reduce((x, y) => y.length < x.length ? y : x)[0];
}
function mismatches(p, book) {
  const list = [];
  const plan = book.plan(p.tier);
  const compare = (field, expected, found) => {
    if (expected !== found) list.push({ field, expected, found });
  };
  if (!book.hasTier(p.tier)) list.push({ field: ".tier", expected: "one of the price book", found: String(p.tier) });
  if (p.tier > lastBuiltIn && plan.name !== "") compare(".plan", plan.name, p.plan);
  compare(".fee_cents", String(plan.fee), p.fee.toString());
  for (let key = 1; key <= quotaKeys; key++) {
    const t = plan.terms[key];
    const l = p.lines[key];
    compare(`, quota key ${key}, limit`, String(t.limit), l.limit.toString());
    compare(`, quota key ${key}, overage`, String(t.overage), String(l.overage));
    compare(`, quota key ${key}, price_micros`, String(t.price), l.price.toString());
  }
  return list;
}
function atEnd(bill, plan) {
  const list = [];
  const compare = (field, expected, found) => {
    if (String(expected) !== found.toString()) list.push({ field, expected: String(expected), found: found.toString() });
  };
  for (let key = 1; key <= quotaKeys; key++) compare(`usage of quota key ${key}, limit`, plan.terms[key].limit, bill.limits[key]);
  compare("storage_free_bytes", plan.freeStorage, bill.storage.free);
  compare("storage_cents_per_gb_month", plan.storageCents, bill.storage.price);
  return list;
}

// src/proof_file.ts
var magic = "c2sp.org/tlog-proof@v1";
var longestProof = 128 << 20;
var mostHashes = 64;
var mostSteps = 256;
var mostBooks2 = 1e3;
var entrySize = 43;
function split(bytes3) {
  const start = new TextDecoder("latin1").decode(bytes3.subarray(0, magic.length + 1));
  if (start !== `${magic}
`) throw new Malformed(`the file does not begin with ${magic}`);
  let end2 = bytes3.indexOf(10);
  while (end2 >= 0 && bytes3[end2 + 1] !== 10) end2 = bytes3.indexOf(10, end2 + 1);
  if (end2 < 0) throw new Malformed("the file has no checkpoint");
  return { lines: new TextDecoder("latin1").decode(bytes3.subarray(0, end2)).split("\n"), checkpoint: bytes3.subarray(end2 + 2) };
}
function checkpointOf(bytes3) {
  const isProof = new TextDecoder("latin1").decode(bytes3.subarray(0, magic.length)) === magic;
  return isProof ? split(bytes3).checkpoint : bytes3;
}
function parseProof(bytes3) {
  if (bytes3.length > longestProof) throw new Malformed(`the file has ${bytes3.length} bytes, more than ${longestProof}`);
  const { lines, checkpoint } = split(bytes3);
  const [, extra, index, ...hashes] = lines;
  if (!extra?.startsWith("extra ")) throw new Malformed("line 2 is not extra");
  if (!/^index (0|[1-9][0-9]{0,14})$/.test(index ?? "")) throw new Malformed("line 3 is not index");
  if (hashes.length > mostHashes) throw new Malformed(`the inclusion proof has more than ${mostHashes} hashes`);
  const decoded2 = fromBase64(extra.slice("extra ".length));
  if (decoded2 === void 0) throw new Malformed("extra is not Base64");
  let text3;
  try {
    text3 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(decoded2);
  } catch {
    throw new Malformed("extra is not UTF-8");
  }
  return {
    index: Number(index.slice("index ".length)),
    checkpoint,
    ...parseExtra(Member.parse(text3, "extra")),
    hashes: hashes.map((line2, i) => {
      const hash = fromBase64(line2);
      if (hash?.length !== 32) throw new Malformed(`line ${i + 4} is not a hash in Base64`);
      return hash;
    })
  };
}
function parseExtra(m) {
  const account2 = m.get("account").text();
  const id = parseId(account2);
  if (id === void 0) throw new Malformed("extra.account is not an id of 11 base62 digits");
  const [receipt, absent, statement, entries, consistency] = ["receipt", "absent", "statement", "entries", "consistency"].map((name) => m.optional(name));
  return {
    account: account2,
    id: idNumber(id),
    month: m.get("period").month(),
    seal: message(m.get("seal")),
    receipt: receipt && { number: receipt.get("number").count(), hash: receipt.get("hash").hash(), path: path(receipt) },
    absent: absent && {
      key: absent.get("key").hash(),
      sums: sums(absent),
      content: absent.get("content").hash(),
      path: path(absent)
    },
    statement: statement && { text: statement.get("text").text(), path: path(statement) },
    entries: entries && {
      first: entries.get("first").count(),
      before: entries.get("before").hash(),
      list: entryList(entries.get("data"))
    },
    books: (m.optional("books")?.list(mostBooks2) ?? []).map((b) => ({ ...message(b), index: b.get("index").count(), hashes: hashList(b) })),
    consistency: consistency && {
      size: consistency.get("size").count(),
      root: consistency.get("root").hash(),
      hashes: hashList(consistency)
    }
  };
}
function message(m) {
  return {
    partition: m.get("partition").small(65535),
    sequence: m.get("sequence").count(),
    time: m.get("time").signed().toString(),
    subject: m.get("subject").text(/^.{0,1000}$/, "a subject"),
    data: m.get("data").bytes()
  };
}
function path(m) {
  return m.get("path").list(mostSteps).map((s) => ({ bit: s.get("bit").small(255), hash: s.get("hash").hash(), sums: sums(s) }));
}
function sums(m) {
  const list = m.get("sums").list(3).map((n) => n.unsigned());
  if (list.length !== 3) throw new Malformed(`${m.at}.sums is not a list of 3`);
  return list;
}
function hashList(m) {
  return m.get("hashes").list(mostHashes).map((h) => h.hash());
}
function entryList(m) {
  const bytes3 = m.bytes();
  if (bytes3.length % entrySize !== 0) throw new Malformed(`${m.at} is not of entries of ${entrySize} bytes`);
  return Array.from({ length: bytes3.length / entrySize }, (_, i) => bytes3.subarray(i * entrySize, (i + 1) * entrySize));
}

// src/proof.ts
var same2 = (x, y) => x.length === y.length && x.every((b, i) => b === y[i]);
var counted = (n, one, many) => `${n.toLocaleString("en-US")} ${n === 1 ? one : many}`;
async function verifyProof(bytes3, options) {
  const hash = options.hash ?? sha256;
  const key = parseKey(hash, options.key);
  const file = parseProof(bytes3);
  const kept = parseReceipts(options.receipts ?? "", idFromNumber(file.id));
  const check = new ProofCheck(file, hash, kept);
  const open2 = (note, what) => check.open(note, what, key, options.ed25519 ?? webEd25519);
  const checkpoint = await open2(file.checkpoint, "checkpoint");
  const earlier = options.checkpoint === void 0 ? void 0 : await open2(checkpointOf(options.checkpoint), "kept checkpoint");
  check.run(checkpoint, earlier);
  const { report, checked, trust: trust2 } = check;
  return { account: file.account, period: monthName(file.month), report, checked, trust: trust2 };
}
var ProofCheck = class {
  constructor(file, hash, kept) {
    this.file = file;
    this.hash = hash;
    this.kept = kept;
    this.key = keyOf(hash, file.id);
  }
  file;
  hash;
  kept;
  report = new Report();
  checked = [];
  trust = [];
  checkpoint;
  key;
  async open(note, what, key, ed255192) {
    try {
      const c = await openCheckpoint(note, key, ed255192);
      this.checked.push(`${what}: ${c.origin}, ${counted(c.size, "entry", "entries")}, root ${base64(c.root)}, signed by ${key.name}+${key.hash}`);
      return c;
    } catch (e) {
      if (!(e instanceof Malformed)) throw e;
      this.differs(what, "signature", `one of ${key.name}+${key.hash}`, e.message);
      return void 0;
    }
  }
  run(checkpoint, earlier) {
    this.checkpoint = checkpoint;
    this.trust.push(
      "that others see the same log: compare its size and root with theirs, or keep this file, and compare the next one with it",
      "that each request was made, that none was left unrecorded, and that an entry was right when it was made",
      "that other seals in the log have the same partitions, receipts and statements: an auditor with an export compares them"
    );
    if (checkpoint !== void 0) this.consistent(checkpoint, earlier);
    const seal2 = this.seal();
    const books = this.books();
    let bill;
    if (seal2 !== void 0) {
      this.receipt(seal2);
      bill = this.statement(seal2, books);
    }
    this.entries(bill, books);
  }
  differs(what, field, expected, found) {
    this.report.add({ what, ...field === "" ? {} : { field }, expected, found });
  }
  /** Adds the sentence to what was checked, unless the check found a difference. */
  passed(check, sentence) {
    const before2 = this.report.count;
    check();
    if (this.report.count === before2) this.checked.push(sentence());
  }
  consistent(c, earlier) {
    const { consistency } = this.file;
    if (earlier !== void 0) this.continues(c, earlier);
    if (consistency === void 0) return;
    const { size, root, hashes } = consistency;
    this.passed(() => {
      const roots = rootsByConsistency(this.hash, size, c.size, root, hashes);
      if (roots === void 0) this.differs("consistency", "hashes", `a proof from ${size} to ${c.size} entries`, counted(hashes.length, "hash", "hashes"));
      else if (!same2(roots.earlier, root)) this.differs("consistency", "root of the earlier log", hex(root), hex(roots.earlier));
      else if (!same2(roots.later, c.root)) this.differs("consistency", "root of the log", hex(c.root), hex(roots.later));
    }, () => `consistency: the log continues the one of ${counted(size, "entry", "entries")} with root ${base64(root)}`);
  }
  continues(c, earlier) {
    const { consistency } = this.file;
    if (earlier.size > c.size) throw new Malformed(`the kept checkpoint has ${earlier.size} entries, more than the file's ${c.size}: get the proof anew`);
    if (earlier.size === 0) return;
    const here = earlier.size === c.size ? c : consistency;
    if (here?.size !== earlier.size) {
      throw new Malformed(`the file does not show that the log continues the kept checkpoint: get it with ?since=${earlier.size}`);
    }
    this.passed(() => {
      if (!same2(earlier.root, here.root)) this.differs("kept checkpoint", "root", base64(earlier.root), base64(here.root));
    }, () => "kept checkpoint: the log continues it");
  }
  /** Whether the log has the message at an index. */
  included(what, m, index, hashes) {
    const c = this.checkpoint;
    if (c === void 0) return;
    const root = rootByInclusion(this.hash, leafHash(this.hash, messageEntry(this.hash, m.partition, m)), index, c.size, hashes);
    if (index >= c.size) this.differs(what, "index", `below ${c.size}`, String(index));
    else if (root === void 0) this.differs(what, "inclusion proof", `a proof of entry ${index} of ${c.size}`, counted(hashes.length, "hash", "hashes"));
    else if (!same2(root, c.root)) this.differs(what, "inclusion in the log", base64(c.root), base64(root));
  }
  seal() {
    const { file, report } = this;
    const m = file.seal;
    const before2 = report.count;
    this.included("seal", m, file.index, file.hashes);
    const subject = `billing.${m.partition}.usage`;
    if (m.subject !== subject) this.differs("seal", "subject", subject, m.subject);
    const usage2 = decoded(m.data, decodeUsage);
    if (usage2 === void 0) this.differs("seal", "data", "a UsageBatch", "undecodable");
    else if (usage2.number !== 0) this.differs("seal", "number", "0", String(usage2.number));
    const seal2 = usage2?.seal;
    if (seal2 === void 0) {
      if (usage2 !== void 0) this.differs("seal", "seal", "one", "none");
      return void 0;
    }
    if (seal2.partitions === 0) this.differs("seal", "partitions", "at least 1", "0");
    else {
      const partition = partitionOf(file.id, seal2.partitions);
      if (partition !== m.partition) this.differs("seal", "partition", `${partition} of ${seal2.partitions}`, String(m.partition));
    }
    if (seal2.sequence === 0 || seal2.sequence >= m.sequence) this.differs("seal", "sequence", `1 to ${m.sequence - 1}`, String(seal2.sequence));
    if (seal2.accounts === void 0) this.differs("seal", "accounts", "a tree", "none");
    if (report.count === before2) {
      this.checked.push(`seal: message ${m.sequence} of BILLING_${m.partition}, at ${time(m.time)}, is entry ${file.index} of the log; its receipts are as of message ${seal2.sequence}`);
    }
    return seal2;
  }
  receipt(seal2) {
    const { file, hash, key } = this;
    const { receipt, absent } = file;
    if (seal2.accounts === void 0) return;
    const name = "the accounts tree";
    const root = this.root(seal2.accounts, name);
    if (root === void 0) return;
    if (receipt !== void 0 && absent !== void 0) this.differs("absent", "", "none beside a receipt", "one");
    if (receipt !== void 0) {
      const leaf = leafOf(hash, key, [BigInt(receipt.number), 0n, 0n], receipt.hash);
      this.passed(
        () => this.leads("receipt", leaf, key, receipt.path, root, name),
        () => `receipt: ${receipt.number}.${hex(receipt.hash)} is the account's only one in ${name}`
      );
    } else if (absent !== void 0) {
      this.passed(() => this.absent(absent, root, name), () => `absent: the account has no receipt in ${name}`);
    } else if (!same2(root.hash, none.hash)) this.differs("receipt", "", "one, or a leaf that shows its absence", "neither");
  }
  absent(absent, root, name) {
    if (same2(absent.key, this.key)) this.differs("absent", "key", "another account's", hex(absent.key));
    const at = absent.path.findIndex(({ bit }) => bitOf(absent.key, bit) !== bitOf(this.key, bit));
    if (at >= 0) this.differs("absent", `path[${at}]`, "the side that the account's key takes", "the other one");
    this.leads("absent", leafOf(this.hash, absent.key, absent.sums, absent.content), absent.key, absent.path, root, name);
  }
  root(t, name) {
    if (t.hash.length !== 32) this.differs("seal", `hash of ${name}`, "32 bytes", String(t.hash.length));
    else if (t.sums.length !== 0 && t.sums.length !== 3) this.differs("seal", `sums of ${name}`, "3", String(t.sums.length));
    else return { hash: t.hash, sums: t.sums.length === 0 ? none.sums : t.sums };
    return void 0;
  }
  /** Whether a path leads from a leaf to a root. */
  leads(what, leaf, key, path2, root, name) {
    let at = leaf;
    let above = 256;
    for (const [i, step] of path2.entries()) {
      if (step.bit >= above) return this.differs(what, `path[${i}].bit`, `below ${above}`, String(step.bit));
      above = step.bit;
      at = bitOf(key, step.bit) === 0 ? nodeOf(this.hash, step.bit, at, step) : nodeOf(this.hash, step.bit, step, at);
      if (!fits(at)) return this.differs(what, `path[${i}].sums`, "sums of 64 bits", at.sums.join(", "));
    }
    if (!same2(at.hash, root.hash)) this.differs(what, `root of ${name}`, hex(root.hash), hex(at.hash));
    else if (at.sums.some((n, i) => n !== root.sums[i])) this.differs(what, `sums of ${name}`, root.sums.join(", "), at.sums.join(", "));
  }
  books() {
    const { file } = this;
    const list = [];
    this.passed(() => file.books.forEach((b, i) => {
      const what = `books[${i}]`;
      this.included(what, b, b.index, b.hashes);
      const subject = `billing.${file.seal.partition}.prices`;
      if (b.partition !== file.seal.partition) this.differs(what, "partition", String(file.seal.partition), String(b.partition));
      if (b.subject !== subject) this.differs(what, "subject", subject, b.subject);
      if (b.sequence >= file.seal.sequence) this.differs(what, "sequence", `below ${file.seal.sequence}`, String(b.sequence));
      const message2 = decoded(b.data, decodePrices);
      if (message2 === void 0) this.differs(what, "data", "a PriceBook", "undecodable");
      else if (message2.withdrawn) this.differs(what, "withdrawn", "false", "true");
      else list.push({ message: message2, time: b.time, sequence: b.sequence });
    }), () => `books: ${counted(file.books.length, "price book is", "price books are")} in the log`);
    return new KnownBooks(list);
  }
  statement(seal2, books) {
    const { file, hash } = this;
    const { statement, month } = file;
    const trees = seal2.statements.filter((t) => t.month === monthDigits(month));
    const name = `the statements tree of ${monthName(month)}`;
    if (trees.length > 1) this.differs("seal", name, "one", String(trees.length));
    if (statement === void 0) {
      if (trees.length > 0) this.differs("statement", "", `the account's in ${name}`, "none");
      else this.trust.unshift(`the statement of ${monthName(month)}: the seal has no statements of the month`);
      return void 0;
    }
    const [tree] = trees;
    if (tree === void 0) {
      this.differs("seal", name, "one", "none");
      return void 0;
    }
    const bill = parseBill(statement.text);
    const root = this.root(tree, name);
    const sums2 = leafSums(bill);
    this.passed(() => {
      if (root === void 0) return;
      if (!fits({ hash: root.hash, sums: sums2 })) return this.differs("statement", "sums", "sums of 64 bits", sums2.join(", "));
      const content2 = hash([new TextEncoder().encode(statement.text)]);
      this.leads("statement", leafOf(hash, this.key, sums2, content2), this.key, statement.path, root, name);
    }, () => `statement: it is the account's only one in ${name}`);
    this.passed(() => {
      if (!isCanonical(statement.text)) this.differs("statement", "text", "canonical JSON", "another form");
      new BillCheck(bill, this.report).inItself(month);
    }, () => "statement: its figures follow from each other");
    this.passed(() => books.compare(bill, this.report), () => "statement: its limits, prices and fees match the price books");
    this.trust.push(
      "that no other price book was in force, and that the account had the plans of the statement's periods",
      "the stored bytes, from which the statement's cents of storage follow: entries do not have them"
    );
    return bill;
  }
  entries(bill, books) {
    const { receipt, entries } = this.file;
    if (receipt === void 0) {
      if ((entries?.list.length ?? 0) > 0) this.differs("entries", "", "none without a receipt", counted(entries.list.length, "entry", "entries"));
      this.notCovered(0, 0);
      if (bill !== void 0) this.figures(bill, new MonthSums(this.file.month), void 0, 0);
      return;
    }
    if (entries === void 0) {
      this.trust.push(`the account's entries up to ${receipt.number}: the file has none. GET /api/users/user/receipts may have them, and an export does`);
      if (bill !== void 0) this.figures(bill, new MonthSums(this.file.month), void 0, 0);
      return;
    }
    if (entries.list.length === 0) return this.differs("entries", "", `those up to ${receipt.number}`, "none");
    const { first, list } = entries;
    const last = first + list.length - 1;
    const sums2 = new MonthSums(this.file.month);
    this.passed(() => {
      if (first < 1) this.differs("entries", "first", "at least 1", String(first));
      if (last !== receipt.number) this.differs("entries", "number of the last one", String(receipt.number), String(last));
      const empty = chainBefore(this.hash, this.file.id);
      if (first === 1 && !same2(entries.before, empty)) this.differs("entries", "before", hex(empty), hex(entries.before));
      const end2 = this.chain(first, entries.before, list);
      if (!same2(end2, receipt.hash)) this.differs("entries", `hash after entry ${last}`, hex(receipt.hash), hex(end2));
    }, () => `entries: ${first} to ${last} lead to the receipt`);
    this.passed(() => list.forEach((bytes3, i) => {
      const e = decodeEntry(bytes3);
      const field = malformedField(e, first + i === 1);
      if (field !== void 0) return this.differs(`entry ${first + i}`, field, "one of its kind", hex(bytes3));
      sums2.add(e);
      this.price(first + i, e, bill, books);
    }), () => `entries: ${counted(sums2.entries, "one counts", "of them count")} in ${monthName(this.file.month)}`);
    this.notCovered(first, last);
    const start = decodeEntry(list[0]);
    if (bill !== void 0) this.figures(bill, sums2, start, first);
    else this.beginning(start, first);
  }
  /** The hash after the last entry. Kept receipts are compared on the way. */
  chain(first, before2, list) {
    const kept = this.kept.filter(({ number: number2 }) => number2 >= first - 1);
    let at = before2;
    let next = 0;
    let confirmed = first - 1;
    const compare = (number2) => {
      for (; kept[next]?.number === number2; next++) {
        if (kept[next].hash === hex(at)) confirmed = number2;
        else this.differs(`kept receipt ${number2}`, `entries ${confirmed + 1} to ${number2}`, hex(at), kept[next].hash);
      }
    };
    compare(first - 1);
    list.forEach((entry2, i) => {
      at = this.hash([at, entry2]);
      compare(first + i);
    });
    if (next > 0) this.checked.push(`receipts: ${counted(next, "kept one was", "kept ones were")} compared`);
    return at;
  }
  notCovered(first, last) {
    const earlier = this.kept.filter(({ number: number2 }) => number2 < first - 1).length;
    const later = this.kept.filter(({ number: number2 }) => number2 > last).length;
    if (earlier > 0) this.trust.push(`${counted(earlier, "kept receipt", "kept receipts")} of entries before ${first - 1}`);
    if (later > 0) this.trust.push(`${counted(later, "kept receipt", "kept receipts")} of entries after ${last}, which the seal does not have`);
  }
  price(number2, e, bill, books) {
    if (e.kind !== kinds.admitted && e.kind !== kinds.late || e.charge !== chargeCredits || e.month !== monthDigits(this.file.month)) return;
    const sold = bill === void 0 ? books.sells(e.quotaKey, e.amount) : bill.periods.some((p) => p.lines[e.quotaKey].overage && p.lines[e.quotaKey].price === e.amount);
    if (sold) return;
    this.differs(`entry ${number2}`, "amount", `a price of quota key ${e.quotaKey} in the ${bill === void 0 ? "price books" : "statement"}`, e.amount.toString());
  }
  /** Whether the entries have all of the month. If not, what remains on trust says from where on they have it. */
  beginning(start, first) {
    const { month } = this.file;
    if (isBefore(start, month) || first === 1 && start.month < monthDigits(month)) return true;
    const why = first === 1 ? `the account's chain begins in ${String(start.month).replace(/..$/, "-$&")}` : "the file has no earlier ones";
    this.trust.push(`what changed before entry ${first} of ${time(`${start.time}000000`)}: ${why}`);
    return false;
  }
  figures(bill, sums2, start, first) {
    const check = new BillCheck(bill, this.report);
    const whole = start !== void 0 && this.beginning(start, first);
    let more = [];
    this.passed(() => {
      more = check.figures(sums2, whole);
      if (first === 1 && start.month <= monthDigits(bill.month)) check.closing(sums2.settled);
    }, () => whole ? "statement: its counters and credits are the sums of the entries" : "statement: its counters are not below the sums of the entries");
    if (more.length > 0) this.trust.push(`${more.join(", ")}: the statement has it, and no entry in the file`);
  }
};
function decoded(data, decode3) {
  try {
    return decode3(new Reader(data));
  } catch (e) {
    if (e instanceof DecodeError) return void 0;
    throw e;
  }
}
function time(nanoseconds) {
  const date = new Date(Number(BigInt(nanoseconds) / 1000000n));
  return Number.isNaN(date.getTime()) ? nanoseconds : date.toISOString();
}

// src/main.ts
var usage = `Usage: node verify.mjs FILE --key KEY [--checkpoint FILE] [--receipts FILE] [--json]

Checks the proof of a bill, which GET /api/users/user/statements/<month>/proof answers
with: that the log has the seal, and that the account's statement follows from its entries.

  --key KEY          the log's key, as it was published: the file has none
  --checkpoint FILE  an earlier checkpoint or proof, which the log has to continue
  --receipts FILE    kept receipts, as below

       node verify.mjs --export DIR [--log PLACE [--key KEY] [--checkpoint FILE]]
                      [--receipts FILE] [--json] [--partition N] [--account ID]

Folds the billing journals that "quire journal export --to DIR" wrote, and compares
what the manifest and the books say with what comes out. With --log, compares every
message with the public log. With --receipts, compares the receipts that a client kept.

  --export DIR       the folder of the export
  --log PLACE        the log: a URL, such as https://quire.example/log, or a folder
  --key KEY          the log's key: name+hash+base64 (default: from the log itself)
  --checkpoint FILE  an earlier checkpoint, which the log has to continue
  --receipts FILE    kept receipts: lines of an account's id, a space, and X-Receipt
  --partition N      this partition only
  --account ID       print one account: usage, statements and every ledger entry
  --json             print one JSON object

Exit codes: 0 everything checked fits, 1 something differs, 2 wrong usage or unreadable input.`;
var Usage = class extends Error {
};
function parse(args) {
  const o = {
    proof: void 0,
    export: "",
    json: false,
    partition: void 0,
    account: void 0,
    log: void 0,
    key: void 0,
    checkpoint: void 0,
    receipts: void 0
  };
  const rest = args.flatMap((a) => /^--[a-z]+=/.test(a) ? [a.slice(0, a.indexOf("=")), a.slice(a.indexOf("=") + 1)] : [a]);
  const value = (name) => {
    const v = rest.shift();
    if (v === void 0) throw new Usage(`${name} needs a value.`);
    return v;
  };
  for (let arg = rest.shift(); arg !== void 0; arg = rest.shift()) {
    switch (arg) {
      case "--help":
      case "-h":
        return void 0;
      case "--json":
        o.json = true;
        break;
      case "--export":
        o.export = value(arg);
        break;
      case "--account":
        o.account = value(arg);
        break;
      case "--log":
        o.log = value(arg);
        break;
      case "--key":
        o.key = value(arg);
        break;
      case "--checkpoint":
        o.checkpoint = value(arg);
        break;
      case "--receipts":
        o.receipts = value(arg);
        break;
      case "--partition": {
        const n = value(arg);
        if (!/^[0-9]{1,4}$/.test(n)) throw new Usage(`--partition needs a number, not ${n}.`);
        o.partition = Number(n);
        break;
      }
      default:
        if (arg.startsWith("-") || o.proof !== void 0) throw new Usage(`Unknown argument ${arg}.`);
        o.proof = arg;
    }
  }
  if (o.proof !== void 0) {
    if (o.export !== "" || (o.log ?? o.account ?? o.partition) !== void 0) throw new Usage(`${o.proof} is checked with --key, --checkpoint, --receipts and --json alone.`);
    if (o.key === void 0) throw new Usage("--key KEY is missing: a proof does not bring the log's key. Use the one that was published.");
    return o;
  }
  if (o.export === "") throw new Usage("--export DIR is missing.");
  if (o.log === void 0 && (o.key ?? o.checkpoint) !== void 0) throw new Usage("--key and --checkpoint need --log.");
  if ((o.log ?? o.receipts) !== void 0 && o.account !== void 0) throw new Usage("--account prints an account, without --log and --receipts.");
  return o;
}
var heads = "that the chain is the one billing had: compare the heads below with heads kept elsewhere (docs/audit.md)";
var trust = [
  "that every request was recorded, and none was made up, before the journal had it",
  "users, sessions, webhook URLs and deliveries, which no journal has"
];
function trusted(r, { key, kept }) {
  const list = [...trust];
  if (r.log === void 0) list.unshift(heads);
  else {
    list.unshift("that everybody sees the same log: compare its size and root with those that others see, or ask for a witness's cosignature");
    if (r.log.losses > 0) {
      const taken = count3(r.log.lost, "message", "messages");
      list.unshift(`that ${count3(r.log.losses, "recorded loss", "recorded losses")} of ${taken} had a cause: the log shows when, and not what was in them`);
    }
    const rest = count3(r.log.notYet, "message that is", "messages that are");
    if (r.log.notYet > 0) list.unshift(`${rest} not yet in the log: anyone with the journals can change them`);
    if (key !== void 0) list.unshift(`that this is the log's key, which came from the log itself: compare it with the published one: ${showKey(key)}`);
  }
  const missing = r.manifest.partitions - r.checked.length;
  if (missing > 0) list.push(`${missing} of ${r.manifest.partitions} partitions, which were not read`);
  if (kept !== void 0 && kept.size > kept.compared) {
    list.push(`${count3(kept.size - kept.compared, "receipt", "receipts")} of partitions that were not read to the end`);
  }
  const bare = r.checked.filter((c) => c.books === void 0).map((c) => c.stream);
  if (bare.length > 0) list.push(`what billing shows for ${bare.join(", ")}: the export has no books to compare`);
  if (r.bounded > 0) list.push(`${r.bounded} numbers outside of ±(2^53 − 1), read as that bound`);
  return list;
}
function count3(n, one, many) {
  return `${n.toLocaleString("en-US")} ${n === 1 ? one : many}`;
}
function line(c) {
  const books = c.books === void 0 ? "no books" : `${count3(c.books, "line", "lines")} of books`;
  const receipts = c.receipts === void 0 ? "" : `, ${count3(c.receipts, "receipt", "receipts")}`;
  return `${c.stream}: ${count3(c.messages, "message", "messages")} (${c.undecodable} undecodable), ${count3(c.admissions, "admission", "admissions")}, ${count3(c.accounts, "account", "accounts")}, ${count3(c.ledgerEntries, "ledger entry", "ledger entries")}, ${count3(c.statements, "statement", "statements")}, ${count3(c.seals, "seal", "seals")}, ${books}${receipts}`;
}
function logLine(l) {
  const more = [
    count3(l.equal, "message equals its entry", "messages equal their entries"),
    `${l.notYet.toLocaleString("en-US")} not yet in the log`,
    `${count3(l.newer, "entry", "entries")} newer than the export`,
    count3(l.losses, "loss", "losses"),
    `${count3(l.lost, "entry", "entries")} of lost messages`,
    `${count3(l.others, "other entry", "other entries")}`
  ];
  return `${l.origin}: ${count3(l.size, "entry", "entries")}, root ${l.root}, ${more.join(", ")}`;
}
function print(r, given) {
  const { report } = r;
  const out = listed2(report);
  out.push("Checked:", ...r.checked.map((c) => `  ${line(c)}`));
  if (r.log !== void 0) out.push("Log:", `  ${logLine(r.log)}`);
  out.push("Remains on trust:", ...trusted(r, given).map((t) => `  - ${t}`));
  out.push("Heads:", ...r.checked.map((c) => `${c.stream} ${c.sequence} ${c.chain}`));
  out.push(verdict(report));
  return out;
}
function asJson(r, given) {
  return JSON.stringify({
    ok: r.report.count === 0,
    differences: r.report.count,
    more: r.report.more,
    first: r.report.differences,
    checked: r.checked,
    log: r.log,
    trust: trusted(r, given),
    version: r.manifest.version,
    installation: r.manifest.installation
  });
}
function readReceipts(node, file) {
  const kept = new KeptReceipts();
  let number2 = 0;
  for (const line2 of node.lines(file)) {
    number2++;
    if (!kept.add(line2)) throw new Unreadable(`${file} line ${number2}: no account and receipt: ${line2.slice(0, 120)}`);
  }
  kept.sort();
  return kept;
}
async function showOne(v, manifest, id) {
  const account2 = parseId(id);
  if (account2 === void 0) throw new Usage(`--account needs 11 base62 digits, not ${id}.`);
  void manifest;
  const shown2 = await v.account(account2, (fold) => {
    const a = fold.state.accounts.get(account2);
    return a === void 0 ? void 0 : showAccount(fold.state, a);
  });
  for (const d of v.report.differences) console.error(showDifference(d));
  if (shown2 === void 0 && v.report.count === 0) throw new Unreadable(`no account ${id}`);
  if (shown2 !== void 0) console.log(JSON.stringify(shown2, null, 2));
  return v.report.count === 0 ? 0 : 1;
}
var longestNote = 1 << 20;
async function openLog(v, node, o, place) {
  const files = node.log(place);
  const file = async (name) => {
    const bytes3 = await files.read(name, longestNote);
    if (bytes3 === void 0) throw new Unreadable(`${place} has no ${name}`);
    return bytes3;
  };
  let key;
  try {
    key = parseKey(node.hash, o.key ?? new TextDecoder().decode(await file("key")));
  } catch (e) {
    if (!(e instanceof Malformed)) throw e;
    if (o.key !== void 0) throw new Usage(`--key: ${e.message}.`);
    throw new Unreadable(e.message);
  }
  const open2 = async (bytes3, what) => {
    try {
      return await openCheckpoint(bytes3, key, node.ed25519);
    } catch (e) {
      if (!(e instanceof Malformed)) throw e;
      v.report.add({ what, field: "signature", expected: `one of ${key.name}+${key.hash}`, found: e.message });
      return void 0;
    }
  };
  const checkpoint = await open2(await file("checkpoint"), "checkpoint");
  const kept = o.checkpoint === void 0 ? void 0 : await open2(node.read(o.checkpoint, longestNote), "kept checkpoint");
  return { key, checkpoint, kept };
}
async function checkProof(node, file, o) {
  const text3 = (bytes3) => new TextDecoder().decode(bytes3);
  let result;
  try {
    result = await verifyProof(node.read(file, longestProof), {
      key: o.key,
      hash: node.hash,
      ed25519: node.ed25519,
      checkpoint: o.checkpoint === void 0 ? void 0 : node.read(o.checkpoint, longestProof),
      receipts: o.receipts === void 0 ? void 0 : text3(node.read(o.receipts, longestProof))
    });
  } catch (e) {
    if (!(e instanceof Malformed)) throw e;
    throw new Unreadable(e.message);
  }
  const { report } = result;
  const ok = report.count === 0;
  if (o.json) console.log(JSON.stringify({ ok, differences: report.count, first: report.differences, ...result, report: void 0 }));
  else console.log(showProof(result).join("\n"));
  return ok ? 0 : 1;
}
function showProof({ account: account2, period, report, checked, trust: trust2 }) {
  return [
    ...listed2(report),
    `Checked, of account ${account2} in ${period}:`,
    ...checked.map((c) => `  ${c}`),
    "Remains on trust:",
    ...trust2.map((t) => `  - ${t}`),
    verdict(report)
  ];
}
function listed2(report) {
  const out = report.differences.map(showDifference);
  if (report.count > report.differences.length) out.push(`… ${report.count - report.differences.length} more differences`);
  return out;
}
function verdict(report) {
  const least = report.more ? "at least " : "";
  return report.count === 0 ? "OK: everything checked fits." : `DIFFERS: ${least}${count3(report.count, "difference", "differences")}.`;
}
async function run2(args) {
  try {
    const o = parse(args);
    if (o === void 0) {
      console.log(usage);
      return 0;
    }
    const node = await loadNode();
    if (o.proof !== void 0) return await checkProof(node, o.proof, o);
    const folder = node.folder(o.export);
    const manifest = parseManifest(await folder.manifest());
    const kept = o.receipts === void 0 ? void 0 : readReceipts(node, o.receipts);
    const v = new Verifier(folder, manifest, node.hash, node.decode, kept);
    if (o.account !== void 0) return await showOne(v, manifest, o.account);
    const opened = o.log === void 0 ? void 0 : await openLog(v, node, o, o.log);
    const result = await v.run(o.partition);
    if (opened?.checkpoint !== void 0) result.log = await v.log(node.log(o.log), opened.checkpoint, opened.kept, o.partition);
    const given = { key: o.key === void 0 ? opened?.key : void 0, kept };
    console.log(o.json ? asJson(result, given) : print(result, given).join("\n"));
    return result.report.count === 0 ? 0 : 1;
  } catch (e) {
    if (e instanceof Usage) console.error(`${e.message}

${usage}`);
    else if (e instanceof Unreadable) console.error(`Cannot verify: ${e.message}`);
    else throw e;
    return 2;
  }
}
function isCommand() {
  if (typeof process === "undefined") return false;
  const script = process.argv[1];
  return script !== void 0 && /(^|[\\/])verify\.mjs$/.test(script);
}
if (isCommand()) process.exitCode = await run2(process.argv.slice(2));
export {
  Fold,
  Impossible,
  LogCheck,
  Malformed,
  Report,
  base62,
  canonical,
  fromBase64,
  hex,
  idFromNumber,
  itemsRoot,
  leafHash,
  messageEntry,
  openCheckpoint,
  parseId,
  parseKey,
  rootOf,
  run2 as run,
  sha256,
  showAccount,
  showDifference,
  showId,
  showNetwork,
  tilePath,
  verifyProof,
  webEd25519
};
