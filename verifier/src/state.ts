// What the fold remembers.

import type { Cap } from "./command_messages.ts";
import type { Seal } from "./messages.ts";
import { type Book, quotaKeys } from "./prices.ts";
import { Heap, Queue } from "./queue.ts";
import type { Receipt } from "./receipts.ts";
import { type Hash, sha256 } from "./sha256.ts";

/** Counters by quota key; [0] is not used. */
export type Counters = number[];

export function counters(): Counters {
  return new Array<number>(quotaKeys + 1).fill(0);
}

/** A part of a month in which nothing ended with the account's knowledge: statements divide it by the price books in it. */
export interface Period {
  /** The following describe a period that has ended. It began when the previous one ended. */
  end: number;
  tier: number;
  /** Index in State.books of the last one that the account had. */
  bookIndex: number;
  used: Counters;
  paid: Counters;
  amount: Counters;
}

export interface Month {
  month: number;
  /** When it began, or the account was created in it. */
  start: number;
  used: Counters;
  overage: Counters;
  spent: Counters;
  waived: Counters;
  refunded: Counters;
  /** Overage under the present terms. */
  paid: Counters;
  spentSum: number;
  /** The last one is open in the account's current month. */
  periods: Period[];
  granted: number;
  expired: number;
  adjusted: number;
  charged: number;
  refundedSum: number;
  refunds: { request: string; quotaKey: number; amount: number }[];
  /** At the month's end. */
  tier: number;
  /** Byte-milliseconds by day from 1970. */
  storage: Map<number, bigint>;
}

export interface Grant {
  id: number;
  amount: number;
  left: number;
  /** 0: never */
  expires: number;
  created: number;
  reason: string;
  over: boolean;
}

export interface GrantUse {
  grant: Grant;
  amount: number;
}

export const chargeNone = 0;
export const chargeQuota = 1;
export const chargeCredits = 2;

export const open = 0;
export const closedServed = 1;
export const closedVoid = 2;

/** The hold of an admitted request, and what is remembered of it later. */
export interface Hold {
  request: string;
  account: Account | undefined;
  network: Network | undefined;
  quotaKey: number;
  time: number;
  month: number;
  day: number;
  charge: number;
  cost: number;
  /** A former price that another void has given back while the hold was open. */
  returned: number;
  uses: GrantUse[] | undefined;
  write: boolean;
  idempotency: string;
  readHash: string;
  repeats: number;
  result: number;
  closed: number;
  /** Closed by a time-out that no settlement has made final. */
  timedOut: boolean;
  /** A settlement has said the same as the time-out. */
  confirmed: boolean;
  remembered: boolean;
  /** Counted in Account.makers. */
  makesRoom: boolean;
  message: Admitted | undefined;
  sequence: number;
  index: number;
  terms: number;
  key: number;
  lineage: Lineage | undefined;
  period: Period | undefined;
}

/** The holds of a message by position, for Served and for time-outs. One that is forgotten leaves. */
export interface Admitted {
  sequence: number;
  holds: (Hold | undefined)[];
  known: number;
  /** Position from which on holds may be open. */
  next: number;
}

export interface Spending {
  day: number;
  today: number;
  total: number;
}

export interface Lineage {
  line: number;
  name: string;
  scopes: number[];
  quotas: { quotaKey: number; limit: number }[];
  cap: Cap | undefined;
  spending: Spending;
  month: number;
  used: Counters;
  overage: Counters;
  spent: Counters;
}

export interface Key {
  number: number;
  lineage: Lineage;
  former: boolean;
  version: number;
  fingerprint: string;
  prefix: string;
  created: number;
  lastUsed: number;
  expires: number;
  revoked: number;
  replaced: boolean;
  replacedBy: number;
}

export interface Late {
  request: string;
  quotaKey: number;
  time: number;
  key: number;
  lineage: Lineage | undefined;
  owner: Owner;
}

export interface Payment {
  provider: string;
  id: string;
  credits: number;
  reversed: number;
  asOf: number;
  number: number;
  time: number;
  plan: string;
  amountCents: number;
  taxCents: number;
  topUp: number;
  reversedCents: number;
}

export interface Subscription {
  provider: string;
  id: string;
  tier: number;
  active: boolean;
  pastDue: boolean;
  cancels: boolean;
  created: number;
  periodEnd: number;
  asOf: number;
  feeCents: number;
  nextTier: number;
}

export interface TopUp {
  below: number;
  credits: number;
  monthMicros: number;
  last: number;
  due: number;
  dueMicros: number;
  month: number;
  spent: number;
  failures: number;
  reason: string;
  off: boolean;
  retry: number;
}

export interface Webhook {
  id: string;
  events: number;
  thresholds: number[];
  balanceBelow: number;
  created: number;
}

export interface Owner {
  id: string;
  /** Times of failed calls in the window. */
  failures: Queue<number>;
  failed: number;
  /** Oldest first. */
  late: Late[];
  /** Number of open holds, and of known ones. */
  open: number;
  known: number;
}

const maxKeys = 64;

/** The key in Account.kept of a month's paid requests under a quota key. */
export function keptOf(month: number, quotaKey: number): number {
  return month * maxKeys + quotaKey;
}

export function monthOfKept(kept: number): number {
  return Math.floor(kept / maxKeys);
}

export function keyOfKept(kept: number): number {
  return kept % maxKeys;
}

export interface Account extends Owner {
  tier: number;
  nextTier: number;
  created: number;
  previous: Month | undefined;
  current: Month;
  grants: Grant[];
  available: number;
  owed: number;
  settled: number;
  /** After the last entry of its chain. */
  receipt: Receipt;
  /** Changes whenever earlier payments become final; added to the fold's own. */
  ownTerms: number;
  seenTerms: number;
  /** Index in State.books of the last one that has ended earlier periods. */
  bookIndex: number;
  /** Open ones, and those that a time-out served. */
  holds: Set<Hold>;
  openByKey: Counters;
  /** Of holds, by quota key, those whose void makes room. */
  makers: Counters;
  /** Served paid requests that a void may make free, by keptOf their month and quota key, oldest first. */
  kept: Map<number, Hold[]>;
  keys: Key[];
  nextKey: number;
  defaultLineage: Lineage;
  /** Whether a key command has begun the default key's lineage. Until then it counts everything of the account. */
  keyed: boolean;
  cap: Cap | undefined;
  spending: Spending;
  suspended: number;
  suspensionReason: string;
  deletes: number;
  erased: number;
  storageBytes: bigint;
  /** Up to when the integral counts it. It stays when the clock goes back, so that no time counts twice. */
  storageSince: number;
  payments: Map<string, Payment>;
  subscriptions: Subscription[];
  topUp: TopUp | undefined;
  webhooks: Webhook[];
  /** Highest percentage notified, by limit and period. */
  notified: Map<string, number>;
  low: Set<number>;
  warned: Map<number, { expires: number; given: number }>;
}

export interface Network extends Owner {
  admitted: number[];
}

export interface Source {
  seen: number;
  usage: number;
  usageAnswer: unknown;
  command: number;
  commandAnswer: unknown;
}

export interface DomainSource {
  watermark: number;
  latest: number;
  floor: number;
}

export interface KeptCommand {
  id: string;
  bodyHash: string;
  time: number;
  status: number;
  outcome: Record<string, unknown>;
}

/** What a message did, in the shapes of the vectors. Undefined lists are empty. */
export interface Effects {
  undecodable?: boolean;
  verdicts?: unknown;
  outcomes?: unknown;
  ledger?: Record<string, unknown>[];
  closed?: Record<string, unknown>[];
  alerts?: Record<string, unknown>[];
  admin?: Record<string, unknown>[];
  usage?: Record<string, unknown>[];
  refused?: { reason: string; count: number }[];
  recreated?: Record<string, unknown>[];
}

export interface Sink {
  ledger(account: Account, entry: Record<string, unknown>): void;
  closed(account: Account, statement: Record<string, unknown>): void;
  /** After each entry of an account's chain, from rules 5 on. */
  linked?(s: State, account: Account, entry: Uint8Array): void;
  /** After a message with a seal, once all else of it is folded. */
  sealed?(s: State, seal: Seal): void;
}

export class State {
  sequence = 0;
  chain: Uint8Array = new Uint8Array(32);
  time = 0;
  peak = 0;
  rules = 1;
  offset = 0;
  book: Book | undefined;
  books: Book[] = [];
  upcoming: Book[] = [];
  bookCount = 0;
  /** Changes with each price book and version of the rules. */
  terms = 0;

  readonly accounts = new Map<string, Account>();
  readonly networks = new Map<string, Network>();
  readonly sources = new Map<string, Source>();
  readonly domains = new Map<string, DomainSource>();
  readonly commands = new Map<string, KeptCommand>();
  readonly losses = new Set<string>();

  /** Open and remembered holds by request id. */
  readonly known = new Map<string, Hold>();
  readonly byIdempotency = new Map<string, Hold>();
  readonly admitted = new Map<number, Admitted>();

  // Everything that time ends, oldest first. What has ended otherwise is skipped when its turn comes.
  readonly timeouts = new Queue<Admitted>();
  readonly remembered = new Queue<Hold>();
  readonly windows = new Queue<{ network: Network; time: number }>();
  readonly failures = new Queue<{ owner: Owner; time: number }>();
  readonly late = new Queue<Late>();
  readonly keptCommands = new Queue<KeptCommand>();
  readonly expiries = new Heap<{ account: Account; grant: Grant }>((a, b) =>
    a.grant.expires !== b.grant.expires ? a.grant.expires < b.grant.expires
    : a.account.id !== b.account.id ? a.account.id < b.account.id
    : a.grant.id < b.grant.id);
  readonly topUps = new Set<Account>();
  readonly warnings = new Set<Account>();

  /** Of the message that is folded. */
  effects: Effects = {};
  entries = 0;
  alertCounts = new Map<string, number>();
  clock = 0;

  readonly counts = { messages: 0, admissions: 0, settlements: 0, commands: 0, ledger: 0, closed: 0 };

  constructor(
    readonly partition: number,
    /** Whether answers and alerts are built too. Bills don't need them. */
    readonly answers: boolean,
    readonly sink: Sink,
    readonly hash: Hash = sha256,
  ) {}
}
