// SHA-256 (FIPS 180-4), so that the fold needs nothing around it. Under node the command uses node's own, which is faster.

export type Hash = (parts: Uint8Array[]) => Uint8Array;

const k = new Uint32Array(64);
const initial = new Uint32Array(8);

// The constants are the first 32 bits of the fractional parts of the roots of primes.
for (let n = 2, i = 0; i < 64; n++) {
  let prime = true;
  for (let d = 2; d * d <= n; d++) if (n % d === 0) prime = false;
  if (!prime) continue;
  if (i < 8) initial[i] = fraction(n, 2n);
  k[i++] = fraction(n, 3n);
}

/** ⌊frac(n^(1/root)) × 2^32⌋, by an integer root of n × 2^(32 × root). */
function fraction(n: number, root: bigint): number {
  const target = BigInt(n) << (32n * root);
  let low = 0n;
  let high = 1n << 40n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** root <= target) low = middle;
    else high = middle;
  }
  return Number(low & 0xffffffffn);
}

const w = new Uint32Array(64);

function block(h: Uint32Array, bytes: Uint8Array, at: number): void {
  for (let i = 0; i < 16; i++, at += 4) {
    w[i] = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
  }
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15]!;
    const y = w[i - 2]!;
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[i] = (w[i - 16]! + s0 + w[i - 7]! + s1) | 0;
  }
  let [a, b, c, d, e, f, g, j] = h as unknown as [number, number, number, number, number, number, number, number];
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (j + s1 + ((e & f) ^ (~e & g)) + k[i]! + w[i]!) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    j = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  h[0]! += a;
  h[1]! += b;
  h[2]! += c;
  h[3]! += d;
  h[4]! += e;
  h[5]! += f;
  h[6]! += g;
  h[7]! += j;
}

export const sha256: Hash = (parts) => {
  const h = initial.slice();
  const buffer = new Uint8Array(64);
  let filled = 0;
  let length = 0;
  for (const part of parts) {
    length += part.length;
    let at = 0;
    if (filled > 0) {
      at = Math.min(64 - filled, part.length);
      buffer.set(part.subarray(0, at), filled);
      filled += at;
      if (filled < 64) continue;
      block(h, buffer, 0);
      filled = 0;
    }
    for (; at + 64 <= part.length; at += 64) block(h, part, at);
    buffer.set(part.subarray(at));
    filled = part.length - at;
  }
  buffer[filled++] = 0x80;
  if (filled > 56) {
    buffer.fill(0, filled);
    block(h, buffer, 0);
    filled = 0;
  }
  buffer.fill(0, filled);
  const view = new DataView(buffer.buffer);
  view.setUint32(56, Math.floor(length / 0x20000000));
  view.setUint32(60, (length * 8) >>> 0);
  block(h, buffer, 0);
  const out = new Uint8Array(32);
  const words = new DataView(out.buffer);
  h.forEach((x, i) => words.setUint32(4 * i, x));
  return out;
};
