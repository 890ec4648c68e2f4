// Reads the members of JSON that a stranger may have written. What does not have the form is named by its path.

import { monthNumber } from "./calendar.ts";
import { fromBase64 } from "./ids.ts";
import { Malformed } from "./note.ts";

const limit = 1n << 64n;

export class Member {
  private constructor(
    private readonly value: unknown,
    readonly at: string,
  ) {}

  static parse(text: string, at: string): Member {
    try {
      return new Member(JSON.parse(text), at);
    } catch {
      throw new Malformed(`${at} is not JSON`);
    }
  }

  fail(expected: string): never {
    throw new Malformed(`${this.at} is not ${expected}`);
  }

  optional(name: string): Member | undefined {
    const { value } = this;
    if (typeof value !== "object" || value === null || Array.isArray(value)) return this.fail("an object");
    const member = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
    return member === undefined ? undefined : new Member(member, `${this.at}.${name}`);
  }

  get(name: string): Member {
    return this.optional(name) ?? new Member(undefined, `${this.at}.${name}`);
  }

  list(most: number): Member[] {
    const { value } = this;
    if (!Array.isArray(value) || value.length > most) return this.fail(`a list of at most ${most}`);
    return value.map((v, i) => new Member(v, `${this.at}[${i}]`));
  }

  text(shape = /^/, expected = "a string"): string {
    const { value } = this;
    return typeof value === "string" && shape.test(value) ? value : this.fail(expected);
  }

  flag(): boolean {
    return typeof this.value === "boolean" ? this.value : this.fail("true or false");
  }

  /** A JSON number. */
  small(most: number): number {
    const { value } = this;
    return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= most ? value : this.fail(`a number of 0 to ${most}`);
  }

  /** An unsigned number of 64 bits as a decimal string. */
  unsigned(): bigint {
    const n = BigInt(this.text(/^(0|[1-9][0-9]{0,19})$/, "a decimal string"));
    return n < limit ? n : this.fail("a number of 64 bits");
  }

  /** A signed one. */
  signed(): bigint {
    const n = BigInt(this.text(/^(0|-?[1-9][0-9]{0,18})$/, "a decimal string"));
    return BigInt.asIntN(64, n) === n ? n : this.fail("a number of 64 bits");
  }

  /** A decimal string that counts something: at most 2^53 − 1. */
  count(): number {
    const n = Number(this.text(/^(0|[1-9][0-9]{0,15})$/, "a decimal string of a count"));
    return Number.isSafeInteger(n) ? n : this.fail("below 2^53");
  }

  hash(): Uint8Array {
    const text = this.text(/^[0-9a-f]{64}$/, "64 lower-case hex digits");
    return Uint8Array.from({ length: 32 }, (_, i) => Number.parseInt(text.slice(2 * i, 2 * i + 2), 16));
  }

  bytes(): Uint8Array {
    return fromBase64(this.text()) ?? this.fail("Base64");
  }

  month(): number {
    return monthNumber(this.text()) ?? this.fail("a month such as 2026-11");
  }
}
