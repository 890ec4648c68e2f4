// Reads Protobuf's wire format. See "Encoding" in docs/journal.md.

export class DecodeError extends Error {}

const maxSafeHigh = 0x1fffff;
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Varints outside of ±(2^53 − 1) are read as that bound, and counted here: no rule tells them apart. */
export const bounded = { count: 0 };

export class Reader {
  private low = 0;
  private high = 0;
  /** Tag of the field after next(): number × 8 + wire type. */
  tag = 0;

  constructor(
    readonly bytes: Uint8Array,
    public at = 0,
    public end = bytes.length,
  ) {}

  /** Moves to the next field. False at the end of the message. */
  next(): boolean {
    if (this.at >= this.end) return false;
    this.varint();
    if (this.high !== 0 || this.low < 8) throw new DecodeError("field number");
    this.tag = this.low;
    return true;
  }

  private varint(): void {
    const { bytes, end } = this;
    let at = this.at;
    let low = 0;
    let high = 0;
    for (let shift = 0; ; shift += 7) {
      if (at >= end) throw new DecodeError("varint is cut off");
      const b = bytes[at++]!;
      const bits = b & 127;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >> 4;
      } else if (shift < 63) high |= bits << (shift - 32);
      else if (b > 1) throw new DecodeError("varint is too long");
      else high |= bits << 31;
      if (b < 128) break;
    }
    this.at = at;
    this.low = low >>> 0;
    this.high = high >>> 0;
  }

  u32(): number {
    this.varint();
    return this.low;
  }

  bool(): boolean {
    this.varint();
    return this.low !== 0 || this.high !== 0;
  }

  u64(): number {
    this.varint();
    return safe(this.high, this.low);
  }

  /** All 64 bits. */
  big(): bigint {
    this.varint();
    return (BigInt(this.high) << 32n) | BigInt(this.low);
  }

  i64(): number {
    this.varint();
    return signed(this.high, this.low);
  }

  s64(): number {
    this.varint();
    const negative = (this.low & 1) === 1;
    const n = safe(this.high >>> 1, ((this.low >>> 1) | (this.high << 31)) >>> 0);
    return negative ? -n - 1 : n;
  }

  /** A fixed64 as an id: four UTF-16 units, most significant first, which order as the number does. */
  id(): string {
    const { bytes, at } = this;
    if (at + 8 > this.end) throw new DecodeError("fixed64 is cut off");
    this.at = at + 8;
    return String.fromCharCode(
      (bytes[at + 7]! << 8) | bytes[at + 6]!,
      (bytes[at + 5]! << 8) | bytes[at + 4]!,
      (bytes[at + 3]! << 8) | bytes[at + 2]!,
      (bytes[at + 1]! << 8) | bytes[at]!,
    );
  }

  private length(): number {
    this.varint();
    if (this.high !== 0 || this.at + this.low > this.end) throw new DecodeError("bytes are cut off");
    return this.low;
  }

  /** Bytes as a string: 16 bytes in eight UTF-16 units; "" for any other length, which counts as none. */
  key16(): string {
    const n = this.length();
    const { bytes, at } = this;
    this.at = at + n;
    if (n !== 16) return "";
    return String.fromCharCode(
      (bytes[at]! << 8) | bytes[at + 1]!,
      (bytes[at + 2]! << 8) | bytes[at + 3]!,
      (bytes[at + 4]! << 8) | bytes[at + 5]!,
      (bytes[at + 6]! << 8) | bytes[at + 7]!,
      (bytes[at + 8]! << 8) | bytes[at + 9]!,
      (bytes[at + 10]! << 8) | bytes[at + 11]!,
      (bytes[at + 12]! << 8) | bytes[at + 13]!,
      (bytes[at + 14]! << 8) | bytes[at + 15]!,
    );
  }

  raw(): Uint8Array {
    const n = this.length();
    this.at += n;
    return this.bytes.subarray(this.at - n, this.at);
  }

  text(): string {
    const bytes = this.raw();
    if (bytes.length < 24) {
      let s = "";
      let i = 0;
      for (; i < bytes.length && bytes[i]! < 128; i++) s += String.fromCharCode(bytes[i]!);
      if (i === bytes.length) return s;
    }
    try {
      return utf8.decode(bytes);
    } catch {
      throw new DecodeError("string is not UTF-8");
    }
  }

  /** Decodes a message within this one. */
  message<T>(decode: (r: Reader, into: T) => T, into: T): T {
    const n = this.length();
    const { tag, end } = this;
    this.end = this.at + n;
    decode(this, into);
    this.at = this.end;
    this.end = end;
    this.tag = tag;
    return into;
  }

  /** Appends a repeated uint32, packed or not. */
  u32s(into: number[]): void {
    this.repeated(() => into.push(this.u32()));
  }

  /** Appends a repeated uint64, packed or not. */
  bigs(into: bigint[]): void {
    this.repeated(() => into.push(this.big()));
  }

  private repeated(next: () => void): void {
    if ((this.tag & 7) === 0) {
      next();
      return;
    }
    const n = this.length();
    const stop = this.at + n;
    const { end } = this;
    this.end = stop;
    while (this.at < stop) next();
    this.end = end;
  }

  /** Skips a field that is not known, or that has another wire type. */
  skip(): void {
    const number = this.tag >>> 3;
    switch (this.tag & 7) {
      case 0:
        this.varint();
        return;
      case 1:
        this.forward(8);
        return;
      case 2:
        this.forward(this.length());
        return;
      case 3:
        this.group(number);
        return;
      case 5:
        this.forward(4);
        return;
      default:
        throw new DecodeError("wire type");
    }
  }

  private group(number: number): void {
    for (;;) {
      if (!this.next()) throw new DecodeError("group is cut off");
      if ((this.tag & 7) === 4) {
        if (this.tag >>> 3 !== number) throw new DecodeError("group ends another one");
        return;
      }
      this.skip();
    }
  }

  private forward(n: number): void {
    if (this.at + n > this.end) throw new DecodeError("field is cut off");
    this.at += n;
  }
}

function safe(high: number, low: number): number {
  if (high <= maxSafeHigh) return high * 4294967296 + low;
  bounded.count++;
  return Number.MAX_SAFE_INTEGER;
}

function signed(high: number, low: number): number {
  if (high < 0x80000000) return safe(high, low);
  // −(2^64 − n)
  const l = (~low >>> 0) + 1;
  const carry = l > 0xffffffff ? 1 : 0;
  return -safe((~high >>> 0) + carry, l >>> 0);
}
