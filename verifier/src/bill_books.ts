// Compares the limits, prices and fees of a statement with price books. See "Price books and rules" and "Statements".

import type { Bill, BillPeriod } from "./bill.ts";
import { second } from "./calendar.ts";
import type { PriceBook } from "./messages.ts";
import { Book, type Plan, quotaKeys } from "./prices.ts";
import type { Report } from "./report.ts";
import { limitOffset } from "./upcoming.ts";

/** A price book, and between which times it came into force: the fold's time is not exactly the journal's clock. */
interface Known {
  book: Book;
  earliest: number;
  latest: number;
}

interface Mismatch {
  field: string;
  expected: string;
  found: string;
}

const behind = 5 * second;
const ahead = 15 * second;
const lastBuiltIn = 4;

export class KnownBooks {
  private readonly list: Known[];

  constructor(books: { message: PriceBook; time: string; sequence: number }[]) {
    const largest = books.reduce((n, b) => Math.max(n, limitOffset(b.message.offset)), 0);
    this.list = books.map(({ message, time, sequence }) => {
      const clock = Number(BigInt(time) / 1_000_000n);
      const from = clock + limitOffset(message.offset) - behind;
      const until = clock + largest + ahead;
      const due = message.id === "" ? 0 : message.effective;
      return { book: new Book(message, from, sequence), earliest: Math.max(from, due), latest: Math.max(until, due) };
    });
  }

  get size(): number {
    return this.list.length;
  }

  /** Whether a request of a quota key has this price in any of the books. */
  sells(quotaKey: number, price: bigint): boolean {
    return this.list.some(({ book }) => [...book.plans.values()].some((p) => {
      const t = p.terms[quotaKey]!;
      return t.overage && BigInt(t.price) === price;
    }));
  }

  /** The books that may have been in force in a period. */
  private inForce(p: BillPeriod): Known[] {
    return this.list.filter((b) => b.earliest <= p.end && !this.list.some((other) => other.earliest > b.latest && other.latest <= p.start));
  }

  compare(bill: Bill, report: Report): void {
    bill.periods.forEach((p, i) => {
      const m = nearest(this.inForce(p).map(({ book }) => mismatches(p, book)));
      if (m !== undefined) report.add({ what: "statement", ...m, field: `periods[${i}]${m.field}` });
    });
    // The month's end has the last book's, and the tier that the account had then.
    const last = nearest(this.list.map(({ book }) => atEnd(bill, book.plan(bill.tier))));
    if (last !== undefined) report.add({ what: "statement", ...last });
  }
}

/** The first mismatch with the book that has the fewest. Undefined: one has none. */
function nearest(books: Mismatch[][]): Mismatch | undefined {
  if (books.length === 0) return { field: "", expected: "a price book that was in force", found: "none among books" };
  return books.reduce((x, y) => (y.length < x.length ? y : x))[0];
}

function mismatches(p: BillPeriod, book: Book): Mismatch[] {
  const list: Mismatch[] = [];
  const plan = book.plan(p.tier);
  const compare = (field: string, expected: string, found: string): void => {
    if (expected !== found) list.push({ field, expected, found });
  };
  if (!book.hasTier(p.tier)) list.push({ field: ".tier", expected: "one of the price book", found: String(p.tier) });
  if (p.tier > lastBuiltIn && plan.name !== "") compare(".plan", plan.name, p.plan);
  compare(".fee_cents", String(plan.fee), p.fee.toString());
  for (let key = 1; key <= quotaKeys; key++) {
    const t = plan.terms[key]!;
    const l = p.lines[key]!;
    compare(`, quota key ${key}, limit`, String(t.limit), l.limit.toString());
    compare(`, quota key ${key}, overage`, String(t.overage), String(l.overage));
    compare(`, quota key ${key}, price_micros`, String(t.price), l.price.toString());
  }
  return list;
}

function atEnd(bill: Bill, plan: Plan): Mismatch[] {
  const list: Mismatch[] = [];
  const compare = (field: string, expected: number, found: bigint): void => {
    if (String(expected) !== found.toString()) list.push({ field, expected: String(expected), found: found.toString() });
  };
  for (let key = 1; key <= quotaKeys; key++) compare(`usage of quota key ${key}, limit`, plan.terms[key]!.limit, bill.limits[key]!);
  compare("storage_free_bytes", plan.freeStorage, bill.storage.free);
  compare("storage_cents_per_gb_month", plan.storageCents, bill.storage.price);
  return list;
}
