// Checks a bill's proof, without any other file. See "A bill's proof" in docs/proof.md.

import { type Bill, BillCheck, isCanonical, leafSums, parseBill } from "./bill.ts";
import { KnownBooks } from "./bill_books.ts";
import { monthDigits, monthName } from "./calendar.ts";
import { type ChainEntry, decodeEntry, isBefore, malformedField, MonthSums } from "./entries.ts";
import { base64, hex, idFromNumber } from "./ids.ts";
import { messageEntry } from "./log.ts";
import { leafHash, rootByInclusion, rootsByConsistency } from "./merkle.ts";
import { DecodeError, decodePrices, decodeUsage, type PriceBook, type Seal, type SealedTree } from "./messages.ts";
import { type Checkpoint, type Ed25519, type Key, Malformed, openCheckpoint, parseKey, webEd25519 } from "./note.ts";
import { checkpointOf, type Logged, parseProof, type ProofFile } from "./proof_file.ts";
import { chainBefore, type Kept, kinds, parseReceipts } from "./receipts.ts";
import { Report } from "./report.ts";
import { type Hash, sha256 } from "./sha256.ts";
import { chargeCredits } from "./state.ts";
import { bitOf, fits, keyOf, leafOf, nodeOf, none, type Step, type Tree } from "./tree.ts";
import { Reader } from "./wire.ts";
import { partitionOf } from "./xxhash.ts";

export interface ProofOptions {
  /** The log's key, as it was published: name+hash+base64. */
  key: string;
  /** An earlier checkpoint, or an earlier proof, which the log has to continue. */
  checkpoint?: Uint8Array | undefined;
  /** Kept receipts: lines of an account's id, a space and the value of X-Receipt. Those of other accounts are left out. */
  receipts?: string | undefined;
  hash?: Hash;
  ed25519?: Ed25519;
}

export interface ProofResult {
  account: string;
  period: string;
  report: Report;
  /** What was checked and fits, in sentences. */
  checked: string[];
  /** What remains on trust. */
  trust: string[];
}

const same = (x: Uint8Array, y: Uint8Array): boolean => x.length === y.length && x.every((b, i) => b === y[i]);
const counted = (n: number, one: string, many: string): string => `${n.toLocaleString("en-US")} ${n === 1 ? one : many}`;

/** Checks a proof. Throws Malformed if the file, the key, the checkpoint or the receipts can't be read. */
export async function verifyProof(bytes: Uint8Array, options: ProofOptions): Promise<ProofResult> {
  const hash = options.hash ?? sha256;
  const key = parseKey(hash, options.key);
  const file = parseProof(bytes);
  const kept = parseReceipts(options.receipts ?? "", idFromNumber(file.id));
  const check = new ProofCheck(file, hash, kept);
  const open = (note: Uint8Array, what: string): Promise<Checkpoint | undefined> => check.open(note, what, key, options.ed25519 ?? webEd25519);
  const checkpoint = await open(file.checkpoint, "checkpoint");
  const earlier = options.checkpoint === undefined ? undefined : await open(checkpointOf(options.checkpoint), "kept checkpoint");
  check.run(checkpoint, earlier);
  const { report, checked, trust } = check;
  return { account: file.account, period: monthName(file.month), report, checked, trust };
}

class ProofCheck {
  readonly report = new Report();
  readonly checked: string[] = [];
  readonly trust: string[] = [];
  private checkpoint: Checkpoint | undefined;
  private readonly key: Uint8Array;

  constructor(
    private readonly file: ProofFile,
    private readonly hash: Hash,
    private readonly kept: Kept[],
  ) {
    this.key = keyOf(hash, file.id);
  }

  async open(note: Uint8Array, what: string, key: Key, ed25519: Ed25519): Promise<Checkpoint | undefined> {
    try {
      const c = await openCheckpoint(note, key, ed25519);
      this.checked.push(`${what}: ${c.origin}, ${counted(c.size, "entry", "entries")}, root ${base64(c.root)}, signed by ${key.name}+${key.hash}`);
      return c;
    } catch (e) {
      if (!(e instanceof Malformed)) throw e;
      this.differs(what, "signature", `one of ${key.name}+${key.hash}`, e.message);
      return undefined;
    }
  }

  run(checkpoint: Checkpoint | undefined, earlier: Checkpoint | undefined): void {
    this.checkpoint = checkpoint;
    this.trust.push(
      "that others see the same log: compare its size and root with theirs, or keep this file, and compare the next one with it",
      "that each request was made, that none was left unrecorded, and that an entry was right when it was made",
      "that other seals in the log have the same partitions, receipts and statements: an auditor with an export compares them",
    );
    if (checkpoint !== undefined) this.consistent(checkpoint, earlier);
    const seal = this.seal();
    const books = this.books();
    let bill: Bill | undefined;
    if (seal !== undefined) {
      this.receipt(seal);
      bill = this.statement(seal, books);
    }
    this.entries(bill, books);
  }

  private differs(what: string, field: string, expected: string, found: string): void {
    this.report.add({ what, ...(field === "" ? {} : { field }), expected, found });
  }

  /** Adds the sentence to what was checked, unless the check found a difference. */
  private passed(check: () => void, sentence: () => string): void {
    const before = this.report.count;
    check();
    if (this.report.count === before) this.checked.push(sentence());
  }

  private consistent(c: Checkpoint, earlier: Checkpoint | undefined): void {
    const { consistency } = this.file;
    if (earlier !== undefined) this.continues(c, earlier);
    if (consistency === undefined) return;
    const { size, root, hashes } = consistency;
    this.passed(() => {
      const roots = rootsByConsistency(this.hash, size, c.size, root, hashes);
      if (roots === undefined) this.differs("consistency", "hashes", `a proof from ${size} to ${c.size} entries`, counted(hashes.length, "hash", "hashes"));
      else if (!same(roots.earlier, root)) this.differs("consistency", "root of the earlier log", hex(root), hex(roots.earlier));
      else if (!same(roots.later, c.root)) this.differs("consistency", "root of the log", hex(c.root), hex(roots.later));
    }, () => `consistency: the log continues the one of ${counted(size, "entry", "entries")} with root ${base64(root)}`);
  }

  private continues(c: Checkpoint, earlier: Checkpoint): void {
    const { consistency } = this.file;
    if (earlier.size > c.size) throw new Malformed(`the kept checkpoint has ${earlier.size} entries, more than the file's ${c.size}: get the proof anew`);
    if (earlier.size === 0) return;
    const here = earlier.size === c.size ? c : consistency;
    if (here?.size !== earlier.size) {
      throw new Malformed(`the file does not show that the log continues the kept checkpoint: get it with ?since=${earlier.size}`);
    }
    this.passed(() => {
      if (!same(earlier.root, here.root)) this.differs("kept checkpoint", "root", base64(earlier.root), base64(here.root));
    }, () => "kept checkpoint: the log continues it");
  }

  /** Whether the log has the message at an index. */
  private included(what: string, m: Logged, index: number, hashes: Uint8Array[]): void {
    const c = this.checkpoint;
    if (c === undefined) return;
    const root = rootByInclusion(this.hash, leafHash(this.hash, messageEntry(this.hash, m.partition, m)), index, c.size, hashes);
    if (index >= c.size) this.differs(what, "index", `below ${c.size}`, String(index));
    else if (root === undefined) this.differs(what, "inclusion proof", `a proof of entry ${index} of ${c.size}`, counted(hashes.length, "hash", "hashes"));
    else if (!same(root, c.root)) this.differs(what, "inclusion in the log", base64(c.root), base64(root));
  }

  private seal(): Seal | undefined {
    const { file, report } = this;
    const m = file.seal;
    const before = report.count;
    this.included("seal", m, file.index, file.hashes);
    const subject = `billing.${m.partition}.usage`;
    if (m.subject !== subject) this.differs("seal", "subject", subject, m.subject);
    const usage = decoded(m.data, decodeUsage);
    if (usage === undefined) this.differs("seal", "data", "a UsageBatch", "undecodable");
    else if (usage.number !== 0) this.differs("seal", "number", "0", String(usage.number));
    const seal = usage?.seal;
    if (seal === undefined) {
      if (usage !== undefined) this.differs("seal", "seal", "one", "none");
      return undefined;
    }
    if (seal.partitions === 0) this.differs("seal", "partitions", "at least 1", "0");
    else {
      const partition = partitionOf(file.id, seal.partitions);
      if (partition !== m.partition) this.differs("seal", "partition", `${partition} of ${seal.partitions}`, String(m.partition));
    }
    if (seal.sequence === 0 || seal.sequence >= m.sequence) this.differs("seal", "sequence", `1 to ${m.sequence - 1}`, String(seal.sequence));
    if (seal.accounts === undefined) this.differs("seal", "accounts", "a tree", "none");
    if (report.count === before) {
      this.checked.push(`seal: message ${m.sequence} of BILLING_${m.partition}, at ${time(m.time)}, is entry ${file.index} of the log; its receipts are as of message ${seal.sequence}`);
    }
    return seal;
  }

  private receipt(seal: Seal): void {
    const { file, hash, key } = this;
    const { receipt, absent } = file;
    if (seal.accounts === undefined) return;
    const name = "the accounts tree";
    const root = this.root(seal.accounts, name);
    if (root === undefined) return;
    if (receipt !== undefined && absent !== undefined) this.differs("absent", "", "none beside a receipt", "one");
    if (receipt !== undefined) {
      const leaf = leafOf(hash, key, [BigInt(receipt.number), 0n, 0n], receipt.hash);
      this.passed(() => this.leads("receipt", leaf, key, receipt.path, root, name),
        () => `receipt: ${receipt.number}.${hex(receipt.hash)} is the account's only one in ${name}`);
    } else if (absent !== undefined) {
      this.passed(() => this.absent(absent, root, name), () => `absent: the account has no receipt in ${name}`);
    } else if (!same(root.hash, none.hash)) this.differs("receipt", "", "one, or a leaf that shows its absence", "neither");
  }

  private absent(absent: NonNullable<ProofFile["absent"]>, root: Tree, name: string): void {
    if (same(absent.key, this.key)) this.differs("absent", "key", "another account's", hex(absent.key));
    const at = absent.path.findIndex(({ bit }) => bitOf(absent.key, bit) !== bitOf(this.key, bit));
    if (at >= 0) this.differs("absent", `path[${at}]`, "the side that the account's key takes", "the other one");
    this.leads("absent", leafOf(this.hash, absent.key, absent.sums, absent.content), absent.key, absent.path, root, name);
  }

  private root(t: SealedTree, name: string): Tree | undefined {
    if (t.hash.length !== 32) this.differs("seal", `hash of ${name}`, "32 bytes", String(t.hash.length));
    else if (t.sums.length !== 0 && t.sums.length !== 3) this.differs("seal", `sums of ${name}`, "3", String(t.sums.length));
    else return { hash: t.hash, sums: t.sums.length === 0 ? none.sums : t.sums };
    return undefined;
  }

  /** Whether a path leads from a leaf to a root. */
  private leads(what: string, leaf: Tree, key: Uint8Array, path: Step[], root: Tree, name: string): void {
    let at = leaf;
    let above = 256;
    for (const [i, step] of path.entries()) {
      if (step.bit >= above) return this.differs(what, `path[${i}].bit`, `below ${above}`, String(step.bit));
      above = step.bit;
      at = bitOf(key, step.bit) === 0 ? nodeOf(this.hash, step.bit, at, step) : nodeOf(this.hash, step.bit, step, at);
      if (!fits(at)) return this.differs(what, `path[${i}].sums`, "sums of 64 bits", at.sums.join(", "));
    }
    if (!same(at.hash, root.hash)) this.differs(what, `root of ${name}`, hex(root.hash), hex(at.hash));
    else if (at.sums.some((n, i) => n !== root.sums[i])) this.differs(what, `sums of ${name}`, root.sums.join(", "), at.sums.join(", "));
  }

  private books(): KnownBooks {
    const { file } = this;
    const list: { message: PriceBook; time: string; sequence: number }[] = [];
    this.passed(() => file.books.forEach((b, i) => {
      const what = `books[${i}]`;
      this.included(what, b, b.index, b.hashes);
      const subject = `billing.${file.seal.partition}.prices`;
      if (b.partition !== file.seal.partition) this.differs(what, "partition", String(file.seal.partition), String(b.partition));
      if (b.subject !== subject) this.differs(what, "subject", subject, b.subject);
      if (b.sequence >= file.seal.sequence) this.differs(what, "sequence", `below ${file.seal.sequence}`, String(b.sequence));
      const message = decoded(b.data, decodePrices);
      if (message === undefined) this.differs(what, "data", "a PriceBook", "undecodable");
      else if (message.withdrawn) this.differs(what, "withdrawn", "false", "true");
      else list.push({ message, time: b.time, sequence: b.sequence });
    }), () => `books: ${counted(file.books.length, "price book is", "price books are")} in the log`);
    return new KnownBooks(list);
  }

  private statement(seal: Seal, books: KnownBooks): Bill | undefined {
    const { file, hash } = this;
    const { statement, month } = file;
    const trees = seal.statements.filter((t) => t.month === monthDigits(month));
    const name = `the statements tree of ${monthName(month)}`;
    if (trees.length > 1) this.differs("seal", name, "one", String(trees.length));
    if (statement === undefined) {
      if (trees.length > 0) this.differs("statement", "", `the account's in ${name}`, "none");
      else this.trust.unshift(`the statement of ${monthName(month)}: the seal has no statements of the month`);
      return undefined;
    }
    const [tree] = trees;
    if (tree === undefined) {
      this.differs("seal", name, "one", "none");
      return undefined;
    }
    const bill = parseBill(statement.text);
    const root = this.root(tree, name);
    const sums = leafSums(bill);
    this.passed(() => {
      if (root === undefined) return;
      if (!fits({ hash: root.hash, sums })) return this.differs("statement", "sums", "sums of 64 bits", sums.join(", "));
      const content = hash([new TextEncoder().encode(statement.text)]);
      this.leads("statement", leafOf(hash, this.key, sums, content), this.key, statement.path, root, name);
    }, () => `statement: it is the account's only one in ${name}`);
    this.passed(() => {
      if (!isCanonical(statement.text)) this.differs("statement", "text", "canonical JSON", "another form");
      new BillCheck(bill, this.report).inItself(month);
    }, () => "statement: its figures follow from each other");
    this.passed(() => books.compare(bill, this.report), () => "statement: its limits, prices and fees match the price books");
    this.trust.push(
      "that no other price book was in force, and that the account had the plans of the statement's periods",
      "the stored bytes, from which the statement's cents of storage follow: entries do not have them",
    );
    return bill;
  }

  private entries(bill: Bill | undefined, books: KnownBooks): void {
    const { receipt, entries } = this.file;
    if (receipt === undefined) {
      if ((entries?.list.length ?? 0) > 0) this.differs("entries", "", "none without a receipt", counted(entries!.list.length, "entry", "entries"));
      this.notCovered(0, 0);
      if (bill !== undefined) this.figures(bill, new MonthSums(this.file.month), undefined, 0);
      return;
    }
    if (entries === undefined) { // they are too many, or no longer kept
      this.trust.push(`the account's entries up to ${receipt.number}: the file has none. GET /api/users/user/receipts may have them, and an export does`);
      if (bill !== undefined) this.figures(bill, new MonthSums(this.file.month), undefined, 0);
      return;
    }
    if (entries.list.length === 0) return this.differs("entries", "", `those up to ${receipt.number}`, "none");
    const { first, list } = entries;
    const last = first + list.length - 1;
    const sums = new MonthSums(this.file.month);
    this.passed(() => {
      if (first < 1) this.differs("entries", "first", "at least 1", String(first));
      if (last !== receipt.number) this.differs("entries", "number of the last one", String(receipt.number), String(last));
      const empty = chainBefore(this.hash, this.file.id);
      if (first === 1 && !same(entries.before, empty)) this.differs("entries", "before", hex(empty), hex(entries.before));
      const end = this.chain(first, entries.before, list);
      if (!same(end, receipt.hash)) this.differs("entries", `hash after entry ${last}`, hex(receipt.hash), hex(end));
    }, () => `entries: ${first} to ${last} lead to the receipt`);
    this.passed(() => list.forEach((bytes, i) => {
      const e = decodeEntry(bytes);
      const field = malformedField(e, first + i === 1);
      if (field !== undefined) return this.differs(`entry ${first + i}`, field, "one of its kind", hex(bytes));
      sums.add(e);
      this.price(first + i, e, bill, books);
    }), () => `entries: ${counted(sums.entries, "one counts", "of them count")} in ${monthName(this.file.month)}`);
    this.notCovered(first, last);
    const start = decodeEntry(list[0]!);
    if (bill !== undefined) this.figures(bill, sums, start, first);
    else this.beginning(start, first);
  }

  /** The hash after the last entry. Kept receipts are compared on the way. */
  private chain(first: number, before: Uint8Array, list: Uint8Array[]): Uint8Array {
    const kept = this.kept.filter(({ number }) => number >= first - 1);
    let at = before;
    let next = 0;
    let confirmed = first - 1;
    const compare = (number: number): void => {
      for (; kept[next]?.number === number; next++) {
        if (kept[next]!.hash === hex(at)) confirmed = number;
        else this.differs(`kept receipt ${number}`, `entries ${confirmed + 1} to ${number}`, hex(at), kept[next]!.hash);
      }
    };
    compare(first - 1);
    list.forEach((entry, i) => {
      at = this.hash([at, entry]);
      compare(first + i);
    });
    if (next > 0) this.checked.push(`receipts: ${counted(next, "kept one was", "kept ones were")} compared`);
    return at;
  }

  private notCovered(first: number, last: number): void {
    const earlier = this.kept.filter(({ number }) => number < first - 1).length;
    const later = this.kept.filter(({ number }) => number > last).length;
    if (earlier > 0) this.trust.push(`${counted(earlier, "kept receipt", "kept receipts")} of entries before ${first - 1}`);
    if (later > 0) this.trust.push(`${counted(later, "kept receipt", "kept receipts")} of entries after ${last}, which the seal does not have`);
  }

  private price(number: number, e: ChainEntry, bill: Bill | undefined, books: KnownBooks): void {
    if ((e.kind !== kinds.admitted && e.kind !== kinds.late) || e.charge !== chargeCredits || e.month !== monthDigits(this.file.month)) return;
    const sold = bill === undefined ? books.sells(e.quotaKey, e.amount)
      : bill.periods.some((p) => p.lines[e.quotaKey]!.overage && p.lines[e.quotaKey]!.price === e.amount);
    if (sold) return;
    this.differs(`entry ${number}`, "amount", `a price of quota key ${e.quotaKey} in the ${bill === undefined ? "price books" : "statement"}`, e.amount.toString());
  }

  /** Whether the entries have all of the month. If not, what remains on trust says from where on they have it. */
  private beginning(start: ChainEntry, first: number): boolean {
    const { month } = this.file;
    if (isBefore(start, month) || (first === 1 && start.month < monthDigits(month))) return true;
    const why = first === 1 ? `the account's chain begins in ${String(start.month).replace(/..$/, "-$&")}` : "the file has no earlier ones";
    this.trust.push(`what changed before entry ${first} of ${time(`${start.time}000000`)}: ${why}`);
    return false;
  }

  private figures(bill: Bill, sums: MonthSums, start: ChainEntry | undefined, first: number): void {
    const check = new BillCheck(bill, this.report);
    const whole = start !== undefined && this.beginning(start, first);
    let more: string[] = [];
    this.passed(() => {
      more = check.figures(sums, whole);
      if (first === 1 && start!.month <= monthDigits(bill.month)) check.closing(sums.settled);
    }, () => (whole ? "statement: its counters and credits are the sums of the entries" : "statement: its counters are not below the sums of the entries"));
    if (more.length > 0) this.trust.push(`${more.join(", ")}: the statement has it, and no entry in the file`);
  }
}

function decoded<T>(data: Uint8Array, decode: (r: Reader) => T): T | undefined {
  try {
    return decode(new Reader(data));
  } catch (e) {
    if (e instanceof DecodeError) return undefined;
    throw e;
  }
}

/** A time in nanoseconds as people read it. */
function time(nanoseconds: string): string {
  const date = new Date(Number(BigInt(nanoseconds) / 1_000_000n));
  return Number.isNaN(date.getTime()) ? nanoseconds : date.toISOString();
}
