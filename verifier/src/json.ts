// ProtoJSON: numbers of 64 bits are strings, and a field with its default value is left out.

type Json = Record<string, unknown>;

export function u64(into: Json, name: string, n: number | bigint): void {
  if (n !== 0 && n !== 0n) into[name] = n.toString();
}

export function put(into: Json, name: string, value: string | number | boolean | undefined): void {
  if (value !== "" && value !== 0 && value !== false && value !== undefined) into[name] = value;
}

export function credits64(fields: Record<string, number>): Json {
  const j: Json = {};
  for (const [name, n] of Object.entries(fields)) u64(j, name, n);
  return j;
}

/** JSON with the members of each object in the order of their names. */
export function canonical(value: unknown): string {
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const members = Object.entries(value as Json).filter(([, v]) => v !== undefined);
  members.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${members.map(([k, v]) => `${JSON.stringify(k)}:${canonical(v)}`).join(",")}}`;
}
