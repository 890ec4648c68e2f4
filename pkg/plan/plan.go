// Package plan defines what an account may request and what that costs: tiers, quota keys, amounts of credits in integer
// micro-credits, and the published price book.
package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Tier is an account's plan. Its number is in events and never changes. A price book may have more tiers than those named here.
type Tier uint32

// Tiers of every price book.
const (
	TierUnspecified Tier = iota
	Free
	Pro
	Max
	Admin
)

// MaxTiers is one more than the largest tier's number: the size of an array indexed by tier.
const MaxTiers = 16

// Valid reports whether t may be a plan's number.
func (t Tier) Valid() bool { return t > TierUnspecified && t < MaxTiers }

// BuiltIn reports whether t is a tier of every price book.
func (t Tier) BuiltIn() bool { return t >= Free && t <= Admin }

// Tiers returns the tiers of every price book.
func Tiers() []Tier { return []Tier{Free, Pro, Max, Admin} }

// String is the name of a built-in tier in the API.
func (t Tier) String() string { return t.Name("") }

// Name is the tier's name in the API. given is the name of a tier that is not built in, as its price book has it.
func (t Tier) Name(given string) string {
	switch {
	case t == Free:
		return "free"
	case t == Pro:
		return "pro"
	case t == Max:
		return "max"
	case t == Admin:
		return "admin"
	case given != "":
		return given
	}
	return fmt.Sprintf("tier(%d)", uint32(t))
}

// Title is the tier's name in a sentence. given is as in Name.
func (t Tier) Title(given string) string {
	name := t.Name(given)
	return strings.ToUpper(name[:1]) + name[1:]
}

// QuotaKey is what requests are counted by. Its number is in events and never changes.
type QuotaKey uint32

// Quota keys.
const (
	KeyUnspecified QuotaKey = iota
	PastesCreate
	PastesGet
	PastesUpdate
	PastesDelete
	FilesUpload
	FilesGet
	FilesDelete
	LiteCreate
	LiteGet
	LiteUpdate
	LiteDelete
	LiteList
	FilesList
	keyEnd
)

// KeyCount is one more than the largest quota key's number: the size of an array indexed by key.
const KeyCount = int(keyEnd)

//nolint:gochecknoglobals // a table that every request reads and that nothing writes to
var keyNames = [...]string{
	PastesCreate: "pastes.create", PastesGet: "pastes.get", PastesUpdate: "pastes.update", PastesDelete: "pastes.delete",
	FilesUpload: "files.upload", FilesGet: "files.get", FilesDelete: "files.delete",
	LiteCreate: "pasteLite.create", LiteGet: "pasteLite.get", LiteUpdate: "pasteLite.update", LiteDelete: "pasteLite.delete",
	LiteList: "pasteLite.list", FilesList: "files.list",
}

// QuotaKeys returns the quota keys by number, which is the order of answers.
func QuotaKeys() []QuotaKey {
	keys := make([]QuotaKey, 0, KeyCount-1)
	for k := PastesCreate; k < keyEnd; k++ {
		keys = append(keys, k)
	}
	return keys
}

// ScopeCheckout is a scope of API keys that is no quota key: to start payments. Its number is in events and never changes; it is the
// highest, so that quota keys can be added.
const ScopeCheckout QuotaKey = 63

// Scopes returns the scopes of API keys, by number: the quota keys, and the scopes of calls that are not counted.
func Scopes() []QuotaKey { return append(QuotaKeys(), ScopeCheckout) }

// IsScope reports whether k is a scope of API keys.
func (k QuotaKey) IsScope() bool { return k.Valid() || k == ScopeCheckout }

// Valid reports whether k is a quota key.
func (k QuotaKey) Valid() bool { return k > KeyUnspecified && k < keyEnd }

// String is the name of the quota key or scope in the API.
func (k QuotaKey) String() string {
	switch {
	case k.Valid():
		return keyNames[k]
	case k == ScopeCheckout:
		return "payments.checkout"
	}
	return fmt.Sprintf("key(%d)", uint32(k))
}

// Unlimited, as a limit or as the remaining requests, means no limit.
const Unlimited int64 = -1

// Term is the limit and price of one quota key on one tier.
type Term struct {
	Limit   int64  // free requests a month, or Unlimited; 0: not on this tier
	Price   Micros // of a request over quota
	Overage bool   // requests over quota are sold
}

// Plan is what a tier includes and costs. The zero value is no plan.
type Plan struct {
	Name                   string // in the API: 1 to 32 lower-case letters, digits and hyphens
	FeeCents               uint64 // per month
	FreeStorageBytes       uint64
	StorageCentsPerGBMonth uint64 // for the month's average above FreeStorageBytes
	Terms                  [KeyCount]Term
}

// Book is a price book. Books are comparable.
type Book struct {
	Plans                 [MaxTiers]Plan // by tier; the built-in tiers always have one
	CreditPrice           Micros         // of a credit, in dollars
	AnonymousLimit        int            // anonymous quick pastes of one source in a window
	AnonymousWindowMillis int64          // length of the rolling window
}

// Tier finds a plan by its name in the API.
func (b *Book) Tier(name string) (Tier, bool) {
	for t := range b.Plans {
		if name != "" && b.Plans[t].Name == name {
			return Tier(t), true
		}
	}
	return TierUnspecified, false
}

// Tiers returns the tiers that have a plan, by number.
func (b *Book) Tiers() (tiers []Tier) {
	for t := range b.Plans {
		if b.Plans[t].Name != "" {
			tiers = append(tiers, Tier(t))
		}
	}
	return tiers
}

// QuotaKeys returns the quota keys that statements under the book list, by number: those that every book has, and of the later ones
// those that a plan of the book has. So a statement from before a key was added stays as it was.
func (b *Book) QuotaKeys() []QuotaKey {
	return slices.DeleteFunc(QuotaKeys(), func(k QuotaKey) bool { return !b.lists(k, FilesList) })
}

// lists reports whether the book has a key. Every book has the keys up to lastInitial.
func (b *Book) lists(k, lastInitial QuotaKey) bool {
	if k <= lastInitial {
		return true
	}
	for t := range b.Plans {
		if b.Plans[t].Terms[k] != (Term{}) {
			return true
		}
	}
	return false
}

// GB is a gigabyte of storage in bytes (docs/api.md, Storage).
const GB = 1 << 30

// Published is the price book of docs/api.md, Metering, with the given limit of anonymous quick pastes.
func Published(anonymousLimit int) *Book {
	b := &Book{
		AnonymousLimit:        anonymousLimit,
		AnonymousWindowMillis: 24 * 60 * 60 * 1000,
		CreditPrice:           MustParseCredits("1"),
	}
	for _, tier := range Tiers() {
		b.Plans[tier].Name, b.Plans[tier].FreeStorageBytes, b.Plans[tier].StorageCentsPerGBMonth = tier.String(), 10*GB, 3
	}
	for _, row := range []struct {
		key                QuotaKey
		free, pro, max     int64
		proPrice, maxPrice string
	}{
		{PastesCreate, 0, 500, 10_000, "0.002", "0.001"},
		{PastesGet, 0, 3_000, 50_000, "0.0005", "0.0003"},
		{PastesUpdate, 0, 500, 10_000, "0.001", "0.0005"},
		{PastesDelete, 10, 500, 5_000, "0.0005", "0.0003"},
		{FilesUpload, 0, 100, 1_000, "0.005", "0.003"},
		{FilesGet, 0, 500, 5_000, "0.001", "0.0005"},
		{FilesDelete, 0, 200, 2_000, "0.0005", "0.0003"},
		{LiteCreate, 100, 5_000, 20_000, "0.0005", "0.0002"},
		{LiteGet, 500, 10_000, 100_000, "0.0002", "0.0001"},
		{LiteUpdate, 50, 2_000, 10_000, "0.0002", "0.0001"},
		{LiteDelete, 50, 2_000, 10_000, "0.0002", "0.0001"},
	} {
		b.Plans[Free].Terms[row.key] = Term{Limit: row.free}
		b.Plans[Pro].Terms[row.key] = Term{Limit: row.pro, Price: MustParseCredits(row.proPrice), Overage: true}
		b.Plans[Max].Terms[row.key] = Term{Limit: row.max, Price: MustParseCredits(row.maxPrice), Overage: true}
		b.Plans[Admin].Terms[row.key] = Term{Limit: Unlimited}
	}
	for _, key := range []QuotaKey{LiteList, FilesList} {
		for _, tier := range Tiers() {
			b.Plans[tier].Terms[key] = Term{Limit: Unlimited}
		}
	}
	return b
}
