// Forgeries by an operator with the log's key: trees, seal, log and proof are created again and are consistent. As in forged_files.mjs.

import {
  bitOf, chainOf, december, encodeEntry, keyOf, leafOf, nodeOf, proofOf, seal, sha, showId, statementLeaf, textOf,
} from "./installation.mjs";

const hex = (b) => b.toString("hex");

/** Edits the statement of an account. */
const edited = (account, edit) => {
  const statement = JSON.parse(account.text);
  edit(statement);
  account.text = textOf(statement);
};

const add = (o, name, n) => { o[name] = String(BigInt(o[name] ?? 0) + BigInt(n)); };

/** Whether the entries of a file have all of November, so that figures are compared. */
const whole = (a) => a.entries.length > 0 && a.parsed[0].month < 202611;

/** The forgeries by name. */
export function forgedSeals(pick, signer) {
  const one = (list) => list[pick(list.length)];

  /** Reseals the installation with the log's key, after an edit of an account or of its partition's seal. */
  function resealed({ accounts, partitions }, account, edit, more = {}) {
    const copy = accounts.map((a) => (a === account ? { ...a, entries: [...a.entries], parsed: a.parsed.map((e) => ({ ...e })) } : a));
    const own = copy[accounts.indexOf(account)];
    edit(own);
    return { inst: seal({ accounts: copy, partitions, signer, pick, ...more }), account: own };
  }

  /** A statement that differs from the entries, in trees and a log that are consistent with it. */
  const sealedStatement = (edit) => (d) => {
    let found;
    const { inst, account } = resealed(d, d.account, (a) => edited(a, (s) => { found = edit(s, a); }));
    return found === undefined ? undefined : { places: [found], file: proofOf(inst, account) };
  };

  return {
    "statement with more requests": sealedStatement((s, a) => {
      if (!whole(a)) return undefined;
      const key = 1 + pick(13);
      const line = s.usage[key - 1];
      add(line, "used", 1);
      if (Number(line.limit) >= 0) {
        const left = String(Math.max(0, Number(line.limit ?? 0) - Number(line.used)));
        if (left === "0") delete line.remaining;
        else line.remaining = left;
      }
      add(one(s.periods).lines[key - 1], "used", 1);
      return `statement, usage of quota key ${key}, used`;
    }),
    "statement with more waived": sealedStatement((s, a) => {
      if (!whole(a)) return undefined;
      add(s.usage[2], "waived", 1);
      return "statement, usage of quota key 3, waived";
    }),
    "statement with other credits": sealedStatement((s, a) => {
      if (!whole(a)) return undefined;
      const [name, sign] = one([["granted", 1], ["adjusted", 1], ["expired", -1]]);
      add(s.credits, `${name}_micros`, 7);
      add(s.credits, "opening_micros", -7 * sign);
      return `statement, credits.${name}_micros`;
    }),
    "statement with another balance": sealedStatement((s, a) => {
      if (a.entries.length === 0 || a.parsed[0].month > 202611) return undefined;
      // Only of a chain that the file has from its first entry on the balance follows.
      if (proofOf({ ...seal({ accounts: [a], partitions: 1, signer, pick }) }, a).extra.entries.first !== "1") return undefined;
      add(s.credits, "opening_micros", 5);
      add(s.credits, "closing_micros", 5);
      return "statement, credits.closing_micros";
    }),
    "statement whose figures contradict each other": sealedStatement((s) => {
      const [edit, place] = one([
        [() => add(s, "fees_cents", 1), "statement, fees_cents"],
        [() => add(s, "spent_micros", 1), "statement, spent_micros"],
        [() => add(s.credits, "pending_micros", 1), "statement, credits.pending_micros"],
        [() => add(s, "storage_average_bytes", 1), "statement, storage_average_bytes"],
        [() => add(s, "storage_overage_cents", 1), "statement, storage_overage_cents"],
        [() => add(s.periods[0], "end_ms", -1000), "statement, "],
        [() => add(s.periods[0].lines[4], "amount_micros", 3), "statement, usage of quota key 5, spent_micros"],
      ]);
      edit();
      return place === "statement, " ? /^statement, (periods|end of the last period)/ : place;
    }),
    "other limit, price or fee": sealedStatement((s) => {
      const i = pick(s.periods.length);
      const p = s.periods[i];
      const key = 1 + pick(11);
      const line = p.lines[key - 1];
      switch (pick(3)) {
        case 0:
          add(line, "limit", 1);
          return `statement, periods[${i}], quota key ${key}, limit`;
        case 1: {
          add(line, "price_micros", 1);
          if (line.paid !== undefined) return undefined;
          return `statement, periods[${i}], quota key ${key}, price_micros`;
        }
        default: {
          const amount = BigInt(p.fee_amount_cents ?? 0);
          add(p, "fee_cents", 100);
          const now = (BigInt(p.fee_cents) * BigInt(p.fee_seconds ?? 0)) / 2_592_000n;
          if (now === 0n) delete p.fee_amount_cents;
          else p.fee_amount_cents = String(now);
          add(s, "fees_cents", now - amount);
          if (s.fees_cents === "0") delete s.fees_cents;
          return `statement, periods[${i}].fee_cents`;
        }
      }
    }),
    "earlier price after a change": sealedStatement((s) => {
      const p = s.periods[1];
      if (p === undefined || p.lines.some((l) => l.paid !== undefined)) return undefined;
      p.lines = s.periods[0].lines.map((l, i) => ({ ...l, ...Object.fromEntries(["used", "paid", "amount_micros"].map((n) => [n, p.lines[i][n]])) }));
      return /^statement, periods\[1\]/;
    }),
    "statement that is not canonical": (d) => {
      const { inst, account } = resealed(d, d.account, (a) => { a.text = one([` ${a.text}`, a.text.replace("{", "{\"zz\":1,"), a.text.replace(":", ": ")]); });
      return { places: ["statement, text"], file: proofOf(inst, account) };
    },
    "request more in the chain": (d) => {
      if (!whole(d.account)) return undefined;
      const time = december - 1000;
      const key = 1 + pick(13);
      const e = { kind: 2, time, month: 202611, key, charge: 1, amount: 0, request: sha(String(pick(1 << 30))).subarray(0, 16) };
      const { inst, account } = resealed(d, d.account, (a) => { a.parsed.push(e); a.entries.push(encodeEntry(e)); });
      return { places: [`statement, usage of quota key ${key}, used`], file: proofOf(inst, account) };
    },
    "entry with another price": (d) => {
      const i = d.account.parsed.findLastIndex((e) => e.kind === 2 && e.charge === 2 && e.month === 202611);
      if (i < 0) return undefined;
      const { inst, account } = resealed(d, d.account, (a) => {
        a.parsed[i].amount += 1000;
        a.entries[i] = encodeEntry(a.parsed[i]);
      });
      return { places: [`entry ${i + 1}, amount`], file: proofOf(inst, account) };
    },
    "rewritten history": (d) => {
      // Everything is made anew to fit: only a receipt that the customer kept contradicts.
      const { account: before } = d;
      const i = before.parsed.findLastIndex((e) => e.kind === 2);
      if (i < 1) return undefined;
      const number = i + 1 + pick(before.entries.length - i);
      const receipts = `${showId(before.id)} ${number}.${hex(chainOf(before.id, before.entries)[number])}\n`;
      const { inst, account } = resealed(d, before, (a) => {
        a.parsed[i].request = sha(a.parsed[i].request).subarray(0, 16);
        a.entries[i] = encodeEntry(a.parsed[i]);
      });
      const file = proofOf(inst, account);
      const first = Number(file.extra.entries.first);
      if (first > number) return undefined;
      return { places: [`kept receipt ${number}, entries ${first} to ${number}`], file, options: { receipts } };
    },
    "second statement in a tree": (d) => {
      const { account } = d;
      const second = JSON.parse(account.text);
      add(second, "fees_cents", 50);
      const text = textOf(second);
      const key = keyOf(account.id);
      const leaf = statementLeaf(account.id, text);
      const bit = pick(256);
      const { inst } = resealed(d, account, () => {}, {
        change: (sealed, partition, trees) => {
          if (d.inst.partitionFor(account.id) !== partition) return;
          const sides = [trees.statements, leaf];
          if (bitOf(key, bit) === 1) sides.reverse();
          // The key takes the other side.
          sealed.statements[0].tree = nodeOf(bit, ...sides);
        },
      });
      const file = proofOf(inst, account);
      const tree = inst.parts[inst.partitionFor(account.id)].trees.statements;
      file.extra.statement = { text, path: [{ bit: pick(2) ? bit : pick(256), hash: hex(tree.hash), sums: tree.sums.map(String) }] };
      return { places: ["statement, root of the statements tree of 2026-11"], file };
    },
    "second tree of a month": (d) => {
      const { inst, account } = resealed(d, d.account, () => {}, {
        change: (sealed) => { sealed.statements.splice(pick(2), 0, { month: 202611, tree: leafOf(keyOf(1n), [1n, 2n, 3n], sha("x")) }); },
      });
      return { places: ["seal, the statements tree of 2026-11"], file: proofOf(inst, account) };
    },
    "sums that overflow in a tree": (d) => {
      const { account } = d;
      const key = keyOf(account.id);
      const other = leafOf(key.map((b, i) => (i === 0 ? b ^ 128 : b)), [0n, 0n, (1n << 64n) - 1n], sha("minus one cent"));
      let place;
      const { inst } = resealed(d, account, () => {}, {
        change: (sealed, partition) => {
          if (d.inst.partitionFor(account.id) !== partition) return;
          const own = statementLeaf(account.id, account.text);
          place = own.sums[2] > 0n;
          sealed.statements[0].tree = nodeOf(0, ...(bitOf(key, 0) === 0 ? [own, other] : [other, own]));
        },
      });
      if (!place) return undefined;
      const file = proofOf(inst, account);
      file.extra.statement.path = [{ bit: 0, hash: hex(other.hash), sums: other.sums.map(String) }];
      return { places: ["statement, path[0].sums"], file };
    },
    "other seal": (d) => {
      const [change, place] = one([
        [(s) => { s.number = 1; }, "seal, number"], [(s) => { s.sequence = 0; }, "seal, sequence"], [(s) => { s.sequence = 1000; }, "seal, sequence"],
        [(s) => { s.accounts = undefined; }, "seal, accounts"], [(s) => { s.partitions = 0; }, "seal, partitions"],
        [(s) => { s.statements = []; }, "seal, the statements tree of 2026-11"],
        [(s) => { s.accounts = { ...s.accounts, sums: s.accounts.sums.map((n) => n + 1n) }; }, /^(receipt|absent|seal), sums of the accounts tree/],
        [(s) => { s.statements[0].tree = { ...s.statements[0].tree, sums: [1n, 2n, 3n << 40n] }; }, "statement, sums of the statements tree of 2026-11"],
        [(s) => { s.accounts = { hash: Buffer.alloc(31), sums: [1n, 0n, 0n] }; }, "seal, hash of the accounts tree"],
        [(s) => { s.accounts = { ...s.accounts, sums: [1n] }; }, "seal, sums of the accounts tree"],
      ]);
      const { inst, account } = resealed(d, d.account, () => {}, { change });
      const { extra } = proofOf(inst, account);
      if (String(place).includes("sums of the acc") && extra.receipt === undefined && extra.absent === undefined) return undefined;
      return { places: [place], file: proofOf(inst, account) };
    },
    "account in another partition": (d) => {
      const { account, partitions } = d;
      const honest = d.inst.partitionFor(account.id);
      if (partitions === 1) return undefined;
      const moved = (id) => (id === account.id ? (honest + 1) % partitions : d.inst.partitionFor(id));
      const { inst, account: own } = resealed(d, account, () => {}, { partitionFor: moved });
      return { places: ["seal, partition"], file: proofOf(inst, own) };
    },
  };
}
