// Folds every vector of docs/journal/vectors, and compares all that it has with what comes out.

import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";
import { compare } from "./vectors.mjs";

const folder = new URL("../../docs/journal/vectors/", import.meta.url);

for (const name of readdirSync(folder).filter((f) => f.endsWith(".json"))) {
  test(name, () => compare(JSON.parse(readFileSync(new URL(name, folder), "utf8"))));
}
