// What a run found.

export interface Difference {
  partition?: number;
  account?: string;
  /** The table, and the row in it. */
  what: string;
  field?: string;
  expected: string;
  found: string;
}

const shown = 20;
const longest = 120;

export class Report {
  readonly differences: Difference[] = [];
  count = 0;
  /** There may be more than were counted. */
  more = false;

  add(d: Difference): void {
    this.count++;
    if (this.differences.length < shown) this.differences.push({ ...d, expected: short(d.expected), found: short(d.found) });
  }

  /** Adds all of another report. Half of what is shown is left for it: the consequences of a difference must not hide its place in the log. */
  take(r: Report): void {
    this.differences.splice(shown - Math.min(r.differences.length, shown / 2));
    this.differences.push(...r.differences.slice(0, shown - this.differences.length));
    this.count += r.count;
    this.more ||= r.more;
  }
}

function short(text: string): string {
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

export function showDifference(d: Difference): string {
  const account = d.account === undefined ? "" : `, account ${d.account}`;
  const field = d.field === undefined ? "" : `, field ${d.field}`;
  const partition = d.partition === undefined ? "" : `partition ${d.partition}${account}, `;
  return `${partition}${d.what}${field}: expected ${d.expected}, found ${d.found}`;
}

type Json = Record<string, unknown>;

function isObject(v: unknown): v is Json {
  return typeof v === "object" && v !== null;
}

function text(v: unknown): string {
  return v === undefined ? "missing" : typeof v === "string" ? v : JSON.stringify(v);
}

/** The fields in which two values differ, by path. */
export function compareValues(expected: unknown, found: unknown, path: string, add: (field: string, e: string, f: string) => void): void {
  if (isObject(expected) && isObject(found) && Array.isArray(expected) === Array.isArray(found)) {
    const names = new Set([...Object.keys(expected), ...Object.keys(found)]);
    for (const name of names) {
      const at = Array.isArray(expected) ? `${path}[${name}]` : path === "" ? name : `${path}.${name}`;
      compareValues(expected[name], found[name], at, add);
    }
    return;
  }
  if (expected !== found) add(path, text(expected), text(found));
}
