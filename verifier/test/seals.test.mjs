// Seals of drawn journals: each root is computed with the trees of installation.mjs, from the entries and statements of a fold of the same journal
// without seals. VERIFIER_SEED repeats a run.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { Fold, fromBase64, showAccount } from "../verify.mjs";
import { exportOf, verify } from "./export.mjs";
import { chainOf, keyOf, leafOf, sealMessage, statementLeaf, textOf, treeOf } from "./installation.mjs";
import { Drawn, drawSeed, random } from "./journal.mjs";
import { encode } from "./protobuf.mjs";

const seed = drawSeed();
const pick = random(seed);

const day = 86_400_000;
const number = (id) => BigInt(`0x${[...id].map((c) => c.charCodeAt(0).toString(16).padStart(4, "0")).join("")}`);

/** A drawn journal with ticks, in which seals can be. */
function journal(count, rules = 5) {
  const drawn = new Drawn(pick(1_000_000), { rules });
  const ticks = new Map();
  while (drawn.messages.length < count) {
    drawn.draw(1 + pick(12));
    ticks.set(drawn.messages.length, drawn.now);
    drawn.add("usage", encode([[1, "bytes", "tick"], [3, "varint", drawn.now]]));
  }
  return { messages: drawn.messages, ticks };
}

/** The texts of a month's statements as of a message, which are the same at any later one. */
function textsOf(messages, count, month, accounts) {
  const texts = new Map();
  const keep = (a, s) => { if (s.period === month) texts.set(a.id, textOf({ ...s, usage: s.usage.map(({ refunded_micros: _, ...line }) => line) })); };
  const fold = new Fold(0, false, { ledger() {}, closed: keep });
  for (const m of messages.slice(0, count)) fold.add(m);
  for (const id of accounts) {
    const a = fold.state.accounts.get(id);
    for (const s of showAccount(fold.state, a).statements) keep(a, s);
  }
  return texts;
}

/** What a seal in each tick has to say: the receipts so far, their tree, the accounts, and the month that is closed then. */
function sealable({ messages, ticks }) {
  const entries = new Map();
  const fold = new Fold(0, false, {
    ledger() {}, closed() {},
    linked: (s, a, entry) => (entries.get(a.id) ?? entries.set(a.id, []).get(a.id)).push(Buffer.from(entry)),
  });
  const states = [];
  for (const [i, m] of messages.entries()) {
    fold.add(m);
    if (!ticks.has(i)) continue;
    const { time } = fold.state;
    const start = Date.UTC(new Date(time).getUTCFullYear(), new Date(time).getUTCMonth());
    const month = time >= start + day ? new Date(start - 1).toISOString().slice(0, 7) : undefined;
    const accounts = [...fold.state.accounts.values()].filter((a) => a.created < start).map((a) => a.id);
    states.push({ index: i, month, accounts, counts: new Map([...entries].map(([id, list]) => [id, list.length])) });
  }
  return { states, entries, trees: states.map(({ counts }) => accountsTree(counts, entries)) };
}

const accountsTree = (counts, entries) => treeOf([...counts].map(([id, n]) => {
  const chain = chainOf(number(id), entries.get(id).slice(0, n));
  return leafOf(keyOf(number(id)), [BigInt(n), 0n, 0n], chain.at(-1));
}));

/** The journal with seals in its ticks. Change may edit one of them, and gets its number. */
function sealed({ messages, ticks, known }, change = () => {}) {
  const { states, trees } = known ?? sealable({ messages, ticks });
  const list = [...messages];
  const seals = states.map(({ index, month, accounts }, i) => {
    const back = i === 0 ? undefined : i - 1 - pick(Math.min(8, i));
    const s = { stamp: ticks.get(index), partitions: 1, sequence: 0, statements: [] };
    if (back !== undefined) Object.assign(s, { sequence: states[back].index + 1, accounts: trees[back] });
    if (month !== undefined && pick(2) === 0) {
      const texts = textsOf(messages, index + 1, month, accounts);
      s.statements.push({ month: Number(month.replace("-", "")), tree: treeOf(accounts.map((id) => statementLeaf(number(id), texts.get(id)))) });
    }
    return { index, s };
  });
  change(seals, { states, trees });
  for (const { index, s } of seals) list[index] = { ...list[index], data: sealMessage(s) };
  return list;
}

const check = (list, books = false) => verify(exportOf(list, { books }));

for (let i = 0; i < 6; i++) {
  const rules = i === 5 ? 4 : 5;
  test(`seals of a drawn journal fit, by rules ${rules}: ${i}`, async () => {
    const drawn = journal(900, rules);
    const months = new Set();
    const list = sealed(drawn, (seals) => seals.forEach(({ s }) => s.statements.forEach(({ month }) => months.add(month))));
    const { code, out } = await check(list, true);
    assert.equal(code, 0, `seed ${seed}: ${out}`);
    assert.match(out, new RegExp(`, ${drawn.ticks.size} seals, `));
    assert.ok(months.size > 0, "no month was sealed");
    // A seal changes nothing.
    const [bare, with_] = [exportOf(drawn.messages), exportOf(list)];
    assert.deepEqual(with_.books, bare.books);
  });
}

test("the vector of docs/journal.md has the roots that follow from it", async () => {
  const vector = JSON.parse(readFileSync(new URL("../../docs/journal/vectors/seals.json", import.meta.url), "utf8"));
  const { code, out } = await check(vector.messages.map((m) => ({ sequence: Number(m.sequence), time: m.time, subject: m.subject, data: fromBase64(m.data) })));
  assert.equal(code, 0, out);
  assert.match(out, /, 4 seals, /);
});

const drawn = journal(900);
drawn.known = sealable(drawn);
const flip = (tree) => ({ ...tree, hash: tree.hash.map((b, i) => (i === 7 ? b ^ 1 : b)) });
const more = (tree, at) => ({ ...tree, sums: tree.sums.map((n, i) => (i === at ? n + 1n : n)) });
const month = (m) => `${String(m).slice(0, 4)}-${String(m).slice(4)}`;

/** One of the later seals that have what the change needs. */
const some = (seals, has = () => true) => {
  const list = seals.slice(10).filter(({ s }) => has(s));
  return list[pick(list.length)];
};
const withMonth = (s) => s.statements.length > 0 && s.statements[0].month !== 202612;
const hash = "[0-9a-f]{64}";

for (const [name, has, change, place] of [
  ["the receipts' root", undefined, (s) => { s.accounts = flip(s.accounts); }, () => `accounts tree, hash: expected ${hash}, found ${hash}`],
  ["the receipts' sums", undefined, (s) => { s.accounts = more(s.accounts, 0); }, () => "accounts tree, sums: expected \\d+, 0, 0, found \\d+, 0, 0"],
  ["no receipts' root", undefined, (s) => { s.accounts = undefined; }, (s) => `accounts tree: expected the tree of message ${s.sequence}, found none`],
  ["a root without a sequence", undefined, (s) => { s.sequence = 0; }, () => "accounts tree: expected none without a sequence, found one"],
  ["a sequence that is no seal's", undefined, (s) => { s.sequence++; }, (s) => `sequence: expected 0 or one of the 64 newest messages with a seal, found ${s.sequence}`],
  ["another number of partitions", undefined, (s) => { s.partitions = 3; }, () => "partitions: expected 1, found 3"],
  ["the statements' root", withMonth, (s) => { s.statements[0].tree = flip(s.statements[0].tree); }, (s) => `statements tree of ${month(s.statements[0].month)}, hash: expected ${hash}, found ${hash}`],
  ["requests in the statements' sums", withMonth, (s) => { s.statements[0].tree = more(s.statements[0].tree, 0); }, (s) => `statements tree of ${month(s.statements[0].month)}, sums: expected `],
  ["cents in the statements' sums", withMonth, (s) => { s.statements[0].tree = more(s.statements[0].tree, 2); }, (s) => `statements tree of ${month(s.statements[0].month)}, sums: expected `],
  ["a month twice", withMonth, (s) => { s.statements.push(s.statements[0]); }, (s) => `statements tree of ${month(s.statements[0].month)}: expected once, found again`],
  ["a month that is not closed", withMonth, (s) => { s.statements[0].month++; }, (s) => `statements tree of ${month(s.statements[0].month)}: expected a month that is closed`],
  ["a month of long ago", withMonth, (s) => { s.statements[0].month = 202501; }, () => "statements tree of 2025-01: expected a month that is closed"],
  ["a month that is none", withMonth, (s) => { s.statements[0].month = 202613; }, () => "statements tree of 202613: expected a month that is closed"],
]) {
  test(`a seal with ${name} is found`, async () => {
    let expected;
    const list = sealed(drawn, (seals) => {
      const { index, s } = some(seals, has);
      change(s);
      expected = `^partition 0, seal of message ${index + 1}, field ${place(s)}`;
    });
    const { code, out } = await check(list);
    assert.equal(code, 1, `seed ${seed}`);
    assert.match(out, new RegExp(expected, "m"));
    assert.match(out, /^DIFFERS: 1 difference\.$/m);
  });
}

test("the accounts tree may be as old as the 64th previous seal, but not the 65th", async () => {
  for (const [back, code] of [[64, 0], [65, 1]]) {
    const list = sealed(drawn, (seals, { states, trees }) => {
      const i = seals.length - 1;
      Object.assign(seals[i].s, { sequence: states[i - back].index + 1, accounts: trees[i - back] });
    });
    const { code: got, out } = await check(list);
    assert.equal(got, code, out);
    if (code === 1) assert.match(out, /^partition 0, seal of message \d+, field sequence: expected 0 or one of /m);
  }
});

test("a seal in a message that is no tick says nothing", async () => {
  const list = sealed(drawn, (seals) => { Object.assign(seals.at(-1).s, { partitions: 9, number: 1 }); });
  const { code, out } = await check(list);
  assert.equal(code, 0, out);
  assert.match(out, new RegExp(`, ${drawn.ticks.size - 1} seals, `));
});

test("an account that was left out of a tree is found", async () => {
  const { entries, states } = drawn.known;
  const [hidden] = entries.keys();
  const list = sealed(drawn, (seals) => {
    const { s } = seals.at(-1);
    const at = states.findIndex(({ index }) => index + 1 === s.sequence);
    s.accounts = accountsTree(new Map([...states[at].counts].filter(([id]) => id !== hidden)), entries);
  });
  const { code, out } = await check(list);
  assert.equal(code, 1);
  assert.match(out, /field accounts tree, hash: /);
  assert.match(out, /field accounts tree, sums: /);
});
