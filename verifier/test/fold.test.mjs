// Folds drawn journals as billing does, and compares all that a vector has. VERIFIER_SEED repeats a run.

import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { lineOf } from "./export.mjs";
import { compare } from "./vectors.mjs";
import { Drawn } from "./wild.mjs";

const journals = 60;
const messages = 250;
const first = Number(process.env.VERIFIER_SEED ?? Date.now() % 1_000_000);

test(`billing folds drawn journals to the same, VERIFIER_SEED=${first}`, async (t) => {
  if (spawnSync("go", ["version"]).error !== undefined) return t.skip("NOT TESTED: billing's fold. There is no go.");
  const dir = mkdtempSync(join(tmpdir(), "quire-fold-"));
  const seeds = Array.from({ length: journals }, (_, i) => first + i);
  const file = (seed) => join(dir, `${seed}.json`);
  try {
    for (const seed of seeds) {
      writeFileSync(file(seed), `{"messages":[${new Drawn(seed).draw(messages).messages.map(lineOf).join()}]}`);
    }
    const pkg = "quire.dev/services/billing/internal/account";
    execFileSync("go", ["test", "-count=1", pkg, "-run", "^TestFoldFolder$", "-args", "-fold", dir], { stdio: ["ignore", "ignore", "inherit"] });
    for (const seed of seeds) {
      await t.test(`seed ${seed}`, () => compare(JSON.parse(readFileSync(file(seed), "utf8"))));
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
});
