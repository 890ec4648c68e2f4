// Writes exports as "Exports" in docs/journal.md describes them, with books.

import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Fold, run, showAccount } from "../verify.mjs";

const sha = (...parts) => parts.reduce((h, p) => h.update(p), createHash("sha256")).digest();
const kinds = { usage: 1, account: 2, prices: 3, "settle.paste": 4, "settle.lite": 5, "settle.file": 6 };

/** The chain, by node's own hash and another code than the verifier's. */
export function chainOf(messages) {
  return messages.reduce((chain, m) => {
    const head = Buffer.alloc(19);
    head.writeBigUInt64BE(BigInt(m.sequence), 0);
    head.writeBigUInt64BE(BigInt(m.time), 8);
    head[16] = kinds[m.subject.slice("billing.0.".length)] ?? 0;
    head.writeUInt16BE(m.subject.length, 17);
    return sha(chain, sha(head, m.subject, m.data));
  }, Buffer.alloc(32)).toString("hex");
}

export function booksOf(messages, partition = 0) {
  const rows = new Map();
  const of = (a) => rows.get(a.id) ?? rows.set(a.id, { ledger: [], closed: [] }).get(a.id);
  let ended = false;
  const fold = new Fold(partition, false, {
    ledger: (a, ledger) => of(a).ledger.push({ ledger }),
    closed: (a, statement) => ended || of(a).closed.push(statement),
  });
  for (const m of messages) fold.add(m);
  ended = true;
  const lines = [];
  for (const a of [...fold.state.accounts.values()].sort((x, y) => (x.id < y.id ? -1 : 1))) {
    const account = showAccount(fold.state, a);
    const { ledger, closed } = of(a);
    lines.push(...ledger, ...closed.map((statement) => ({ closed: { account: account.account, statement } })), { account });
  }
  return { lines, fold };
}

export const lineOf = (m) => JSON.stringify({
  sequence: String(m.sequence), time: String(m.time), subject: m.subject, data: Buffer.from(m.data).toString("base64"),
});

/** The parts of an export, which tests change before they write it. */
export function exportOf(messages, { books = true } = {}) {
  return {
    journal: messages.map(lineOf),
    books: books ? booksOf(messages).lines.map((l) => JSON.stringify(l)) : undefined,
    chain: chainOf(messages), sequence: String(messages.length), manifest: {},
  };
}

const file = (name, lines) => {
  const text = lines.map((l) => `${l}\n`).join("");
  return { text, entry: { file: name, bytes: Buffer.byteLength(text), sha256: createHash("sha256").update(text).digest("hex") } };
};

/** Writes an export whose manifest fits its files, and verifies it. Edit changes the manifest last. Args may depend on the folder. */
export async function verify(parts, args = [], edit = () => {}) {
  const dir = mkdtempSync(join(tmpdir(), "quire-verifier-"));
  try {
    const journal = file("BILLING_0.jsonl", parts.journal);
    writeFileSync(join(dir, "BILLING_0.jsonl"), journal.text);
    const entry = { stream: "BILLING_0", partition: 0, messages: parts.journal.length, ...journal.entry, chain: parts.chain };
    if (parts.books !== undefined) {
      const books = file("BOOKS_0.jsonl", parts.books);
      writeFileSync(join(dir, "BOOKS_0.jsonl"), books.text);
      entry.books = { ...books.entry, lines: parts.books.length, sequence: parts.sequence };
    }
    const manifest = {
      format: 1, version: "test", installation: "test", partitions: 1, exported: "2026-12-01T00:00:00Z", journals: [entry],
      ...parts.manifest,
    };
    edit(manifest, dir);
    if (manifest.format !== undefined) writeFileSync(join(dir, "manifest.json"), JSON.stringify(manifest));
    const rest = typeof args === "function" ? args(dir) : args;
    return await capture(() => run(["--export", dir, ...rest]));
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

export async function capture(f) {
  const { log, error } = console;
  const out = [];
  const err = [];
  console.log = (text) => out.push(text);
  console.error = (text) => err.push(text);
  try {
    const code = await f();
    return { code, out: out.join("\n"), err: err.join("\n") };
  } finally {
    Object.assign(console, { log, error });
  }
}
