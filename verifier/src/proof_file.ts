// The file with a bill's proof, as "A bill's proof" in docs/proof.md and c2sp.org/tlog-proof describe it.

import type { Message } from "./fold.ts";
import { fromBase64, idNumber, parseId } from "./ids.ts";
import { Member } from "./members.ts";
import { Malformed } from "./note.ts";
import type { Step } from "./tree.ts";

export interface ProofFile {
  /** Of the entry with the seal. */
  index: number;
  hashes: Uint8Array[];
  checkpoint: Uint8Array;
  /** 11 base62 digits. */
  account: string;
  id: bigint;
  month: number;
  seal: Logged;
  receipt: { number: number; hash: Uint8Array; path: Step[] } | undefined;
  absent: { key: Uint8Array; sums: bigint[]; content: Uint8Array; path: Step[] } | undefined;
  statement: { text: string; path: Step[] } | undefined;
  entries: { first: number; before: Uint8Array; list: Uint8Array[] } | undefined;
  books: (Logged & { index: number; hashes: Uint8Array[] })[];
  consistency: { size: number; root: Uint8Array; hashes: Uint8Array[] } | undefined;
}

/** A message that the log has. */
export interface Logged extends Message {
  partition: number;
}

const magic = "c2sp.org/tlog-proof@v1";
/** In bytes: 1,500,000 entries, which is more than half a request in each second of a month. */
export const longestProof = 128 << 20;
const mostHashes = 64;
const mostSteps = 256;
const mostBooks = 1000;
const entrySize = 43;

/** Splits a file into the lines before the checkpoint, and the checkpoint. */
function split(bytes: Uint8Array): { lines: string[]; checkpoint: Uint8Array } {
  const start = new TextDecoder("latin1").decode(bytes.subarray(0, magic.length + 1));
  if (start !== `${magic}\n`) throw new Malformed(`the file does not begin with ${magic}`);
  let end = bytes.indexOf(10);
  while (end >= 0 && bytes[end + 1] !== 10) end = bytes.indexOf(10, end + 1);
  if (end < 0) throw new Malformed("the file has no checkpoint");
  return { lines: new TextDecoder("latin1").decode(bytes.subarray(0, end)).split("\n"), checkpoint: bytes.subarray(end + 2) };
}

/** The checkpoint of a proof, or the bytes themselves. */
export function checkpointOf(bytes: Uint8Array): Uint8Array {
  const isProof = new TextDecoder("latin1").decode(bytes.subarray(0, magic.length)) === magic;
  return isProof ? split(bytes).checkpoint : bytes;
}

/** Throws Malformed if the file has another form. */
export function parseProof(bytes: Uint8Array): ProofFile {
  if (bytes.length > longestProof) throw new Malformed(`the file has ${bytes.length} bytes, more than ${longestProof}`);
  const { lines, checkpoint } = split(bytes);
  const [, extra, index, ...hashes] = lines;
  if (!extra?.startsWith("extra ")) throw new Malformed("line 2 is not extra");
  if (!/^index (0|[1-9][0-9]{0,14})$/.test(index ?? "")) throw new Malformed("line 3 is not index");
  if (hashes.length > mostHashes) throw new Malformed(`the inclusion proof has more than ${mostHashes} hashes`);
  const decoded = fromBase64(extra.slice("extra ".length));
  if (decoded === undefined) throw new Malformed("extra is not Base64");
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(decoded);
  } catch {
    throw new Malformed("extra is not UTF-8");
  }
  return {
    index: Number(index!.slice("index ".length)), checkpoint, ...parseExtra(Member.parse(text, "extra")),
    hashes: hashes.map((line, i) => {
      const hash = fromBase64(line);
      if (hash?.length !== 32) throw new Malformed(`line ${i + 4} is not a hash in Base64`);
      return hash;
    }),
  };
}

function parseExtra(m: Member): Omit<ProofFile, "index" | "hashes" | "checkpoint"> {
  const account = m.get("account").text();
  const id = parseId(account);
  if (id === undefined) throw new Malformed("extra.account is not an id of 11 base62 digits");
  const [receipt, absent, statement, entries, consistency] =
    ["receipt", "absent", "statement", "entries", "consistency"].map((name) => m.optional(name));
  return {
    account, id: idNumber(id), month: m.get("period").month(), seal: message(m.get("seal")),
    receipt: receipt && { number: receipt.get("number").count(), hash: receipt.get("hash").hash(), path: path(receipt) },
    absent: absent && {
      key: absent.get("key").hash(), sums: sums(absent), content: absent.get("content").hash(), path: path(absent),
    },
    statement: statement && { text: statement.get("text").text(), path: path(statement) },
    entries: entries && {
      first: entries.get("first").count(), before: entries.get("before").hash(), list: entryList(entries.get("data")),
    },
    books: (m.optional("books")?.list(mostBooks) ?? []).map((b) => ({ ...message(b), index: b.get("index").count(), hashes: hashList(b) })),
    consistency: consistency && {
      size: consistency.get("size").count(), root: consistency.get("root").hash(), hashes: hashList(consistency),
    },
  };
}

function message(m: Member): Logged {
  return {
    partition: m.get("partition").small(0xffff), sequence: m.get("sequence").count(), time: m.get("time").signed().toString(),
    subject: m.get("subject").text(/^.{0,1000}$/, "a subject"), data: m.get("data").bytes(),
  };
}

function path(m: Member): Step[] {
  return m.get("path").list(mostSteps).map((s) => ({ bit: s.get("bit").small(255), hash: s.get("hash").hash(), sums: sums(s) }));
}

function sums(m: Member): bigint[] {
  const list = m.get("sums").list(3).map((n) => n.unsigned());
  if (list.length !== 3) throw new Malformed(`${m.at}.sums is not a list of 3`);
  return list;
}

function hashList(m: Member): Uint8Array[] {
  return m.get("hashes").list(mostHashes).map((h) => h.hash());
}

function entryList(m: Member): Uint8Array[] {
  const bytes = m.bytes();
  if (bytes.length % entrySize !== 0) throw new Malformed(`${m.at} is not of entries of ${entrySize} bytes`);
  return Array.from({ length: bytes.length / entrySize }, (_, i) => bytes.subarray(i * entrySize, (i + 1) * entrySize));
}
