// The trees of a seal. See "Seals" in docs/journal.md.

import type { Hash } from "./sha256.ts";

/** A leaf, or all leaves below a node. */
export interface Tree {
  hash: Uint8Array;
  /** Three numbers of 64 bits. */
  sums: bigint[];
}

/** The other side at a node on the way from a leaf to the root. */
export interface Step extends Tree {
  bit: number;
}

export const none: Tree = { hash: new Uint8Array(32), sums: [0n, 0n, 0n] };

const leafPrefix = Uint8Array.of(0);
const account = new TextEncoder().encode("quire account tree\n");
const limit = 1n << 64n;

export function keyOf(hash: Hash, id: bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, id);
  return hash([account, bytes]);
}

export function bitOf(key: Uint8Array, bit: number): number {
  return (key[bit >> 3]! >> (7 - (bit & 7))) & 1;
}

function encode(sums: bigint[]): Uint8Array {
  const bytes = new Uint8Array(24);
  const view = new DataView(bytes.buffer);
  sums.forEach((n, i) => view.setBigUint64(8 * i, n));
  return bytes;
}

export function leafOf(hash: Hash, key: Uint8Array, sums: bigint[], content: Uint8Array): Tree {
  return { hash: hash([leafPrefix, key, encode(sums), content]), sums };
}

export function nodeOf(hash: Hash, bit: number, left: Tree, right: Tree): Tree {
  const head = Uint8Array.of(1, bit >> 8, bit & 255);
  return {
    hash: hash([head, left.hash, encode(left.sums), right.hash, encode(right.sums)]),
    sums: left.sums.map((n, i) => n + right.sums[i]!),
  };
}

/** Whether each sum has 64 bits. A node with another one is in no tree. */
export function fits(t: Tree): boolean {
  return t.sums.every((n) => n < limit);
}
