// Chains of accounts, and receipts that a client kept of an account whose history was rewritten. VERIFIER_SEED repeats a run.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { Fold, fromBase64, hex, idFromNumber, showAccount, showId } from "../verify.mjs";
import { booksOf, exportOf, verify } from "./export.mjs";
import { Drawn, drawSeed, forgeryCount, random } from "./journal.mjs";
import { encode, fieldsOf, usageBatch } from "./protobuf.mjs";

const seed = drawSeed();
const pick = random(seed);

const [begins, admitted, undone, free, late, ledger] = [1, 2, 3, 4, 5, 6];
const credits = 2;
const waived = 255;
const sha = (...parts) => parts.reduce((h, p) => h.update(p), createHash("sha256")).digest();

function parse(bytes) {
  const b = Buffer.from(bytes);
  return {
    kind: b[0], time: Number(b.readBigUInt64BE(1)), month: b.readUInt32BE(9), quotaKey: b[13], charge: b[14],
    amount: Number(b.readBigInt64BE(15)), key: b.readUInt32BE(23), request: b.toString("hex", 27, 43),
  };
}

/** Folds messages, and returns the entries of each account. */
function entriesOf(messages) {
  const entries = new Map();
  const sink = {
    ledger() {}, closed() {},
    linked: (s, a, entry) => (entries.get(a.id) ?? entries.set(a.id, []).get(a.id)).push(Buffer.from(entry)),
  };
  const fold = new Fold(0, false, sink);
  for (const m of messages) fold.add(m);
  return { fold, entries };
}

/** What the entries sum to, by month and quota key. */
function sums(list) {
  const months = new Map();
  let settled = 0;
  for (const e of list.map(parse)) {
    const name = `${e.month} ${e.quotaKey}`;
    const m = months.get(name) ?? months.set(name, { used: 0, overage: 0, spent: 0, waived: 0 }).get(name);
    if (e.kind === begins || e.kind === ledger) settled += e.amount;
    else if (e.charge === waived) m.waived++;
    else {
      const sign = e.kind === undone || e.kind === free ? -1 : 1;
      if (e.kind !== free) m.used += sign;
      if (e.charge !== credits) continue;
      m.overage += sign;
      m.spent += sign * e.amount;
    }
  }
  return { months, settled };
}

/** A month after the one in which the chain begins: all of it is in entries. */
function checkMonth(m, months, from) {
  const month = Math.floor(m.month / 12) * 100 + (m.month % 12) + 1;
  if (month <= from) return;
  for (let key = 1; key <= 13; key++) {
    const { used, overage, spent, waived: late } = months.get(`${month} ${key}`) ?? { used: 0, overage: 0, spent: 0, waived: 0 };
    assert.deepEqual([m.used[key], m.overage[key], m.spent[key], m.waived[key]], [used, overage, spent, late], `${month} ${key}`);
  }
}

for (let i = 0; i < 10; i++) {
  const drawnBy = i === 0 ? 1 : pick(1_000_000);
  test(`chains of seed ${drawnBy} have what counters and balances sum up`, () => {
    const drawn = new Drawn(drawnBy, { rules: i % 2 === 0 ? 5 : 4 }).draw(500);
    if (i % 2 === 1) drawn.prices({ rules: 5, agreed: 1, tiers: [] });
    const { fold, entries } = entriesOf(drawn.draw(1000).messages);
    const kinds = new Set();
    for (const a of fold.state.accounts.values()) {
      const list = entries.get(a.id) ?? [];
      const id = Buffer.from(showId(a.id));
      const parsed = list.map(parse);
      parsed.forEach((e) => kinds.add(e.kind));
      assert.equal(parsed.findLastIndex((e) => e.kind === begins), list.length > 0 ? 0 : -1, `${id} begins once`);
      const { months, settled } = sums(list);
      assert.equal(settled, a.settled, `${id} settled`);
      for (const m of [a.previous, a.current]) if (m !== undefined) checkMonth(m, months, parsed[0].month);
      const key = Buffer.alloc(8);
      key.writeBigUInt64BE(BigInt(`0x${[...a.id].map((c) => c.charCodeAt(0).toString(16).padStart(4, "0")).join("")}`));
      const hash = list.reduce((h, e) => sha(h, e), sha("quire account\n", key));
      assert.equal(showAccount(fold.state, a).usage.receipt, `${list.length}.${hash.toString("hex")}`);
    }
    for (const kind of [begins, admitted, undone, ledger, ...(i === 0 ? [free] : [])]) assert.ok(kinds.has(kind), `kind ${kind}`);
  });
}

test("before rules 5 there are no chains", () => {
  const { fold, entries } = entriesOf(new Drawn(seed, { rules: 4 }).draw(300).messages);
  assert.equal(entries.size, 0);
  for (const a of fold.state.accounts.values()) assert.equal(showAccount(fold.state, a).usage.receipt, undefined);
});

/** A write that its time-out voids, that its edge and then its service settle as served. */
function settledLate(rules) {
  const drawn = new Drawn(seed, { accounts: 1, rules });
  const [a] = drawn.accounts;
  const request = drawn.requestId();
  const usage = (m) => drawn.add("usage", usageBatch({ source: "edge", number: drawn.number("edge"), stamp: drawn.now, ...m }));
  const of = { request, result: 1, account: a.id, key: 1 };
  usage({ admissions: [{ request, account: a.id, key: 1, version: 1, fingerprint: a.id, write: 1 }] });
  drawn.now += 121_000;
  usage({ settlements: [of] });
  drawn.now += 601_000;
  drawn.add("settle.paste", usageBatch({
    source: "PASTE_0", stamp: drawn.now, settlements: [{ ...of, sequence: 1, stored: drawn.now }],
  }));
  const { fold, entries } = entriesOf(drawn.messages);
  const id = idFromNumber(a.id);
  return { used: fold.state.accounts.get(id).current.used[1], kinds: (entries.get(id) ?? []).map((e) => parse(e).kind) };
}

test("a late write that its edge settles is charged once from rules 5 on", () => {
  assert.deepEqual(settledLate(4), { used: 2, kinds: [] });
  assert.deepEqual(settledLate(5), { used: 1, kinds: [begins, ledger, admitted, undone, late] });
});

const { messages } = new Drawn(seed).draw(400);

/** The receipts that clients get, in order: of each the account, the line to keep, the message and its position. */
function received(list) {
  const fold = new Fold(0, true, { ledger() {}, closed() {} });
  const accounts = new Map();
  fold.state.sink.linked = (s, a) => accounts.set(`${a.receipt.number}.${hex(a.receipt.hash)}`, showId(a.id));
  return list.flatMap((m, index) => (fold.add(m).verdicts?.verdicts ?? []).flatMap((v, position) => {
    if (v.receipt === undefined) return [];
    const receipt = `${v.receipt_number}.${hex(fromBase64(v.receipt))}`;
    return [{ account: accounts.get(receipt), number: Number(v.receipt_number), receipt, index, position }];
  }));
}

const kept = received(messages);
const lines = (list) => list.map((r) => `${r.account} ${r.receipt}\n`).join("");
const check = (list, text, args = []) => verify(exportOf(list), (dir) => {
  writeFileSync(join(dir, "kept"), text);
  return ["--receipts", join(dir, "kept"), ...args];
});

test("kept receipts fit", async () => {
  const { code, out } = await check(messages, lines(kept));
  assert.equal(code, 0, out);
  assert.match(out, new RegExp(`, ${kept.length.toLocaleString("en-US")} receipts$`, "m"));
  const some = kept.filter(() => pick(3) === 0).reverse();
  assert.equal((await check(messages, lines([...some, ...some]))).code, 0, "in any order, and again");
  assert.match((await check(messages, "")).out, /, 0 receipts$/m);
});

test("receipts that do not fit are each located", async () => {
  const r = kept[pick(kept.length)];
  const forged = `${r.account} ${r.number}.${"0".repeat(64)}\n`;
  const wrong = await check(messages, lines(kept) + forged);
  assert.equal(wrong.code, 1);
  const at = `account ${r.account}, receipt ${r.number} of message ${r.index + 1}, field entries \\d+ to ${r.number}: `;
  assert.match(wrong.out, new RegExp(`^partition 0, ${at}expected ${r.receipt.split(".")[1]}, found 0{64}$`, "m"));
  assert.match(wrong.out, /^DIFFERS: 1 difference\.$/m);

  const { fold } = booksOf(messages);
  const id = showId([...fold.state.accounts.keys()][0]);
  const last = [...fold.state.accounts.values()][0].receipt.number;
  const ahead = await check(messages, `${id} ${last + 1}.${"0".repeat(64)}\n00000000abc 1.${"0".repeat(64)}\n`);
  assert.match(ahead.out, new RegExp(`account ${id}, receipt ${last + 1}, field number: expected at most ${last}, found ${last + 1}$`, "m"));
  assert.match(ahead.out, /account 00000000abc, receipt 1, field number: expected at most 0, found 1$/m);
  assert.match(ahead.out, /^DIFFERS: 2 differences\.$/m);
});

test("receipts of another partition are not compared", async () => {
  const parts = exportOf(messages, { books: false });
  parts.manifest = { partitions: 1000 };
  const { out } = await verify(parts, (dir) => {
    writeFileSync(join(dir, "kept"), `00000000abc 1.${"0".repeat(64)}\n`);
    return ["--receipts", join(dir, "kept")];
  });
  assert.match(out, /^ {2}- 1 receipt of partitions that were not read to the end$/m);
});

test("a file of receipts that can't be read", async () => {
  const good = kept[0];
  const [n, hash] = good.receipt.split(".");
  for (const line of ["x", `${good.account} ${n}`, `${good.account} 0.${hash}`, `${good.account} ${n}.${hash}0`, `zzzzzzzzzzz ${n}.${hash}`, ""]) {
    const { code, err } = await check(messages, `${lines([good])}${line}\n`);
    assert.equal(code, 2);
    assert.match(err, /^Cannot verify: .*kept line 2: no account and receipt/);
  }
  assert.equal((await verify(exportOf(messages), ["--receipts", "nowhere"])).code, 2);
  assert.equal((await check(messages, "", ["--account", good.account])).code, 2);
});

const isAdmission = (f) => f.number === 5;
const joined = (fields) => Buffer.concat(fields.map((f) => f.bytes));
const admission = (value) => fieldsOf(encode([[5, "bytes", value]]))[0];

/** An admission with another request id, or another quota key. */
function edited(f, number) {
  const value = Buffer.from(f.value);
  const field = fieldsOf(value).find((x) => x.number === number);
  if (number === 1) field.value[8] = 1 + pick(255); // It is 0 in all ids.
  else field.value[0] = 1 + ((field.value[0] + pick(11)) % 12);
  return admission(value);
}

const perKind = Math.ceil(forgeryCount(40) / 4);
const forgeries = {
  edited: (list, at) => { list[at] = edited(list[at], 1 + 2 * pick(2)); },
  omitted: (list, at) => { list.splice(at, 1); },
  doubled: (list, at) => { list.splice(at, 0, edited(list[at], 1)); },
  reordered: (list, at, r) => {
    const other = kept.find((x) => x.account === r.account && x.index === r.index && x.position > at)?.position;
    if (other !== undefined) [list[at], list[other]] = [list[other], list[at]];
    return other !== undefined;
  },
};

/** Rewrites the admission of a receipt. Undefined: it can't be forged so. */
function rewritten(r, forge) {
  const fields = fieldsOf(messages[r.index].data);
  const admissions = fields.filter(isAdmission);
  if (forge(admissions, r.position, r) === false) return undefined;
  const at = fields.findIndex(isAdmission);
  const rest = fields.filter((f) => !isAdmission(f));
  rest.splice(at, 0, ...admissions);
  return messages.map((m, i) => (i === r.index ? { ...m, data: new Uint8Array(joined(rest)) } : m));
}

for (const [name, forge] of Object.entries(forgeries)) {
  // Chain, books and manifest are made anew: nothing but the receipts contradicts.
  test(`an admission ${name} in a journal that fits is found by a kept receipt`, async () => {
    for (let found = 0, tries = 0; found < perKind; tries++) {
      assert.ok(tries < 100 * perKind, "no admission to forge");
      const r = kept[pick(kept.length)];
      const list = rewritten(r, forge);
      if (list === undefined) continue;
      found++;
      assert.equal((await verify(exportOf(list))).code, 0, "without receipts");
      const { code, out } = await check(list, `${r.account} ${r.receipt}\n`);
      assert.equal(code, 1, `seed ${seed}: ${JSON.stringify(r)}`);
      assert.match(out, new RegExp(`^partition 0, account ${r.account}, receipt ${r.number}(,| of message \\d+, field entries 1 to ${r.number}:)`));
      const before = kept.findLast((x) => x.account === r.account && x.number < r.number);
      if (before === undefined) continue;
      const both = await check(list, lines([before, r]));
      assert.match(both.out, new RegExp(`^partition 0, account ${r.account}, receipt ${r.number}(,| of message \\d+, field entries ${before.number + 1} to)`));
      assert.match(both.out, /^DIFFERS: 1 difference\.$/m);
    }
  });
}
