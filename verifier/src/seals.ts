// Compares the seals of a journal with its messages. See "Seals" in docs/journal.md.

import { touch } from "./accounts.ts";
import { leafSums, parseBill } from "./bill.ts";
import { monthName, monthOfDigits, monthStart } from "./calendar.ts";
import { hex, idNumber } from "./ids.ts";
import { canonical } from "./json.ts";
import type { Seal, SealedTree } from "./messages.ts";
import type { Report } from "./report.ts";
import type { Hash } from "./sha256.ts";
import type { Account, Month, State } from "./state.ts";
import { isClosed, showStatement } from "./statements.ts";
import { ChangingTree, keyOf, none, type Tree } from "./tree.ts";

/** How many earlier seals a seal may have the accounts tree of. */
const mostEarlier = 64;

/** Computes every root from the messages of a partition. */
export class SealCheck {
  count = 0;
  private readonly accounts: ChangingTree;
  private readonly changed = new Set<Account>();
  /** Roots of the accounts tree right after the newest messages with a seal. */
  private readonly earlier = new Map<number, Tree>();

  constructor(
    private readonly hash: Hash,
    private readonly partitions: number,
    private readonly report: Report,
  ) {
    this.accounts = new ChangingTree(hash);
  }

  /** After each entry of an account's chain. */
  linked(a: Account): void {
    this.changed.add(a);
  }

  /** After a message with a seal. */
  sealed(s: State, seal: Seal): void {
    this.count++;
    if (seal.partitions !== this.partitions) this.differs(s, "partitions", String(this.partitions), String(seal.partitions));
    this.receipts(s, seal);
    const months = new Set<number>();
    for (const tree of seal.statements) {
      const month = monthOfDigits(tree.month);
      const name = `statements tree of ${month === undefined ? tree.month : monthName(month)}`;
      if (months.has(tree.month)) this.differs(s, name, "once", "again");
      months.add(tree.month);
      if (month !== undefined && isClosed(s, month) && s.time < monthStart(month + 2)) this.compare(s, name, this.statements(s, month), tree);
      else this.differs(s, name, "a month that is closed, and followed by the present one", "another month");
    }
    this.remember(s.sequence);
  }

  private differs(s: State, field: string, expected: string, found: string): void {
    this.report.add({ partition: s.partition, what: `seal of message ${s.sequence}`, field, expected, found });
  }

  private compare(s: State, tree: string, is: Tree, sealed: SealedTree): void {
    if (hex(is.hash) !== hex(sealed.hash)) this.differs(s, `${tree}, hash`, hex(is.hash), hex(sealed.hash));
    const sums = sealed.sums.length === 0 ? none.sums : sealed.sums;
    if (is.sums.join() !== sums.join()) this.differs(s, `${tree}, sums`, is.sums.join(", "), sums.join(", "));
  }

  private receipts(s: State, { sequence, accounts }: Seal): void {
    const root = this.earlier.get(sequence);
    if (sequence === 0) {
      if (accounts !== undefined) this.differs(s, "accounts tree", "none without a sequence", "one");
    } else if (root === undefined) this.differs(s, "sequence", `0 or one of the ${mostEarlier} newest messages with a seal`, String(sequence));
    else if (accounts === undefined) this.differs(s, "accounts tree", `the tree of message ${sequence}`, "none");
    else this.compare(s, "accounts tree", root, accounts);
  }

  private remember(sequence: number): void {
    for (const a of this.changed) this.accounts.set(keyOf(this.hash, idNumber(a.id)), [BigInt(a.receipt.number), 0n, 0n], a.receipt.hash);
    this.changed.clear();
    this.earlier.set(sequence, this.accounts.root());
    if (this.earlier.size > mostEarlier) this.earlier.delete(this.earlier.keys().next().value!);
  }

  private statements(s: State, month: number): Tree {
    const tree = new ChangingTree(this.hash);
    for (const a of s.accounts.values()) {
      if (a.created >= monthStart(month + 1)) continue;
      const statement = statementAt(s, a, month);
      // Of an account that has reached a later month before the clock went back, the state does not have it any more.
      if (statement === undefined) continue;
      const text = canonical(withoutRefunds(statement));
      tree.set(keyOf(this.hash, idNumber(a.id)), leafSums(parseBill(text)), this.hash([new TextEncoder().encode(text)]));
    }
    return tree.root();
  }
}

/** A statement without what a refund can change after the close. */
function withoutRefunds(statement: Record<string, unknown>): Record<string, unknown> {
  const usage = (statement["usage"] as Record<string, unknown>[]).map(({ refunded_micros: _, ...line }) => line);
  return { ...statement, usage };
}

/** The statement of a closed month. A seal changes nothing: the months that time alone has ended begin in a copy. */
function statementAt(s: State, a: Account, month: number): Record<string, unknown> | undefined {
  if (a.previous?.month === month) return showStatement(s, a, a.previous);
  const silent: State = Object.assign(Object.create(s) as State, { sink: { ledger() {}, closed() {} }, counts: { ...s.counts } });
  const copy = copyOf(a);
  touch(silent, copy, Math.max(s.time, monthStart(month + 1)));
  return copy.previous?.month === month ? showStatement(silent, copy, copy.previous) : undefined;
}

/** A copy whose months can begin and end without the account's own. */
function copyOf(a: Account): Account {
  const monthCopy = (m: Month): Month => ({
    ...m, paid: [...m.paid], periods: m.periods.map((p) => ({ ...p })), storage: new Map(m.storage),
  });
  return {
    ...a, previous: a.previous && monthCopy(a.previous), current: monthCopy(a.current), holds: new Set(), kept: new Map(), makers: [...a.makers],
  };
}
