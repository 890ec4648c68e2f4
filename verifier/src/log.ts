// Compares an export with the log. See docs/proof.md, and c2sp.org/tlog-tiles for its files.

import type { Message } from "./fold.ts";
import { base64, hex } from "./ids.ts";
import { itemsRoot, leafHash, rootOf } from "./merkle.ts";
import type { Checkpoint } from "./note.ts";
import { Report } from "./report.ts";
import type { Hash } from "./sha256.ts";

/** The files of a log, wherever it is. */
export interface LogFiles {
  /** Undefined: there is no such file. One that is longer than the limit is not read. */
  read(path: string, limit: number): Promise<Uint8Array | undefined>;
}

/** The messages of a partition in order. */
export interface LogJournal {
  partition: number;
  messages: number;
  open(): Iterator<Message>;
}

export interface LogResult {
  origin: string;
  size: number;
  root: string;
  /** Exported messages that equal their entry. */
  equal: number;
  /** Exported messages after the log's last one. */
  notYet: number;
  /** Entries of messages that the export does not have yet. */
  newer: number;
  /** Entries of other partitions, and of kinds that are not known. */
  others: number;
  losses: number;
  /** Entries of messages that were lost. */
  lost: number;
}

interface Loss {
  index: number;
  partition: number;
  last: number;
}

interface Pass {
  losses: Loss[];
  report: Report;
  result: LogResult;
}

interface Tile {
  path: string;
  bytes: Uint8Array | undefined;
  /** It is the complete one, of which only a part counts. */
  whole: boolean;
}

const tileWidth = 256;
const longestBundle = tileWidth * (2 + 0xffff);
const hashSize = 32;
const prefix = 87;
const lossSize = 11;
const utf8 = new TextEncoder();
const text = new TextDecoder();

export function tilePath(level: number | "entries", index: number, width: number): string {
  const digits = String(index).padStart(Math.ceil(String(index).length / 3) * 3, "0").match(/.../g)!;
  const last = digits.pop()!;
  return `tile/${level}/${digits.map((d) => `x${d}/`).join("")}${last}${width === tileWidth ? "" : `.p/${width}`}`;
}

/** The entry of a message. */
export function messageEntry(hash: Hash, partition: number, m: Message): Uint8Array {
  const subject = utf8.encode(m.subject);
  const out = new Uint8Array(prefix + subject.length);
  const view = new DataView(out.buffer);
  out[0] = 1;
  view.setUint16(1, partition);
  view.setBigUint64(3, BigInt(m.sequence));
  view.setBigInt64(11, BigInt(m.time));
  view.setUint32(19, m.data.length);
  out.set(hash([m.data]), 23);
  out.set(itemsRoot(hash, m.data), 55);
  out.set(subject, prefix);
  return out;
}

const view = (b: Uint8Array): DataView => new DataView(b.buffer, b.byteOffset, b.byteLength);

function same(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

const fields: [string, (e: Uint8Array) => string][] = [
  ["time", (e) => view(e).getBigInt64(11).toString()],
  ["subject", (e) => text.decode(e.subarray(prefix))],
  ["length", (e) => String(view(e).getUint32(19))],
  ["sha256", (e) => hex(e.subarray(23, 55))],
  ["items", (e) => hex(e.subarray(55, prefix))],
];

/** Where the log and the export are in a partition. */
class Cursor {
  /** Sequence of the partition's next entry. */
  next = 1;
  private messages: Iterator<Message>;
  private at = 0;

  constructor(readonly journal: LogJournal) {
    this.messages = journal.open();
  }

  /** The message with a sequence. Undefined: the export doesn't have it. */
  message(sequence: number): Message | undefined {
    if (sequence <= this.at) {
      this.messages.return?.();
      this.messages = this.journal.open();
      this.at = 0;
    }
    for (;;) {
      const { value, done } = this.messages.next();
      if (done === true) return undefined;
      this.at = (value as Message).sequence;
      if (this.at >= sequence) return this.at === sequence ? (value as Message) : undefined;
    }
  }

  close(): void {
    this.messages.return?.();
  }
}

/** Hashes of a log while its entries are read: of each level those that are in no complete tile yet. */
class Tiles {
  readonly levels: { hashes: Uint8Array[]; complete: number }[] = [{ hashes: [], complete: 0 }];

  constructor(
    private readonly hash: Hash,
    private readonly check: (level: number, index: number, hashes: Uint8Array[]) => Promise<void>,
  ) {}

  async add(leaf: Uint8Array): Promise<void> {
    for (let level = 0, h = leaf; ; level++) {
      const l = (this.levels[level] ??= { hashes: [], complete: 0 });
      l.hashes.push(h);
      if (l.hashes.length < tileWidth) return;
      await this.check(level, l.complete++, l.hashes);
      h = rootOf(this.hash, l.hashes);
      l.hashes = [];
    }
  }

  async end(): Promise<void> {
    for (const [level, l] of this.levels.entries()) if (l.hashes.length > 0) await this.check(level, l.complete, l.hashes);
  }

  root(): Uint8Array {
    let rest: Uint8Array | undefined;
    for (const { hashes } of this.levels) {
      if (hashes.length > 0 || rest !== undefined) rest = rootOf(this.hash, rest === undefined ? hashes : [...hashes, rest]);
    }
    return rest ?? this.hash([]);
  }
}

class Broken extends Error {}

export class LogCheck {
  constructor(
    private readonly files: LogFiles,
    private readonly hash: Hash,
    private readonly checkpoint: Checkpoint,
    /** An earlier checkpoint. */
    private readonly kept: Checkpoint | undefined,
    private readonly partitions: number,
    private readonly journals: LogJournal[],
  ) {}

  async run(report: Report): Promise<LogResult> {
    let losses: Loss[] = [];
    let pass = await this.pass(losses);
    // Entries before a loss may be of messages that were lost. Which ones is known only now.
    if (pass.losses.length > 0) {
      losses = pass.losses;
      pass = await this.pass(losses);
    }
    report.take(pass.report);
    return pass.result;
  }

  private async pass(known: Loss[]): Promise<Pass> {
    const { checkpoint, kept } = this;
    const { size } = checkpoint;
    const report = new Report();
    const losses: Loss[] = [];
    const result: LogResult = {
      origin: checkpoint.origin, size, root: base64(checkpoint.root), equal: 0, notYet: 0, newer: 0, others: 0,
      losses: 0, lost: 0,
    };
    const cursors = new Map(this.journals.map((j) => [j.partition, new Cursor(j)]));
    const tiles = new Tiles(this.hash, (level, index, hashes) => this.tile(level, index, hashes, report));
    const old = (count: number): void => {
      if (kept?.size !== count) return;
      const root = tiles.root();
      if (!same(root, kept.root)) report.add({ what: "kept checkpoint", field: "root", expected: base64(kept.root), found: base64(root) });
    };
    try {
      old(0);
      for (let first = 0; first < size; first += tileWidth) {
        const entries = await this.bundle(first / tileWidth, Math.min(tileWidth, size - first));
        for (const [i, entry] of entries.entries()) {
          this.entry(first + i, entry, cursors, known, { losses, report, result }); // before its tile, which may end with it
          await tiles.add(leafHash(this.hash, entry));
          old(first + i + 1);
        }
      }
      await tiles.end();
      const root = tiles.root();
      if (!same(root, checkpoint.root)) report.add({ what: "checkpoint", field: "root", expected: result.root, found: base64(root) });
      if (kept !== undefined && kept.size > size) {
        report.add({ what: "kept checkpoint", field: "size", expected: `at most ${size} entries`, found: String(kept.size) });
      }
      for (const c of cursors.values()) result.notYet += Math.max(0, c.journal.messages - c.next + 1);
    } catch (e) {
      if (!(e instanceof Broken)) throw e;
      const [what, expected, found] = e.message.split("|") as [string, string, string];
      report.add({ what, field: "entries", expected, found });
    } finally {
      for (const c of cursors.values()) c.close();
    }
    result.losses = losses.length;
    return { losses, report, result };
  }

  /** Reads a tile, or the complete one that has replaced it. */
  private async read(level: number | "entries", index: number, width: number, limit: number): Promise<Tile> {
    let path = tilePath(level, index, width);
    let bytes = await this.files.read(path, limit);
    if (bytes !== undefined || width === tileWidth) return { path, bytes, whole: false };
    path = tilePath(level, index, tileWidth);
    bytes = await this.files.read(path, limit);
    return { path, bytes, whole: true };
  }

  private async bundle(index: number, width: number): Promise<Uint8Array[]> {
    const { path, bytes, whole } = await this.read("entries", index, width, longestBundle);
    if (bytes === undefined) throw new Broken(`log, ${tilePath("entries", index, width)}|${width}|no file`);
    const entries: Uint8Array[] = [];
    let at = 0;
    while (at < bytes.length && !(whole && entries.length === width)) {
      const end = at + 2 <= bytes.length ? at + 2 + view(bytes).getUint16(at) : Infinity;
      if (end > bytes.length) throw new Broken(`log, ${path}|${width}|${entries.length} and a part of one`);
      entries.push(bytes.subarray(at + 2, end));
      at = end;
    }
    if (entries.length !== width) throw new Broken(`log, ${path}|${width}|${entries.length}`);
    return entries;
  }

  private async tile(level: number, index: number, hashes: Uint8Array[], report: Report): Promise<void> {
    const { path, bytes, whole } = await this.read(level, index, hashes.length, tileWidth * hashSize);
    const size = (whole ? tileWidth : hashes.length) * hashSize;
    if (bytes?.length !== size) {
      report.add({ what: `log, ${path}`, field: "bytes", expected: String(size), found: bytes === undefined ? "no file" : String(bytes.length) });
      return;
    }
    for (const [i, h] of hashes.entries()) {
      const is = bytes.subarray(i * hashSize, (i + 1) * hashSize);
      if (same(is, h)) continue;
      const first = (index * tileWidth + i) * tileWidth ** level;
      const of = level === 0 ? `entry ${first}` : `entries ${first} to ${first + tileWidth ** level - 1}`;
      report.add({ what: `log, ${path}`, field: `hash of ${of}`, expected: hex(h), found: hex(is) });
      return;
    }
  }

  private entry(index: number, e: Uint8Array, cursors: Map<number, Cursor>, known: Loss[], { losses, report, result }: Pass): void {
    const kind = e[0];
    if (kind !== 1 && kind !== 2) {
      if (e.length === 0) report.add({ what: `log, entry ${index}`, field: "kind", expected: "one", found: "no byte" });
      result.others++;
      return;
    }
    if (kind === 1 ? e.length < prefix : e.length !== lossSize) {
      report.add({ what: `log, entry ${index}`, field: "bytes", expected: String(kind === 1 ? prefix : lossSize), found: String(e.length) });
      return;
    }
    const partition = view(e).getUint16(1);
    const sequence = Number(view(e).getBigUint64(3));
    const cursor = cursors.get(partition);
    if (cursor === undefined) {
      if (partition >= this.partitions) {
        report.add({ partition, what: `log, entry ${index}`, field: "partition", expected: `below ${this.partitions}`, found: String(partition) });
      }
      result.others++;
      return;
    }
    if (kind === 2) {
      losses.push({ index, partition, last: sequence });
      if (sequence >= cursor.next) {
        report.add({ partition, what: `log, entry ${index} (a loss)`, field: "sequence", expected: `at most ${cursor.next - 1}`, found: String(sequence) });
      }
      cursor.next = sequence + 1;
      return;
    }
    const what = `log, entry ${index} (message ${sequence})`;
    if (sequence !== cursor.next) {
      report.add({ partition, what, field: "sequence", expected: String(cursor.next), found: String(sequence) });
      // One that is left out, doubled or elsewhere: the rest goes on from the later of both.
      if (sequence < cursor.next) return;
    }
    cursor.next = sequence + 1;
    if (known.some((l) => l.partition === partition && l.index > index && l.last < sequence)) {
      result.lost++;
      return;
    }
    if (sequence > cursor.journal.messages) {
      result.newer++;
      return;
    }
    const m = cursor.message(sequence);
    if (m === undefined) {
      report.add({ partition, what, field: "message", expected: "one in the export", found: "none" });
      return;
    }
    const is = messageEntry(this.hash, partition, m);
    if (same(e, is)) {
      result.equal++;
      return;
    }
    for (const [field, show] of fields) {
      if (show(e) === show(is)) continue;
      report.add({ partition, what, field, expected: show(e), found: show(is) });
      return;
    }
    report.add({ partition, what, field: "subject", expected: hex(e.subarray(prefix)), found: hex(is.subarray(prefix)) });
  }
}
