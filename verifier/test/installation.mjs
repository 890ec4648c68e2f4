// Makes installations with accounts, price books, seals, a log and the proofs of bills, as docs/journal.md and docs/proof.md describe them, with
// node's own SHA-256 and Ed25519 and none of the verifier's code. What an operator forges is changed in the parts before seal() is called.

import { createHash } from "node:crypto";
import { entryOf, leaf as logLeaf, root as logRoot } from "./log.mjs";
import { encode, priceBook } from "./protobuf.mjs";

export const sha = (...parts) => parts.reduce((h, p) => h.update(p), createHash("sha256")).digest();
const u64 = (n) => {
  const b = Buffer.alloc(8);
  b.writeBigUInt64BE(BigInt(n));
  return b;
};

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
export const showId = (id) => Array.from({ length: 11 }, (_, i) => digits[Number((id / 62n ** BigInt(10 - i)) % 62n)]).join("");

/** xxHash64 of 8 bytes with seed 0, as its specification has it. */
export function partitionOf(id, partitions) {
  const [p1, p2, p3, p4, p5] = [11400714785074694791n, 14029467366897019727n, 1609587929392839161n, 9650029242287828579n, 2870177450012600261n];
  const cut = (n) => BigInt.asUintN(64, n);
  const turn = (n, by) => cut(n << by) | (n >> (64n - by));
  const lane = u64(id).readBigUInt64LE();
  let h = cut(p5 + 8n) ^ cut(turn(cut(lane * p2), 31n) * p1);
  h = cut(turn(h, 27n) * p1 + p4);
  h = cut((h ^ (h >> 33n)) * p2);
  h = cut((h ^ (h >> 29n)) * p3);
  return Number((h ^ (h >> 32n)) % BigInt(partitions));
}

// ---------------------------------------------------------------- trees

export const keyOf = (id) => sha("quire account tree\n", u64(id));
export const bitOf = (key, bit) => (key[bit >> 3] >> (7 - (bit % 8))) & 1;
const mask = (1n << 64n) - 1n;

export function leafOf(key, sums, content) {
  return { key, sums, content, hash: sha(Buffer.of(0), key, ...sums.map(u64), content) };
}

/** A node over two sides. Sums that overflow are cut, as no tree of an honest installation has them. */
export function nodeOf(bit, left, right) {
  const hash = sha(Buffer.of(1, 0, bit), left.hash, ...left.sums.map(u64), right.hash, ...right.sums.map(u64));
  return { bit, left, right, hash, sums: left.sums.map((n, i) => (n + right.sums[i]) & mask) };
}

export function treeOf(leaves, bit = 0) {
  if (leaves.length === 0) return { hash: Buffer.alloc(32), sums: [0n, 0n, 0n] };
  if (leaves.length === 1) return leaves[0];
  const sides = [0, 1].map((side) => leaves.filter(({ key }) => bitOf(key, bit) === side));
  if (sides.some((s) => s.length === 0)) return treeOf(leaves, bit + 1);
  return nodeOf(bit, treeOf(sides[0], bit + 1), treeOf(sides[1], bit + 1));
}

const shown = (sums) => sums.map(String);

/** The leaf to which a key leads, and its path. */
export function reach(tree, key) {
  const path = [];
  let at = tree;
  for (; at.left !== undefined; at = bitOf(key, at.bit) === 0 ? at.left : at.right) {
    const other = bitOf(key, at.bit) === 0 ? at.right : at.left;
    path.unshift({ bit: at.bit, hash: other.hash.toString("hex"), sums: shown(other.sums) });
  }
  return { leaf: at.key === undefined ? undefined : at, path };
}

// ---------------------------------------------------------------- proofs of the log, by the definitions of RFC 6962

const half = (n) => {
  let k = 1;
  while (k * 2 < n) k *= 2;
  return k;
};

export function inclusion(index, leaves) {
  if (leaves.length <= 1) return [];
  const k = half(leaves.length);
  return index < k ? [...inclusion(index, leaves.slice(0, k)), logRoot(leaves.slice(k))]
    : [...inclusion(index - k, leaves.slice(k)), logRoot(leaves.slice(0, k))];
}

export function consistency(size, leaves, whole = true) {
  if (size === leaves.length) return whole ? [] : [logRoot(leaves)];
  const k = half(leaves.length);
  return size <= k ? [...consistency(size, leaves.slice(0, k), whole), logRoot(leaves.slice(k))]
    : [...consistency(size - k, leaves.slice(k), false), logRoot(leaves.slice(0, k))];
}

// ---------------------------------------------------------------- accounts

export const [october, november, december] = [Date.UTC(2026, 9), Date.UTC(2026, 10), Date.UTC(2026, 11)];
const day = 86_400_000;
export const changed = november + 12 * day + 5_000;
const monthOf = (ms) => (ms < november ? 202610 : ms < december ? 202611 : 202612);
const [begins, admitted, undone, free, late, ledger] = [1, 2, 3, 4, 5, 6];
const none = Buffer.alloc(16);

/** Price, limit and fee of a tier by the first and the second book. */
export const terms = (book, tier, key) => ({ limit: key > 11 ? -1 : tier + book, price: key > 11 ? undefined : 50 + 10 * key + 5 * book + tier });
export const feeOf = (book, tier) => 900 + 100 * tier + 50 * book;
const names = ["", "free", "pro", "max", "admin", "team <&é>\u2028"];
const freeStorage = 1 << 20;
const storageCents = 3;

const bookMessages = [0, 1].map((book) => {
  const tiers = [1, 2, 3, 4, 5].map((tier) => ({
    tier, name: names[tier], fee: feeOf(book, tier), free: freeStorage, cents: storageCents,
    terms: Array.from({ length: 13 }, (_, i) => terms(book, tier, i + 1)),
  }));
  const effective = book === 0 ? october - 20 * day : changed;
  const stamp = effective - day;
  return { stamp, data: Buffer.from(priceBook({ stamp, tiers, anonymousLimit: 3, anonymousWindow: day, id: `book ${book}`, effective })) };
});

export function encodeEntry(e) {
  const b = Buffer.alloc(43);
  b[0] = e.kind;
  b.writeBigUInt64BE(BigInt(e.time), 1);
  b.writeUInt32BE(e.month, 9);
  b[13] = e.key ?? 0;
  b[14] = e.charge ?? 0;
  b.writeBigInt64BE(BigInt(e.amount ?? 0), 15);
  (e.request ?? none).copy(b, 27);
  return b;
}

/** Draws the entries of an account, and the requests with what they cost at last. */
function drawEntries(account, count, pick) {
  const entries = [];
  const requests = [];
  const { tier, created } = account;
  const times = Array.from({ length: count }, () => created + pick(Math.floor((december + day - created) / 1000)) * 1000).sort((x, y) => x - y);
  const add = (e) => entries.push(e);
  const settle = (time, charge, amount, more = {}) => add({ kind: ledger, time, month: monthOf(time), charge, amount, ...more });
  add({ kind: begins, time: times[0], month: monthOf(times[0]), amount: pick(2) * 5000 });
  const counted = (kind, time, charge) => {
    const key = 1 + pick(13);
    const book = time < changed ? 0 : 1;
    const paid = charge === 2 && key <= 11;
    const request = Buffer.from(Array.from({ length: 16 }, (_, i) => (i === 0 ? 1 : pick(256))));
    const r = { time, month: monthOf(time), key, book, charge: charge === 2 && !paid ? 1 : charge, amount: paid ? terms(book, tier, key).price : 0, request };
    add({ kind, ...r });
    requests.push(r);
    if (kind === admitted && paid && pick(3) > 0) settle(time, 3, -r.amount, { key, request });
  };
  const open = (time, charge) => requests.find((r) => r.month === monthOf(time) && !r.gone && (charge === undefined || r.charge === charge) && pick(3) > 0);
  for (const time of times) {
    switch (pick(12)) {
      case 0: settle(time, 1, 1 + pick(9000)); break;
      case 1: settle(time, [4, 7, 2][pick(3)], -1 - pick(500)); break;
      case 2: settle(time, [6, 5][pick(2)], 1 + pick(500), { key: pick(2) }); break;
      case 3: counted(late, time, pick(3)); break;
      case 4: {
        const key = 1 + pick(11);
        add({ kind: late, time, month: monthOf(time), key, charge: 255, request: none });
        break;
      }
      case 5: case 6: {
        const r = open(time);
        if (r === undefined) break;
        r.gone = true;
        add({ ...r, kind: undone, time });
        break;
      }
      case 7: {
        const r = open(time, 2);
        if (r === undefined) break;
        settle(time, 2, r.amount, { key: r.key, request: r.request });
        add({ ...r, kind: free, time });
        Object.assign(r, { charge: 1, amount: 0 });
        break;
      }
      default: counted(admitted, time, pick(3));
    }
  }
  return entries;
}

const put = (o, values) => Object.entries(values).forEach(([k, v]) => { if (v !== 0 && v !== 0n) o[k] = String(v); });
const sum = (list) => list.reduce((x, y) => x + y, 0);

/** The figures of November: of each quota key, of both periods, and the credits. */
function figuresOf(entries) {
  const keys = Array.from({ length: 14 }, () => ({ used: 0, overage: 0, spent: 0, waived: 0, periods: [0, 1].map(() => ({ used: 0, paid: 0, amount: 0 })) }));
  const credits = { granted: 0, refunded: 0, adjusted: 0, expired: 0, charged: 0 };
  const at = new Map();
  for (const e of entries.filter(({ month }) => month === 202611)) {
    const k = keys[e.key ?? 0];
    const sign = e.kind === undone || e.kind === free ? -1 : 1;
    if (e.kind === ledger) {
      const about = e.charge === 2 && e.request !== undefined;
      const name = { 1: "granted", 6: "granted", 3: "charged", 4: "expired" }[e.charge] ?? (about ? "refunded" : "adjusted");
      credits[name] += name === "charged" || name === "expired" ? -e.amount : e.amount;
    } else if (e.charge === 255) k.waived++;
    else if (e.kind !== begins) {
      if (sign > 0) at.set(String(e.request), e.book);
      const p = k.periods[at.get(String(e.request))];
      if (e.kind !== free) k.used += sign, p.used += sign;
      if (e.charge !== 2) continue;
      k.overage += sign, p.paid += sign;
      k.spent += sign * e.amount, p.amount += sign * e.amount;
    }
  }
  return { keys, credits };
}

/** The statement of November, as of which the account's chain is known. */
export function statementOf({ tier, created, stored, erased }, entries) {
  const { keys, credits } = figuresOf(entries);
  const length = december - november;
  const starts = [Math.max(november, created), Math.max(changed, created)];
  const ends = [starts[1], december];
  const periods = [0, 1].filter((book) => starts[book] < ends[book]).map((book) => {
    const period = { start_ms: String(starts[book]), end_ms: String(ends[book]), tier, lines: [] };
    for (let key = 1; key <= 13; key++) {
      const { limit, price } = terms(book, tier, key);
      const line = { quota_key: key };
      const { used, paid, amount } = keys[key].periods[book];
      put(line, { limit, price_micros: price ?? 0, used, paid, amount_micros: amount });
      if (price !== undefined) line.overage = true;
      period.lines.push(line);
    }
    const seconds = erased ? 0 : Math.floor(ends[book] / 1000) - Math.floor(starts[book] / 1000);
    put(period, { fee_cents: feeOf(book, tier), fee_seconds: seconds, fee_amount_cents: Math.floor((feeOf(book, tier) * seconds) / (length / 1000)) });
    if (tier > 4) period.plan = names[tier];
    return period;
  });
  const usage = keys.slice(1).map(({ used, overage, spent, waived }, i) => {
    const { limit } = terms(1, tier, i + 1);
    const line = { quota_key: i + 1 };
    put(line, { used, limit, remaining: limit < 0 ? -1 : Math.max(0, limit - used), overage, spent_micros: spent, waived });
    return line;
  });
  const settled = sum(entries.filter((e) => e.kind === begins || (e.kind === ledger && e.month <= 202611)).map((e) => e.amount));
  const { granted, refunded, adjusted, expired, charged } = credits;
  const spent = sum(keys.map((k) => k.spent));
  const shownCredits = {};
  put(shownCredits, {
    opening_micros: settled - granted - refunded - adjusted + expired + charged, granted_micros: granted, refunded_micros: refunded,
    adjusted_micros: adjusted, expired_micros: expired, charged_micros: charged, closing_micros: settled, pending_micros: spent - charged + refunded,
  });
  const integral = BigInt(stored) * BigInt(length);
  const over = stored > freeStorage ? integral - BigInt(freeStorage) * BigInt(length) : 0n;
  const s = { period: "2026-11", closed: true, storage_by_day: true, tier, usage, periods, credits: shownCredits };
  put(s, {
    spent_micros: spent, fees_cents: sum(periods.map((p) => Number(p.fee_amount_cents ?? 0))), storage_free_bytes: freeStorage,
    storage_cents_per_gb_month: storageCents, storage_average_bytes: stored, storage_billed_bytes: over / BigInt(length),
    storage_overage_cents: (over * BigInt(storageCents)) / (BigInt(length) << 30n), storage_byte_ms_low: integral & mask, storage_byte_ms_high: integral >> 64n,
  });
  if (tier > 4) s.plan = names[tier];
  return s;
}

const sorted = (v) => (Array.isArray(v) ? v.map(sorted) : typeof v !== "object" ? v
  : Object.fromEntries(Object.keys(v).sort().map((k) => [k, sorted(v[k])])));
export const textOf = (statement) => JSON.stringify(sorted(statement));

export function statementLeaf(id, text) {
  const s = JSON.parse(text);
  const used = s.usage.reduce((n, l) => n + BigInt(l.used ?? 0), 0n);
  const cents = BigInt(s.fees_cents ?? 0) + BigInt(s.storage_overage_cents ?? 0);
  return leafOf(keyOf(id), [used & mask, BigInt(s.spent_micros ?? 0), cents & mask], sha(text));
}

/** Draws accounts with chains, some without one, some that begin in November or were erased, in partitions. */
export function drawAccounts(pick, { count = 10, entries = 30 } = {}) {
  return Array.from({ length: count }, (_, i) => {
    const id = (BigInt(pick(1 << 30)) << 34n) + BigInt(pick(1 << 30)) * 16n + BigInt(i % 16) + 1n;
    const created = pick(4) === 0 ? november + pick(20 * day) : october + pick(20 * day);
    const account = { id, tier: 1 + pick(5), created, stored: pick(3) === 0 ? 0 : pick(1 << 30) * 64, erased: i === 7 };
    const list = i % 5 === 4 ? [] : drawEntries(account, 3 + pick(entries), pick);
    return { ...account, entries: list.map(encodeEntry), text: textOf(statementOf(account, list)), parsed: list };
  });
}

export function chainOf(id, entries) {
  const hashes = [sha("quire account\n", u64(id))];
  for (const e of entries) hashes.push(sha(hashes[hashes.length - 1], e));
  return hashes;
}

// ---------------------------------------------------------------- messages

export function sealMessage({ number, stamp = december + 2 * day, partitions, sequence, accounts, statements }) {
  const tree = (t, month) => encode([
    [1, "varint", month], [2, "bytes", t.hash],
    [3, "bytes", t.sums.every((n) => n === 0n) ? undefined : Buffer.concat(t.sums.map(varint))],
  ]);
  const seal = encode([
    [1, "varint", partitions], [2, "varint", sequence], [3, "bytes", accounts && tree(accounts)],
    ...(statements ?? []).map(({ month, tree: t }) => [4, "bytes", tree(t, month)]),
  ]);
  return encode([[1, "bytes", "tick"], [2, "varint", number], [3, "varint", stamp], [10, "bytes", seal]]);
}

function varint(n) {
  const out = [];
  for (; n > 127n; n >>= 7n) out.push(Number(n & 127n) | 128);
  return Buffer.from([...out, Number(n)]);
}

/** What an account has in the trees, computed once: an account that was sealed is not edited any more. */
const sealed = new WeakMap();
export function leavesOf(a) {
  if (sealed.has(a)) return sealed.get(a);
  const hashes = chainOf(a.id, a.entries);
  const leaf = leafOf(keyOf(a.id), [BigInt(a.entries.length), 0n, 0n], hashes.at(-1));
  const leaves = { hashes, leaf, statement: statementLeaf(a.id, a.text) };
  sealed.set(a, leaves);
  return leaves;
}

/** The trees of a partition. */
function treesOf(accounts) {
  const chained = accounts.filter((a) => a.entries.length > 0);
  return { accounts: treeOf(chained.map((a) => leavesOf(a).leaf)), statements: treeOf(accounts.map((a) => leavesOf(a).statement)) };
}

const at = (ms) => `${ms}000123`;

/** Seals accounts, and logs all messages. Change may edit the parts of a partition's seal; partitionFor moves accounts. */
export function seal({ accounts, partitions, signer, pick, filler = 6, change = () => {}, partitionFor = (id) => partitionOf(id, partitions) }) {
  const parts = Array.from({ length: partitions }, (_, partition) => {
    const own = accounts.filter((a) => partitionFor(a.id) === partition);
    const trees = treesOf(own);
    const messages = [];
    const add = (subject, ms, data) => messages.push({ partition, sequence: messages.length + 1, time: at(ms), subject: `billing.${partition}.${subject}`, data: Buffer.from(data) });
    const fill = () => { for (let i = pick(filler); i >= 0; i--) add("usage", changed + i, encode([[1, "bytes", "tick"], [3, "varint", changed + i]])); };
    for (const { stamp, data } of bookMessages) add("prices", stamp, data);
    fill();
    add("usage", december, sealMessage({ partitions }));
    const sequence = messages.length;
    fill();
    const sealed = { number: undefined, partitions, sequence, accounts: trees.accounts, statements: [{ month: 202611, tree: trees.statements }] };
    change(sealed, partition, trees);
    add("usage", december + 2 * day, sealMessage(sealed));
    return { messages, trees };
  });
  const queues = parts.map(({ messages }) => [...messages]);
  const log = [];
  while (queues.some((q) => q.length > 0)) {
    const q = queues[pick(queues.length)];
    if (q.length > 0) log.push(q.shift());
  }
  const leaves = log.map((m) => logLeaf(entryOf(m.partition, m)));
  return { accounts, partitions, parts, log, leaves, checkpoint: signer.sign(leaves.length, logRoot(leaves)), partitionFor };
}

const shownMessage = (m) => ({ partition: m.partition, sequence: String(m.sequence), time: m.time, subject: m.subject, data: m.data.toString("base64") });

/** The proof of an account's month: 2026-11 with its statement, 2026-12 without one. */
export function proofOf(inst, account, period = "2026-11", { since } = {}) {
  const { messages, trees } = inst.parts[inst.partitionFor(account.id)];
  const sealed = messages.at(-1);
  const index = inst.log.indexOf(sealed);
  const key = keyOf(account.id);
  const extra = { account: showId(account.id), period, seal: shownMessage(sealed) };
  const { leaf, path } = reach(trees.accounts, key);
  const { hashes } = leavesOf(account);
  const start = period === "2026-11" ? november : december;
  if (account.entries.length > 0) {
    extra.receipt = { number: String(account.entries.length), hash: hashes.at(-1).toString("hex"), path };
    const before = account.parsed.findLastIndex((e) => e.time < start && e.month < monthOf(start));
    const first = Math.max(1, before + 1);
    extra.entries = { first: String(first), before: hashes[first - 1].toString("hex"), data: Buffer.concat(account.entries.slice(first - 1)).toString("base64") };
  } else if (leaf !== undefined) {
    extra.absent = { key: leaf.key.toString("hex"), sums: shown(leaf.sums), content: leaf.content.toString("hex"), path };
  }
  if (period === "2026-11") extra.statement = { text: account.text, path: reach(trees.statements, key).path };
  extra.books = messages.filter((m) => m.subject.endsWith("prices")).map((m) => {
    const i = inst.log.indexOf(m);
    return { index: String(i), hashes: inclusion(i, inst.leaves).map((h) => h.toString("hex")), ...shownMessage(m) };
  });
  if (since !== undefined) {
    extra.consistency = {
      size: String(since), root: logRoot(inst.leaves.slice(0, since)).toString("hex"),
      hashes: consistency(since, inst.leaves).map((h) => h.toString("hex")),
    };
  }
  return { extra, index, hashes: inclusion(index, inst.leaves), checkpoint: inst.checkpoint };
}

export function encodeProof({ extra, index, hashes, checkpoint }) {
  const json = typeof extra === "string" ? extra : Buffer.from(JSON.stringify(extra)).toString("base64");
  const head = ["c2sp.org/tlog-proof@v1", `extra ${json}`, `index ${index}`, ...hashes.map((h) => h.toString("base64")), "", ""].join("\n");
  return Buffer.concat([Buffer.from(head), checkpoint]);
}
