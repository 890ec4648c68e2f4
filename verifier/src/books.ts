// Compares what billing shows with what was folded. Memory grows with the number of accounts, not of entries.

import { touch } from "./accounts.ts";
import { idFromNumber, parseId, showId } from "./ids.ts";
import { canonical } from "./json.ts";
import { compareValues, type Report } from "./report.ts";
import type { Hash } from "./sha256.ts";
import { showAccount } from "./show.ts";
import type { Account, Sink, State } from "./state.ts";

type Json = Record<string, unknown>;

const tables = ["ledger", "closed", "account"] as const;
type Table = (typeof tables)[number];

/** Running digests over the ledger entries and closed statements of an account, in order. */
interface Sums {
  ledger: Uint8Array;
  closed: Uint8Array;
  ledgerCount: number;
  closedCount: number;
  /** Digests of closed after each statement that nothing but time has closed. */
  idle: Uint8Array[];
}

const nothing = new Uint8Array(32);
const encoder = new TextEncoder();

class Digests {
  readonly byAccount = new Map<string, Sums>();

  constructor(private readonly hash: Hash) {}

  private sums(id: string): Sums {
    let sums = this.byAccount.get(id);
    if (sums === undefined) {
      sums = { ledger: nothing, closed: nothing, ledgerCount: 0, closedCount: 0, idle: [] };
      this.byAccount.set(id, sums);
    }
    return sums;
  }

  addIdle(id: string, line: string): void {
    const { idle, closed } = this.sums(id);
    idle.push(this.hash([idle[idle.length - 1] ?? closed, encoder.encode(line)]));
  }

  add(id: string, table: "ledger" | "closed", line: string): void {
    const sums = this.sums(id);
    sums[table] = this.hash([sums[table], encoder.encode(line)]);
    sums[`${table}Count`]++;
  }
}

/** Digests what the fold emits. */
export class Recorder implements Sink {
  readonly digests: Digests;

  linked?: NonNullable<Sink["linked"]>;
  sealed?: NonNullable<Sink["sealed"]>;
  private ended = false;

  constructor(readonly enabled: boolean, hash: Hash) {
    this.digests = new Digests(hash);
  }

  /**
   * After the last message: closes the months that are over. Billing closes them when something happens to an account, so the
   * books may or may not have these statements of an idle account.
   */
  end(s: State): void {
    this.ended = true;
    if (this.enabled) for (const a of s.accounts.values()) touch(s, a, s.time);
  }

  ledger(a: Account, entry: Json): void {
    if (this.enabled) this.digests.add(a.id, "ledger", canonical(entry));
  }

  closed(a: Account, statement: Json): void {
    if (!this.enabled) return;
    const line = canonical({ account: showId(a.id), statement });
    if (this.ended) this.digests.addIdle(a.id, line);
    else this.digests.add(a.id, "closed", line);
  }
}

/** Keeps the lines of some accounts. */
export class Collector implements Sink {
  readonly lines = new Map<string, { ledger: Json[]; closed: Json[] }>();
  /** Number of closed statements before end(). */
  readonly closedCounts = new Map<string, number>();

  constructor(ids: Iterable<string>) {
    for (const id of ids) this.lines.set(id, { ledger: [], closed: [] });
  }

  ledger(a: Account, entry: Json): void {
    this.lines.get(a.id)?.ledger.push(entry);
  }

  closed(a: Account, statement: Json): void {
    this.lines.get(a.id)?.closed.push({ account: showId(a.id), statement });
  }

  /** As Recorder.end(). */
  end(s: State): void {
    for (const [id, { closed }] of this.lines) {
      this.closedCounts.set(id, closed.length);
      const a = s.accounts.get(id);
      if (a !== undefined) touch(s, a, s.time);
    }
  }
}

interface BookLine {
  table: Table;
  account: string;
  value: Json;
}

function parseLine(text: string): BookLine | undefined {
  let line: unknown;
  try {
    line = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof line !== "object" || line === null || Array.isArray(line)) return undefined;
  const [entry, second] = Object.entries(line as Json);
  if (entry === undefined || second !== undefined) return undefined;
  const [table, value] = entry;
  if (!tables.includes(table as Table) || typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const account = accountOf(table as Table, (value as Json)["account"]);
  return account === undefined ? undefined : { table: table as Table, account, value: value as Json };
}

function accountOf(table: Table, shown: unknown): string | undefined {
  if (typeof shown !== "string") return undefined;
  if (table !== "ledger") return parseId(shown);
  if (!/^[0-9]{1,20}$/.test(shown)) return undefined;
  const n = BigInt(shown);
  return n < 1n << 64n ? idFromNumber(n) : undefined;
}

export interface BooksResult {
  lines: number;
  /** Accounts whose entries or statements differ. */
  suspects: Set<string>;
}

/** Compares the books with the digests. Differences in account lines are located at once, the others by locate(). */
export async function compareBooks(
  s: State, recorder: Recorder, lines: AsyncIterable<string> | Iterable<string>, hash: Hash, report: Report,
): Promise<BooksResult> {
  const partition = s.partition;
  const found = new Digests(hash);
  const shown = new Set<string>();
  recorder.end(s);
  let count = 0;
  let last = { account: "", table: 0 };
  for await (const text of lines) {
    count++;
    const line = parseLine(text);
    const what = `books line ${count}`;
    if (line === undefined) {
      report.add({ partition, what, expected: "an entry, a statement or an account", found: text });
      continue;
    }
    const account = showId(line.account);
    const table = tables.indexOf(line.table);
    if (line.account < last.account || (line.account === last.account && table < last.table)) {
      report.add({ partition, account, what, field: "order", expected: "after the line before", found: "before it" });
    }
    last = { account: line.account, table };
    if (line.table !== "account") found.add(line.account, line.table, canonical(line.value));
    else if (shown.has(line.account)) report.add({ partition, account, what: "account", expected: "once", found: "again" });
    else {
      shown.add(line.account);
      compareAccount(s, line, report);
    }
  }
  for (const id of s.accounts.keys()) {
    if (!shown.has(id)) report.add({ partition, account: showId(id), what: "account", expected: "present", found: "missing" });
  }
  return { lines: count, suspects: suspectsOf(recorder.digests, found) };
}

function compareAccount(s: State, line: BookLine, report: Report): void {
  const a = s.accounts.get(line.account);
  const base = { partition: s.partition, account: showId(line.account), what: "account" };
  if (a === undefined) {
    report.add({ ...base, expected: "missing", found: "present" });
    return;
  }
  const expected = showAccount(s, a);
  if (canonical(expected) === canonical(line.value)) return;
  compareValues(expected, line.value, "", (field, e, f) => report.add({ ...base, field, expected: e, found: f }));
}

function suspectsOf(expected: Digests, found: Digests): Set<string> {
  const suspects = new Set<string>();
  const none: Sums = { ledger: nothing, closed: nothing, ledgerCount: 0, closedCount: 0, idle: [] };
  const same = (x: Uint8Array, y: Uint8Array): boolean => x.every((b, i) => b === y[i]);
  for (const id of new Set([...expected.byAccount.keys(), ...found.byAccount.keys()])) {
    const x = expected.byAccount.get(id) ?? none;
    const y = found.byAccount.get(id) ?? none;
    if (!same(x.ledger, y.ledger) || ![x.closed, ...x.idle].some((d) => same(d, y.closed))) suspects.add(id);
  }
  return suspects;
}

/** Keeps the books' lines of some accounts. */
export async function collectBooks(
  lines: AsyncIterable<string> | Iterable<string>, ids: Set<string>,
): Promise<Collector> {
  const c = new Collector(ids);
  for await (const text of lines) {
    const line = parseLine(text);
    if (line !== undefined && line.table !== "account") c.lines.get(line.account)?.[line.table].push(line.value);
  }
  return c;
}

/** Names the rows that differ. */
export function locate(partition: number, expected: Collector, found: Collector, report: Report): void {
  for (const [id, e] of [...expected.lines].sort(([x], [y]) => (x < y ? -1 : 1))) {
    const f = found.lines.get(id)!;
    const base = { partition, account: showId(id) };
    compareRows(e.ledger, f.ledger, (row) => String(row["id"]), "ledger", base, report);
    const period = (row: Json): string => String((row["statement"] as Json | undefined)?.["period"]);
    const least = expected.closedCounts.get(id) ?? 0;
    const closed = e.closed.slice(0, Math.max(least, f.closed.length));
    compareRows(closed, f.closed, period, "closed", base, report);
  }
}

function compareRows(
  expected: Json[], found: Json[], nameOf: (row: Json) => string, table: string,
  base: { partition: number; account: string }, report: Report,
): void {
  const before = report.count;
  const rows = new Map(expected.map((row) => [nameOf(row), row]));
  const seen = new Map<string, number>();
  for (const row of found) {
    const name = nameOf(row);
    const what = `${table} ${name}`;
    const times = (seen.get(name) ?? 0) + 1;
    seen.set(name, times);
    const want = rows.get(name);
    if (want === undefined) report.add({ ...base, what, expected: "missing", found: "present" });
    else if (times > 1) report.add({ ...base, what, expected: "once", found: "again" });
    else compareValues(want, row, "", (field, e, f) => report.add({ ...base, what, field, expected: e, found: f }));
  }
  for (const name of rows.keys()) {
    if (!seen.has(name)) report.add({ ...base, what: `${table} ${name}`, expected: "present", found: "missing" });
  }
  if (report.count > before) return;
  const at = expected.findIndex((row, i) => nameOf(row) !== nameOf(found[i] ?? {}));
  if (at < 0) return;
  report.add({
    ...base, what: `${table} row ${at + 1}`, field: "order", expected: nameOf(expected[at]!), found: nameOf(found[at] ?? {}),
  });
}
