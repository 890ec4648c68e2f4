// Journals drawn from seeds: what must hold of every state, and that their exports fit.

import assert from "node:assert/strict";
import test from "node:test";
import { booksOf, exportOf, verify } from "./export.mjs";
import { Drawn } from "./journal.mjs";

const sum = (list) => list.reduce((x, y) => x + Number(y ?? 0), 0);

function checkAccount(a) {
  const open = [...a.holds].filter((h) => h.result === 0);
  assert.equal(a.available, sum(a.grants.map((g) => g.left)), "available");
  assert.equal(a.settled, a.available + sum(open.map((h) => h.cost)) - a.owed, "settled");
  for (const m of [a.previous, a.current]) {
    if (m === undefined) continue;
    for (let key = 1; key <= 13; key++) {
      assert.equal(m.used[key], sum(m.periods.map((p) => p.used[key])), "used by period");
      assert.equal(m.overage[key], sum(m.periods.map((p) => p.paid[key])), "paid by period");
      assert.equal(m.spent[key], sum(m.periods.map((p) => p.amount[key])), "amount by period");
      assert.equal(a.makers[key], [...a.holds].filter((h) => h.quotaKey === key && h.makesRoom).length, "makers");
    }
    assert.equal(m.spentSum, sum(m.spent), "spent");
  }
}

// Seed 354113 voids a request that a time-out served, and then another one: the fold must still know both earlier paid requests.
for (const seed of [...Array(20).keys(), 354113]) {
  test(`seed ${seed}`, async () => {
    const { messages } = new Drawn(seed).draw(1000);
    const { lines, fold } = booksOf(messages);
    for (const a of fold.state.accounts.values()) checkAccount(a);
    const entries = lines.flatMap((l) => (l.ledger ? [l.ledger] : []));
    const balances = new Map();
    for (const e of entries) balances.set(e.account, (balances.get(e.account) ?? 0) + Number(e.amount_micros ?? 0));
    for (const e of lines.flatMap((l) => (l.account ? [l.account] : []))) {
      const last = e.statements.at(-1);
      assert.equal(Number(last.credits.closing_micros ?? 0), balances.get(e.usage.account) ?? 0, "closing");
    }
    const types = new Set(entries.map((e) => e.type));
    assert.ok(types.size >= 6, `a journal with ${[...types]}`);
    const { code, out } = await verify(exportOf(messages));
    assert.equal(code, 0, out);
    assert.match(out, /^OK: everything checked fits\.$/m);
  });
}
