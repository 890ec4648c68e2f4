// Logs, and logs that were tampered with, beside the messages of an export. VERIFIER_SEED repeats a run of the forgeries.

import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import test from "node:test";
import { itemsRoot, LogCheck, openCheckpoint, parseKey, Report, sha256, showDifference, tilePath, webEd25519 } from "../verify.mjs";
import { exportOf, verify } from "./export.mjs";
import { Drawn, drawSeed, forgeryCount, random } from "./journal.mjs";
import { entryOf, items, leaf, logOf, lossOf, path, root, Signer } from "./log.mjs";

const signer = new Signer("quire/test/0a1b2c3d");
const { messages } = new Drawn(5).draw(700);

/** Checks the messages of partitions against a log, with the parts that browsers have. */
async function check(partitions, files, { key = signer.key, kept } = {}) {
  const report = new Report();
  const parsed = parseKey(sha256, key);
  const read = async (name) => files.get(name);
  const log = { read };
  const open = (bytes) => openCheckpoint(bytes, parsed, webEd25519);
  const journals = partitions.map((list, partition) => ({
    partition, messages: list.length, open: () => list[Symbol.iterator](),
  }));
  const c = new LogCheck(log, sha256, await open(files.get("checkpoint")), kept && (await open(kept)), partitions.length, journals);
  const result = await c.run(report);
  return { result, report, lines: report.differences.map(showDifference).join("\n") };
}

/** Deals the messages to partitions, and the entries of all of them in some order. */
function dealt(count, pick) {
  const partitions = Array.from({ length: count }, () => []);
  const entries = [];
  const places = [];
  for (const m of messages) {
    const p = pick(count);
    const own = { ...m, sequence: partitions[p].length + 1, subject: m.subject.replace(".0.", `.${p}.`) };
    partitions[p].push(own);
    entries.push(entryOf(p, own));
    places.push({ partition: p, sequence: own.sequence });
  }
  return { partitions, entries, places };
}

test("paths", () => {
  assert.equal(tilePath("entries", 0, 256), "tile/entries/000");
  assert.equal(tilePath(0, 1234067, 5), "tile/0/x001/x234/067.p/5");
  for (const n of [0, 7, 999, 1000, 123456, 1000000]) assert.equal(tilePath(2, n, 256), path(2, n, 256));
});

test("items", () => {
  const hex = (b) => Buffer.from(b).toString("hex");
  for (const m of messages) assert.equal(hex(itemsRoot(sha256, m.data)), hex(root(items(Buffer.from(m.data)).map(leaf))));
  for (const bytes of [[], [0], [255], [8], [8, 1, 0x0a, 5, 1], [0x0c]]) {
    assert.equal(hex(itemsRoot(sha256, Uint8Array.from(bytes))), hex(leaf(Buffer.from(bytes))), String(bytes));
  }
});

test("logs of every width around a tile", async () => {
  const { partitions, entries } = dealt(3, random(1));
  for (const size of [0, 1, 2, 3, 255, 256, 257, 258, 511, 512, 513, entries.length]) {
    const { result, lines } = await check(partitions, logOf(entries.slice(0, size), signer));
    assert.equal(lines, "");
    assert.deepEqual([result.equal, result.notYet, result.newer], [size, entries.length - size, 0], `size ${size}`);
  }
});

test("a log of three levels", async () => {
  const list = Array.from({ length: 66_000 }, (_, i) => ({ sequence: i + 1, time: String(i), subject: "billing.0.usage", data: Buffer.of(8, i & 127) }));
  const files = logOf(list.map((m) => entryOf(0, m)), signer);
  assert.ok(files.has("tile/2/000.p/1"));
  assert.equal((await check([list], files)).lines, "");
  files.get("tile/1/000")[32 * 3] ^= 1;
  assert.match((await check([list], files)).lines, /^log, tile\/1\/000, field hash of entries 768 to 1023: expected /);
});

test("a complete bundle and tile instead of a part", async () => {
  const { partitions, entries } = dealt(2, random(2));
  const files = logOf(entries, signer);
  const before = logOf(entries.slice(0, 300), signer);
  for (const name of ["checkpoint", "tile/1/000.p/1"]) files.set(name, before.get(name));
  const { result, lines } = await check(partitions, files);
  assert.equal(lines, "");
  assert.equal(result.equal, 300);
});

test("losses", async () => {
  const list = messages.slice(0, 400);
  const lost = messages.slice(400, 420).map((m, i) => ({ ...m, sequence: 301 + i }));
  const entries = [...list.slice(0, 300), ...lost].map((m) => entryOf(0, m));
  entries.push(lossOf(0, 300), ...list.slice(300).map((m) => entryOf(0, m)));
  const { result, lines } = await check([list], logOf(entries, signer));
  assert.equal(lines, "");
  assert.deepEqual([result.equal, result.losses, result.lost], [400, 1, 20]);

  // Without the loss the same entries contradict the export and each other.
  const hidden = entries.filter((_, i) => i !== 320);
  assert.match((await check([list], logOf(hidden, signer))).lines, /^partition 0, log, entry 300 \(message 301\), field (time|sha256|subject)/);
  // A loss that leaves more than there was.
  const more = [...entries.slice(0, 320), lossOf(0, 500), ...entries.slice(320)];
  assert.match((await check([list], logOf(more, signer))).lines, /log, entry 320 \(a loss\), field sequence: expected at most 320, found 500/);
  // Lost messages that the export still has.
  const kept = await check([[...list.slice(0, 300), ...lost]], logOf(entries, signer));
  assert.match(kept.lines, /^partition 0, log, entry 321 \(message 301\), field /);
});

test("unknown kinds are ignored", async () => {
  const list = messages.slice(0, 10);
  const entries = [Buffer.of(9, 1, 2), ...list.map((m) => entryOf(0, m)), Buffer.of(3)];
  const { result, lines } = await check([list], logOf(entries, signer));
  assert.equal(lines, "");
  assert.deepEqual([result.equal, result.others], [10, 2]);
});

test("a kept checkpoint", async () => {
  const { partitions, entries } = dealt(2, random(3));
  const files = logOf(entries, signer);
  for (const size of [0, 1, 255, 256, 257, 600, entries.length]) {
    const kept = logOf(entries.slice(0, size), signer).get("checkpoint");
    assert.equal((await check(partitions, files, { kept })).lines, "", `size ${size}`);
    if (size === 0) continue;
    const other = [...entries.slice(0, size - 1), Buffer.of(9)];
    const forked = logOf(other, signer).get("checkpoint");
    assert.match((await check(partitions, files, { kept: forked })).lines, /^kept checkpoint, field root: expected .*, found /);
  }
  const later = logOf([...entries, Buffer.of(9)], signer).get("checkpoint");
  assert.match((await check(partitions, files, { kept: later })).lines, /^kept checkpoint, field size: expected at most \d+ entries, found /);
});

const seed = drawSeed();
const forgeries = forgeryCount(260);

test(`${forgeries} forgeries are found where they are`, async (t) => {
  const pick = random(seed);
  const { partitions, entries, places } = dealt(3, pick);
  const n = entries.length;
  const kinds = {};
  /** A log of other entries, signed as if it were the right one. */
  const signed = (edit) => {
    const list = [...entries];
    edit(list);
    return { files: logOf(list, signer) };
  };
  const edited = (name, at) => {
    const files = logOf(entries, signer);
    const bytes = Buffer.from(files.get(name));
    bytes[at(bytes.length)] ^= 1 + pick(255);
    files.set(name, bytes);
    return files;
  };
  const at = (i) => `log, entry ${i} \\(message ${places[i].sequence}\\)`;
  const of = (i) => `partition ${places[i].partition}, ${at(i)}`;
  const bundles = [...logOf(entries, signer).keys()].filter((k) => k.startsWith("tile/entries/"));
  const tiles = [...logOf(entries, signer).keys()].filter((k) => /^tile\/\d/.test(k));
  const later = (i) => places.findIndex((p, j) => j > i && p.partition === places[i].partition);
  const inside = () => 1 + pick(n - 100);

  const forge = {
    "a signed entry": () => {
      const i = pick(n);
      const where = [11 + pick(8), 19 + pick(4), 23 + pick(32), 55 + pick(32), 87 + pick(10)][pick(5)];
      const edit = (list) => { list[i] = Buffer.from(list[i]); list[i][where] ^= 1 + pick(255); };
      return { ...signed(edit), says: `^${of(i)}, field (time|length|sha256|items|subject): ` };
    },
    "an entry's file": () => {
      const i = pick(4) === 0 ? 255 + 256 * pick(n >> 8) : pick(n); // often the last one of a tile
      const name = bundles[Math.floor(i / 256)];
      const start = entries.slice(i - (i % 256), i).reduce((sum, e) => sum + 2 + e.length, 0) + 2;
      const says = `^${of(i)}, field .*\\n(.*\\n)*.*field hash of entr.*\\n(.*\\n)*checkpoint, field root: `;
      return { files: edited(name, () => start + 11 + pick(60)), says };
    },
    "a tile": () => {
      const name = tiles[pick(tiles.length)];
      return { files: edited(name, (length) => pick(length)), says: `^log, ${name.replaceAll(".", "\\.")}, field hash of entr` };
    },
    "an omitted entry": () => {
      const i = inside();
      const next = later(i);
      const { partition, sequence } = places[i];
      const says = `^partition ${partition}, log, entry ${next - 1} \\(message ${sequence + 1}\\), field sequence: expected ${sequence}, found `;
      return { ...signed((list) => list.splice(i, 1)), says };
    },
    "a doubled entry": () => {
      const i = pick(n);
      const { partition, sequence } = places[i];
      const says = `^partition ${partition}, log, entry ${i + 1} \\(message ${sequence}\\), field sequence: expected ${sequence + 1}, found `;
      return { ...signed((list) => list.splice(i, 0, list[i])), says };
    },
    "swapped entries": () => {
      const i = inside();
      const j = later(i);
      const says = `^partition ${places[i].partition}, log, entry ${i} \\(message ${places[j].sequence}\\), field sequence: `;
      return { ...signed((list) => { [list[i], list[j]] = [list[j], list[i]]; }), says };
    },
    "swapped partitions": () => {
      const i = pick(n);
      const j = places.findIndex((p) => p.partition !== places[i].partition);
      const [a, b] = [places[i].partition, places[j].partition];
      return {
        ...signed((list) => list.forEach((e, k) => {
          const own = places[k].partition;
          if (own !== a && own !== b) return;
          list[k] = Buffer.from(e);
          list[k].writeUInt16BE(own === a ? b : a, 1);
        })),
        says: `^partition (${a}|${b}), log, entry \\d+ \\(message 1\\), field `,
      };
    },
    "another partition": () => {
      const i = inside();
      const edit = (list) => { list[i] = Buffer.from(list[i]); list[i].writeUInt16BE(3 + pick(100), 1); };
      return { ...signed(edit), says: `^partition \\d+, log, entry ${i}, field partition: expected below 3` };
    },
    "another checkpoint": () => {
      const files = logOf(entries, signer);
      const i = pick(n);
      const other = entries.map((e, k) => (k === i ? Buffer.of(9) : e));
      files.set("checkpoint", logOf(other, signer).get("checkpoint"));
      return { files, says: "^checkpoint, field root: expected " };
    },
    "another key": () => ({ files: logOf(entries, new Signer("quire/test/0a1b2c3d")), throws: /has no signature of the key/ }),
    "another name": () => ({ files: logOf(entries, new Signer("quire/other")), throws: /the checkpoint is of quire\/other/ }),
    "a signature": () => {
      const files = logOf(entries, signer);
      const text = files.get("checkpoint").toString();
      const start = text.lastIndexOf(" ") + 1;
      const bytes = Buffer.from(text.slice(start).trim(), "base64");
      bytes[4 + pick(64)] ^= 1 + pick(255);
      files.set("checkpoint", Buffer.from(`${text.slice(0, start)}${bytes.toString("base64")}\n`));
      return { files, throws: /did not sign/ };
    },
    "a size": () => {
      const files = logOf(entries, signer);
      files.set("checkpoint", Buffer.from(files.get("checkpoint").toString().replace(`\n${n}\n`, `\n${n - 1 - pick(50)}\n`)));
      return { files, throws: /did not sign/ };
    },
    "an older root that differs": () => {
      const size = 1 + pick(n);
      const i = pick(size);
      const other = entries.slice(0, size).map((e, k) => (k === i ? Buffer.of(9) : e));
      return { files: logOf(entries, signer), kept: logOf(other, signer).get("checkpoint"), says: "^kept checkpoint, field root: expected " };
    },
    "a truncated bundle": () => {
      const files = logOf(entries, signer);
      const name = bundles[pick(bundles.length)];
      const bytes = files.get(name);
      files.set(name, bytes.subarray(0, bytes.length - 1 - pick(bytes.length)));
      return { files, says: `^log, ${name.replaceAll(".", "\\.")}, field entries: expected \\d+, found ` };
    },
    "a missing bundle": () => {
      const files = logOf(entries, signer);
      const name = bundles[pick(bundles.length)];
      files.delete(name);
      return { files, says: `^log, ${name.replaceAll(".", "\\.")}, field entries: expected \\d+, found no file` };
    },
    "a width": () => {
      const files = logOf(entries, signer);
      const name = [...bundles, ...tiles][pick(bundles.length + tiles.length)];
      files.set(name, Buffer.concat([files.get(name), Buffer.alloc(32)]));
      return { files, says: `^log, ${name.replaceAll(".", "\\.")}, field (entries|bytes): expected ` };
    },
    "an exported message": () => {
      const i = pick(n);
      const { partition, sequence } = places[i];
      const m = { ...partitions[partition][sequence - 1] };
      const data = Buffer.from(m.data);
      if (pick(3) === 0) m.time = String(BigInt(m.time) + 1n + BigInt(pick(1000)));
      else data[pick(data.length)] ^= 1 + pick(255);
      m.data = data;
      const other = partitions.map((list, p) => (p === partition ? list.map((x) => (x.sequence === sequence ? m : x)) : list));
      return { export: other, files: logOf(entries, signer), says: `^${of(i)}, field (time|sha256): ` };
    },
    "an exported message more": () => {
      const i = inside();
      const { partition, sequence } = places[i];
      const list = [...partitions[partition]];
      const doubled = pick(list.length);
      list.splice(sequence - 1, pick(2), list[doubled], list[sequence - 1]);
      const numbered = list.map((m, k) => ({ ...m, sequence: k + 1 }));
      const other = partitions.map((x, p) => (p === partition ? numbered : x));
      const first = doubled === sequence - 1 ? later(i) : i;
      return { export: other, files: logOf(entries, signer), says: `^${of(first)}, field ` };
    },
    "an exported message less": () => {
      const i = inside();
      const { partition, sequence } = places[i];
      const numbered = partitions[partition].toSpliced(sequence - 1, 1).map((m, k) => ({ ...m, sequence: k + 1 }));
      const other = partitions.map((x, p) => (p === partition ? numbered : x));
      return { export: other, files: logOf(entries, signer), says: `^${of(i)}, field ` };
    },
    "a split view": () => {
      // Its log and export fit each other.
      const i = pick(n);
      const { partition, sequence } = places[i];
      const m = { ...partitions[partition][sequence - 1] };
      m.time = String(BigInt(m.time) + 1n);
      const other = partitions.with(partition, partitions[partition].with(sequence - 1, m));
      const kept = logOf(entries, signer).get("checkpoint");
      return { export: other, ...signed((list) => { list[i] = entryOf(partition, m); }), kept, says: "^kept checkpoint, field root: expected .*$" };
    },
    "an old checkpoint": () => {
      const size = pick(n);
      const kept = logOf(entries, signer).get("checkpoint");
      return { files: logOf(entries.slice(0, size), signer), kept, says: `^kept checkpoint, field size: expected at most ${size} entries, found ${n}$` };
    },
  };
  const names = Object.keys(forge);
  const found = await check(partitions, logOf(entries, signer));
  assert.equal(found.lines, "", "before it is forged");
  for (let i = 0; i < forgeries; i++) {
    const name = names[i % names.length];
    const f = forge[name]();
    kinds[name] = (kinds[name] ?? 0) + 1;
    const about = `seed ${seed}, forgery ${i}: ${name}`;
    const run = () => check(f.export ?? partitions, f.files, { kept: f.kept });
    if (f.throws !== undefined) {
      await assert.rejects(run, f.throws, about);
      continue;
    }
    const { lines, report } = await run();
    assert.ok(report.count > 0, about);
    assert.match(lines, new RegExp(f.says), about);
  }
  t.diagnostic(`seed ${seed}: ${JSON.stringify(kinds)}`);
});

// The command, with a log in a folder and one that is served.

const whole = exportOf(messages);
const files = logOf(messages.map((m) => entryOf(0, m)), signer);
const write = (dir, list = files) => {
  for (const [name, bytes] of list) {
    mkdirSync(dirname(join(dir, "log", name)), { recursive: true });
    writeFileSync(join(dir, "log", name), bytes);
  }
};
const args = (...more) => (dir) => ["--log", join(dir, "log"), ...more.map((a) => a.replace("DIR", dir))];

test("the command with a folder", async () => {
  const { code, out, err } = await verify(whole, args("--key", signer.key), (m, dir) => write(dir));
  assert.equal(code, 0, out + err);
  const n = messages.length;
  assert.match(out, new RegExp(`^ {2}quire/test/0a1b2c3d: ${n} entries, root .*, ${n} messages equal their entries, 0 not yet in the log`, "m"));
  assert.doesNotMatch(out, /came from the log itself/);
  const own = await verify(whole, args(), (m, dir) => write(dir));
  assert.equal(own.code, 0, own.out);
  assert.match(own.out, /that this is the log's key, which came from the log itself: compare it with the published one: quire\/test\/0a1b2c3d\+/);
  const json = await verify(whole, args("--json"), (m, dir) => write(dir));
  assert.equal(JSON.parse(json.out).log.equal, messages.length);
});

test("the command says that a loss remains on trust", async () => {
  const entries = messages.map((m) => entryOf(0, m));
  const lost = [entryOf(0, { ...messages[7], sequence: 401 }), lossOf(0, 400)];
  const list = logOf([...entries.slice(0, 400), ...lost, ...entries.slice(400)], signer);
  const { code, out, err } = await verify(whole, args("--key", signer.key), (m, dir) => write(dir, list));
  assert.equal(code, 0, out + err);
  assert.match(out, /1 loss, 1 entry of lost messages,/);
  assert.match(out, /^ {2}- that 1 recorded loss of 1 message had a cause/m);
});

test("the command finds a message that was changed with chain and SHA-256", async () => {
  const list = messages.map((m, i) => (i === 500 ? { ...m, time: String(BigInt(m.time) + 1n) } : m));
  const { code, out } = await verify(exportOf(list), args("--key", signer.key), (m, dir) => write(dir));
  assert.equal(code, 1, out);
  assert.match(out, /^partition 0, log, entry 500 \(message 501\), field time: expected \d+, found \d+\nChecked:/);
});

test("the command with wrong keys, checkpoints and logs", async () => {
  const cases = [
    [["--key", new Signer("quire/test/0a1b2c3d").key], 1, /^checkpoint, field signature: expected one of quire\/test\/0a1b2c3d\+[0-9a-f]{8}, found the checkpoint has no signature/m],
    [["--key", "quire/test+00000000+AZGaz"], 2, /--key: the key/],
    [["--key", `${signer.key.split("+")[0]}+00000000+${signer.key.split("+").slice(2).join("+")}`], 2, /--key: the key's hash is/],
    [["--checkpoint", "DIR/log/checkpoint"], 0, /OK/],
    [["--checkpoint", "DIR/none"], 2, /^Cannot verify: ENOENT/],
    [["--account", "00000000001"], 2, /--account prints an account/],
  ];
  for (const [more, want, pattern] of cases) {
    const { code, out, err } = await verify(whole, args(...more), (m, dir) => write(dir));
    assert.equal(code, want, out + err);
    assert.match(out + err, pattern);
  }
  const nothing = await verify(whole, args());
  assert.equal(nothing.code, 2);
  assert.match(nothing.err, /^Cannot verify: .* has no key/);
  const key = await verify(whole, ["--key", signer.key]);
  assert.equal(key.code, 2);
  assert.match(key.err, /^--key and --checkpoint need --log/);
  const other = await verify(whole, args(), (m, dir) => { m.installation = "else"; write(dir); });
  assert.equal(other.code, 1);
  assert.match(other.out, /^log, field origin: expected quire\/else\/…, found quire\/test\/0a1b2c3d/m);
});

test("the command with a log that is served", async () => {
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(request.url);
    const bytes = files.get(request.url.slice("/log/".length));
    response.writeHead(request.url.includes("broken") ? 500 : bytes === undefined ? 404 : 200).end(bytes);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const base = `http://127.0.0.1:${server.address().port}`;
  try {
    const { code, out, err } = await verify(whole, ["--log", `${base}/log/`, "--key", signer.key]);
    assert.equal(code, 0, out + err);
    assert.ok(asked.includes("/log/tile/entries/001"), String(asked));
    const broken = await verify(whole, ["--log", `${base}/broken`]);
    assert.equal(broken.code, 2);
    assert.match(broken.err, /^Cannot verify: http.*\/broken\/key: 500/);
  } finally {
    server.close();
    server.closeAllConnections();
  }
  const away = await verify(whole, ["--log", `${base}/log`]);
  assert.equal(away.code, 2);
  assert.match(away.err, /^Cannot verify: http.*\/key: ./);
});
