// Price books and versions of the rules. See "Price books and rules".

import { day } from "./calendar.ts";
import type { PriceBook } from "./messages.ts";
import { Book, latestRules } from "./prices.ts";
import type { State } from "./state.ts";
import { trimWindows } from "./time.ts";

const mostBooks = 200;
export const maxOffset = 3650 * day;

/** The journal has rules that this program does not know: it can't say what follows. */
export class UnknownRules extends Error {}

export function takeForce(s: State, b: Book): void {
  s.book = b;
  s.books.push(b);
  s.terms++;
  trimWindows(s);
}

export function limitOffset(ms: number): number {
  return Math.max(-maxOffset, Math.min(maxOffset, ms));
}

/** Whether the rules that a message brings are known. Asked before anything else of it. */
export function checkRules(m: PriceBook): void {
  if (m.id === "" && m.rules > latestRules) {
    throw new UnknownRules(`rules ${m.rules}: this program knows 1 to ${latestRules}`);
  }
}

export function foldPrices(s: State, m: PriceBook): void {
  if (m.id === "") configured(s, m);
  else if (s.rules >= 4 && s.book !== undefined) applied(s, m);
}

function configured(s: State, m: PriceBook): void {
  if (m.rules > s.rules) {
    s.rules = m.rules;
    s.terms++;
    for (const [id, kept] of s.commands) if (kept.status === 6) s.commands.delete(id);
  }
  const b = new Book(m, s.time, s.sequence);
  const present = s.book;
  if (present !== undefined) {
    if (!m.agreed || present.applied || b.sameAs(present)) return;
    if (m.stamp - limitOffset(m.offset) < present.message.stamp - limitOffset(present.message.offset)) return;
  }
  s.bookCount++;
  takeForce(s, b);
}

function applied(s: State, m: PriceBook): void {
  if (m.withdrawn) {
    for (const b of s.upcoming) if (b.message.id === m.id) b.withdrawn = true;
    return;
  }
  const all = [...s.books, ...s.upcoming];
  if (all.some((b) => b.message.id === m.id) || all.length >= mostBooks || !namesFit(all, m)) return;
  if (m.effective > s.time) {
    const b = new Book(m, m.effective, s.sequence);
    let at = s.upcoming.length;
    while (at > 0 && s.upcoming[at - 1]!.from > b.from) at--;
    s.upcoming.splice(at, 0, b);
  } else if (m.stamp >= m.effective) takeForce(s, new Book(m, s.time, s.sequence));
}

/** A tier's number and its name belong together in all books. */
function namesFit(all: Book[], m: PriceBook): boolean {
  for (const b of all) {
    for (const t of b.message.tiers) {
      for (const u of m.tiers) {
        if (t.name === "" || u.name === "") continue;
        if ((t.tier === u.tier) !== (t.name === u.name)) return false;
      }
    }
  }
  return true;
}
