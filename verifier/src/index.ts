// What verify.mjs offers to programs, without any API of node.

export { Fold, type Message } from "./fold.ts";
export { showAccount, showNetwork } from "./show.ts";
export { sha256 } from "./sha256.ts";
export { canonical } from "./json.ts";
export { base62, fromBase64, hex, idFromNumber, parseId, showId } from "./ids.ts";
