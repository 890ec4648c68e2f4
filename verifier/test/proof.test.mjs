// The command for a bill's proof: what it says, what it can't check, and files that are no proofs.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { Malformed, run, showDifference, verifyProof } from "../verify.mjs";
import { capture } from "./export.mjs";
import { chainOf, december, drawAccounts, encodeEntry, encodeProof, proofOf, seal, showId, statementOf, textOf } from "./installation.mjs";
import { random } from "./journal.mjs";
import { root as logRoot, Signer } from "./log.mjs";

const pick = random(7);
const signer = new Signer("quire/test/0a1b2c3d");
const inst = seal({ accounts: drawAccounts(pick), partitions: 2, signer, pick });
const account = inst.accounts.find((a) => a.entries.length > 5 && a.parsed[0].month === 202610);
const honest = encodeProof(proofOf(inst, account));

/** Runs the command on files that are written to a folder. Args name them. */
async function command(files, args) {
  const dir = mkdtempSync(join(tmpdir(), "quire-verifier-"));
  try {
    for (const [name, bytes] of Object.entries(files)) writeFileSync(join(dir, name), bytes);
    return await capture(() => run(args.map((a) => (a in files || a === "nowhere" ? join(dir, a) : a))));
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

test("an honest proof", async () => {
  const { code, out } = await command({ bill: honest }, ["bill", "--key", signer.key]);
  assert.equal(code, 0, out);
  assert.match(out, new RegExp(`^Checked, of account ${showId(account.id)} in 2026-11:$`, "m"));
  for (const line of [
    "checkpoint: quire/test/0a1b2c3d, ", "seal: message ", "books: 2 price books are in the log", "receipt: ", "entries: ",
    "statement: it is the account's only one in the statements tree of 2026-11", "statement: its counters and credits are the sums of the entries",
  ]) assert.ok(out.includes(`\n  ${line}`), line);
  assert.match(out, /^OK: everything checked fits\.$/m);
  const json = JSON.parse((await command({ bill: honest }, ["bill", "--key", signer.key, "--json"])).out);
  assert.deepEqual([json.ok, json.differences, json.period], [true, 0, "2026-11"]);
  assert.ok(json.checked.length > 5 && json.trust.length > 3);
});

test("usage and files that can't be read", async () => {
  const files = { bill: honest, old: signer.sign(1, logRoot(inst.leaves.slice(0, 1))), newer: signer.sign(10_000, inst.leaves[0]), kept: "x\n" };
  for (const [args, expected] of [
    [["bill"], /^--key KEY is missing: a proof does not bring the log's key/],
    [["bill", "--key", "x"], /^Cannot verify: the key is not of the form/],
    [["bill", "--key", signer.key, "--log", "x"], /is checked with --key, --checkpoint, --receipts and --json alone/],
    [["bill", "--key", signer.key, "--export", "x"], /alone/],
    [["bill", "old", "--key", signer.key], /^Unknown argument/],
    [["nowhere", "--key", signer.key], /^Cannot verify: ENOENT/],
    [["old", "--key", signer.key], /^Cannot verify: the file does not begin with c2sp\.org\/tlog-proof@v1/],
    [["bill", "--key", signer.key, "--checkpoint", "old"], /^Cannot verify: the file does not show that the log continues the kept checkpoint: get it with \?since=1$/],
    [["bill", "--key", signer.key, "--checkpoint", "newer"], /^Cannot verify: the kept checkpoint has 10000 entries, more than the file's/],
    [["bill", "--key", signer.key, "--receipts", "kept"], /^Cannot verify: line 1 of the receipts has no account and receipt: x/],
  ]) {
    const { code, err } = await command(files, args);
    assert.equal(code, 2, String(args));
    assert.match(err, expected);
  }
});

test("an earlier proof is a kept checkpoint", async () => {
  const size = inst.leaves.length;
  const earlier = encodeProof({ ...proofOf(inst, account), checkpoint: signer.sign(size - 1, logRoot(inst.leaves.slice(0, -1))) });
  const bill = encodeProof(proofOf(inst, account, "2026-11", { since: size - 1 }));
  const { code, out } = await command({ bill, earlier }, ["bill", "--key", signer.key, "--checkpoint", "earlier"]);
  assert.equal(code, 0, out);
  assert.match(out, /kept checkpoint: the log continues it/);
  const forked = encodeProof({ ...proofOf(inst, account), checkpoint: signer.sign(size - 1, inst.leaves[0]) });
  const split = await command({ bill, forked }, ["bill", "--key", signer.key, "--checkpoint", "forked"]);
  assert.equal(split.code, 1);
  assert.match(split.out, /^kept checkpoint, field root: expected .*, found /);
});

test("receipts that the file does not reach are on trust", async () => {
  const hashes = chainOf(account.id, account.entries).map((h) => h.toString("hex"));
  const { extra } = proofOf(inst, account);
  const first = Number(extra.entries.first);
  const n = account.entries.length;
  const line = (number, hash) => `${showId(account.id)} ${number}.${hash}\n`;
  const kept = line(n, hashes[n]) + line(first, hashes[first]) + line(n + 1, hashes[0]) + `${showId(1n)} 1.${hashes[0]}\n`;
  const { code, out } = await command({ bill: honest, kept }, ["bill", "--key", signer.key, "--receipts", "kept"]);
  assert.equal(code, 0, out);
  assert.match(out, /receipts: 2 kept ones were compared/);
  assert.match(out, new RegExp(`- 1 kept receipt of entries after ${n}, which the seal does not have`));
});

test("entries from some number on: the rest is on trust, and the statement may not have less", async () => {
  const file = proofOf(inst, account);
  const skip = account.parsed.findIndex((e) => e.month === 202611) + 1;
  const hashes = chainOf(account.id, account.entries);
  Object.assign(file.extra.entries, {
    first: String(skip + 1), before: hashes[skip].toString("hex"), data: Buffer.concat(account.entries.slice(skip)).toString("base64"),
  });
  const { report, trust } = await verifyProof(encodeProof(file), { key: signer.key });
  assert.equal(report.differences.map(showDifference).join("\n"), "");
  assert.ok(trust.some((t) => t.startsWith(`what changed before entry ${skip + 1} of `)), trust.join("\n"));
});

test("without entries, which may be too many or no longer kept, they are on trust", async () => {
  const file = proofOf(inst, account);
  delete file.extra.entries;
  const { report, checked, trust } = await verifyProof(encodeProof(file), { key: signer.key });
  assert.equal(report.differences.map(showDifference).join("\n"), "");
  assert.ok(trust.some((t) => t.startsWith("the account's entries up to ")), trust.join("\n"));
  assert.ok(!checked.some((t) => t.includes("are the sums of the entries")), checked.join("\n"));
});

test("10,000 entries", async () => {
  const entries = Array.from({ length: 10_000 }, (_, i) => ({
    kind: i === 0 ? 1 : 2, time: december - 20_000_000 + 1000 * i, month: 202611, key: i === 0 ? 0 : 1 + (i % 13), charge: i === 0 ? 0 : 1,
    request: i === 0 ? undefined : Buffer.alloc(16, i), book: 1, amount: 0,
  }));
  const many = { ...account, parsed: entries, entries: entries.map(encodeEntry), text: textOf(statementOf(account, entries)) };
  const big = seal({ accounts: [many, ...inst.accounts.slice(1)], partitions: 1, signer, pick });
  const file = encodeProof(proofOf(big, many));
  const before = process.cpuUsage();
  const { report, checked } = await verifyProof(file, { key: signer.key });
  const { user, system } = process.cpuUsage(before);
  assert.equal(report.differences.map(showDifference).join("\n"), "");
  assert.ok(checked.includes("entries: 1 to 10000 lead to the receipt"));
  console.log(`10,000 entries: ${Math.round((user + system) / 1000)} ms of CPU`);
});

const proof = (extra, more = {}) => encodeProof({ ...proofOf(inst, account), extra: Buffer.from(extra).toString("base64"), ...more });
const changed = (edit) => {
  const file = proofOf(inst, account);
  edit(file.extra, file);
  return encodeProof(file);
};

for (const [name, bytes, message] of [
  ["nothing", Buffer.alloc(0), /does not begin with/],
  ["100 MB of garbage", () => Buffer.alloc(100 << 20, "garbage\n"), /does not begin with/],
  ["more than 128 MB", () => Buffer.alloc((128 << 20) + 1, "x"), /the file has 134217729 bytes, more than 134217728/],
  ["100 MB of extra", () => Buffer.concat([Buffer.from("c2sp.org/tlog-proof@v1\nextra "), Buffer.alloc(100 << 20, "A"), Buffer.from("\nindex 0\n\nx\n")]), /extra is not (JSON|UTF-8)/],
  ["the first line alone", Buffer.from("c2sp.org/tlog-proof@v1\n"), /has no checkpoint/],
  ["no extra", Buffer.from("c2sp.org/tlog-proof@v1\nindex 1\n\nx\n"), /line 2 is not extra/],
  ["an index that is no number", Buffer.from("c2sp.org/tlog-proof@v1\nextra e30=\nindex 1e9\n\nx\n"), /line 3 is not index/],
  ["a hash that is none", Buffer.from("c2sp.org/tlog-proof@v1\nextra e30=\nindex 1\nAAAA\n\nx\n"), /account|line 4/],
  ["too many hashes", encodeProof({ ...proofOf(inst, account), hashes: Array.from({ length: 65 }, () => Buffer.alloc(32)) }), /more than 64 hashes/],
  ["extra that is not UTF-8", proof(Buffer.of(0xff, 0xfe)), /extra is not UTF-8/],
  ["deep JSON", proof("[".repeat(1e6)), /extra is not JSON/],
  ["deep JSON that is complete", proof(`${"[".repeat(1e5)}${"]".repeat(1e5)}`), /extra is not (an object|JSON)/],
  ["JSON that is no object", proof("[]"), /extra is not an object/],
  ["a member of a prototype", proof('{"__proto__":{"account":"00000000001"}}'), /extra\.account is not a string/],
  ["an account beyond 64 bits", changed((e) => { e.account = "zzzzzzzzzzz"; }), /extra\.account is not an id/],
  ["a huge number", changed((e) => { e.receipt.number = "9".repeat(1000); }), /extra\.receipt\.number is not/],
  ["a number beyond 2^53", changed((e) => { e.receipt.number = "9007199254740993"; }), /extra\.receipt\.number is not below/],
  ["a sum of 65 bits", changed((e) => { e.statement.path = [{ bit: 1, hash: "0".repeat(64), sums: ["0", "0", "18446744073709551616"] }]; }), /extra\.statement\.path\[0\]\.sums\[2\] is not a number of 64 bits/],
  ["a bit of 256", changed((e) => { e.statement.path = [{ bit: 256, hash: "0".repeat(64), sums: ["0", "0", "0"] }]; }), /extra\.statement\.path\[0\]\.bit is not a number of 0 to 255/],
  ["two sums", changed((e) => { e.statement.path = [{ bit: 1, hash: "0".repeat(64), sums: ["0", "0"] }]; }), /extra\.statement\.path\[0\]\.sums is not a list of 3/],
  ["a path of 257", changed((e) => { e.statement.path = Array(257).fill(1); }), /extra\.statement\.path is not a list of at most 256/],
  ["upper-case hex", changed((e) => { e.receipt.hash = "A".repeat(64); }), /extra\.receipt\.hash is not 64 lower-case hex digits/],
  ["half an entry", changed((e) => { e.entries.data = "AAAA"; }), /extra\.entries\.data is not of entries of 43 bytes/],
  ["a statement that is no JSON", changed((e) => { e.statement.text = "{"; }), /statement is not JSON/],
  ["a statement with a negative count", changed((e) => { e.statement.text = textOf({ ...JSON.parse(e.statement.text), spent_micros: "-1" }); }), /statement\.spent_micros is not a decimal string/],
  ["a statement with a line twice", changed((e) => {
    const s = JSON.parse(e.statement.text);
    s.usage[1].quota_key = 1;
    e.statement.text = textOf(s);
  }), /statement\.usage\[1\]\.quota_key is not a quota key that has no other line/],
]) {
  test(`no proof: ${name}`, async () => {
    await assert.rejects(verifyProof(typeof bytes === "function" ? bytes() : bytes, { key: signer.key }), (e) => e instanceof Malformed && message.test(e.message));
  });
}

test("a statement that is nested deeply", async () => {
  const bytes = changed((e) => { e.statement.text = `${e.statement.text.slice(0, -1)},"x":${"[".repeat(1e5)}${"]".repeat(1e5)}}`; });
  const { report } = await verifyProof(bytes, { key: signer.key });
  assert.ok(report.differences.some((d) => d.what === "statement" && d.field === "text"));
});

test("a seal with trees of other months, and numbers of 64 bits", async () => {
  const bytes = changed((e) => { e.seal.time = "-9223372036854775808"; e.books[0].time = "9223372036854775807"; });
  const { report } = await verifyProof(bytes, { key: signer.key });
  assert.equal(report.differences[0].what, "seal");
});
