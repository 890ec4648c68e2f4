// Price books: what a request, a GB and a plan cost, and from when on. See "Price books and rules".

import type { PriceBook } from "./messages.ts";

export const quotaKeys = 13;
/** Every book has the keys up to this one. */
const lastInitialKey = 13;
export const maxBalance = 1e15;
export const latestRules = 5;
export const free = 1;
const admin = 4;

export interface Terms {
  limit: number;
  price: number;
  overage: boolean;
}

/** Whether the rules in force count requests under a quota key. */
export function counts(_rules: number, quotaKey: number): boolean {
  return quotaKey >= 1 && quotaKey <= quotaKeys;
}

const nothing: Terms = { limit: 0, price: 0, overage: false };

export interface Plan {
  name: string;
  /** By quota key; [0] is not used. */
  terms: Terms[];
  fee: number;
  freeStorage: number;
  storageCents: number;
}

const noPlan: Plan = {
  name: "", terms: Array.from({ length: quotaKeys + 1 }, () => nothing), fee: 0, freeStorage: 0, storageCents: 0,
};

export class Book {
  readonly plans = new Map<number, Plan>();
  readonly anonymousLimit: number;
  readonly anonymousWindow: number;
  readonly applied: boolean;
  withdrawn = false;

  constructor(
    readonly message: PriceBook,
    /** When it comes into force. */
    public from: number,
    readonly sequence: number,
  ) {
    this.applied = message.id !== "";
    this.anonymousLimit = message.anonymousLimit;
    this.anonymousWindow = message.anonymousWindow;
    for (const tier of message.tiers) {
      const terms = noPlan.terms.slice();
      for (const t of tier.terms) {
        if (t.quotaKey < 1 || t.quotaKey > quotaKeys) continue;
        terms[t.quotaKey] = { limit: t.limit, price: Math.min(t.price, maxBalance + 1), overage: t.overage };
      }
      this.plans.set(tier.tier, {
        name: this.applied ? tier.name : "",
        terms,
        fee: this.applied ? tier.fee : 0,
        freeStorage: this.applied ? tier.freeStorage : message.freeStorage,
        storageCents: this.applied ? tier.storageCents : message.storageCents,
      });
    }
    if (this.applied) return;
    for (let tier = free; tier <= admin; tier++) {
      if (this.plans.has(tier)) continue;
      this.plans.set(tier, { ...noPlan, freeStorage: message.freeStorage, storageCents: message.storageCents });
    }
  }

  plan(tier: number): Plan {
    return this.plans.get(tier) ?? noPlan;
  }

  /** The name of a tier that is not built in, if this book has it. */
  planName(tier: number): string {
    return tier > admin ? this.plan(tier).name : "";
  }

  hasTier(tier: number): boolean {
    return (tier >= free && tier <= admin) || (tier > admin && tier <= 15 && this.plan(tier).name !== "");
  }

  /** Whether a plan has terms for a quota key. */
  has(quotaKey: number): boolean {
    return [...this.plans.values()].some(({ terms }) => terms[quotaKey]!.limit !== 0 || terms[quotaKey]!.overage || terms[quotaKey]!.price > 0);
  }

  /** Whether plans, limits and prices are the same. */
  sameAs(other: Book): boolean {
    return this.comparable() === other.comparable();
  }

  private comparable(): string {
    const plans = [...this.plans].sort(([a], [b]) => a - b);
    return JSON.stringify([this.anonymousLimit, this.anonymousWindow, plans]);
  }
}

/** Whether usage and statements under a book list a quota key: the first ones always, a later one if the book has it. */
export function listed(book: Book | undefined, quotaKey: number): boolean {
  return quotaKey <= lastInitialKey || book?.has(quotaKey) === true;
}
