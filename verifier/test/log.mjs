// Writes logs as docs/proof.md, c2sp.org/tlog-tiles and c2sp.org/signed-note describe them. Hashes are computed as RFC 6962 defines them,
// recursively over all leaves, with node's own SHA-256 and Ed25519.

import { createHash, generateKeyPairSync, sign } from "node:crypto";

const sha = (...parts) => parts.reduce((h, p) => h.update(p), createHash("sha256")).digest();
export const leaf = (data) => sha(Buffer.of(0), data);

export function root(leaves) {
  if (leaves.length === 0) return sha();
  if (leaves.length === 1) return leaves[0];
  let k = 1;
  while (k * 2 < leaves.length) k *= 2;
  return sha(Buffer.of(1), root(leaves.slice(0, k)), root(leaves.slice(k)));
}

/** The length of a varint and its value, of fewer than 32 bits. */
function varint(data, at) {
  let value = 0;
  for (let n = 0; ; n++) {
    value += (data[at + n] & 127) * 128 ** n;
    if (data[at + n] < 128) return { value, length: n + 1 };
  }
}

/** The top-level fields of a message of varints, fixed64 and bytes. */
export function items(data) {
  const list = [];
  for (let at = 0; at < data.length;) {
    const tag = varint(data, at);
    let end = at + tag.length;
    if (tag.value % 8 === 0) end += varint(data, end).length;
    else if (tag.value % 8 === 1) end += 8;
    else {
      const { value, length } = varint(data, end);
      end += length + value;
    }
    list.push(data.subarray(at, end));
    at = end;
  }
  return list.length === 0 ? [data] : list;
}

export function entryOf(partition, m) {
  const head = Buffer.alloc(23);
  head[0] = 1;
  head.writeUInt16BE(partition, 1);
  head.writeBigUInt64BE(BigInt(m.sequence), 3);
  head.writeBigUInt64BE(BigInt(m.time), 11);
  head.writeUInt32BE(m.data.length, 19);
  return Buffer.concat([head, sha(m.data), root(items(m.data).map(leaf)), Buffer.from(m.subject)]);
}

export function lossOf(partition, last) {
  const b = Buffer.alloc(11);
  b[0] = 2;
  b.writeUInt16BE(partition, 1);
  b.writeBigUInt64BE(BigInt(last), 3);
  return b;
}

export class Signer {
  constructor(name) {
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    const data = Buffer.concat([Buffer.of(1), Buffer.from(publicKey.export({ format: "jwk" }).x, "base64url")]);
    this.name = name;
    this.id = sha(`${name}\n`, data).subarray(0, 4);
    this.key = `${name}+${this.id.toString("hex")}+${data.toString("base64")}`;
    this.private = privateKey;
  }

  sign(size, hash, origin = this.name) {
    const text = `${origin}\n${size}\n${hash.toString("base64")}\n`;
    const signature = Buffer.concat([this.id, sign(null, Buffer.from(text), this.private)]);
    return Buffer.from(`${text}\n— ${this.name} ${signature.toString("base64")}\n`);
  }
}

export function path(level, index, width) {
  const groups = [];
  for (let n = index; groups.length === 0 || n > 0; n = Math.floor(n / 1000)) groups.unshift(String(n % 1000).padStart(3, "0"));
  const last = groups.pop();
  return `tile/${level}/${groups.map((g) => `x${g}/`).join("")}${last}${width < 256 ? `.p/${width}` : ""}`;
}

/** The files of a log with these entries, by path. */
export function logOf(entries, signer) {
  const files = new Map([["key", Buffer.from(`${signer.key}\n`)]]);
  for (let i = 0; i < entries.length; i += 256) {
    const part = entries.slice(i, i + 256);
    files.set(path("entries", i / 256, part.length), Buffer.concat(part.flatMap((e) => [Buffer.of(e.length >> 8, e.length & 255), e])));
  }
  const leaves = entries.map(leaf);
  for (let level = 0, span = 1; span <= leaves.length; level++, span *= 256) {
    const hashes = [];
    for (let i = 0; i + span <= leaves.length; i += span) hashes.push(root(leaves.slice(i, i + span)));
    for (let i = 0; i < hashes.length; i += 256) {
      const part = hashes.slice(i, i + 256);
      files.set(path(level, i / 256, part.length), Buffer.concat(part));
    }
  }
  files.set("checkpoint", signer.sign(leaves.length, root(leaves)));
  return files;
}
