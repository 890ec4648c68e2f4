// Months are numbered year × 12 + month − 1, days from 1970, both in UTC.

export const second = 1000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;

export function dayOf(ms: number): number {
  return Math.floor(ms / day);
}

let cachedFrom = 1;
let cachedUntil = 0;
let cachedMonth = 0;

export function monthOf(ms: number): number {
  if (ms < cachedFrom || ms >= cachedUntil) {
    const d = new Date(ms);
    cachedMonth = d.getUTCFullYear() * 12 + d.getUTCMonth();
    cachedFrom = monthStart(cachedMonth);
    cachedUntil = monthStart(cachedMonth + 1);
  }
  return cachedMonth;
}

export function monthStart(month: number): number {
  const d = new Date(0);
  d.setUTCFullYear(Math.floor(month / 12), month % 12, 1);
  return d.getTime();
}

/** 2026-10 */
export function monthName(month: number): string {
  return `${String(Math.floor(month / 12)).padStart(4, "0")}-${String((month % 12) + 1).padStart(2, "0")}`;
}

/** The month of 2026-10. Undefined: it has another form. */
export function monthNumber(name: string): number | undefined {
  const m = /^([0-9]{4})-(0[1-9]|1[0-2])$/.exec(name);
  return m === null ? undefined : Number(m[1]) * 12 + Number(m[2]) - 1;
}

/** The month as a number: 202610. */
export function monthDigits(month: number): number {
  return Math.floor(month / 12) * 100 + (month % 12) + 1;
}

/** The month of 202610. Undefined: it is none. */
export function monthOfDigits(digits: number): number | undefined {
  const month = digits % 100;
  return month >= 1 && month <= 12 && digits <= 999912 ? Math.floor(digits / 100) * 12 + month - 1 : undefined;
}
