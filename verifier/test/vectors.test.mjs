// Folds every vector of docs/journal/vectors, and compares all that it has with what comes out.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";
import { canonical, Fold, fromBase64, hex, showAccount, showNetwork } from "../verify.mjs";

const folder = new URL("../../docs/journal/vectors/", import.meta.url);
const parse = (value) => JSON.parse(canonical(value ?? null));


const lists = ["ledger", "alerts", "admin", "usage", "refused", "recreated"];

for (const name of readdirSync(folder).filter((f) => f.endsWith(".json"))) {
  test(name, () => {
    const vector = JSON.parse(readFileSync(new URL(name, folder), "utf8"));
    const fold = new Fold(0, true, { ledger() {}, closed: (a, statement) => closed.push(statement) });
    const closed = [];
    for (const [i, m] of vector.messages.entries()) {
      closed.length = 0;
      const effects = fold.add({ sequence: Number(m.sequence), time: m.time, subject: m.subject, data: fromBase64(m.data) });
      const want = vector.results[i];
      const at = `message ${m.sequence}: `;
      assert.equal(String(fold.state.time), want.time_ms, `${at}time`);
      assert.equal(fold.state.rules, want.rules, `${at}rules`);
      assert.equal(effects.undecodable ?? false, want.undecodable ?? false, `${at}undecodable`);
      assert.deepEqual(parse(effects.verdicts), parse(want.verdicts), `${at}verdicts`);
      assert.deepEqual(parse(effects.outcomes), parse(want.outcomes), `${at}outcomes`);
      for (const list of lists) assert.deepEqual(parse(effects[list] ?? []), parse(want[list] ?? []), at + list);
      assert.deepEqual(parse(closed), parse((want.closed ?? []).map((c) => c.statement)), `${at}closed`);
      fold.state.effects = {};
    }
    assert.equal(hex(fold.state.chain), vector.chain);
    const accounts = [...fold.state.accounts.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    assert.deepEqual(parse(accounts.map((a) => showAccount(fold.state, a))), parse(vector.accounts ?? []), "accounts");
    const networks = [...fold.state.networks.values()].map((n) => showNetwork(fold.state, n));
    assert.deepEqual(parse(networks), parse(vector.networks ?? []), "networks");
  });
}
