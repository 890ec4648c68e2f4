// The fold's time, and what is due when it moves. See "Time".

import { reap, rollTo } from "./accounts.ts";
import { warnExpiring } from "./alerts.ts";
import { day, hour, minute, second } from "./calendar.ts";
import { expire, isKept } from "./credits.ts";
import { forget, serve, voidOpen } from "./settle.ts";
import { type Hold, open, type State } from "./state.ts";
import { takeForce } from "./upcoming.ts";

export const holdTime = 120 * second;
const memory = 600 * second;
const stampReach = 5 * second;
const tolerance = 10 * second;
const deletionDays = 14;

/** Moves the time for a message, whose clock is the journal's with the offset that counts for it. */
export function moveTime(s: State, clock: number, backClock: number, stamp: number): void {
  if (s.time > backClock + tolerance) goBack(s, backClock);
  const now = Math.max(s.time, clock - stampReach, Math.min(stamp, clock + stampReach));
  if (now > s.time) forward(s, now);
}

function forward(s: State, now: number): void {
  due(s, now);
  const minuteBefore = Math.floor(s.time / minute);
  s.time = now;
  if (now > s.peak) s.peak = now;
  warnExpiring(s);
  end(s, now);
  if (Math.floor(now / minute) === minuteBefore) return;
  for (const [name, source] of s.sources) if (now - source.seen >= hour) s.sources.delete(name);
}

function oldestOpen(s: State): Hold | undefined {
  for (let m = s.timeouts.peek(); m !== undefined; m = s.timeouts.peek()) {
    for (; m.next < m.holds.length; m.next++) {
      const hold = m.holds[m.next];
      if (hold?.result === open) return hold;
    }
    s.timeouts.shift();
  }
  return undefined;
}

/** Processes everything due by a time, each item as of the time at which it is due. */
function due(s: State, now: number): void {
  for (;;) {
    const book = s.upcoming[0];
    const expiry = s.expiries.peek();
    const hold = oldestOpen(s);
    const expires = expiry?.grant.expires ?? Infinity;
    const timesOut = hold === undefined ? Infinity : hold.time + holdTime;
    if (book !== undefined && book.from <= now && book.from <= expires && book.from <= timesOut) {
      s.upcoming.shift();
      s.time = Math.max(s.time, book.from);
      if (!book.withdrawn) takeForce(s, book);
    } else if (expires <= now && expires <= timesOut) {
      s.expiries.pop();
      s.time = Math.max(s.time, expires);
      if (isKept(expiry!.account, expiry!.grant)) rollTo(s, expiry!.account, expires);
      expire(s, expiry!.account, expiry!.grant, expires);
    } else if (timesOut <= now) {
      s.time = Math.max(s.time, timesOut);
      if (hold!.write) voidOpen(s, hold!, timesOut, true, false);
      else serve(s, hold!, timesOut, true);
    } else return;
  }
}

/** What a time ends. */
function end(s: State, now: number): void {
  for (let h = s.remembered.peek(); h !== undefined && (!h.remembered || h.closed <= now - memory); h = s.remembered.peek()) {
    s.remembered.shift();
    if (h.remembered) forget(s, h);
  }
  trimWindows(s);
  for (let f = s.failures.peek(); f !== undefined && f.time <= now - minute; f = s.failures.peek()) {
    s.failures.shift();
    f.owner.failures.shift();
    f.owner.failed--;
    reap(s, f.owner);
  }
  for (let l = s.late.peek(); l !== undefined && l.time <= now - day; l = s.late.peek()) {
    s.late.shift();
    if (l.owner.late[0] === l) l.owner.late.shift();
    reap(s, l.owner);
  }
  for (let c = s.keptCommands.peek(); c !== undefined && c.time <= now - day; c = s.keptCommands.peek()) {
    s.keptCommands.shift();
    if (s.commands.get(c.id) === c) s.commands.delete(c.id);
  }
}

/** Ends the admissions of networks that have left the window. */
export function trimWindows(s: State): void {
  const since = s.time - (s.book?.anonymousWindow ?? 0);
  for (let w = s.windows.peek(); w !== undefined && w.time <= since; w = s.windows.peek()) {
    s.windows.shift();
    if (w.network.admitted[0] === w.time) w.network.admitted.shift();
    reap(s, w.network);
  }
}

/** The journal's own clock went back: no remembered time is later than the new one. */
function goBack(s: State, now: number): void {
  s.time = now;
  const earlier = (t: number): number => Math.min(t, now);
  s.timeouts.forEach((m) => {
    for (const h of m.holds) if (h !== undefined) h.time = earlier(h.time);
  });
  s.remembered.forEach((h) => {
    h.time = earlier(h.time);
    h.closed = earlier(h.closed);
  });
  s.windows.forEach((w) => (w.time = earlier(w.time)));
  for (const n of s.networks.values()) {
    n.admitted = n.admitted.map(earlier);
    n.failures.map(earlier);
  }
  s.failures.forEach((f) => (f.time = earlier(f.time)));
  s.late.forEach((l) => (l.time = earlier(l.time)));
  s.keptCommands.forEach((c) => (c.time = earlier(c.time)));
  for (const source of s.sources.values()) source.seen = earlier(source.seen);
  for (const a of s.accounts.values()) {
    a.failures.map(earlier);
    for (const p of a.payments.values()) p.asOf = earlier(p.asOf);
    for (const x of a.subscriptions) x.asOf = earlier(x.asOf);
    if (a.deletes !== 0) a.deletes = Math.min(a.deletes, now + deletionDays * day);
    if (a.topUp === undefined) continue;
    a.topUp.due = earlier(a.topUp.due);
    a.topUp.retry = Math.min(a.topUp.retry, now + hour);
  }
}
