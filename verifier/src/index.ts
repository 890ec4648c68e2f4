// What verify.mjs offers to programs, without any API of node.

export { Fold, type Message } from "./fold.ts";
export { showAccount, showNetwork } from "./show.ts";
export { sha256 } from "./sha256.ts";
export { canonical } from "./json.ts";
export { base62, fromBase64, hex, idFromNumber, parseId, showId } from "./ids.ts";
export { LogCheck, type LogFiles, type LogJournal, messageEntry, tilePath } from "./log.ts";
export { itemsRoot, leafHash, rootOf } from "./merkle.ts";
export { type Checkpoint, type Ed25519, type Key, Malformed, openCheckpoint, parseKey, webEd25519 } from "./note.ts";
export { type ProofOptions, type ProofResult, verifyProof } from "./proof.ts";
export { Report, showDifference } from "./report.ts";
export { Impossible } from "./settle.ts";
