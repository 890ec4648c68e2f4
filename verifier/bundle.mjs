// Writes verify.mjs, the program in one readable file. With --check it compares instead.

import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const { outputFiles } = await build({
  absWorkingDir: here,
  entryPoints: ["src/main.ts"],
  bundle: true,
  format: "esm",
  platform: "neutral",
  target: "es2022",
  external: ["node:*"],
  charset: "utf8",
  legalComments: "none",
  write: false,
  banner: { js: "// Generated from src by `npm run generate`: do not edit. README.md says what it checks." },
});
const text = outputFiles[0].text;
const file = `${here}verify.mjs`;
if (process.argv.includes("--check")) {
  if (readFileSync(file, "utf8") === text) process.exit(0);
  console.error("verifier/verify.mjs is not what src gives: run `npm run generate` in verifier");
  process.exit(1);
}
writeFileSync(file, text);
