// Encodes the messages that the tests make up. Fields are [number, type, value].

export function encode(fields) {
  const out = [];
  for (const [number, type, value] of fields) {
    if (value === undefined) continue;
    switch (type) {
      case "varint": varint(out, BigInt(number) * 8n), varint(out, BigInt.asUintN(64, BigInt(value))); break;
      case "zigzag": varint(out, BigInt(number) * 8n), varint(out, BigInt.asUintN(64, value < 0 ? -2n * BigInt(value) - 1n : 2n * BigInt(value))); break;
      case "fixed64": {
        varint(out, BigInt(number) * 8n + 1n);
        for (let i = 0n; i < 8n; i++) out.push(Number((BigInt(value) >> (8n * i)) & 255n));
        break;
      }
      default: {
        const bytes = typeof value === "string" ? Buffer.from(value) : value;
        varint(out, BigInt(number) * 8n + 2n), varint(out, BigInt(bytes.length));
        for (const b of bytes) out.push(b);
      }
    }
  }
  return Uint8Array.from(out);
}

function varint(out, n) {
  for (; n > 127n; n >>= 7n) out.push(Number(n & 127n) | 128);
  out.push(Number(n));
}

const many = (list, f) => (list ?? []).map(f);

export function usageBatch(m) {
  return encode([
    [1, "bytes", m.source], [2, "varint", m.number], [3, "varint", m.stamp],
    ...many(m.admissions, (a) => [5, "bytes", encode([
      [1, "bytes", a.request], [2, "fixed64", a.account], [3, "varint", a.key], [4, "varint", a.anonymous],
      [5, "varint", a.version], [6, "fixed64", a.fingerprint], [7, "varint", a.write], [8, "bytes", a.idempotency],
      [20, "varint", a.number], [40, "bytes", a.readId], [41, "fixed64", a.readHash],
    ])]),
    ...many(m.settlements, (s) => [6, "bytes", encode([
      [1, "bytes", s.request], [2, "varint", s.result], [3, "fixed64", s.account], [4, "varint", s.key],
      [5, "varint", s.anonymous], [6, "varint", s.failed], [7, "varint", s.sequence], [8, "zigzag", s.delta],
      [9, "varint", s.at], [10, "varint", s.stored],
    ])]),
    ...many(m.served, (s) => [7, "bytes", encode([[1, "varint", s.sequence], ...s.places.map((p) => [2, "varint", p])])]),
  ]);
}

export function commandBatch(m) {
  return encode([
    [1, "bytes", m.source], [2, "varint", m.number], [3, "varint", m.stamp],
    ...many(m.commands, (c) => [5, "bytes", encode([
      [2, "fixed64", c.account], [3, "bytes", c.idempotency], [4, "fixed64", c.bodyHash],
      [5, "bytes", c.admin === undefined ? undefined : encode([[1, "bytes", c.admin]])],
      [c.kind, "bytes", encode(c.fields)],
    ])]),
  ]);
}

export function priceBook(m) {
  return encode([
    [1, "varint", m.stamp], [2, "varint", m.offset],
    ...m.tiers.map((t) => [3, "bytes", encode([
      [1, "varint", t.tier],
      ...t.terms.map((x, i) => [2, "bytes", encode([
        [1, "varint", i + 1], [2, "zigzag", x.limit], [3, "varint", x.price], [4, "varint", x.price === undefined ? undefined : 1],
      ])]),
      [3, "bytes", t.name], [4, "varint", t.fee], [5, "varint", t.free], [6, "varint", t.cents],
    ])]),
    [4, "varint", m.anonymousLimit], [5, "varint", m.anonymousWindow], [6, "varint", m.free], [7, "varint", m.cents],
    [8, "varint", m.rules], [9, "varint", m.agreed], [10, "bytes", m.id], [11, "varint", m.effective],
  ]);
}

/** The fields of a message: of each its number and its bytes, the tag included. */
export function fieldsOf(data) {
  const fields = [];
  let at = 0;
  const varintAt = () => {
    let n = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = data[at++];
      n |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(n);
    }
  };
  while (at < data.length) {
    const from = at;
    const tag = varintAt();
    let value = at;
    if (tag % 8 === 0) varintAt();
    else if (tag % 8 === 1) at += 8;
    else {
      const n = varintAt();
      value = at;
      at += n;
    }
    fields.push({ number: tag >> 3, bytes: data.subarray(from, at), value: data.subarray(value, at) });
  }
  return fields;
}
