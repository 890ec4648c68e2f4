/** Statuses of commands, as "Numbers" has them. */
export const status = {
  ok: 1, accountNotFound: 2, accountExists: 3, insufficientCredits: 4, mismatch: 5, invalid: 6, notRefundable: 7,
  overRefunded: 8, paymentNotFound: 9, paymentMismatch: 10, keyNotFound: 20, tooManyKeys: 21, keyNameTaken: 22,
  webhookNotFound: 30, tooManyWebhooks: 31, webhookInvalid: 32,
} as const;

export const statusNames: Record<number, string> = {
  1: "COMMAND_OK", 2: "COMMAND_ACCOUNT_NOT_FOUND", 3: "COMMAND_ACCOUNT_EXISTS", 4: "COMMAND_INSUFFICIENT_CREDITS",
  5: "COMMAND_IDEMPOTENCY_MISMATCH", 6: "COMMAND_INVALID", 7: "COMMAND_NOT_REFUNDABLE", 8: "COMMAND_OVER_REFUNDED",
  9: "COMMAND_PAYMENT_NOT_FOUND", 10: "COMMAND_PAYMENT_MISMATCH", 20: "COMMAND_KEY_NOT_FOUND",
  21: "COMMAND_TOO_MANY_KEYS", 22: "COMMAND_KEY_NAME_TAKEN", 30: "COMMAND_WEBHOOK_NOT_FOUND",
  31: "COMMAND_TOO_MANY_WEBHOOKS", 32: "COMMAND_WEBHOOK_INVALID",
};

/** A status, with the fields that the outcome has besides. */
export type Result = number | ({ status: number } & Record<string, unknown>);
