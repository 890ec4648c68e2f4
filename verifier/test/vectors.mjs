// Compares what the verifier folds with a vector: all that it has.

import assert from "node:assert/strict";
import { canonical, Fold, fromBase64, hex, showAccount, showNetwork } from "../verify.mjs";

const parse = (value) => JSON.parse(canonical(value ?? null));
const lists = ["ledger", "alerts", "admin", "usage", "refused", "recreated"];
/** A network that the fold does not remember any more. */
const forgotten = { id: "\0".repeat(4), admitted: [] };

export function compare(vector) {
  const closed = [];
  const fold = new Fold(0, true, { ledger() {}, closed: (a, statement) => closed.push(statement) });
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
  const networks = new Map([...fold.state.networks.values()].map((n) => [showNetwork(fold.state, n).network, n]));
  const shown = (vector.networks ?? []).map(({ network }) => ({ ...showNetwork(fold.state, networks.get(network) ?? forgotten), network }));
  assert.deepEqual(parse(shown), parse(vector.networks ?? []), "networks");
  for (const { network } of shown) networks.delete(network);
  assert.deepEqual([...networks.keys()], [], "networks");
}
