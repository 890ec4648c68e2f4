import type { components, operations } from './openapi.js'

type Schemas = components['schemas']
type Query<Operation extends keyof operations> = operations[Operation]['parameters'] extends { query?: infer Q } ? NonNullable<Q> : never

type Success<Responses> = { [Status in keyof Responses]: Status extends 200 | 201 | 202 ? Responses[Status] : never }[keyof Responses]
type Json<T> = T extends { content: { 'application/json': infer Content } } ? Content : never
/** The JSON of an operation's success, without the fields of `Meta`. */
type Answer<Operation extends keyof operations> = Omit<Json<Success<operations[Operation]['responses']>>, 'success' | 'remaining'>

/** A time for the API: a `Date`, or RFC 3339 such as `"2026-11-21T12:00:00Z"`. */
export type TimeInput = Date | string

type WithTimes<T> = Omit<T, 'expiresAt'> & { expiresAt?: TimeInput | null }

/** A paste or quick paste to create. Only `content` is required. */
export type NewPaste = WithTimes<Schemas['NewPaste']>
/** An edit of a paste or quick paste. An absent field stays unchanged, `null` resets it to its default. */
export type PasteChange = WithTimes<Schemas['PasteChange']>
export type Paste = Schemas['Paste']
export type PasteHead = Schemas['PasteHead']
export type CreatedPaste = Answer<'createQuickPaste'>
export type UpdatedPaste = Answer<'updatePaste'>
export type Deleted = Answer<'deletePaste'>
export type PasteVersion = Schemas['VersionHead']
export type Visibility = Schemas['Visibility']
export type QuotaKey = Schemas['QuotaKey']
export type Tier = Schemas['Tier']

export type FileHead = Schemas['FileHead']
export type FileInfo = Schemas['File']
export type UploadedFile = Answer<'uploadFile'>

export type Profile = Answer<'getProfile'>
export type Usage = Answer<'getUsage'>
export type Prices = Answer<'getPrices'>
export type PriceBook = Schemas['PriceBook']
export type AccountPlan = Answer<'getPlan'>
/** What to buy: one of both. */
export type Purchase = Schemas['Purchase']
export type TopUp = NonNullable<Schemas['TopUp']>
export type TopUpChange = Schemas['TopUpChange']
export type Payment = Schemas['Payment']
/** Selects a page of payments. */
export type PaymentsQuery = Query<'listPayments'>
export type UsageDays = Answer<'listUsageByDay'>
export type LedgerEntry = Schemas['LedgerEntry']
export type Statement = Answer<'getStatement'>
/** A page of the account's chain of entries. */
export type Receipts = Answer<'listReceipts'>
/** An entry of the account's chain: a change of its counters or its balance. */
export type ChainEntry = Schemas['ChainEntry']
export type RecentRequest = Schemas['RecentRequest']
export type Explanation = Schemas['ExplainedRequest']
export type SpendingCap = Schemas['SpendingCap']
export type SpendingCapChange = Schemas['SpendingCapChange']
export type SessionHead = Schemas['SessionOfAccount']
export type ExportState = Schemas['ExportState']['export']
export type DeletedAccount = Answer<'deleteAccount'>
export type UpdatedSpendingCap = Answer<'setSpendingCap'>

/** The rules of a new API key. Without `name` it becomes "default 2", or the next such name that is free. */
export type NewKey = WithTimes<Schemas['NewKeyRules']>
/** An edit of an API key. An absent field stays unchanged, `null` removes the rule. */
export type KeyChange = WithTimes<Schemas['KeyRules']>
export type Key = Schemas['KeyOfAccount']
export type CreatedKey = Answer<'createApiKey'>
export type RotatedKey = Answer<'regenerateKeyWithOverlap'>
export type RegeneratedKey = Answer<'regenerateApiKey'>

export type NewWebhook = Schemas['WebhookDraft']
/** An edit of a webhook. An absent field stays unchanged. */
export type WebhookChange = Schemas['WebhookChange']
export type Webhook = Schemas['Webhook']
export type CreatedWebhook = Answer<'createWebhook'>
export type RotatedSecret = Answer<'rotateWebhookSecret'>
export type StartedDelivery = Answer<'testWebhook'>
export type Delivery = Schemas['Delivery']
/** Events after one, and the cursor of the next call. */
export type AccountEvents = Answer<'listEvents'>
/** Selects events. */
export type EventsQuery = Query<'listEvents'>
/** The payload of a webhook. Ignore unknown types and members. */
export type WebhookEvent = Schemas['Event']

/** Filters pastes. Defaults to all, newest first, 50 per page. */
export type PasteFilter = Query<'listPastes'>
/** Filters files. */
export type FileFilter = Query<'listFiles'>
/** Selects pages of a list of versions. */
export type VersionFilter = Query<'listPasteVersions'>
/** Selects days and how to split them. */
export type DaysQuery = Query<'listUsageByDay'>
/** Filters entries of the ledger. */
export type LedgerFilter = Query<'listLedgerEntries'>
/** Selects a page of the chain. */
export type ReceiptsQuery = Query<'listReceipts'>
/** Filters recent requests. */
export type RequestFilter = Query<'listRecentRequests'>
