// Folds the messages of one partition. See docs/journal.md.

import { domains, foldDomain, foldUsage, sourceOf } from "./batches.ts";
import { execute } from "./commands.ts";
import { type CommandBatch, decodeCommands } from "./command_messages.ts";
import { u64 } from "./json.ts";
import { DecodeError, decodePrices, decodeUsage, type PriceBook, type UsageBatch } from "./messages.ts";
import { decideTopUps } from "./payments.ts";
import { type Effects, type Sink, State } from "./state.ts";
import { type Hash, sha256 } from "./sha256.ts";
import { moveTime } from "./time.ts";
import { checkRules, foldPrices, limitOffset } from "./upcoming.ts";
import { Reader } from "./wire.ts";

export interface Message {
  sequence: number;
  /** Unix nanoseconds, in decimal. */
  time: string;
  subject: string;
  data: Uint8Array;
}

type Decoded =
  | { kind: 1; usage: UsageBatch }
  | { kind: 2; commands: CommandBatch }
  | { kind: 3; prices: PriceBook }
  | { kind: 4; usage: UsageBatch; domain: string }
  | undefined;

export class Fold {
  readonly state: State;
  private readonly kinds = new Map<string, { number: number; domain: string }>();
  private readonly subjects = new Map<string, Uint8Array>();

  constructor(partition: number, answers: boolean, sink: Sink, hash: Hash = sha256) {
    this.state = new State(partition, answers, sink, hash);
    const prefix = `billing.${partition}.`;
    this.kinds.set(`${prefix}usage`, { number: 1, domain: "" });
    this.kinds.set(`${prefix}account`, { number: 2, domain: "" });
    this.kinds.set(`${prefix}prices`, { number: 3, domain: "" });
    for (const [domain, d] of Object.entries(domains)) this.kinds.set(`${prefix}settle.${domain}`, { number: d.kind, domain });
  }

  add(m: Message): Effects {
    const s = this.state;
    const kind = this.kinds.get(m.subject);
    const decoded = kind === undefined ? undefined : decode(kind.number, kind.domain, m.data);
    if (decoded?.kind === 3) checkRules(decoded.prices);
    s.sequence = m.sequence;
    s.chain = this.link(m, kind?.number ?? 0);
    s.counts.messages++;
    s.entries = 0;
    if (s.answers) {
      s.effects = {};
      s.alertCounts.clear();
    }
    if (decoded === undefined) s.effects.undecodable = true;
    else this.fold(decoded, clockOf(m.time));
    return s.effects;
  }

  private link(m: Message, kind: number): Uint8Array {
    let subject = this.subjects.get(m.subject);
    if (subject === undefined) {
      subject = new TextEncoder().encode(m.subject);
      if (this.subjects.size < 100) this.subjects.set(m.subject, subject);
    }
    const head = new Uint8Array(19);
    const view = new DataView(head.buffer);
    view.setBigUint64(0, BigInt(m.sequence));
    view.setBigUint64(8, BigInt.asUintN(64, BigInt(m.time)));
    head[16] = kind;
    view.setUint16(17, subject.length);
    const { hash } = this.state;
    return hash([this.state.chain, hash([head, subject, m.data])]);
  }

  private fold(d: NonNullable<Decoded>, journal: number): void {
    const s = this.state;
    switch (d.kind) {
      case 1:
        this.move(journal, stampOf(d.usage));
        foldUsage(s, d.usage);
        break;
      case 2:
        this.move(journal, d.commands.stamp);
        foldCommands(s, d.commands);
        break;
      case 3: {
        const offset = limitOffset(d.prices.offset);
        s.offset = Math.max(s.offset, offset);
        this.move(journal, d.prices.stamp, offset);
        foldPrices(s, d.prices);
        break;
      }
      case 4:
        this.move(journal, d.usage.stamp);
        foldDomain(s, d.domain, d.usage, journal);
    }
    if (s.topUps.size > 0) decideTopUps(s);
    if (d.kind === 1 && d.usage.number === 0 && d.usage.seal !== undefined) s.sink.sealed?.(s, d.usage.seal);
  }

  private move(journal: number, stamp: number, offset = this.state.offset): void {
    moveTime(this.state, journal + offset, journal + this.state.offset, stamp);
  }
}

/** ⌊ns / 1,000,000⌋ */
function clockOf(time: string): number {
  return time.length > 6 && !time.startsWith("-") ? Number(time.slice(0, -6)) : Number(BigInt(time) / 1_000_000n);
}

function decode(number: number, domain: string, data: Uint8Array): Decoded {
  try {
    const r = new Reader(data);
    if (number === 2) return { kind: 2, commands: decodeCommands(r) };
    if (number === 3) return { kind: 3, prices: decodePrices(r) };
    const usage = decodeUsage(r);
    return number === 1 ? { kind: 1, usage } : { kind: 4, usage, domain };
  } catch (e) {
    if (e instanceof DecodeError) return undefined;
    throw e;
  }
}

/** The source's clock: stamp_ms, or relative to the time in the first request's id. */
function stampOf(m: UsageBatch): number {
  const id = m.admissions[0]?.request ?? "";
  if (m.stamp !== 0 || id === "") return m.stamp;
  return id.charCodeAt(0) * 2 ** 32 + id.charCodeAt(1) * 65536 + id.charCodeAt(2) + m.since;
}

function foldCommands(s: State, m: CommandBatch): void {
  const source = sourceOf(s, m.source);
  if (m.number <= source.command) {
    if (m.number !== 0 && m.number === source.command && s.answers) s.effects.outcomes = source.commandAnswer;
    return;
  }
  const outcomes = m.commands.map((c, i) => execute(s, c, i));
  source.command = m.number;
  if (!s.answers) return;
  const answer: Record<string, unknown> = { source: m.source };
  u64(answer, "number", m.number);
  u64(answer, "sequence", s.sequence);
  if (outcomes.length > 0) answer["outcomes"] = outcomes;
  source.commandAnswer = answer;
  s.effects.outcomes = answer;
}

