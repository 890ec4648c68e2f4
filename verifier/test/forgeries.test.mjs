// Forged exports, drawn from a seed, beside a log that the forger could not change. VERIFIER_SEED repeats a run.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import test from "node:test";
import { exportOf, verify } from "./export.mjs";
import { forgedExports } from "./forged_exports.mjs";
import { Drawn, drawSeed, forgeryCount, random } from "./journal.mjs";
import { entryOf, logOf, Signer } from "./log.mjs";

const seed = drawSeed();
const forgeries = forgeryCount(240);
const pick = random(seed);

const drawn = new Drawn(seed);
for (let month = 0; month < 3; month++) { // the first is closed in the third
  drawn.draw(60);
  drawn.now += 30 * 86_400_000;
}
const { messages } = drawn.draw(20);
const whole = exportOf(messages);
const signer = new Signer("quire/test/0a1b2c3d");

/** Writes the log to a folder. */
function writeLog() {
  const dir = mkdtempSync(join(tmpdir(), "quire-verifier-log-"));
  for (const [name, bytes] of logOf(messages.map((m) => entryOf(0, m)), signer)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), bytes);
  }
  return dir;
}

/** The first line must name the place of the forgery, and the first line about the log its place in the log. */
function checkPlaces({ code, out, err }, { first, second, log, rules }, about) {
  if (code === 2 && rules !== undefined) return assert.match(err, new RegExp(rules), about);
  assert.equal(code, 1, `${about}${out}${err}`);
  const lines = out.split("\n");
  assert.match(lines[0], new RegExp(first), about);
  if (second !== undefined) assert.match(lines[1], new RegExp(second), about);
  if (log !== undefined) assert.match(lines.find((l) => l.startsWith("partition 0, log, ")) ?? out, new RegExp(log), about);
}

test(`${forgeries} forged exports are each found at their place`, async (t) => {
  const dir = writeLog();
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const args = ["--log", dir, "--key", signer.key];
  const before = await verify(whole, args);
  assert.equal(before.code, 0, `the export before it is forged: ${before.out}`);
  const all = Object.entries(forgedExports(pick, messages, whole));
  const counts = Object.fromEntries(all.map(([name]) => [name, 0]));
  for (let made = 0, tries = 0; made < forgeries; tries++) {
    assert.ok(tries < 5 * forgeries, "too few forgeries are possible");
    const [name, forge] = all[tries % all.length];
    const forged = forge();
    if (forged === undefined) continue;
    const { journal, books } = forged.parts;
    if (journal.join() === whole.journal.join() && books.join() === whole.books.join()) continue;
    checkPlaces(await verify(forged.parts, forged.log === undefined ? [] : args), forged, `seed ${seed}, forgery ${made}: ${name}\n`);
    counts[name]++;
    made++;
  }
  for (const [name, count] of Object.entries(counts)) assert.ok(count > 0 || forgeries < 10 * all.length, `${name} was never drawn`);
  t.diagnostic(`seed ${seed}: ${JSON.stringify(counts)}`);
});
