const places = 6

/**
 * Parses an amount of credits such as `"0.000500"` to whole micro-credits (1,000,000 per credit), whose sums are exact, unlike sums of
 * JavaScript's numbers.
 *
 * @throws RangeError if the text is not an amount
 */
export function parseCredits(amount: string): bigint {
  const match = /^(-?)(\d+)(?:\.(\d{1,6}))?$/.exec(amount)
  if (!match) throw new RangeError(`${JSON.stringify(amount)} is no amount of credits`)
  const [, sign, whole = '', fraction = ''] = match
  const micros = BigInt(whole + fraction.padEnd(places, '0'))
  return sign ? -micros : micros
}

/** Formats micro-credits as the API does: `formatCredits(500n)` is `"0.000500"`. */
export function formatCredits(micros: bigint): string {
  const digits = (micros < 0n ? -micros : micros).toString().padStart(places + 1, '0')
  return `${micros < 0n ? '-' : ''}${digits.slice(0, -places)}.${digits.slice(-places)}`
}
