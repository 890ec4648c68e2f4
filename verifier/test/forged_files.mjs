// Forgeries of a file with a bill's proof, by someone with proofs but without the log's key. Each returns the places at which it must be found,
// and what to verify if that is not the proof it edited; or undefined if the forgery is impossible or changes nothing.

import {
  bitOf, consistency, december, keyOf, proofOf, reach, seal, sha, statementLeaf,
} from "./installation.mjs";
import { root as logRoot, Signer } from "./log.mjs";

const hex = (b) => b.toString("hex");

const entriesOf = (extra) => {
  const data = Buffer.from(extra.entries.data, "base64");
  return Array.from({ length: data.length / 43 }, (_, i) => data.subarray(43 * i, 43 * i + 43));
};
const setEntries = (extra, list) => { extra.entries.data = Buffer.concat(list).toString("base64"); };

/** Edits the entries of a file. The receipt does not fit any more. */
const fileEntries = (edit, place) => ({ proof }) => {
  const { extra } = proof;
  if (extra.entries === undefined) return undefined;
  const list = entriesOf(extra);
  const last = Number(extra.receipt.number);
  if (edit(list, extra) === false) return undefined;
  setEntries(extra, list);
  return { places: place?.(last) ?? [`entries, hash after entry ${last}`] };
};

const count = () => ["entries, number of the last one"];

/** The forgeries by name. */
export function forgedFiles(pick, signer) {
  const one = (list) => list[pick(list.length)];
  return {
    "edited entry": fileEntries((list) => {
      const at = pick(list.length);
      list[at] = Buffer.from(list[at]);
      list[at][pick(43)] ^= 1 + pick(255);
    }),
    "omitted entry": fileEntries((list) => { list.splice(pick(list.length), 1); if (list.length === 0) return false; }, count),
    "omitted first entry": fileEntries((list, extra) => {
      if (list.length < 2) return false;
      list.shift();
      extra.entries.first = String(Number(extra.entries.first) + 1);
    }),
    "doubled entry": fileEntries((list) => { const i = pick(list.length); list.splice(i, 0, list[i]); }, count),
    "swapped entries": fileEntries((list) => {
      const [i, j] = [pick(list.length), pick(list.length)];
      if (list[i].equals(list[j])) return false;
      [list[i], list[j]] = [list[j], list[i]];
    }),
    "other hash before": ({ proof: { extra } }) => {
      if (extra.entries === undefined) return undefined;
      extra.entries.before = hex(sha(extra.entries.before));
      return { places: [extra.entries.first === "1" ? "entries, before" : `entries, hash after entry ${extra.receipt.number}`] };
    },
    "another number of the receipt": ({ proof: { extra } }) => {
      if (extra.receipt === undefined) return undefined;
      extra.receipt.number = String(Number(extra.receipt.number) + 1 + pick(5));
      return { places: ["receipt, root of the accounts tree"] };
    },
    "another account's member": ({ inst, proof, account, other }) => {
      const theirs = proofOf(inst, other);
      const name = one(["receipt", "statement", "entries", "account"]);
      if (theirs.extra[name] === undefined || proof.extra[name] === undefined) return undefined;
      if (JSON.stringify(theirs.extra[name]) === JSON.stringify(proof.extra[name])) return undefined;
      proof.extra[name] = theirs.extra[name];
      const partition = inst.partitionFor(account.id) !== inst.partitionFor(other.id);
      return { places: [{
        receipt: /^receipt, (path|root)/, statement: /^statement, (path|root)/, entries: /^entries, (before|hash|number)/,
        account: partition ? /^seal, partition/ : /^(receipt|absent), (path|root|key)/,
      }[name]] };
    },
    "another account's path": ({ inst, proof, other }) => {
      const name = one(["receipt", "statement"]);
      const theirs = proofOf(inst, other).extra[name];
      const ours = proof.extra[name];
      if (theirs === undefined || ours === undefined || JSON.stringify(theirs.path) === JSON.stringify(ours.path)) return undefined;
      ours.path = theirs.path;
      return { places: [new RegExp(`^${name}, (root|path)`)] };
    },
    "another account's statement text": ({ proof, other }) => {
      if (proof.extra.statement.text === other.text) return undefined;
      proof.extra.statement.text = other.text;
      return { places: ["statement, root of the statements tree of 2026-11"] };
    },
    "hidden account": ({ inst, proof: { extra }, account, other }) => {
      if (extra.receipt === undefined) return undefined;
      const tree = inst.parts[inst.partitionFor(account.id)].trees.accounts;
      const how = pick(3);
      delete extra.entries;
      if (how === 0 && tree.left !== undefined) {
        delete extra.receipt;
        return { places: ["receipt"] };
      }
      const key = how === 1 ? keyOf(account.id) : keyOf(other.id);
      const { leaf, path } = reach(tree, key);
      if (leaf === undefined) return undefined;
      extra.absent = { key: hex(leaf.key), sums: leaf.sums.map(String), content: hex(leaf.content), path };
      delete extra.receipt;
      if (leaf.key.equals(keyOf(account.id))) return { places: ["absent, key"] };
      const at = path.findIndex(({ bit }) => bitOf(leaf.key, bit) !== bitOf(keyOf(account.id), bit));
      return { places: [`absent, path[${at}]`] };
    },
    "changed sums": ({ proof: { extra } }) => {
      const name = one(["receipt", "absent", "statement"]);
      const path = extra[name]?.path ?? [];
      if (path.length === 0) return undefined;
      const step = one(path);
      const i = pick(3);
      step.sums[i] = String(BigInt.asUintN(64, BigInt(step.sums[i]) + BigInt(1 + pick(1000))));
      return { places: [new RegExp(`^${name}, root of`)] };
    },
    "sums that overflow in a file": ({ proof: { extra } }) => {
      const name = one(["receipt", "statement"]);
      const at = extra[name];
      if (at === undefined || at.path.length === 0) return undefined;
      const own = name === "receipt" ? BigInt(at.number) : statementLeaf(1n, at.text).sums[0];
      if (own === 0n) return undefined;
      const i = pick(at.path.length);
      at.path[i].sums[0] = String((1n << 64n) - 1n);
      return { places: [`${name}, path[${i}].sums`] };
    },
    "changed bits": ({ proof: { extra } }) => {
      const name = one(["receipt", "statement"]);
      const path = extra[name]?.path ?? [];
      if (path.length === 0) return undefined;
      const i = pick(path.length);
      const bit = pick(256);
      if (bit === path[i].bit) return undefined;
      const above = i === 0 ? 256 : path[i - 1].bit;
      const below = path[i + 1]?.bit ?? -1;
      path[i].bit = bit;
      return { places: [bit >= above ? `${name}, path[${i}].bit` : bit <= below ? `${name}, path[${i + 1}].bit` : new RegExp(`^${name}, root of`)] };
    },
    "reordered path": ({ proof: { extra } }) => {
      const name = one(["receipt", "statement"]);
      const path = extra[name]?.path ?? [];
      if (path.length < 2) return undefined;
      const i = pick(path.length - 1);
      [path[i], path[i + 1]] = [path[i + 1], path[i]];
      return { places: [`${name}, path[${i + 1}].bit`] };
    },
    "omitted book": ({ proof: { extra }, account }) => {
      if (account.created >= december || JSON.parse(account.text).periods.length < 2) return undefined;
      const i = pick(2);
      extra.books.splice(i, 1);
      return { places: [new RegExp(`^statement, periods\\[${i}\\]`)] };
    },
    "changed book": ({ proof: { extra } }) => {
      const i = pick(2);
      const book = extra.books[i];
      const data = Buffer.from(book.data, "base64");
      data[pick(data.length)] ^= 1 + pick(255);
      book.data = data.toString("base64");
      return { places: [`books[${i}], inclusion in the log`] };
    },
    "moved book": ({ proof: { extra } }) => {
      const i = pick(2);
      const name = one(["index", "time", "sequence", "hashes"]);
      const book = extra.books[i];
      if (name === "hashes") book.hashes.splice(pick(book.hashes.length), 1);
      else book[name] = String(BigInt(book[name]) + 1n);
      return { places: [new RegExp(`^books\\[${i}\\], (index|inclusion)`)] };
    },
    "changed statement": ({ proof: { extra } }) => {
      const { text } = extra.statement;
      const numbers = [...text.matchAll(/"(limit|price_micros|fee_cents|used|spent_micros|amount_micros|start_ms)":"(\d+)"/g)];
      const m = one(numbers);
      extra.statement.text = `${text.slice(0, m.index)}"${m[1]}":"${BigInt(m[2]) + 1n}"${text.slice(m.index + m[0].length)}`;
      return { places: ["statement, root of the statements tree of 2026-11"] };
    },
    "changed seal": ({ proof: { extra } }) => {
      const name = one(["sequence", "time", "data"]);
      if (name === "data") {
        const data = Buffer.from(extra.seal.data, "base64");
        data[pick(data.length)] ^= 1 + pick(255);
        extra.seal.data = data.toString("base64");
      } else extra.seal[name] = String(BigInt(extra.seal[name]) + BigInt(1 + pick(9)));
      return { places: ["seal, inclusion in the log"] };
    },
    "other message than a seal": ({ inst, proof, account }) => {
      const part = inst.parts[inst.partitionFor(account.id)].messages;
      const m = one(part.filter(({ subject, data }) => subject.endsWith("usage") && data.length < 20));
      if (m === undefined) return undefined;
      proof.index = inst.log.indexOf(m);
      Object.assign(proof.extra.seal, { sequence: String(m.sequence), time: m.time, data: m.data.toString("base64") });
      return { places: [/^seal, (inclusion|seal)/] };
    },
    "other partition": ({ inst, proof }) => {
      const partition = proof.extra.seal.partition;
      if (inst.partitions === 1) return undefined;
      const theirs = inst.parts[(partition + 1) % inst.partitions].messages.at(-1);
      const whole = pick(2) === 0;
      proof.extra.seal.partition = theirs.partition;
      if (!whole) return { places: ["seal, inclusion in the log"] };
      Object.assign(proof, { index: inst.log.indexOf(theirs), hashes: proofOf(inst, inst.accounts.find((a) => inst.partitionFor(a.id) === theirs.partition) ?? inst.accounts[0]).hashes });
      Object.assign(proof.extra.seal, { sequence: String(theirs.sequence), time: theirs.time, subject: theirs.subject, data: theirs.data.toString("base64") });
      return { places: [/^seal, (partition|inclusion)/] };
    },
    "other month": ({ proof: { extra } }) => {
      extra.period = one(["2026-10", "2026-12", "2027-11"]);
      return { places: [`seal, the statements tree of ${extra.period}`] };
    },
    "omitted statement": ({ proof: { extra } }) => {
      delete extra.statement;
      return { places: ["statement"] };
    },
    "mixed proofs of two logs": ({ proof, account, accounts, partitions }) => {
      const theirs = proofOf(seal({ accounts, partitions, signer, pick }), account);
      const name = one(["checkpoint", "index", "hashes"]);
      if (String(theirs[name]) === String(proof[name])) return undefined;
      proof[name] = theirs[name];
      return { places: [/^seal, (index|inclusion)/] };
    },
    "old checkpoint": ({ inst, proof }) => {
      const size = pick(inst.leaves.length);
      proof.checkpoint = signer.sign(size, logRoot(inst.leaves.slice(0, size)));
      return { places: [/^seal, (index|inclusion)/] };
    },
    "checkpoint of another key": ({ inst, proof }) => {
      const other = new Signer(signer.name);
      proof.checkpoint = other.sign(inst.leaves.length, logRoot(inst.leaves));
      return { places: ["checkpoint, signature"] };
    },
    "edited checkpoint": ({ proof }) => {
      const text = proof.checkpoint.toString();
      const at = pick(text.indexOf("\n\n"));
      const found = Buffer.from(`${text.slice(0, at)}${text[at] === "A" ? "B" : "A"}${text.slice(at + 1)}`);
      if (text[at] === "\n" || text[at] === "=") return undefined;
      proof.checkpoint = found;
      return { places: ["checkpoint, signature"] };
    },
    "split view": ({ inst, proof, accounts, partitions }) => {
      const first = seal({ accounts: accounts.slice(1).concat(accounts[0]), partitions, signer, pick });
      const size = 1 + pick(Math.min(first.leaves.length, inst.leaves.length));
      const [theirs, ours] = [first, inst].map(({ leaves }) => logRoot(leaves.slice(0, size)));
      if (theirs.equals(ours)) return undefined;
      const kept = signer.sign(size, theirs);
      const honest = pick(2) === 0;
      proof.extra.consistency = { size: String(size), root: hex(honest ? ours : theirs), hashes: consistency(size, inst.leaves).map(hex) };
      if (size === inst.leaves.length) return { places: ["kept checkpoint, root"], options: { checkpoint: kept } };
      return { places: [honest ? "kept checkpoint, root" : /^consistency, root of/], options: { checkpoint: kept } };
    },
    "changed consistency": ({ inst, proof }) => {
      const size = 1 + pick(inst.leaves.length - 1);
      const hashes = consistency(size, inst.leaves).map(hex);
      proof.extra.consistency = { size: String(size), root: hex(logRoot(inst.leaves.slice(0, size))), hashes };
      const i = pick(hashes.length);
      if (pick(2) === 0) hashes[i] = hex(sha(hashes[i]));
      else hashes.splice(i, 1);
      return { places: [/^consistency, (root|hashes)/] };
    },
    "kept receipt of another history": ({ proof: { extra } }) => {
      if (extra.entries === undefined) return undefined;
      const list = entriesOf(extra);
      const i = pick(list.length);
      const number = Number(extra.entries.first) + i;
      const receipts = `${extra.account} ${number}.${hex(sha(list[i]))}\n`;
      return { places: [`kept receipt ${number}, entries ${extra.entries.first} to ${number}`], options: { receipts } };
    },
    "damaged Base64": ({ proof }) => {
      const text = Buffer.from(JSON.stringify(proof.extra)).toString("base64");
      const at = pick(text.length - 4);
      return { places: ["malformed: extra is not Base64"], file: { ...proof, extra: `${text.slice(0, at)}${one(["!", "-", " ", "é"])}${text.slice(at + 1)}` } };
    },
    "damaged JSON": ({ proof }) => {
      const text = JSON.stringify(proof.extra);
      const extra = Buffer.from(text.slice(0, pick(text.length))).toString("base64");
      return { places: ["malformed: extra is not JSON"], file: { ...proof, extra } };
    },
    "damaged member": ({ proof: { extra } }) => {
      const [at, value] = one([
        ["account", "x"], ["period", "2026-13"], ["seal.partition", "1"], ["seal.sequence", 1], ["seal.data", "?"], ["statement.text", 1], ["statement.path", {}],
        ["books", {}], ["seal", null], ["seal.time", "soon"],
      ]);
      const [a, b] = at.split(".");
      if (b === undefined) extra[a] = value;
      else extra[a][b] = value;
      return { places: [new RegExp(`^malformed: extra\\.${at.replace(".", "\\.")}`)] };
    },
  };
}
