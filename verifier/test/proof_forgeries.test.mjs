// Forged proofs of bills, drawn from a seed. Each has to be found, with its place among the differences. VERIFIER_SEED repeats a run.

import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import test from "node:test";
import { Malformed, showDifference, verifyProof } from "../verify.mjs";
import { forgedFiles } from "./forged_files.mjs";
import { forgedSeals } from "./forged_seals.mjs";
import { chainOf, drawAccounts, encodeProof, proofOf, seal, showId } from "./installation.mjs";
import { drawSeed, forgeryCount, random } from "./journal.mjs";
import { root as logRoot, Signer } from "./log.mjs";

const seed = drawSeed();
const forgeries = forgeryCount(10_000);
const perInstallation = 250;
const pick = random(seed);

const signer = new Signer("quire/test/0a1b2c3d");
// Those of browsers are slower: the honest proofs below use them.
const ed25519 = async (key, message, signature) => {
  const jwk = { kty: "OKP", crv: "Ed25519", x: Buffer.from(key).toString("base64url") };
  return verify(null, message, createPublicKey({ key: jwk, format: "jwk" }), signature);
};
const one = (list) => list[pick(list.length)];
const hex = (b) => b.toString("hex");

/** Verifies a proof. The places of what differs, or of what can't be read. */
async function places(proof, options = {}) {
  try {
    const { report } = await verifyProof(Buffer.isBuffer(proof) ? proof : encodeProof(proof), { key: signer.key, ed25519, ...options });
    return report.differences.map((d) => (d.field === undefined ? d.what : `${d.what}, ${d.field}`));
  } catch (e) {
    if (!(e instanceof Malformed)) throw e;
    return [`malformed: ${e.message}`];
  }
}

function draw() {
  const partitions = 1 + pick(3);
  const accounts = drawAccounts(pick, { count: 8, entries: 16 });
  return { inst: seal({ accounts, partitions, signer, pick }), accounts, partitions };
}

const isFound = (found, wanted) => wanted.every((w) => found.some((f) => (typeof w === "string" ? f.startsWith(w) : w.test(f))));

test("honest proofs fit", async () => {
  for (let i = 0; i < 20; i++) {
    const { inst, accounts } = draw();
    for (const account of accounts) {
      for (const period of ["2026-11", "2026-12"]) {
        const since = 1 + pick(inst.leaves.length);
        const checkpoint = signer.sign(since, logRoot(inst.leaves.slice(0, since)));
        const receipts = chainOf(account.id, account.entries).map((h, n) => `${showId(account.id)} ${n}.${hex(h)}\n`).slice(1).filter(() => pick(2)).join("");
        const file = encodeProof(proofOf(inst, account, period, { since }));
        const { report, checked } = await verifyProof(file, { key: signer.key, checkpoint, receipts });
        assert.equal(report.differences.map(showDifference).join("\n"), "", `seed ${seed}`);
        assert.ok(checked.includes("kept checkpoint: the log continues it"));
      }
    }
  }
});

test(`${forgeries} forged proofs are each found at their place`, async (t) => {
  const all = Object.entries({ ...forgedFiles(pick, signer), ...forgedSeals(pick, signer) });
  const counts = new Map(all.map(([name]) => [name, 0]));
  let d = draw();
  for (let made = 0, tries = 0; made < forgeries; tries++) {
    assert.ok(tries < 5 * forgeries, "too few forgeries are possible");
    if (tries % perInstallation === 0) d = draw();
    const [name, forge] = all[tries % all.length];
    const account = one(d.accounts);
    const other = one(d.accounts.filter((a) => a !== account));
    const proof = proofOf(d.inst, account);
    const forged = forge({ ...d, account, other, proof });
    if (forged === undefined) continue;
    const found = await places(forged.file ?? proof, forged.options);
    assert.ok(isFound(found, forged.places), `seed ${seed}, try ${tries}, ${name} of ${showId(account.id)}: ${forged.places} not in ${found.join("; ")}`);
    counts.set(name, counts.get(name) + 1);
    made++;
  }
  for (const [name, n] of counts) assert.ok(n > 0 || forgeries < 1000, `${name} was never drawn`);
  t.diagnostic(`seed ${seed}: ${JSON.stringify(Object.fromEntries(counts))}`);
});
