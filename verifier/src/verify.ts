// Verifies an export: files, sequences, chain, and books. See "Exports" in docs/journal.md.

import { Collector, collectBooks, compareBooks, locate, Recorder } from "./books.ts";
import { Fold, type Message } from "./fold.ts";
import { fromBase64, hex, idNumber, showId } from "./ids.ts";
import { LogCheck, type LogFiles, type LogResult } from "./log.ts";
import type { Checkpoint } from "./note.ts";
import type { KeptReceipts } from "./receipts.ts";
import { Report } from "./report.ts";
import { SealCheck } from "./seals.ts";
import type { Hash } from "./sha256.ts";
import { Impossible } from "./settle.ts";
import type { Sink } from "./state.ts";
import { UnknownRules } from "./upcoming.ts";
import { bounded } from "./wire.ts";
import { partitionOf } from "./xxhash.ts";

/** The input can't be read, so that nothing can be said about it. */
export class Unreadable extends Error {}

export interface OpenFile {
  lines: AsyncIterable<string> | Iterable<string>;
  /** After the last line: what was read. */
  end(): { bytes: number; sha256: string };
}

/** An export, wherever it is. */
export interface Folder {
  manifest(): Promise<string>;
  open(file: string): OpenFile;
}

interface FileEntry {
  file: string;
  bytes: number;
  sha256: string;
}

interface Journal extends FileEntry {
  stream: string;
  partition: number;
  messages: number;
  chain: string;
  books: (FileEntry & { lines: number; sequence: string }) | undefined;
}

export interface Manifest {
  version: string;
  installation: string;
  partitions: number;
  journals: Journal[];
}

export interface Checked {
  stream: string;
  partition: number;
  sequence: number;
  chain: string;
  messages: number;
  undecodable: number;
  admissions: number;
  settlements: number;
  commands: number;
  accounts: number;
  ledgerEntries: number;
  statements: number;
  /** Seals that were compared. */
  seals: number;
  /** Lines of the books, if the export has them. */
  books: number | undefined;
  /** Receipts that were compared, if any were kept. */
  receipts: number | undefined;
}

export interface Result {
  manifest: Manifest;
  checked: Checked[];
  report: Report;
  bounded: number;
  log: LogResult | undefined;
}

function entry<T>(object: unknown, name: string, is: (v: unknown) => v is T): T {
  const value = (object as Record<string, unknown> | null)?.[name];
  if (!is(value)) throw new Unreadable(`manifest.json: ${name} is missing or malformed`);
  return value;
}

const isText = (v: unknown): v is string => typeof v === "string";
const isCount = (v: unknown): v is number => typeof v === "number" && Number.isSafeInteger(v) && v >= 0;
const isList = (v: unknown): v is unknown[] => Array.isArray(v);
const isFile = (v: unknown): v is string => isText(v) && /^[A-Za-z0-9_.-]+$/.test(v) && !v.startsWith(".");

function fileEntry(o: unknown): FileEntry {
  return { file: entry(o, "file", isFile), bytes: entry(o, "bytes", isCount), sha256: entry(o, "sha256", isText) };
}

export function parseManifest(text: string): Manifest {
  let o: unknown;
  try {
    o = JSON.parse(text);
  } catch {
    throw new Unreadable("manifest.json: is not JSON");
  }
  const format = entry(o, "format", isCount);
  if (format !== 1) throw new Unreadable(`manifest.json: format ${format} is not known, only 1 is`);
  const journals = entry(o, "journals", isList).map((j): Journal => {
    const books = (j as Record<string, unknown> | null)?.["books"];
    return {
      ...fileEntry(j), stream: entry(j, "stream", isText), partition: entry(j, "partition", isCount),
      messages: entry(j, "messages", isCount), chain: entry(j, "chain", isText),
      books: books === undefined ? undefined
        : { ...fileEntry(books), lines: entry(books, "lines", isCount), sequence: entry(books, "sequence", isText) },
    };
  });
  const partitions = entry(o, "partitions", isCount);
  if (partitions === 0) throw new Unreadable("manifest.json: partitions is 0");
  return { version: entry(o, "version", isText), installation: entry(o, "installation", isText), partitions, journals };
}

function parseMessage(line: string): Message | undefined {
  let o: unknown;
  try {
    o = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (typeof o !== "object" || o === null) return undefined;
  const { sequence, time, subject, data } = o as Record<string, unknown>;
  if (!isText(sequence) || !isText(time) || !isText(subject) || !isText(data)) return undefined;
  if (!/^[1-9][0-9]{0,15}$/.test(sequence) || !/^-?[0-9]{1,19}$/.test(time)) return undefined;
  const bytes = fromBase64(data);
  return bytes === undefined ? undefined : { sequence: Number(sequence), time, subject, data: bytes };
}

export class Verifier {
  readonly report = new Report();
  readonly checked: Checked[] = [];

  constructor(
    private readonly folder: Folder,
    private readonly manifest: Manifest,
    private readonly hash: Hash,
    /** A faster way to decode lines of the usual form. */
    private readonly decode: (line: string) => Message | undefined = () => undefined,
    private readonly kept?: KeptReceipts,
  ) {}

  async run(only: number | undefined): Promise<Result> {
    const { journals, partitions } = this.manifest;
    const chosen = journals.filter((j) => only === undefined || j.partition === only);
    if (chosen.length === 0) throw new Unreadable(only === undefined ? "manifest.json: no journals" : `no partition ${only}`);
    const seen = new Set<number>();
    for (const j of chosen) {
      const expected = `BILLING_${j.partition}`;
      if (j.stream !== expected || j.partition >= partitions || seen.has(j.partition)) {
        this.report.add({ partition: j.partition, what: "manifest", field: "stream", expected, found: j.stream });
        continue;
      }
      seen.add(j.partition);
      await this.journal(j);
    }
    return { manifest: this.manifest, checked: this.checked, report: this.report, bounded: bounded.count, log: undefined };
  }

  private async journal(j: Journal): Promise<void> {
    const before = this.kept?.compared ?? 0;
    const recorder = new Recorder(j.books !== undefined, this.hash);
    const seals = new SealCheck(this.hash, this.manifest.partitions, this.report);
    recorder.linked = (s, a) => {
      seals.linked(a);
      this.kept?.compare(s, a, this.report);
    };
    recorder.sealed = (s, seal) => seals.sealed(s, seal);
    const { fold, undecodable, complete } = await this.fold(j, recorder, true);
    const s = fold.state;
    if (complete) {
      const chain = hex(s.chain);
      if (chain !== j.chain) this.differs(j, "chain", "sha256", j.chain, chain);
      this.kept?.end(s, (id) => this.partitionOf(id) === j.partition, this.report);
    }
    const counted: Checked = {
      stream: j.stream, partition: j.partition, sequence: s.sequence, chain: hex(s.chain), messages: s.counts.messages,
      undecodable, admissions: s.counts.admissions, settlements: s.counts.settlements, commands: s.counts.commands,
      accounts: s.accounts.size, ledgerEntries: s.counts.ledger, statements: 0, seals: seals.count, books: undefined, receipts: undefined,
    };
    if (this.kept !== undefined) counted.receipts = this.kept.compared - before;
    this.checked.push(counted);
    if (j.books !== undefined && complete) counted.books = await this.books(j, j.books, fold, recorder);
    counted.statements = s.counts.closed;
    for (const a of s.accounts.values()) counted.statements += a.previous === undefined ? 1 : 2;
  }

  private differs(j: Journal, what: string, field: string, expected: unknown, found: unknown): void {
    this.report.add({ partition: j.partition, what, field, expected: String(expected), found: String(found) });
  }

  private checkFile(j: Journal, want: FileEntry, is: { bytes: number; sha256: string }): void {
    if (is.bytes !== want.bytes) this.differs(j, want.file, "bytes", want.bytes, is.bytes);
    if (is.sha256 !== want.sha256) this.differs(j, want.file, "sha256", want.sha256, is.sha256);
  }

  /** Folds a journal. With check, differences of the file are reported too. */
  async fold(j: Journal, sink: Sink, check: boolean): Promise<{ fold: Fold; undecodable: number; complete: boolean }> {
    const fold = new Fold(j.partition, false, sink, this.hash);
    const file = this.folder.open(j.file);
    let undecodable = 0;
    let lines = 0;
    let complete = true;
    for await (const line of file.lines) {
      lines++;
      if (!complete) continue;
      const m = this.decode(line) ?? parseMessage(line);
      const what = `${j.file} line ${lines}`;
      if (m === undefined || m.sequence !== lines) {
        const found = m === undefined ? line : String(m.sequence);
        if (check) this.differs(j, what, m === undefined ? "message" : "sequence", m === undefined ? "one" : lines, found);
        complete = false;
        continue;
      }
      try {
        const effects = fold.add(m);
        if (effects.undecodable && m.subject !== `billing.${j.partition}.closed`) undecodable++; // that one ends a generation
        effects.undecodable = false;
      } catch (e) {
        if (e instanceof UnknownRules) throw new Unreadable(`${what}: ${e.message}`);
        if (!(e instanceof Impossible)) throw e;
        if (check) this.differs(j, what, "fold", "a possible state", e.message);
        complete = false;
      }
    }
    if (check) {
      this.checkFile(j, j, file.end());
      if (lines !== j.messages) this.differs(j, j.file, "messages", j.messages, lines);
      this.checkPartition(j, fold);
    }
    return { fold, undecodable, complete };
  }

  private partitionOf(id: string): number {
    return partitionOf(idNumber(id), this.manifest.partitions);
  }

  private checkPartition(j: Journal, fold: Fold): void {
    for (const id of fold.state.accounts.keys()) {
      const right = this.partitionOf(id);
      if (right === j.partition) continue;
      this.report.add({
        partition: j.partition, account: showId(id), what: "account", field: "partition", expected: String(right),
        found: String(j.partition),
      });
    }
  }

  private async books(j: Journal, books: NonNullable<Journal["books"]>, fold: Fold, recorder: Recorder): Promise<number> {
    if (books.sequence !== String(fold.state.sequence)) {
      this.differs(j, "books", "sequence", fold.state.sequence, books.sequence);
    }
    const file = this.folder.open(books.file);
    const { lines, suspects } = await compareBooks(fold.state, recorder, file.lines, this.hash, this.report);
    this.checkFile(j, books, file.end());
    if (lines !== books.lines) this.differs(j, books.file, "lines", books.lines, lines);
    if (suspects.size > 0) await this.locate(j, books, suspects, recorder);
    return lines;
  }

  /** Folds again, keeping the entries of the accounts that differ. */
  private async locate(j: Journal, books: FileEntry, suspects: Set<string>, recorder: Recorder): Promise<void> {
    const most = 200_000;
    const chosen = new Set<string>();
    let rows = 0;
    for (const id of [...suspects].sort()) {
      const sums = recorder.digests.byAccount.get(id);
      rows += (sums?.ledgerCount ?? 0) + (sums?.closedCount ?? 0);
      if (chosen.size > 0 && (rows > most || chosen.size >= 10_000)) break;
      chosen.add(id);
    }
    const expected = new Collector(chosen);
    const { fold } = await this.fold(j, expected, false);
    expected.end(fold.state);
    const found = await collectBooks(this.folder.open(books.file).lines, chosen);
    const before = this.report.count;
    locate(j.partition, expected, found, this.report);
    for (const id of [...suspects].filter((x) => !chosen.has(x))) {
      this.report.more = true;
      this.report.add({ partition: j.partition, account: showId(id), what: "ledger or closed", expected: "as folded", found: "other rows" });
    }
    if (this.report.count === before) this.differs(j, "books", "rows", "as folded", "others");
  }

  /** Compares the export with a log. Kept is an earlier checkpoint of it. */
  async log(files: LogFiles, checkpoint: Checkpoint, kept: Checkpoint | undefined, only: number | undefined): Promise<LogResult> {
    const { installation, journals, partitions } = this.manifest;
    if (!checkpoint.origin.startsWith(`quire/${installation}/`)) {
      this.report.add({ what: "log", field: "origin", expected: `quire/${installation}/…`, found: checkpoint.origin });
    }
    const chosen = journals.filter((j) => (only === undefined || j.partition === only) && j.partition < partitions);
    const list = chosen.map((j) => ({ partition: j.partition, messages: j.messages, open: () => this.messages(j) }));
    return await new LogCheck(files, this.hash, checkpoint, kept, partitions, list).run(this.report);
  }

  private *messages(j: Journal): Generator<Message> {
    let sequence = 0;
    for (const line of this.folder.open(j.file).lines as Iterable<string>) {
      const m = this.decode(line) ?? parseMessage(line);
      if (m?.sequence !== ++sequence) return;
      yield m;
    }
  }

  /** One account, with all of its entries. */
  async account(id: string, show: (fold: Fold) => Record<string, unknown> | undefined): Promise<Record<string, unknown> | undefined> {
    const partition = this.partitionOf(id);
    const j = this.manifest.journals.find((x) => x.partition === partition);
    if (j === undefined) throw new Unreadable(`no journal of partition ${partition}, to which ${showId(id)} belongs`);
    const collector = new Collector([id]);
    const { fold, complete } = await this.fold(j, collector, true);
    if (!complete) return undefined;
    const shown = show(fold);
    return shown === undefined ? undefined : { ...shown, ...collector.lines.get(id)! };
  }
}
