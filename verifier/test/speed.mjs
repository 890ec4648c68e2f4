// Measures the fold, and the command on a whole export: node test/speed.mjs [messages]

import { writeFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createHash } from "node:crypto";
import { Fold, run } from "../verify.mjs";
import { chainOf, lineOf } from "./export.mjs";
import { Drawn, random, tiers } from "./journal.mjs";
import { usageBatch } from "./protobuf.mjs";

const batches = Number(process.argv[2] ?? 2000);
const perBatch = 250;
const drawn = new Drawn(1, { accounts: 2000 });
drawn.prices({ rules: 4, agreed: 1, tiers: tiers(1000, 1), free: 1 << 20, cents: 3 });
const pick = random(2);
let before = [];
for (let i = 0; i < batches; i++) {
  drawn.now += 100;
  const admissions = Array.from({ length: perBatch }, () => {
    const a = drawn.accounts[pick(2000)];
    return { request: drawn.requestId(), account: a.id, key: 9 + pick(2), version: 1, fingerprint: a.id };
  });
  const served = before.length > 0 ? [{ sequence: drawn.messages.length, places: before.map((_, n) => n) }] : [];
  before = admissions;
  drawn.add("usage", usageBatch({ source: "edge", number: drawn.number("edge"), stamp: drawn.now, admissions, served }));
}

const total = batches * perBatch;
const { messages } = drawn;
const show = (name, seconds, counts) => console.log(
  `${name}: ${seconds.toFixed(2)} s of CPU, ${Math.round(total / seconds)} admissions/s, ${Math.round(messages.length / seconds)} messages/s, ` +
  `${Math.round(counts.ledger / seconds)} ledger entries/s (${counts.ledger} in all), ${Math.round(process.memoryUsage().rss / 2 ** 20)} MB`);

const cpu = () => process.cpuUsage().user / 1e6; // On a shared machine the wall clock says little.
let start = cpu();
const fold = new Fold(0, false, { ledger() {}, closed() {} });
for (const m of messages) fold.add(m);
show("fold, own SHA-256", cpu() - start, fold.state.counts);

const dir = mkdtempSync(join(tmpdir(), "quire-speed-"));
const text = messages.map((m) => `${lineOf(m)}\n`).join("");
writeFileSync(join(dir, "BILLING_0.jsonl"), text);
const sha256 = createHash("sha256").update(text).digest("hex");
const journal = {
  stream: "BILLING_0", partition: 0, file: "BILLING_0.jsonl", messages: messages.length, bytes: Buffer.byteLength(text), sha256,
  chain: chainOf(messages),
};
writeFileSync(join(dir, "manifest.json"), JSON.stringify({ format: 1, version: "test", installation: "test", partitions: 1, journals: [journal] }));
start = cpu();
const { log } = console;
console.log = () => {};
const code = await run(["--export", dir]);
console.log = log;
show(`command (exit ${code})`, cpu() - start, fold.state.counts);
rmSync(dir, { recursive: true });
