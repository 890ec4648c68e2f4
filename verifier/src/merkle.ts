// Merkle trees of RFC 6962 with SHA-256, and the items of a message. See "Entries" in docs/proof.md.

import type { Hash } from "./sha256.ts";
import { DecodeError, Reader } from "./wire.ts";

const leafPrefix = Uint8Array.of(0);
const nodePrefix = Uint8Array.of(1);

export function leafHash(hash: Hash, data: Uint8Array): Uint8Array {
  return hash([leafPrefix, data]);
}

/** The root over hashes of subtrees of one size, of which the last may be smaller. */
export function rootOf(hash: Hash, hashes: Uint8Array[], from = 0, to = hashes.length): Uint8Array {
  if (from === to) return hash([]);
  if (to - from === 1) return hashes[from]!;
  let left = 1;
  while (left * 2 < to - from) left *= 2;
  return nodeHash(hash, rootOf(hash, hashes, from, from + left), rootOf(hash, hashes, from + left, to));
}

/** The root over the top-level fields of data, each with its tag and length. */
export function itemsRoot(hash: Hash, data: Uint8Array): Uint8Array {
  const leaves: Uint8Array[] = [];
  const r = new Reader(data);
  try {
    for (let at = 0; r.next(); at = r.at) {
      r.skip();
      leaves.push(leafHash(hash, data.subarray(at, r.at)));
    }
  } catch (e) {
    if (!(e instanceof DecodeError)) throw e;
    return leafHash(hash, data);
  }
  return leaves.length === 0 ? leafHash(hash, data) : rootOf(hash, leaves);
}

export function nodeHash(hash: Hash, left: Uint8Array, right: Uint8Array): Uint8Array {
  return hash([nodePrefix, left, right]);
}

/** The root that a leaf and its inclusion proof lead to. Undefined: the proof has another number of hashes. */
export function rootByInclusion(hash: Hash, leaf: Uint8Array, index: number, size: number, proof: Uint8Array[]): Uint8Array | undefined {
  if (index >= size) return undefined;
  let root = leaf;
  let used = 0;
  for (let at = index, last = size - 1; last > 0; at = Math.floor(at / 2), last = Math.floor(last / 2)) {
    // The last node of an odd level has nothing beside it.
    if (at === last && at % 2 === 0) continue;
    const beside = proof[used++];
    if (beside === undefined) return undefined;
    root = at % 2 === 1 ? nodeHash(hash, beside, root) : nodeHash(hash, root, beside);
  }
  return used === proof.length ? root : undefined;
}

interface Roots {
  earlier: Uint8Array;
  later: Uint8Array;
}

/** The roots that a consistency proof leads to, from an earlier root. Undefined: the proof has another number of hashes. */
export function rootsByConsistency(hash: Hash, from: number, to: number, root: Uint8Array, proof: Uint8Array[]): Roots | undefined {
  if (from < 1 || from > to) return undefined;
  if (from === to) return proof.length === 0 ? { earlier: root, later: root } : undefined;
  const rest = [...proof];
  let at = from - 1;
  let last = to - 1;
  for (; at % 2 === 1; at = Math.floor(at / 2)) last = Math.floor(last / 2);
  // An earlier log of a whole subtree is that subtree: its root is not in the proof.
  const first = at === 0 ? root : rest.shift();
  if (first === undefined) return undefined;
  const roots = { earlier: first, later: first };
  for (; last > 0; at = Math.floor(at / 2), last = Math.floor(last / 2)) {
    if (at === last && at % 2 === 0) continue;
    const beside = rest.shift();
    if (beside === undefined) return undefined;
    if (at % 2 === 1) {
      roots.earlier = nodeHash(hash, beside, roots.earlier);
      roots.later = nodeHash(hash, beside, roots.later);
    } else roots.later = nodeHash(hash, roots.later, beside);
  }
  return rest.length === 0 ? roots : undefined;
}
