// Compares the text of a statement with what its account's entries sum up to, and with price books. See "Statements".

import { monthName, monthStart } from "./calendar.ts";
import { type Credits, creditFigures, type Figures, figures, type MonthSums } from "./entries.ts";
import { canonical } from "./json.ts";
import { Member } from "./members.ts";
import { quotaKeys } from "./prices.ts";
import type { Report } from "./report.ts";

export interface Line {
  limit: bigint;
  overage: boolean;
  price: bigint;
  used: bigint;
  paid: bigint;
  amount: bigint;
}

export interface BillPeriod {
  start: number;
  end: number;
  tier: number;
  plan: string;
  fee: bigint;
  feeSeconds: bigint;
  feeAmount: bigint;
  /** By quota key; [0] is not used. */
  lines: Line[];
}

export interface Bill {
  month: number;
  closed: boolean;
  tier: number;
  spent: bigint;
  fees: bigint;
  limits: bigint[];
  remaining: bigint[];
  keys: Figures[];
  credits: Credits & { opening: bigint; closing: bigint; pending: bigint };
  storage: { integral: bigint; average: bigint; free: bigint; billed: bigint; price: bigint; cents: bigint };
  periods: BillPeriod[];
}

const nameOf = { used: "used", overage: "overage", spent: "spent_micros", waived: "waived" } as const;
const mostPeriods = 10_000;

const unsigned = (m: Member | undefined, name: string): bigint => m?.optional(name)?.unsigned() ?? 0n;
const signed = (m: Member | undefined, name: string): bigint => m?.optional(name)?.signed() ?? 0n;

/** The lines of a list by their quota key. A later line of the same one would hide the first: it is not canonical. */
function byKey(list: Member[]): (Member | undefined)[] {
  const lines: (Member | undefined)[] = new Array<undefined>(quotaKeys + 1).fill(undefined);
  for (const line of list) {
    const key = line.get("quota_key").small(quotaKeys);
    if (key === 0 || lines[key] !== undefined) line.get("quota_key").fail("a quota key that has no other line");
    lines[key] = line;
  }
  return lines;
}

function parsePeriod(m: Member): BillPeriod {
  return {
    start: m.get("start_ms").count(), end: m.get("end_ms").count(), tier: m.get("tier").small(15), plan: m.optional("plan")?.text() ?? "",
    fee: unsigned(m, "fee_cents"), feeSeconds: unsigned(m, "fee_seconds"), feeAmount: unsigned(m, "fee_amount_cents"),
    lines: byKey(m.get("lines").list(quotaKeys)).map((l) => ({
      limit: signed(l, "limit"), overage: l?.optional("overage")?.flag() ?? false, price: unsigned(l, "price_micros"),
      used: unsigned(l, "used"), paid: unsigned(l, "paid"), amount: unsigned(l, "amount_micros"),
    })),
  };
}

/** Throws Malformed if the text is not a statement. */
export function parseBill(text: string): Bill {
  const m = Member.parse(text, "statement");
  const usage = byKey(m.get("usage").list(quotaKeys));
  const credits = m.optional("credits");
  const c = (name: string): bigint => signed(credits, `${name}_micros`);
  const integral = (unsigned(m, "storage_byte_ms_high") << 64n) | unsigned(m, "storage_byte_ms_low");
  return {
    month: m.get("period").month(), closed: m.optional("closed")?.flag() ?? false, tier: m.optional("tier")?.small(15) ?? 0,
    spent: unsigned(m, "spent_micros"), fees: unsigned(m, "fees_cents"),
    limits: usage.map((l) => signed(l, "limit")), remaining: usage.map((l) => signed(l, "remaining")),
    keys: usage.map((l) => ({
      used: unsigned(l, "used"), overage: unsigned(l, "overage"), spent: unsigned(l, "spent_micros"), waived: unsigned(l, "waived"),
    })),
    credits: {
      opening: c("opening"), granted: c("granted"), refunded: c("refunded"), adjusted: c("adjusted"), expired: c("expired"),
      charged: c("charged"), closing: c("closing"), pending: c("pending"),
    },
    storage: {
      integral: BigInt.asIntN(128, integral), average: unsigned(m, "storage_average_bytes"),
      free: unsigned(m, "storage_free_bytes"), billed: unsigned(m, "storage_billed_bytes"),
      price: unsigned(m, "storage_cents_per_gb_month"), cents: unsigned(m, "storage_overage_cents"),
    },
    periods: (m.optional("periods")?.list(mostPeriods) ?? []).map(parsePeriod),
  };
}

export function isCanonical(text: string): boolean {
  try {
    return canonical(JSON.parse(text)) === text;
  } catch (e) {
    // Nested too deeply.
    if (e instanceof RangeError) return false;
    throw e;
  }
}

/** The sums of a statement's leaf. */
export function leafSums(b: Bill): bigint[] {
  return [b.keys.reduce((n, k) => n + k.used, 0n), b.spent, b.fees + b.storage.cents];
}

const total = (list: bigint[]): bigint => list.reduce((n, x) => n + x, 0n);

export class BillCheck {
  constructor(
    private readonly bill: Bill,
    private readonly report: Report,
  ) {}

  private compare(field: string, expected: bigint | string, found: bigint | string): void {
    if (expected !== found) this.report.add({ what: "statement", field, expected: expected.toString(), found: found.toString() });
  }

  /** What must be so of any statement of the month. */
  inItself(month: number): void {
    const { bill } = this;
    this.compare("period", monthName(month), monthName(bill.month));
    this.compare("closed", "true", String(bill.closed));
    bill.keys.forEach((k, key) => {
      if (key === 0) return;
      const at = `usage of quota key ${key}`;
      const limit = bill.limits[key]!;
      const left = limit > k.used ? limit - k.used : 0n;
      this.compare(`${at}, remaining`, limit < 0n ? -1n : left, bill.remaining[key]!);
      const sum = (name: "used" | "paid" | "amount"): bigint => total(bill.periods.map((p) => p.lines[key]![name]));
      this.compare(`${at}, used`, sum("used"), k.used);
      this.compare(`${at}, overage`, sum("paid"), k.overage);
      this.compare(`${at}, spent_micros`, sum("amount"), k.spent);
    });
    this.compare("spent_micros", total(bill.keys.map((k) => k.spent)), bill.spent);
    const { opening, granted, refunded, adjusted, expired, charged, closing, pending } = bill.credits;
    this.compare("credits.closing_micros", opening + granted + refunded + adjusted - expired - charged, closing);
    this.compare("credits.pending_micros", bill.spent - charged + refunded, pending);
    this.periods();
    this.storage();
  }

  private periods(): void {
    const { bill } = this;
    const start = monthStart(bill.month);
    const end = monthStart(bill.month + 1);
    const seconds = BigInt((end - start) / 1000);
    let next = start;
    bill.periods.forEach((p, i) => {
      const at = `periods[${i}]`;
      if (i === 0 ? p.start < start : p.start !== next) this.compare(`${at}.start_ms`, String(next), String(p.start));
      if (p.end < p.start) this.compare(`${at}.end_ms`, `at least ${p.start}`, String(p.end));
      next = p.end;
      const most = BigInt(Math.max(0, Math.floor(p.end / 1000) - Math.floor(p.start / 1000)));
      // After an account is erased no second counts.
      if (p.feeSeconds > most) this.compare(`${at}.fee_seconds`, `at most ${most}`, p.feeSeconds);
      this.compare(`${at}.fee_amount_cents`, (p.fee * p.feeSeconds) / seconds, p.feeAmount);
      p.lines.forEach((l, key) => {
        if (key > 0) this.compare(`${at}, quota key ${key}, amount_micros`, l.paid * l.price, l.amount);
      });
    });
    if (next !== end) this.compare("end of the last period", String(end), String(next));
    this.compare("fees_cents", total(bill.periods.map((p) => p.feeAmount)), bill.fees);
  }

  private storage(): void {
    const s = this.bill.storage;
    const length = BigInt(monthStart(this.bill.month + 1) - monthStart(this.bill.month));
    const positive = (n: bigint): bigint => (n > 0n ? n : 0n);
    const over = positive(s.integral - s.free * length);
    this.compare("storage_average_bytes", positive(s.integral) / length, s.average);
    this.compare("storage_billed_bytes", over / length, s.billed);
    this.compare("storage_overage_cents", (over * s.price) / ((1n << 30n) * length), s.cents);
  }

  /**
   * Compares the figures with sums of entries. If earlier entries of the month may be missing, the statement may have more:
   * what it has more is returned, by name.
   */
  figures(sums: MonthSums, whole: boolean): string[] {
    const more: string[] = [];
    sums.keys.forEach((expected, key) => {
      for (const name of key === 0 ? [] : figures) {
        const found = this.bill.keys[key]![name];
        const field = `usage of quota key ${key}, ${nameOf[name]}`;
        if (whole || found < expected[name]) this.compare(field, expected[name], found);
        else if (found > expected[name]) more.push(`${found - expected[name]} of ${field}`);
      }
    });
    for (const name of creditFigures) {
      const found = this.bill.credits[name];
      const field = `credits.${name}_micros`;
      if (whole) this.compare(field, sums.credits[name], found);
      else if (found !== sums.credits[name]) more.push(`${found - sums.credits[name]} of ${field}`);
    }
    return more;
  }

  /** Compares the balance at the month's end, if it follows from the entries. */
  closing(settled: bigint): void {
    this.compare("credits.closing_micros", settled, this.bill.credits.closing);
  }
}
