// Checkpoints and their signatures: c2sp.org/signed-note and c2sp.org/tlog-checkpoint.

import { base64, fromBase64, hex } from "./ids.ts";
import type { Hash } from "./sha256.ts";

/** Verifies an Ed25519 signature. */
export type Ed25519 = (key: Uint8Array, message: Uint8Array, signature: Uint8Array) => Promise<boolean>;

export interface Key {
  name: string;
  /** Hash of the name and the public key, in hex. */
  hash: string;
  publicKey: Uint8Array;
}

export interface Checkpoint {
  origin: string;
  size: number;
  root: Uint8Array;
}

export class Malformed extends Error {}

const ed25519 = 1;
const utf8 = new TextEncoder();

/** Parses a verifier key: name+hash+base64. */
export function parseKey(hash: Hash, text: string): Key {
  const m = /^([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(text.trim());
  const data = m === null ? undefined : fromBase64(m[3]!);
  if (m === null || data === undefined) throw new Malformed("the key is not of the form name+hash+base64");
  if (data.length !== 33 || data[0] !== ed25519) throw new Malformed("the key is not one of Ed25519");
  const sum = hex(hash([utf8.encode(`${m[1]}\n`), data]).subarray(0, 4));
  if (sum !== m[2]) throw new Malformed(`the key's hash is ${sum}, not ${m[2]}`);
  return { name: m[1]!, hash: sum, publicKey: data.subarray(1) };
}

export function showKey(key: Key): string {
  return `${key.name}+${key.hash}+${base64(Uint8Array.of(ed25519, ...key.publicKey))}`;
}

/** Parses a checkpoint that the key has signed. Other signatures are left out. */
export async function openCheckpoint(bytes: Uint8Array, key: Key, verify: Ed25519): Promise<Checkpoint> {
  let note: string;
  try {
    note = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Malformed("the checkpoint is not UTF-8");
  }
  const end = note.lastIndexOf("\n\n");
  if (end < 0 || !note.endsWith("\n")) throw new Malformed("the checkpoint has no signatures");
  const text = note.slice(0, end + 1);
  const [origin, size, root] = text.split("\n");
  const hash = fromBase64(root ?? "");
  if (origin === undefined || !/^(0|[1-9][0-9]{0,14})$/.test(size ?? "") || hash?.length !== 32) {
    throw new Malformed("the checkpoint has no origin, size and root");
  }
  if (origin !== key.name) throw new Malformed(`the checkpoint is of ${origin}, and the key of ${key.name}`);
  let signed = false;
  for (const line of note.slice(end + 2, -1).split("\n")) {
    const m = /^— (\S+) ([A-Za-z0-9+/=]+)$/u.exec(line);
    const signature = m === null ? undefined : fromBase64(m[2]!);
    if (m === null || signature === undefined || signature.length < 5) throw new Malformed("the checkpoint has a malformed signature");
    if (m[1] !== key.name || hex(signature.subarray(0, 4)) !== key.hash) continue;
    if (!(await verify(key.publicKey, utf8.encode(text), signature.subarray(4)))) throw new Malformed("the key did not sign the checkpoint");
    signed = true;
  }
  if (!signed) throw new Malformed("the checkpoint has no signature of the key");
  return { origin, size: Number(size), root: hash };
}

/** Ed25519 by WebCrypto, which browsers have. */
export const webEd25519: Ed25519 = async (key, message, signature) => {
  const { subtle } = globalThis.crypto;
  const imported = await subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  return await subtle.verify({ name: "Ed25519" }, imported, signature, message);
};
