// Exports that were tampered with. Each has to end with its exit code and say where it differs.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { chainOf, exportOf, lineOf, verify } from "./export.mjs";
import { Drawn } from "./journal.mjs";

const { messages } = new Drawn(7).draw(1600);
const whole = exportOf(messages);
const copy = () => ({ ...whole, journal: [...whole.journal], books: [...whole.books] });

/** Changes the parts, verifies, and expects the code and the line. */
function tampered(name, change, code, pattern, edit) {
  test(name, async () => {
    const parts = copy();
    change(parts);
    const { code: got, out, err } = await verify(parts, [], edit);
    assert.equal(got, code, out + err);
    assert.match(out + err, pattern);
  });
}

const none = () => {};
const json = (lines, at, change) => {
  const line = JSON.parse(lines[at]);
  change(line);
  lines[at] = JSON.stringify(line);
};

// The manifest.
tampered("no manifest", none, 2, /^Cannot verify: .*manifest\.json/, (m) => { m.format = undefined; });
tampered("format 2", none, 2, /^Cannot verify: manifest\.json: format 2 is not known/, (m) => { m.format = 2; });
tampered("no journals", none, 2, /^Cannot verify: manifest\.json: no journals/, (m) => { m.journals = []; });
tampered("a file outside", none, 2, /manifest\.json: file is missing or malformed/, (m) => { m.journals[0].file = "../x"; });
tampered("a journal is missing", none, 2, /^Cannot verify: ENOENT/, (m, dir) => rmSync(join(dir, "BILLING_0.jsonl")));
tampered("books are missing", none, 2, /^Cannot verify: ENOENT/, (m, dir) => rmSync(join(dir, "BOOKS_0.jsonl")));
tampered("bytes", none, 1, /BILLING_0\.jsonl, field bytes: expected 1, found \d+/, (m) => { m.journals[0].bytes = 1; });
tampered("sha256", none, 1, /BILLING_0\.jsonl, field sha256: expected 00,/, (m) => { m.journals[0].sha256 = "00"; });
tampered("messages", none, 1, /field messages: expected 5, found \d+/, (m) => { m.journals[0].messages = 5; });
tampered("chain", none, 1, /chain, field sha256: expected 00,/, (m) => { m.journals[0].chain = "00"; });
tampered("stream", none, 1, /manifest, field stream: expected BILLING_0, found X/, (m) => { m.journals[0].stream = "X"; });
tampered("books' sha256", none, 1, /BOOKS_0\.jsonl, field sha256/, (m) => { m.journals[0].books.sha256 = "00"; });
tampered("books' lines", none, 1, /BOOKS_0\.jsonl, field lines/, (m) => { m.journals[0].books.lines = 1; });
tampered("books of another message", none, 1, /books, field sequence: expected \d+, found 7/, (m) => { m.journals[0].books.sequence = "7"; });
tampered("another partition's account", none, 1, /account, field partition: expected [12], found 0/, (m) => { m.partitions = 3; });

// The journal, in a manifest that fits the changed file.
const chain = /chain, field sha256: expected [0-9a-f]{64}, found [0-9a-f]{64}/;
const at = 300;
tampered("a time", (p) => json(p.journal, at, (l) => { l.time = String(BigInt(l.time) + 1n); }), 1, chain);
tampered("a subject", (p) => json(p.journal, at, (l) => { l.subject = "billing.0.other"; }), 1, chain);
tampered("data", (p) => json(p.journal, at, (l) => { l.data = JSON.parse(p.journal[at - 1]).data; }), 1, chain);
tampered("a sequence", (p) => json(p.journal, at, (l) => { l.sequence = "999"; }), 1, /line 301, field sequence: expected 301, found 999/);
tampered("a message dropped", (p) => p.journal.splice(at, 1), 1, /line 301, field sequence: expected 301, found 302/);
tampered("a message doubled", (p) => p.journal.splice(at, 0, p.journal[at]), 1, /line 302, field sequence: expected 302, found 301/);
tampered("two messages swapped", (p) => p.journal.splice(at, 2, p.journal[at + 1], p.journal[at]), 1, /line 301, field sequence/);
tampered("two messages swapped and renumbered", (p) => {
  const [x, y] = [JSON.parse(p.journal[at]), JSON.parse(p.journal[at + 1])];
  p.journal.splice(at, 2, JSON.stringify({ ...y, sequence: x.sequence }), JSON.stringify({ ...x, sequence: y.sequence }));
}, 1, chain);
tampered("the tail cut off", (p) => p.journal.splice(500), 1, chain);
tampered("a line cut off", (p) => { p.journal[at] = p.journal[at].slice(0, 40); }, 1, /line 301, field message/);
tampered("no JSON", (p) => { p.journal[at] = "x"; }, 1, /line 301, field message: expected one, found x/);
tampered("an empty file", (p) => p.journal.splice(0), 1, chain);

/** Everything of the journal is made anew, with its chain. Only the books are as they were. */
function rewritten(change) {
  return (p) => {
    const list = messages.map((m) => ({ ...m }));
    const kept = (change(list) ?? list).map((m, i) => ({ ...m, sequence: i + 1 }));
    Object.assign(p, { journal: kept.map(lineOf), chain: chainOf(kept), sequence: String(kept.length) });
  };
}

const grantAt = messages.findIndex((m) => m.subject === "billing.0.account" && Buffer.from(m.data).includes("welcome 3"));
tampered("a grant less, and its chain", rewritten((l) => { l.splice(grantAt, 1); return l; }), 1, /account \w{11}, account, field [^]*DIFFERS: \d+ differences/);
tampered("requests less, and their chain", rewritten((l) => l.filter((m, i) => i < 200 || i > 230)), 1, /account \w{11}, (account|ledger)/);
tampered("the tail cut off, and its chain", rewritten((l) => l.slice(0, 600)), 1, /account \w{11}, (account|ledger)/);

// The books, in a manifest that fits them.
const indexOf = (key) => whole.books.findIndex((l, i) => i > 20 && l.startsWith(`{"${key}"`));
const ledger = indexOf("ledger");
const closed = indexOf("closed");
const account = indexOf("account");
const ledgerId = JSON.parse(whole.books[ledger]).ledger.id;

for (const [field, value] of Object.entries(JSON.parse(whole.books[ledger]).ledger)) {
  if (field === "account") continue;
  const other = typeof value === "number" ? value + 1 : field === "id" ? `${value.slice(0, -1)}9` : `${value}7`;
  tampered(`ledger ${field}`, (p) => json(p.books, ledger, (l) => { l.ledger[field] = other; }), 1,
    field === "id" ? /ledger \w+9: expected missing, found present[^]*expected present, found missing/
    : new RegExp(`ledger ${ledgerId}, field ${field}: expected ${value}, found ${other}`));
}
tampered("a field more", (p) => json(p.books, ledger, (l) => { l.ledger.month = 3; }), 1, /field month: expected missing, found 3/);
tampered("a field less", (p) => json(p.books, ledger, (l) => { delete l.ledger.amount_micros; }), 1, /field amount_micros: expected -?\d+, found missing/);
tampered("an entry deleted", (p) => p.books.splice(ledger, 1), 1, new RegExp(`ledger ${ledgerId}: expected present, found missing`));
tampered("an entry doubled", (p) => p.books.splice(ledger, 0, p.books[ledger]), 1, new RegExp(`ledger ${ledgerId}: expected once, found again`));
tampered("an entry made up", (p) => {
  const l = JSON.parse(p.books[ledger]);
  l.ledger.id = "zzzzzzzzzzz000000";
  p.books.splice(ledger + 1, 0, JSON.stringify(l));
}, 1, /ledger z{11}0{6}: expected missing, found present/);
tampered("two entries swapped", (p) => {
  const i = p.books.findIndex((l, n) => n > 0 && l.startsWith('{"ledger"') && p.books[n - 1].startsWith('{"ledger"'));
  p.books.splice(i - 1, 2, p.books[i], p.books[i - 1]);
}, 1, /ledger row \d+, field order/);
tampered("an entry of another account", (p) => {
  const l = JSON.parse(p.books[ledger]);
  const other = whole.books.map((x) => JSON.parse(x)).find((x) => x.ledger && x.ledger.account !== l.ledger.account);
  p.books[ledger] = JSON.stringify({ ledger: { ...l.ledger, account: other.ledger.account } });
}, 1, new RegExp(`ledger ${ledgerId}: expected missing, found present[^]*ledger ${ledgerId}: expected present, found missing|field order`));
tampered("a closed statement changed", (p) => json(p.books, closed, (l) => { l.closed.statement.tier = 9; }), 1, /closed 2026-\d\d, field statement\.tier: expected \d, found 9/);
tampered("a closed statement deleted", (p) => p.books.splice(closed, 1), 1, /closed 20\d\d-\d\d: expected present, found missing/);
tampered("a closed statement doubled", (p) => p.books.splice(closed, 0, p.books[closed]), 1, /closed 20\d\d-\d\d: expected once, found again/);
tampered("a closed statement made up", (p) => {
  const l = JSON.parse(p.books[closed]);
  l.closed.statement.period = "2020-01";
  p.books.splice(closed, 0, JSON.stringify(l));
}, 1, /closed 2020-01: expected missing, found present/);
tampered("a counter", (p) => json(p.books, account, (l) => { l.account.usage.usage[0].used = "99"; }), 1, /account, field usage\.usage\[0\]\.used: expected .*, found 99/);
tampered("a balance", (p) => json(p.books, account, (l) => { l.account.usage.balance_micros = "99"; }), 1, /account, field usage\.balance_micros/);
tampered("a grant", (p) => json(p.books, account, (l) => { l.account.usage.grants = []; }), 1, /account, field usage\.grants/);
tampered("an open statement", (p) => json(p.books, account, (l) => { l.account.statements[0].credits.closing_micros = "1"; }), 1, /field statements\[0\]\.credits\.closing_micros/);
tampered("an account deleted", (p) => p.books.splice(account, 1), 1, /account \w{11}, account: expected present, found missing/);
tampered("an account doubled", (p) => p.books.splice(account, 0, p.books[account]), 1, /account: expected once, found again/);
tampered("an account made up", (p) => json(p.books, account, (l) => { l.account.account = "zz000000000".slice(0, 2).replace(/z/g, "0") + "000000abc"; }), 1, /account: expected missing, found present/);
tampered("accounts swapped", (p) => {
  const [x, y] = [0, 1].map((n) => p.books.map((l, i) => [l, i]).filter(([l]) => l.startsWith('{"account"'))[n][1]);
  [p.books[x], p.books[y]] = [p.books[y], p.books[x]];
}, 1, /books line \d+, field order: expected after the line before, found before it/);
tampered("a line of another kind", (p) => { p.books[3] = '{"other":{}}'; }, 1, /books line 4: expected an entry, a statement or an account, found/);
tampered("a line that is no JSON", (p) => { p.books[3] = "x"; }, 1, /books line 4/);
tampered("empty books", (p) => p.books.splice(0), 1, /expected present, found missing[^]*… \d+ more differences/);

test("an idle account's month may be closed or not", async () => {
  const parts = copy();
  const line = (i) => JSON.parse(whole.books[i]);
  const i = whole.books.findIndex((l) => l.startsWith('{"closed"'));
  assert.ok(line(i).closed);
  const { code } = await verify(parts);
  assert.equal(code, 0);
});

test("without books", async () => {
  const { code, out } = await verify({ ...whole, books: undefined });
  assert.equal(code, 0, out);
  assert.match(out, /what billing shows for BILLING_0: the export has no books/);
});

test("--json", async () => {
  const parts = copy();
  parts.books.splice(ledger, 1);
  const { code, out } = await verify(parts, ["--json"]);
  assert.equal(code, 1);
  const o = JSON.parse(out);
  assert.deepEqual([o.ok, o.differences, o.first[0].what], [false, 1, `ledger ${ledgerId}`]);
  assert.deepEqual([o.checked[0].chain, o.checked[0].sequence], [whole.chain, messages.length]);
});

test("--account", async () => {
  const want = whole.books.map((l) => JSON.parse(l)).find((l) => l.account).account;
  const { code, out } = await verify(whole, ["--account", want.account]);
  assert.equal(code, 0);
  const { ledger: entries, closed: statements, ...shown } = JSON.parse(out);
  assert.deepEqual(shown, want);
  const lines = whole.books.map((l) => JSON.parse(l));
  assert.deepEqual(entries, lines.flatMap((l) => (l.ledger?.account === want.usage.account ? [l.ledger] : [])));
  assert.deepEqual(statements.slice(0, 1), lines.flatMap((l) => (l.closed?.account === want.account ? [l.closed] : [])).slice(0, 1));
});

test("usage", async () => {
  for (const args of [["--partition", "x"], ["--other"], ["--account", "x"], ["--partition", "3"]]) {
    const { code, err } = await verify(whole, args);
    assert.equal(code, 2, err);
  }
});

test("the command ends with the code", () => {
  const command = fileURLToPath(new URL("../verify.mjs", import.meta.url));
  const run = (...args) => spawnSync(process.execPath, [command, ...args], { encoding: "utf8" });
  assert.equal(run().status, 2);
  assert.match(run("--export", "nowhere").stderr, /^Cannot verify: ENOENT/);
  assert.match(run("--help").stdout, /^Usage: node verify\.mjs/);
});

test("later rules stop before their message", async () => {
  const drawn = new Drawn(3);
  drawn.prices({ rules: 1000, agreed: 1, tiers: [] });
  const { code, err } = await verify({ ...exportOf(messages), journal: drawn.messages.map(lineOf) });
  assert.equal(code, 2);
  assert.match(err, /^Cannot verify: BILLING_0\.jsonl line \d+: rules 1000: this program knows 1 to \d+/);
});
