// Files, under node. The only part that needs node: it is loaded when the command runs.

import type { Message } from "./fold.ts";
import type { LogFiles } from "./log.ts";
import type { Ed25519 } from "./note.ts";
import type { Hash } from "./sha256.ts";
import { type Folder, type OpenFile, Unreadable } from "./verify.ts";

const chunk = 1 << 20;

export interface Node {
  folder(path: string): Folder;
  hash: Hash;
  decode(line: string): Message | undefined;
  ed25519: Ed25519;
  /** The files of a log at a URL or in a folder. */
  log(place: string): LogFiles;
  /** A file of at most that many bytes. */
  read(file: string, limit: number): Uint8Array;
  lines(file: string): Iterable<string>;
}

export async function loadNode(): Promise<Node> {
  const fs = await import("node:fs");
  const crypto = await import("node:crypto");
  const path = await import("node:path");
  const hash: Hash = (parts) => {
    const h = crypto.createHash("sha256");
    for (const p of parts) h.update(p);
    return h.digest();
  };

  function open(file: string): OpenFile & { lines: Iterable<string> } {
    const sum = crypto.createHash("sha256");
    let bytes = 0;
    function* lines(): Generator<string> {
      const fd = fs.openSync(file, "r");
      try {
        let rest: Buffer = Buffer.alloc(0);
        for (;;) {
          const buffer = Buffer.allocUnsafe(chunk);
          const n = fs.readSync(fd, buffer, 0, chunk, null);
          if (n === 0) break;
          const part = buffer.subarray(0, n);
          bytes += n;
          sum.update(part);
          let from = 0;
          for (let at = part.indexOf(10); at >= 0; at = part.indexOf(10, from)) {
            const end = part.subarray(from, at);
            yield (rest.length > 0 ? Buffer.concat([rest, end]) : end).toString();
            rest = Buffer.alloc(0);
            from = at + 1;
          }
          if (from < n) rest = Buffer.concat([rest, part.subarray(from)]);
        }
        if (rest.length > 0) yield rest.toString();
      } finally {
        fs.closeSync(fd);
      }
    }
    return { lines: readable(lines), end: () => ({ bytes, sha256: sum.digest("hex") }) };
  }

  function readable(lines: () => Generator<string>): Iterable<string> {
    return {
      *[Symbol.iterator]() {
        try {
          yield* lines();
        } catch (e) {
          throw isFileError(e) ? new Unreadable((e as Error).message) : e;
        }
      },
    };
  }

  const folder = (dir: string): Folder => ({
    async manifest() {
      try {
        return fs.readFileSync(path.join(dir, "manifest.json"), "utf8");
      } catch (e) {
        throw new Unreadable((e as Error).message);
      }
    },
    open: (file) => open(path.join(dir, file)),
  });

  const ed25519: Ed25519 = async (key, message, signature) => {
    const jwk = { kty: "OKP", crv: "Ed25519", x: Buffer.from(key).toString("base64url") };
    return crypto.verify(null, message, crypto.createPublicKey({ key: jwk, format: "jwk" }), signature);
  };

  function read(file: string, limit: number): Uint8Array {
    try {
      const { size } = fs.statSync(file);
      if (size > limit) throw new Unreadable(`${file} has ${size} bytes, more than ${limit}`);
      return fs.readFileSync(file);
    } catch (e) {
      throw isFileError(e) ? new Unreadable((e as Error).message) : e;
    }
  }

  function log(place: string): LogFiles {
    if (/^https?:\/\//.test(place)) return { read: (name, limit) => download(`${place.replace(/\/+$/, "")}/${name}`, limit) };
    return {
      async read(name, limit) {
        const file = path.join(place, name);
        return fs.existsSync(file) ? read(file, limit) : undefined;
      },
    };
  }
  return { folder, hash, decode, ed25519, log, read, lines: (file) => open(file).lines };
}

const patience = 60_000;

async function download(url: string, limit: number): Promise<Uint8Array | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(patience) });
    if (response.status === 404) return undefined;
    if (!response.ok) throw new Unreadable(`${url}: ${response.status}`);
    const parts: Uint8Array[] = [];
    let size = 0;
    for await (const part of response.body ?? []) {
      parts.push(part as Uint8Array);
      size += part.length;
      if (size > limit) throw new Unreadable(`${url} has more than ${limit} bytes`);
    }
    return Buffer.concat(parts);
  } catch (e) {
    if (e instanceof Unreadable) throw e;
    throw new Unreadable(`${url}: ${((e as Error).cause as Error | undefined)?.message ?? (e as Error).message}`);
  }
}

function isFileError(e: unknown): boolean {
  return e instanceof Error && typeof (e as { code?: unknown }).code === "string" && "syscall" in e;
}

const shape = /^\{"sequence":"([1-9][0-9]{0,15})","time":"(-?[0-9]{1,19})","subject":"([A-Za-z0-9._*>-]*)","data":"([A-Za-z0-9+/=]*)"\}$/;

/** Decodes a line as quire writes it without parsing JSON. Undefined: it has another form. */
function decode(line: string): Message | undefined {
  const m = shape.exec(line);
  if (m === null) return undefined;
  const data = Buffer.from(m[4]!, "base64");
  if (data.length !== (m[4]!.length / 4) * 3 - (m[4]!.endsWith("==") ? 2 : m[4]!.endsWith("=") ? 1 : 0)) return undefined;
  return { sequence: Number(m[1]), time: m[2]!, subject: m[3]!, data };
}
