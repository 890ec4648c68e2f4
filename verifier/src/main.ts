// The command: node verifier/verify.mjs FILE --key KEY, or --export DIR [--log PLACE] [--receipts FILE] [--json] [--partition N] [--account ID]

import type { Fold } from "./fold.ts";
import { parseId } from "./ids.ts";
import { loadNode, type Node } from "./node.ts";
import { type Checkpoint, type Key, Malformed, openCheckpoint, parseKey, showKey } from "./note.ts";
import { KeptReceipts } from "./receipts.ts";
import { type ProofResult, verifyProof } from "./proof.ts";
import { longestProof } from "./proof_file.ts";
import { type Report, showDifference } from "./report.ts";
import { showAccount } from "./show.ts";
import type { LogResult } from "./log.ts";
import { type Checked, type Manifest, parseManifest, type Result, Unreadable, Verifier } from "./verify.ts";

export * from "./index.ts";

const usage = `Usage: node verify.mjs FILE --key KEY [--checkpoint FILE] [--receipts FILE] [--json]

Checks the proof of a bill, which GET /api/users/user/statements/<month>/proof answers
with: that the log has the seal, and that the account's statement follows from its entries.

  --key KEY          the log's key, as it was published: the file has none
  --checkpoint FILE  an earlier checkpoint or proof, which the log has to continue
  --receipts FILE    kept receipts, as below

       node verify.mjs --export DIR [--log PLACE [--key KEY] [--checkpoint FILE]]
                      [--receipts FILE] [--json] [--partition N] [--account ID]

Folds the billing journals that "quire journal export --to DIR" wrote, and compares
what the manifest and the books say with what comes out. With --log, compares every
message with the public log. With --receipts, compares the receipts that a client kept.

  --export DIR       the folder of the export
  --log PLACE        the log: a URL, such as https://quire.example/log, or a folder
  --key KEY          the log's key: name+hash+base64 (default: from the log itself)
  --checkpoint FILE  an earlier checkpoint, which the log has to continue
  --receipts FILE    kept receipts: lines of an account's id, a space, and X-Receipt
  --partition N      this partition only
  --account ID       print one account: usage, statements and every ledger entry
  --json             print one JSON object

Exit codes: 0 everything checked fits, 1 something differs, 2 wrong usage or unreadable input.`;

interface Options {
  proof: string | undefined;
  export: string;
  json: boolean;
  partition: number | undefined;
  account: string | undefined;
  log: string | undefined;
  key: string | undefined;
  checkpoint: string | undefined;
  receipts: string | undefined;
}

class Usage extends Error {}

function parse(args: string[]): Options | undefined {
  const o: Options = {
    proof: undefined, export: "", json: false, partition: undefined, account: undefined, log: undefined, key: undefined, checkpoint: undefined,
    receipts: undefined,
  };
  const rest = args.flatMap((a) => (/^--[a-z]+=/.test(a) ? [a.slice(0, a.indexOf("=")), a.slice(a.indexOf("=") + 1)] : [a]));
  const value = (name: string): string => {
    const v = rest.shift();
    if (v === undefined) throw new Usage(`${name} needs a value.`);
    return v;
  };
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    switch (arg) {
      case "--help": case "-h": return undefined;
      case "--json": o.json = true; break;
      case "--export": o.export = value(arg); break;
      case "--account": o.account = value(arg); break;
      case "--log": o.log = value(arg); break;
      case "--key": o.key = value(arg); break;
      case "--checkpoint": o.checkpoint = value(arg); break;
      case "--receipts": o.receipts = value(arg); break;
      case "--partition": {
        const n = value(arg);
        if (!/^[0-9]{1,4}$/.test(n)) throw new Usage(`--partition needs a number, not ${n}.`);
        o.partition = Number(n);
        break;
      }
      default:
        if (arg.startsWith("-") || o.proof !== undefined) throw new Usage(`Unknown argument ${arg}.`);
        o.proof = arg;
    }
  }
  if (o.proof !== undefined) {
    if (o.export !== "" || (o.log ?? o.account ?? o.partition) !== undefined) throw new Usage(`${o.proof} is checked with --key, --checkpoint, --receipts and --json alone.`);
    if (o.key === undefined) throw new Usage("--key KEY is missing: a proof does not bring the log's key. Use the one that was published.");
    return o;
  }
  if (o.export === "") throw new Usage("--export DIR is missing.");
  if (o.log === undefined && (o.key ?? o.checkpoint) !== undefined) throw new Usage("--key and --checkpoint need --log.");
  if ((o.log ?? o.receipts) !== undefined && o.account !== undefined) throw new Usage("--account prints an account, without --log and --receipts.");
  return o;
}

const heads = "that the chain is the one billing had: compare the heads below with heads kept elsewhere (docs/audit.md)";
const trust = [
  "that every request was recorded, and none was made up, before the journal had it",
  "users, sessions, webhook URLs and deliveries, which no journal has",
];

/** What the result does not have: the log's key if that came from the log, and the receipts of --receipts. */
interface Given {
  key: Key | undefined;
  kept: KeptReceipts | undefined;
}

function trusted(r: Result, { key, kept }: Given): string[] {
  const list = [...trust];
  if (r.log === undefined) list.unshift(heads);
  else {
    list.unshift("that everybody sees the same log: compare its size and root with those that others see, or ask for a witness's cosignature");
    if (r.log.losses > 0) {
      const taken = count(r.log.lost, "message", "messages");
      list.unshift(`that ${count(r.log.losses, "recorded loss", "recorded losses")} of ${taken} had a cause: the log shows when, and not what was in them`);
    }
    const rest = count(r.log.notYet, "message that is", "messages that are");
    if (r.log.notYet > 0) list.unshift(`${rest} not yet in the log: anyone with the journals can change them`);
    if (key !== undefined) list.unshift(`that this is the log's key, which came from the log itself: compare it with the published one: ${showKey(key)}`);
  }
  const missing = r.manifest.partitions - r.checked.length;
  if (missing > 0) list.push(`${missing} of ${r.manifest.partitions} partitions, which were not read`);
  if (kept !== undefined && kept.size > kept.compared) {
    list.push(`${count(kept.size - kept.compared, "receipt", "receipts")} of partitions that were not read to the end`);
  }
  const bare = r.checked.filter((c) => c.books === undefined).map((c) => c.stream);
  if (bare.length > 0) list.push(`what billing shows for ${bare.join(", ")}: the export has no books to compare`);
  if (r.bounded > 0) list.push(`${r.bounded} numbers outside of ±(2^53 − 1), read as that bound`);
  return list;
}

function count(n: number, one: string, many: string): string {
  return `${n.toLocaleString("en-US")} ${n === 1 ? one : many}`;
}

function line(c: Checked): string {
  const books = c.books === undefined ? "no books" : `${count(c.books, "line", "lines")} of books`;
  const receipts = c.receipts === undefined ? "" : `, ${count(c.receipts, "receipt", "receipts")}`;
  return `${c.stream}: ${count(c.messages, "message", "messages")} (${c.undecodable} undecodable), ` +
    `${count(c.admissions, "admission", "admissions")}, ${count(c.accounts, "account", "accounts")}, ` +
    `${count(c.ledgerEntries, "ledger entry", "ledger entries")}, ${count(c.statements, "statement", "statements")}, ${count(c.seals, "seal", "seals")}, ${books}${receipts}`;
}

function logLine(l: LogResult): string {
  const more = [
    count(l.equal, "message equals its entry", "messages equal their entries"), `${l.notYet.toLocaleString("en-US")} not yet in the log`,
    `${count(l.newer, "entry", "entries")} newer than the export`, count(l.losses, "loss", "losses"), `${count(l.lost, "entry", "entries")} of lost messages`,
    `${count(l.others, "other entry", "other entries")}`,
  ];
  return `${l.origin}: ${count(l.size, "entry", "entries")}, root ${l.root}, ${more.join(", ")}`;
}

function print(r: Result, given: Given): string[] {
  const { report } = r;
  const out = listed(report);
  out.push("Checked:", ...r.checked.map((c) => `  ${line(c)}`));
  if (r.log !== undefined) out.push("Log:", `  ${logLine(r.log)}`);
  out.push("Remains on trust:", ...trusted(r, given).map((t) => `  - ${t}`));
  out.push("Heads:", ...r.checked.map((c) => `${c.stream} ${c.sequence} ${c.chain}`));
  out.push(verdict(report));
  return out;
}

function asJson(r: Result, given: Given): string {
  return JSON.stringify({
    ok: r.report.count === 0, differences: r.report.count, more: r.report.more, first: r.report.differences,
    checked: r.checked, log: r.log, trust: trusted(r, given), version: r.manifest.version, installation: r.manifest.installation,
  });
}

function readReceipts(node: Node, file: string): KeptReceipts {
  const kept = new KeptReceipts();
  let number = 0;
  for (const line of node.lines(file)) {
    number++;
    if (!kept.add(line)) throw new Unreadable(`${file} line ${number}: no account and receipt: ${line.slice(0, 120)}`);
  }
  kept.sort();
  return kept;
}

async function showOne(v: Verifier, manifest: Manifest, id: string): Promise<number> {
  const account = parseId(id);
  if (account === undefined) throw new Usage(`--account needs 11 base62 digits, not ${id}.`);
  void manifest;
  const shown = await v.account(account, (fold: Fold) => {
    const a = fold.state.accounts.get(account);
    return a === undefined ? undefined : showAccount(fold.state, a);
  });
  for (const d of v.report.differences) console.error(showDifference(d));
  if (shown === undefined && v.report.count === 0) throw new Unreadable(`no account ${id}`);
  if (shown !== undefined) console.log(JSON.stringify(shown, null, 2));
  return v.report.count === 0 ? 0 : 1;
}

interface Opened {
  key: Key;
  checkpoint: Checkpoint | undefined;
  kept: Checkpoint | undefined;
}

const longestNote = 1 << 20;

/** Opens the checkpoints of a log. One that the key did not sign is a difference. */
async function openLog(v: Verifier, node: Node, o: Options, place: string): Promise<Opened> {
  const files = node.log(place);
  const file = async (name: string): Promise<Uint8Array> => {
    const bytes = await files.read(name, longestNote);
    if (bytes === undefined) throw new Unreadable(`${place} has no ${name}`);
    return bytes;
  };
  let key: Key;
  try {
    key = parseKey(node.hash, o.key ?? new TextDecoder().decode(await file("key")));
  } catch (e) {
    if (!(e instanceof Malformed)) throw e;
    if (o.key !== undefined) throw new Usage(`--key: ${e.message}.`);
    throw new Unreadable(e.message);
  }
  const open = async (bytes: Uint8Array, what: string): Promise<Checkpoint | undefined> => {
    try {
      return await openCheckpoint(bytes, key, node.ed25519);
    } catch (e) {
      if (!(e instanceof Malformed)) throw e;
      v.report.add({ what, field: "signature", expected: `one of ${key.name}+${key.hash}`, found: e.message });
      return undefined;
    }
  };
  const checkpoint = await open(await file("checkpoint"), "checkpoint");
  const kept = o.checkpoint === undefined ? undefined : await open(node.read(o.checkpoint, longestNote), "kept checkpoint");
  return { key, checkpoint, kept };
}

/** Checks the proof of a bill. */
async function checkProof(node: Node, file: string, o: Options): Promise<number> {
  const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
  let result: ProofResult;
  try {
    result = await verifyProof(node.read(file, longestProof), {
      key: o.key!, hash: node.hash, ed25519: node.ed25519,
      checkpoint: o.checkpoint === undefined ? undefined : node.read(o.checkpoint, longestProof),
      receipts: o.receipts === undefined ? undefined : text(node.read(o.receipts, longestProof)),
    });
  } catch (e) {
    if (!(e instanceof Malformed)) throw e;
    throw new Unreadable(e.message);
  }
  const { report } = result;
  const ok = report.count === 0;
  if (o.json) console.log(JSON.stringify({ ok, differences: report.count, first: report.differences, ...result, report: undefined }));
  else console.log(showProof(result).join("\n"));
  return ok ? 0 : 1;
}

function showProof({ account, period, report, checked, trust }: ProofResult): string[] {
  return [
    ...listed(report), `Checked, of account ${account} in ${period}:`, ...checked.map((c) => `  ${c}`),
    "Remains on trust:", ...trust.map((t) => `  - ${t}`), verdict(report),
  ];
}

function listed(report: Report): string[] {
  const out = report.differences.map(showDifference);
  if (report.count > report.differences.length) out.push(`… ${report.count - report.differences.length} more differences`);
  return out;
}

function verdict(report: Report): string {
  const least = report.more ? "at least " : "";
  return report.count === 0 ? "OK: everything checked fits." : `DIFFERS: ${least}${count(report.count, "difference", "differences")}.`;
}

/** Runs the command, and returns its exit code. */
export async function run(args: string[]): Promise<number> {
  try {
    const o = parse(args);
    if (o === undefined) {
      console.log(usage);
      return 0;
    }
    const node = await loadNode();
    if (o.proof !== undefined) return await checkProof(node, o.proof, o);
    const folder = node.folder(o.export);
    const manifest = parseManifest(await folder.manifest());
    const kept = o.receipts === undefined ? undefined : readReceipts(node, o.receipts);
    const v = new Verifier(folder, manifest, node.hash, node.decode, kept);
    if (o.account !== undefined) return await showOne(v, manifest, o.account);
    const opened = o.log === undefined ? undefined : await openLog(v, node, o, o.log);
    const result = await v.run(o.partition);
    if (opened?.checkpoint !== undefined) result.log = await v.log(node.log(o.log!), opened.checkpoint, opened.kept, o.partition);
    const given = { key: o.key === undefined ? opened?.key : undefined, kept };
    console.log(o.json ? asJson(result, given) : print(result, given).join("\n"));
    return result.report.count === 0 ? 0 : 1;
  } catch (e) {
    if (e instanceof Usage) console.error(`${e.message}\n\n${usage}`);
    else if (e instanceof Unreadable) console.error(`Cannot verify: ${e.message}`);
    else throw e;
    return 2;
  }
}

declare const process: { argv: string[]; exitCode?: number } | undefined;

/** Whether node runs this file, rather than importing it. */
function isCommand(): boolean {
  if (typeof process === "undefined") return false;
  const script = process.argv[1];
  return script !== undefined && /(^|[\\/])verify\.mjs$/.test(script);
}

if (isCommand()) process!.exitCode = await run(process!.argv.slice(2));
