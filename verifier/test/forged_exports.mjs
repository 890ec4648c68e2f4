// Forgeries of an export whose manifest fits the forged files. Each returns the parts, the first line of what is found, and, if the journal is
// forged, the first line that a log adds; or undefined, if it is not possible or changes nothing.

import { idFromNumber, Impossible, showId } from "../verify.mjs";
import { booksOf, chainOf, lineOf } from "./export.mjs";

/** Paths of all values in an object. */
function paths(o, at = []) {
  return Object.entries(o).flatMap(([k, v]) => (typeof v === "object" ? paths(v, [...at, k]) : [[...at, k]]));
}

const quote = (text) => text.replace(/[.[\]]/g, "\\$&");

/** What a line of the books is: its table, the account's id as it is shown, and the name of the row. */
function rowOf(line) {
  const [[table, value]] = Object.entries(JSON.parse(line));
  const account = table === "ledger" ? showId(idFromNumber(BigInt(value.account))) : value.account;
  const name = table === "ledger" ? `ledger ${value.id}` : table === "closed" ? `closed ${value.statement.period}` : "account";
  return { table, value, account, name };
}

/** The forgeries by name. */
export function forgedExports(pick, messages, whole) {
  const n = messages.length;
  const one = (list) => list[pick(list.length)];
  const rows = whole.books.map(rowOf);
  const accounts = rows.filter((r) => r.table === "account").map((r) => r.account);
  const at = (r) => `^partition 0, account ${r.account}, `;
  const isGroup = (x, y) => x.account === y.account && x.table === y.table;

  const forgeValue = (v) => {
    if (typeof v === "boolean") return !v;
    if (typeof v === "number") return v + 1 + pick(5);
    if (/^-?\d+$/.test(v)) return String(BigInt(v) + BigInt(pick(2) ? 1 + pick(1000) : -1 - pick(1000)));
    return `${v}!`;
  };

  /** Changes or removes a value of a line, and returns its path. */
  const forgeField = (lines, i) => {
    const o = JSON.parse(lines[i]);
    const path = one(paths(o));
    const last = path.at(-1);
    const holder = path.slice(0, -1).reduce((x, k) => x[k], o);
    if (pick(4) === 0) delete holder[last];
    else holder[last] = forgeValue(holder[last]);
    lines[i] = JSON.stringify(o);
    return path;
  };

  const books = (edit) => () => {
    const lines = [...whole.books];
    const first = edit(lines);
    return first === undefined ? undefined : { parts: { ...whole, books: lines }, first };
  };
  const missing = (i, count) => `(${rows.slice(i, i + count).map((r) => `${at(r)}${r.name}`).join("|")}): expected present, found missing$`;

  /** Where a row is found that was moved to line k. Its neighbor before is the row that was there. */
  const misplaced = (i, k, before) => {
    const r = rows[i];
    if (!isGroup(r, before)) return `${at(r)}books line ${k + 1}, field order: `;
    return `${at(r)}${r.table} row ${rows.slice(0, i).filter((x) => isGroup(x, r)).length + 1}, field order: expected ${r.name.split(" ")[1]}, `;
  };

  const journal = (edit) => () => {
    const lines = [...whole.journal];
    const found = edit(lines);
    return { parts: { ...whole, journal: lines }, ...found };
  };
  const file = (i, expected) => ({ first: `^partition 0, BILLING_0\\.jsonl line ${i + 1}, field sequence: expected ${i + 1}, found ${expected}$` });
  /** A journal that ends early: the books are of a later message. */
  const ended = (last) => ({ first: "^partition 0, chain, field sha256: ", second: `^partition 0, books, field sequence: expected ${last}, found ${n}$` });
  const logged = (i) => `^partition 0, log, entry ${i} \\(message ${i + 1}\\), field `;

  /** The renumbered messages after an edit. i is the first that differs, or undefined if there are only fewer or more. */
  const renumbered = (edit) => {
    const list = edit(messages.map((m) => ({ ...m })))?.map((m, i) => ({ ...m, sequence: i + 1 }));
    if (list === undefined) return undefined;
    const lines = list.map(lineOf);
    const i = lines.findIndex((line, k) => k < n && line !== whole.journal[k]);
    return { list, lines, i: i < 0 ? undefined : i };
  };

  /** With the original chain. */
  const messagesOf = (edit) => () => {
    const { list, lines, i } = renumbered(edit);
    const parts = { ...whole, journal: lines };
    if (i === undefined) return list.length === n ? undefined : { parts, ...ended(list.length) };
    // The fold may stop at a message that nobody can have written.
    const first = "^partition 0, (chain, field sha256: |BILLING_0\\.jsonl line \\d+, field fold: )";
    return { parts, first, log: logged(i), rules: `BILLING_0\\.jsonl line ${i + 1}: rules ` };
  };

  /** With a matching chain, and either matching books or the original ones. */
  const history = (edit) => () => {
    const forged = renumbered(edit);
    if (forged?.i === undefined) return undefined;
    const { list, lines, i } = forged;
    const parts = { ...whole, journal: lines, chain: chainOf(list), sequence: String(list.length) };
    if (pick(2) === 0) return { parts, first: "^partition 0, ", log: logged(i) };
    try {
      parts.books = booksOf(list).lines.map((l) => JSON.stringify(l));
    } catch (e) {
      if (e instanceof Impossible) return undefined;
      throw e;
    }
    return { parts, first: logged(i), log: logged(i) };
  };
  const omit = (list) => list.toSpliced(pick(list.length), 1);
  const doubled = (list) => { const m = one(list); return list.toSpliced(pick(list.length), 0, m); };
  const reordered = (list) => {
    const [i, j] = [pick(n), pick(n)];
    return list.with(i, messages[j]).with(j, messages[i]);
  };
  const edited = (list) => {
    const m = one(list);
    switch (pick(3)) {
      case 0: m.time = String(BigInt(m.time) + 1n + BigInt(pick(1e9))); break;
      case 1: m.subject = m.subject === "billing.0.usage" ? "billing.0.account" : "billing.0.usage"; break;
      default:
        m.data = Uint8Array.from(m.data);
        m.data[pick(m.data.length)] ^= 1 + pick(255);
    }
    return list;
  };
  const isOf = (m, id) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(id);
    return m.subject === "billing.0.account" && Buffer.from(m.data).includes(bytes);
  };

  return {
    "books: omitted rows": books((lines) => {
      const [i, count] = [pick(lines.length), 1 + pick(3)];
      lines.splice(i, count);
      return missing(i, count);
    }),
    "books: cut off": books((lines) => {
      const i = lines.length - 1 - pick(20);
      lines.splice(i);
      return missing(i, n);
    }),
    "books: doubled row": books((lines) => {
      const i = pick(lines.length);
      lines.splice(i + pick(2), 0, lines[i]);
      return `${at(rows[i])}${rows[i].name}: expected once, found again$`;
    }),
    "books: swapped rows": books((lines) => {
      const i = pick(lines.length - 1);
      [lines[i], lines[i + 1]] = [lines[i + 1], lines[i]];
      return misplaced(i, i + 1, rows[i + 1]);
    }),
    "books: moved row": books((lines) => {
      const half = lines.length >> 1;
      const [i, k] = [pick(half), half + pick(half)];
      lines.splice(k, 0, ...lines.splice(i, 1));
      return misplaced(i, k, rows[k]);
    }),
    "books: edited row": books((lines) => {
      const i = pick(lines.length);
      const r = rows[i];
      const [, ...path] = forgeField(lines, i);
      const field = path.reduce((text, k) => (/^\d+$/.test(k) ? `${text}[${k}]` : text === "" ? k : `${text}.${k}`), "");
      const changed = JSON.parse(lines[i])[r.table];
      // It may be before or after its neighbors, under another account or name.
      if (field === "account") return `^partition 0, (account \\w{11}, )?(books line (${i + 1}|${i + 2})|${r.name}|account)(,|:)`;
      if (field === "id") return `${at(r)}ledger ${changed.id}(,|:)`;
      if (field === "statement.period") return `${at(r)}closed ${changed.statement.period}(,|:)`;
      return `${at(r)}${r.name}, field ${quote(field)}: expected `;
    }),
    "books: made-up entry": books((lines) => {
      const i = one([...rows.keys()].filter((k) => rows[k].table === "ledger"));
      const id = `${"z".repeat(11)}${String(pick(1e6)).padStart(6, "0")}`;
      lines.splice(i + pick(2), 0, JSON.stringify({ ledger: { ...rows[i].value, id } }));
      return `${at(rows[i])}ledger ${id}: expected missing, found present$`;
    }),
    "books: second statement": books((lines) => {
      const i = one([...rows.keys()].filter((k) => rows[k].table === "closed"));
      const { account, statement } = rows[i].value;
      const second = { account, statement: { ...statement, tier: statement.tier + 1 } };
      lines.splice(i + pick(2), 0, JSON.stringify({ closed: second }));
      return `${at(rows[i])}${rows[i].name}(: expected once, found again$|, field statement\\.tier: )`;
    }),
    "books: hidden account": books((lines) => {
      const account = one(accounts);
      lines.splice(0, n, ...whole.books.filter((_, i) => rows[i].account !== account));
      return `${at({ account })}account: expected present, found missing$`;
    }),
    "books: swapped accounts": books((lines) => {
      const i = pick(accounts.length - 1);
      const shownAt = (account) => rows.findIndex((r) => r.account === account && r.table === "account");
      const [a, b] = [accounts[i], accounts[i + 1 + pick(accounts.length - 1 - i)]].map(shownAt);
      const [x, y] = [rows[a].value, rows[b].value];
      lines[a] = JSON.stringify({ account: { ...y, account: x.account, usage: { ...y.usage, account: x.usage.account } } });
      lines[b] = JSON.stringify({ account: { ...x, account: y.account, usage: { ...x.usage, account: y.usage.account } } });
      return `${at(rows[a])}account, field `;
    }),
    "journal: omitted lines": journal((lines) => {
      const [i, count] = [pick(n), 1 + pick(3)];
      lines.splice(i, count);
      return i + count < n ? file(i, i + count + 1) : ended(i);
    }),
    "journal: cut off": journal((lines) => {
      const i = n - 1 - pick(20);
      lines.splice(i);
      return ended(i);
    }),
    "journal: doubled line": journal((lines) => {
      const i = pick(n);
      lines.splice(i + pick(2), 0, lines[i]);
      return file(i + 1, i + 1);
    }),
    "journal: swapped lines": journal((lines) => {
      const i = pick(n - 1);
      [lines[i], lines[i + 1]] = [lines[i + 1], lines[i]];
      return file(i, i + 2);
    }),
    "journal: moved line": journal((lines) => {
      const i = pick(n >> 1);
      lines.splice((n >> 1) + pick(n >> 1), 0, ...lines.splice(i, 1));
      return file(i, i + 2);
    }),
    "journal: edited line": journal((lines) => {
      const i = pick(n);
      const [field] = forgeField(lines, i);
      const { [field]: value } = JSON.parse(lines[i]);
      const isRead = value !== undefined && field !== "data" && !(field === "sequence" && Number(value) < 1);
      if (!isRead) return { first: `^partition 0, BILLING_0\\.jsonl line ${i + 1}, field message: expected one, found ` };
      return field === "sequence" ? file(i, value) : { first: "^partition 0, chain, field sha256: ", log: logged(i) };
    }),
    "messages: omitted": messagesOf(omit),
    "messages: doubled": messagesOf(doubled),
    "messages: reordered": messagesOf(reordered),
    "messages: edited": messagesOf(edited),
    "history: omitted": history(omit),
    "history: doubled": history(doubled),
    "history: reordered": history(reordered),
    "history: hidden account": history((list) => {
      const id = 1_000_003n * BigInt(1 + pick(accounts.length));
      return list.filter((m) => !isOf(m, id));
    }),
    "history: swapped accounts": history((list) => {
      // The commands of one have happened to the other.
      const [a, b] = [1 + pick(accounts.length), 1 + pick(accounts.length)].map((k) => 1_000_003n * BigInt(k));
      if (a === b) return undefined;
      const [ofA, ofB] = [a, b].map((id) => [...messages.keys()].filter((i) => isOf(messages[i], id)));
      ofA.slice(0, ofB.length).forEach((i, k) => { [list[i].data, list[ofB[k]].data] = [messages[ofB[k]].data, messages[i].data]; });
      return list;
    }),
  };
}
