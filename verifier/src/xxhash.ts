// xxHash64 of 8 bytes with seed 0, by which accounts belong to partitions. See "Streams and subjects".

const mask = (1n << 64n) - 1n;
const p1 = 0x9e3779b185ebca87n;
const p2 = 0xc2b2ae3d27d4eb4fn;
const p3 = 0x165667b19e3779f9n;
const p4 = 0x85ebca77c2b2ae63n;
const p5 = 0x27d4eb2f165667c5n;

function rotate(x: bigint, n: bigint): bigint {
  return ((x << n) | (x >> (64n - n))) & mask;
}

/** The id's 8 bytes are big-endian; xxHash reads them little-endian. */
export function partitionOf(id: bigint, partitions: number): number {
  let lane = 0n;
  for (let i = 0n; i < 8n; i++) lane = (lane << 8n) | ((id >> (8n * i)) & 255n);
  let h = (p5 + 8n) & mask;
  h ^= (rotate((lane * p2) & mask, 31n) * p1) & mask;
  h = (rotate(h, 27n) * p1 + p4) & mask;
  h = ((h ^ (h >> 33n)) * p2) & mask;
  h = ((h ^ (h >> 29n)) * p3) & mask;
  return Number((h ^ (h >> 32n)) % BigInt(partitions));
}
