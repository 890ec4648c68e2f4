// Constants of FIPS 180-4, sections 4.2.2 and 5.3.3: the first 32 bits of the fractional parts of the cube roots of the first 64
// primes, and of the square roots of the first 8.
const primes = firstPrimes(64)
const rounds = Uint32Array.from(primes, (p) => fraction(Math.cbrt(p)))
const start = Uint32Array.from(primes.slice(0, 8), (p) => fraction(Math.sqrt(p)))

function firstPrimes(count: number): number[] {
  const found: number[] = []
  for (let n = 2; found.length < count; n++) if (found.every((p) => n % p)) found.push(n)
  return found
}

function fraction(root: number): number {
  return Math.floor((root % 1) * 2 ** 32)
}

const blockBytes = 64

/** Incremental SHA-256, which Web Crypto does not have. */
export class Sha256 {
  readonly #state = start.slice()
  readonly #words = new Uint32Array(64)
  readonly #block = new Uint8Array(blockBytes)
  #length = 0

  update(bytes: Uint8Array): void {
    let from = 0
    const held = this.#length % blockBytes
    this.#length += bytes.length
    if (held) {
      from = Math.min(blockBytes - held, bytes.length)
      this.#block.set(bytes.subarray(0, from), held)
      if (held + from < blockBytes) return
      this.#compress(this.#block, 0)
    }
    for (; from + blockBytes <= bytes.length; from += blockBytes) this.#compress(bytes, from)
    this.#block.set(bytes.subarray(from))
  }

  /** The digest in hexadecimal. Nothing can be added after it. */
  hex(): string {
    const length = this.#length
    const padding = new Uint8Array(blockBytes - (length + 8) % blockBytes + 8) // 9 bytes at least
    padding[0] = 0x80
    const view = new DataView(padding.buffer)
    view.setUint32(padding.length - 8, Math.floor(length / 2 ** 29))
    view.setUint32(padding.length - 4, length << 3)
    this.update(padding)
    return Array.from(this.#state, (word) => word.toString(16).padStart(8, '0')).join('')
  }

  #compress(bytes: Uint8Array, from: number): void {
    const w = this.#words
    const s = this.#state
    for (let i = 0; i < 16; i++, from += 4) {
      w[i] = bytes[from]! << 24 | bytes[from + 1]! << 16 | bytes[from + 2]! << 8 | bytes[from + 3]!
    }
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15]!
      const y = w[i - 2]!
      const small0 = (x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3
      const small1 = (y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10
      w[i] = w[i - 16]! + small0 + w[i - 7]! + small1
    }
    let a = s[0]!, b = s[1]!, c = s[2]!, d = s[3]!, e = s[4]!, f = s[5]!, g = s[6]!, h = s[7]!
    for (let i = 0; i < 64; i++) {
      const big1 = (e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)
      const t1 = (h + big1 + (e & f ^ ~e & g) + rounds[i]! + w[i]!) | 0
      const big0 = (a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)
      const t2 = (big0 + (a & b ^ a & c ^ b & c)) | 0
      h = g
      g = f
      f = e
      e = (d + t1) | 0
      d = c
      c = b
      b = a
      a = (t1 + t2) | 0
    }
    s[0]! += a
    s[1]! += b
    s[2]! += c
    s[3]! += d
    s[4]! += e
    s[5]! += f
    s[6]! += g
    s[7]! += h
  }
}
