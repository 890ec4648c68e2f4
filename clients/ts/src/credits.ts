const places = 6

/**
 * Reads an amount of credits such as `"0.000500"` as a whole number of micro-credits: 1,000,000 are one credit. Sums of such
 * numbers are exact, which sums of JavaScript's numbers are not.
 *
 * @throws RangeError where the text is no amount
 */
export function parseCredits(amount: string): bigint {
  const match = /^(-?)(\d+)(?:\.(\d{1,6}))?$/.exec(amount)
  if (!match) throw new RangeError(`${JSON.stringify(amount)} is no amount of credits`)
  const [, sign, whole = '', fraction = ''] = match
  const micros = BigInt(whole + fraction.padEnd(places, '0'))
  return sign ? -micros : micros
}

/** Writes micro-credits as the API does: `formatCredits(500n)` is `"0.000500"`. */
export function formatCredits(micros: bigint): string {
  const digits = (micros < 0n ? -micros : micros).toString().padStart(places + 1, '0')
  return `${micros < 0n ? '-' : ''}${digits.slice(0, -places)}.${digits.slice(-places)}`
}
