// What the entries of an account's chain sum up to in a month. See "Receipts" and "Statements".

import { monthDigits, monthStart } from "./calendar.ts";
import { quotaKeys } from "./prices.ts";
import { kinds, waived } from "./receipts.ts";
import { chargeCredits } from "./state.ts";

export interface ChainEntry {
  kind: number;
  time: number;
  /** YYYYMM */
  month: number;
  quotaKey: number;
  charge: number;
  amount: bigint;
  /** Whether it is about a single request. */
  request: boolean;
}

export const figures = ["used", "overage", "spent", "waived"] as const;
export type Figures = Record<(typeof figures)[number], bigint>;

export const creditFigures = ["granted", "refunded", "adjusted", "expired", "charged"] as const;
export type Credits = Record<(typeof creditFigures)[number], bigint>;

/** Numbers of ledger types. */
const ledger = { grant: 1, adjustment: 2, charge: 3, expiry: 4, reversal: 7, payment: 6 } as const;

export function decodeEntry(bytes: Uint8Array): ChainEntry {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return {
    kind: bytes[0]!, time: Number(view.getBigUint64(1)), month: view.getUint32(9), quotaKey: bytes[13]!, charge: bytes[14]!,
    amount: view.getBigInt64(15), request: bytes.subarray(27).some((b) => b !== 0),
  };
}

/** The first field that no entry of its kind has. Begins: it is entry 1. */
export function malformedField(e: ChainEntry, begins: boolean): "kind" | "month" | "quota key" | "charge" | "amount" | undefined {
  if (begins ? e.kind !== kinds.begins : e.kind <= kinds.begins || e.kind > kinds.ledger) return "kind";
  if (e.month % 100 < 1 || e.month % 100 > 12) return "month";
  const counts = e.kind !== kinds.begins && e.kind !== kinds.ledger;
  if (e.quotaKey > quotaKeys || (counts && e.quotaKey === 0)) return "quota key";
  if (e.kind === kinds.begins) return e.charge === 0 ? undefined : "charge";
  if (e.kind === kinds.ledger) return e.charge < ledger.grant || e.charge > ledger.reversal ? "charge" : undefined;
  const paid = e.charge === chargeCredits;
  if (e.kind === kinds.free ? !paid : e.charge > chargeCredits && !(e.kind === kinds.late && e.charge === waived)) return "charge";
  return e.amount < 0n || (!paid && e.amount !== 0n) ? "amount" : undefined;
}

export class MonthSums {
  /** By quota key; [0] is not used. */
  readonly keys: Figures[] = Array.from({ length: quotaKeys + 1 }, () => ({ used: 0n, overage: 0n, spent: 0n, waived: 0n }));
  readonly credits: Credits = { granted: 0n, refunded: 0n, adjusted: 0n, expired: 0n, charged: 0n };
  /** What the entries up to the month change of what is settled. */
  settled = 0n;
  entries = 0;
  private readonly number: number;

  constructor(readonly month: number) {
    this.number = monthDigits(month);
  }

  add(e: ChainEntry): void {
    if ((e.kind === kinds.ledger && e.month <= this.number) || e.kind === kinds.begins) this.settled += e.amount;
    if (e.month !== this.number || e.kind === kinds.begins) return;
    this.entries++;
    if (e.kind === kinds.ledger) this.enter(e);
    else this.count(e);
  }

  private count(e: ChainEntry): void {
    const figures = this.keys[e.quotaKey]!;
    if (e.charge === waived) {
      figures.waived++;
      return;
    }
    const sign = e.kind === kinds.undone || e.kind === kinds.free ? -1n : 1n;
    if (e.kind !== kinds.free) figures.used += sign;
    if (e.charge !== chargeCredits) return;
    figures.overage += sign;
    figures.spent += sign * e.amount;
  }

  private enter(e: ChainEntry): void {
    const { credits } = this;
    if (e.charge === ledger.grant || e.charge === ledger.payment) credits.granted += e.amount;
    else if (e.charge === ledger.charge) credits.charged -= e.amount;
    else if (e.charge === ledger.expiry) credits.expired -= e.amount;
    else if (e.charge === ledger.adjustment && e.request) credits.refunded += e.amount;
    else credits.adjusted += e.amount;
  }
}

/** Whether no entry of a month can be before this one. */
export function isBefore(e: ChainEntry, month: number): boolean {
  return e.time < monthStart(month) && e.month < monthDigits(month);
}
