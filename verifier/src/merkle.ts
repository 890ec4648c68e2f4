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
  return hash([nodePrefix, rootOf(hash, hashes, from, from + left), rootOf(hash, hashes, from + left, to)]);
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
