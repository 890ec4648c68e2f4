// The chain of each account, and the receipts that clients kept of it. See "Receipts".

import { monthDigits } from "./calendar.ts";
import { hex, idNumber, keyBytes, parseId, showId } from "./ids.ts";
import { Malformed } from "./note.ts";
import type { Report } from "./report.ts";
import type { Hash } from "./sha256.ts";
import type { Account, State } from "./state.ts";

export const kinds = { begins: 1, admitted: 2, undone: 3, free: 4, late: 5, ledger: 6 } as const;
export const waived = 0xff;

export interface Receipt {
  /** Of the last entry; 0 before the first one. */
  number: number;
  hash: Uint8Array;
}

export const noReceipt: Receipt = { number: 0, hash: new Uint8Array() };

/** What an account entry says. Kinds 3 to 5 have what the request had last. */
interface AccountEntry {
  kind: number;
  time: number;
  /** Number of the month in which it counts. */
  month: number;
  quotaKey: number;
  /** Of a ledger entry its type. */
  charge: number;
  amount: number;
  key: number;
  request: string;
}

const length = 43;

function encode(e: AccountEntry): Uint8Array {
  const bytes = new Uint8Array(length);
  const view = new DataView(bytes.buffer);
  bytes[0] = e.kind;
  view.setBigUint64(1, BigInt(e.time));
  view.setUint32(9, monthDigits(e.month));
  bytes[13] = e.quotaKey;
  bytes[14] = e.charge;
  view.setBigInt64(15, BigInt(e.amount));
  view.setUint32(23, e.key);
  if (e.request !== "") bytes.set(keyBytes(e.request), 27);
  return bytes;
}

/** The hash of an account's chain before its first entry. */
export function chainBefore(hash: Hash, account: bigint): Uint8Array {
  const id = new Uint8Array(8);
  new DataView(id.buffer).setBigUint64(0, account);
  return hash([new TextEncoder().encode("quire account\n"), id]);
}

/** Adds an entry to the account's chain. One of the ledger is added before it changes what is settled. */
export function link(s: State, a: Account, e: AccountEntry): void {
  if (s.rules < 5) return;
  if (a.receipt.number === 0) {
    a.receipt = { number: 0, hash: chainBefore(s.hash, idNumber(a.id)) };
    const begins = { kind: kinds.begins, month: a.current.month, quotaKey: 0, charge: 0, amount: a.settled, key: 0, request: "" };
    append(s, a, { ...begins, time: e.time });
  }
  append(s, a, e);
}

function append(s: State, a: Account, e: AccountEntry): void {
  const bytes = encode(e);
  a.receipt = { number: a.receipt.number + 1, hash: s.hash([a.receipt.hash, bytes]) };
  s.sink.linked?.(s, a, bytes);
}

export function showReceipt(r: Receipt): string {
  return r.number === 0 ? "" : `${r.number}.${hex(r.hash)}`;
}

export interface Kept {
  number: number;
  hash: string;
}

/** The receipts that a client kept of an account, by number. */
interface AccountReceipts {
  kept: Kept[];
  /** How many were compared. */
  compared: number;
  /** Number of the last entry that a receipt confirms. */
  fits: number;
}

const shape = /^([0-9A-Za-z]{11}) ([1-9][0-9]{0,15})\.([0-9a-f]{64})$/;

function parseLine(line: string): (Kept & { account: string }) | undefined {
  const [, id, number, hash] = shape.exec(line) ?? [];
  const account = parseId(id ?? "");
  return account === undefined ? undefined : { account, number: Number(number), hash: hash! };
}

/** The receipts of an account in lines of a file, by number. Throws Malformed. */
export function parseReceipts(text: string, account: string): Kept[] {
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  const all = lines.map((line, i) => {
    const kept = parseLine(line);
    if (kept === undefined) throw new Malformed(`line ${i + 1} of the receipts has no account and receipt: ${line.slice(0, 120)}`);
    return kept;
  });
  return all.filter((k) => k.account === account).sort((x, y) => x.number - y.number);
}

/** Compares receipts that clients kept with the chains of their accounts. */
export class KeptReceipts {
  private readonly byAccount = new Map<string, AccountReceipts>();

  /** Adds a line of a file of receipts. False: it is malformed. */
  add(line: string): boolean {
    const kept = parseLine(line);
    if (kept === undefined) return false;
    const of = this.byAccount.get(kept.account) ?? { kept: [], compared: 0, fits: 0 };
    of.kept.push(kept);
    this.byAccount.set(kept.account, of);
    return true;
  }

  /** After the last line. */
  sort(): void {
    for (const { kept } of this.byAccount.values()) kept.sort((x, y) => x.number - y.number);
  }

  get size(): number {
    let n = 0;
    for (const { kept } of this.byAccount.values()) n += kept.length;
    return n;
  }

  get compared(): number {
    let n = 0;
    for (const { compared } of this.byAccount.values()) n += compared;
    return n;
  }

  /** After each entry of an account. */
  compare(s: State, a: Account, report: Report): void {
    const of = this.byAccount.get(a.id);
    if (of === undefined) return;
    const { number } = a.receipt;
    const hash = hex(a.receipt.hash);
    for (let kept = of.kept[of.compared]; kept?.number === number; kept = of.kept[++of.compared]) {
      if (kept.hash === hash) {
        of.fits = number;
        continue;
      }
      report.add({
        partition: s.partition, account: showId(a.id), what: `receipt ${number} of message ${s.sequence}`,
        field: `entries ${of.fits + 1} to ${number}`, expected: hash, found: kept.hash,
      });
    }
  }

  /** After the last message: receipts whose entries the journal of their account does not have. */
  end(s: State, belongs: (id: string) => boolean, report: Report): void {
    for (const [id, of] of this.byAccount) {
      if (!belongs(id)) continue;
      const last = s.accounts.get(id)?.receipt.number ?? 0;
      for (const { number } of of.kept.slice(of.compared)) {
        const base = { partition: s.partition, account: showId(id), what: `receipt ${number}`, field: "number" };
        report.add({ ...base, expected: `at most ${last}`, found: String(number) });
      }
      of.compared = of.kept.length;
    }
  }
}
