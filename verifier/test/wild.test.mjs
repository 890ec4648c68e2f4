// Journals in which everything happens: the fold never fails on them, and their exports fit.

import assert from "node:assert/strict";
import test from "node:test";
import { exportOf, verify } from "./export.mjs";
import { Drawn } from "./wild.mjs";

for (let seed = 1; seed <= 20; seed++) {
  test(`seed ${seed}`, async () => {
    const { messages } = new Drawn(seed).draw(300);
    const { code, out } = await verify(exportOf(messages));
    assert.equal(code, 0, out);
  });
}
