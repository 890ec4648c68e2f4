// Forgeries drawn from a seed, each in an export whose manifest fits the forged files. VERIFIER_SEED repeats a run.

import assert from "node:assert/strict";
import test from "node:test";
import { chainOf, exportOf, lineOf, verify } from "./export.mjs";
import { Drawn, random } from "./journal.mjs";

const seed = Number(process.env.VERIFIER_SEED ?? Date.now() % 1_000_000);
const forgeries = 240;
const pick = random(seed);
console.log(`VERIFIER_SEED=${seed}`);

const { messages } = new Drawn(seed).draw(500);
const whole = exportOf(messages);

/** Paths of all values in an object. */
function paths(o, at = []) {
  return Object.entries(o).flatMap(([k, v]) => (typeof v === "object" ? paths(v, [...at, k]) : [[...at, k]]));
}

function forgeValue(v) {
  if (typeof v === "boolean") return !v;
  if (typeof v === "number") return v + 1 + pick(5);
  if (/^-?\d+$/.test(v)) return String(BigInt(v) + BigInt(pick(2) ? 1 + pick(1000) : -1 - pick(1000)));
  return `${v}!`;
}

function forgeField(lines) {
  const i = pick(lines.length);
  const o = JSON.parse(lines[i]);
  const all = paths(o);
  const path = all[pick(all.length)];
  const last = path.pop();
  const holder = path.reduce((x, k) => x[k], o);
  if (pick(4) === 0) delete holder[last];
  else holder[last] = forgeValue(holder[last]);
  lines[i] = JSON.stringify(o);
}

function swap(lines) {
  const i = pick(lines.length - 1);
  [lines[i], lines[i + 1]] = [lines[i + 1], lines[i]];
}

const edits = {
  drop: (lines) => lines.splice(pick(lines.length), 1 + pick(3)),
  double: (lines) => { const i = pick(lines.length); lines.splice(i + pick(2), 0, lines[i]); },
  swap,
  move: (lines) => {
    const [line] = lines.splice(pick(lines.length >> 1), 1);
    lines.splice((lines.length >> 1) + pick(lines.length >> 1), 0, line);
  },
  field: forgeField,
  cut: (lines) => lines.splice(lines.length - 1 - pick(20)),
};

/** A byte of a message, a message more or less: numbered anew, but with the chain of before. */
function forgeMessages() {
  const list = messages.map((m) => ({ ...m }));
  const i = pick(list.length);
  switch (pick(5)) {
    case 0: list.splice(i, 1); break;
    case 1: list.splice(i, 0, list[pick(list.length)]); break;
    case 2: list[i].time = String(BigInt(list[i].time) + 1n + BigInt(pick(1e9))); break;
    case 3: list[i].subject = list[i].subject === "billing.0.usage" ? "billing.0.account" : "billing.0.usage"; break;
    default: {
      list[i].data = Uint8Array.from(list[i].data);
      list[i].data[pick(list[i].data.length)] ^= 1 + pick(255);
    }
  }
  return list.map((m, n) => ({ ...m, sequence: n + 1 }));
}

/** Grants and whole accounts that are left out, with a chain that fits: only the books contradict. */
function forgeHistory() {
  const commands = messages.flatMap((m, i) => (Buffer.from(m.data).includes("welcome") ? [i] : []));
  const list = messages.filter((_, i) => i !== commands[pick(commands.length)] || i < 0);
  const left = commands[pick(commands.length)];
  return list.filter((m) => m !== messages[left]).map((m, n) => ({ ...m, sequence: n + 1 }));
}

function forge() {
  const parts = { ...whole, journal: [...whole.journal], books: [...whole.books] };
  const names = Object.keys(edits);
  const kind = pick(10);
  const name = names[pick(names.length)];
  if (kind < 5) edits[name](parts.books);
  else if (kind < 7) edits[name](parts.journal);
  else if (kind < 9) parts.journal = forgeMessages().map(lineOf);
  else {
    const list = forgeHistory();
    Object.assign(parts, { journal: list.map(lineOf), chain: chainOf(list), sequence: String(list.length) });
  }
  return { parts, what: kind < 5 ? `books ${name}` : kind < 7 ? `journal ${name}` : kind < 9 ? "messages" : "history" };
}

test(`${forgeries} forgeries are found`, async (t) => {
  const kinds = {};
  assert.equal((await verify(whole)).code, 0, "the export before it is forged");
  for (let i = 0; i < forgeries; i++) {
    const { parts, what } = forge();
    const same = parts.journal.join() === whole.journal.join() && parts.books.join() === whole.books.join();
    if (same) continue;
    kinds[what] = (kinds[what] ?? 0) + 1;
    const { code, out, err } = await verify(parts);
    assert.equal(code, 1, `seed ${seed}, forgery ${i}: ${what}\n${out}${err}`);
    assert.match(out, /^partition 0, .*: expected .*, found /m);
  }
  t.diagnostic(`seed ${seed}: ${JSON.stringify(kinds)}`);
});
