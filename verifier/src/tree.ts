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

/** A side of a node. The hash of a node is computed when it is asked for. */
type Side = Leaf | { bit: number; left: Side; right: Side; tree: Tree | undefined };

interface Leaf {
  key: Uint8Array;
  tree: Tree;
}

/** The first bit in which two keys differ; 256 if none does. */
function differingBit(x: Uint8Array, y: Uint8Array): number {
  for (let i = 0; i < x.length; i++) {
    if (x[i] !== y[i]) return 8 * i + Math.clz32(x[i]! ^ y[i]!) - 24;
  }
  return 8 * x.length;
}

/** A tree that changes: only what is above changed leaves is hashed again. */
export class ChangingTree {
  private top: Side | undefined;

  constructor(private readonly hash: Hash) {}

  /** Adds the leaf of a key, or replaces it. */
  set(key: Uint8Array, sums: bigint[], content: Uint8Array): void {
    const leaf: Side = { key, tree: leafOf(this.hash, key, sums, content) };
    let near = this.top;
    while (near !== undefined && "bit" in near) near = bitOf(key, near.bit) === 0 ? near.left : near.right;
    this.top = near === undefined ? leaf : put(this.top!, leaf, differingBit(key, near.key));
  }

  root(): Tree {
    return this.top === undefined ? none : this.treeOf(this.top);
  }

  private treeOf(side: Side): Tree {
    if ("bit" in side) side.tree ??= nodeOf(this.hash, side.bit, this.treeOf(side.left), this.treeOf(side.right));
    return side.tree!;
  }
}

/** Puts a leaf at the bit in which it differs from all that are below there. */
function put(at: Side, leaf: Leaf, bit: number): Side {
  if ("bit" in at && at.bit < bit) {
    if (bitOf(leaf.key, at.bit) === 0) at.left = put(at.left, leaf, bit);
    else at.right = put(at.right, leaf, bit);
    at.tree = undefined;
    return at;
  }
  if (bit === 8 * leaf.key.length) return leaf;
  const [left, right] = bitOf(leaf.key, bit) === 0 ? [leaf, at] : [at, leaf];
  return { bit, left, right, tree: undefined };
}
