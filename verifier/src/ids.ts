// Ids as text. In the fold a fixed64 is a string of four UTF-16 units, and 16 bytes are one of eight.

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

export function base62(n: bigint, width: number): string {
  let s = "";
  for (let i = 0; i < width; i++) {
    s = digits[Number(n % 62n)]! + s;
    n /= 62n;
  }
  return s;
}

export function idNumber(id: string): bigint {
  let n = 0n;
  for (let i = 0; i < id.length; i++) n = (n << 16n) | BigInt(id.charCodeAt(i));
  return n;
}

export function idFromNumber(n: bigint): string {
  return String.fromCharCode(
    Number(n >> 48n), Number((n >> 32n) & 0xffffn), Number((n >> 16n) & 0xffffn), Number(n & 0xffffn),
  );
}

/** An account's id in 11 base62 digits. */
export function showId(id: string): string {
  return base62(idNumber(id), 11);
}

export function parseId(text: string): string | undefined {
  if (!/^[0-9A-Za-z]{11}$/.test(text)) return undefined;
  let n = 0n;
  for (const c of text) n = n * 62n + BigInt(digits.indexOf(c));
  return n < 1n << 64n ? idFromNumber(n) : undefined;
}

export function keyBytes(key: string): Uint8Array {
  const b = new Uint8Array(key.length * 2);
  for (let i = 0; i < key.length; i++) {
    b[2 * i] = key.charCodeAt(i) >> 8;
    b[2 * i + 1] = key.charCodeAt(i) & 255;
  }
  return b;
}

/** The id of a ledger entry, and the position of an alert. */
export function position(sequence: number, index: number): string {
  return base62(BigInt(sequence), 11) + base62(BigInt(index), 6);
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

export function base64(b: Uint8Array): string {
  let s = "";
  for (let i = 0; i < b.length; i += 3) {
    const n = (b[i]! << 16) | ((b[i + 1] ?? 0) << 8) | (b[i + 2] ?? 0);
    s += alphabet[n >> 18]! + alphabet[(n >> 12) & 63]!;
    s += i + 1 < b.length ? alphabet[(n >> 6) & 63]! : "=";
    s += i + 2 < b.length ? alphabet[n & 63]! : "=";
  }
  return s;
}

const values = new Int8Array(128).fill(-1);
for (let i = 0; i < 64; i++) values[alphabet.charCodeAt(i)] = i;

/** Decodes base64 with padding. Undefined if it isn't. */
export function fromBase64(s: string): Uint8Array | undefined {
  if (s.length % 4 !== 0) return undefined;
  const padding = s.endsWith("==") ? 2 : s.endsWith("=") ? 1 : 0;
  const out = new Uint8Array((s.length / 4) * 3 - padding);
  let at = 0;
  let n = 0;
  for (let i = 0; i < s.length - padding; i++) {
    const v = values[s.charCodeAt(i)] ?? -1;
    if (v < 0) return undefined;
    n = ((n << 6) | v) & 0xffffff;
    if (i % 4 === 1) out[at++] = n >> 4;
    else if (i % 4 === 2) out[at++] = (n >> 2) & 255;
    else if (i % 4 === 3) out[at++] = n & 255;
  }
  if ((padding === 1 && (n & 3) !== 0) || (padding === 2 && (n & 15) !== 0)) return undefined;
  return out;
}

export function hex(b: Uint8Array): string {
  let s = "";
  for (const x of b) s += (x < 16 ? "0" : "") + x.toString(16);
  return s;
}
