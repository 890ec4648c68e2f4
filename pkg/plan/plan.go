// Package plan defines what an account may request and what that costs: tiers, quota keys, amounts of credits in integer
// micro-credits, and the published price book.
package plan

import (
	"fmt"
	"strings"
)

// Tier is an account's plan. Its number is in events and never changes.
type Tier uint32

// Tiers.
const (
	TierUnspecified Tier = iota
	Free
	Pro
	Max
	Admin
)

// Tiers returns all tiers.
func Tiers() []Tier { return []Tier{Free, Pro, Max, Admin} }

// String is the tier's name in the API.
func (t Tier) String() string {
	switch t {
	case Free:
		return "free"
	case Pro:
		return "pro"
	case Max:
		return "max"
	case Admin:
		return "admin"
	}
	return fmt.Sprintf("tier(%d)", uint32(t))
}

// Title is the tier's name in a sentence.
func (t Tier) Title() string {
	name := t.String()
	return strings.ToUpper(name[:1]) + name[1:]
}

// ParseTier parses a tier's name in the API.
func ParseTier(s string) (Tier, bool) {
	for _, t := range Tiers() {
		if t.String() == s {
			return t, true
		}
	}
	return TierUnspecified, false
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

// Valid reports whether k is a quota key.
func (k QuotaKey) Valid() bool { return k > KeyUnspecified && k < keyEnd }

// String is the key's name in the API.
func (k QuotaKey) String() string {
	if k.Valid() {
		return keyNames[k]
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

// Book is a price book.
type Book struct {
	Terms                  [Admin + 1][KeyCount]Term
	AnonymousLimit         int   // anonymous quick pastes of one source in a window
	AnonymousWindowMillis  int64 // length of the rolling window
	FreeStorageBytes       uint64
	StorageCentsPerGBMonth uint64 // for the month's average above FreeStorageBytes
}

// GB is a gigabyte of storage in bytes (docs/api.md, Storage).
const GB = 1 << 30

// Published is the price book of docs/api.md, Metering, with the given limit of anonymous quick pastes.
func Published(anonymousLimit int) *Book {
	b := &Book{
		AnonymousLimit:         anonymousLimit,
		AnonymousWindowMillis:  24 * 60 * 60 * 1000,
		FreeStorageBytes:       10 * GB,
		StorageCentsPerGBMonth: 3,
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
		b.Terms[Free][row.key] = Term{Limit: row.free}
		b.Terms[Pro][row.key] = Term{Limit: row.pro, Price: MustParseCredits(row.proPrice), Overage: true}
		b.Terms[Max][row.key] = Term{Limit: row.max, Price: MustParseCredits(row.maxPrice), Overage: true}
		b.Terms[Admin][row.key] = Term{Limit: Unlimited}
	}
	for _, key := range []QuotaKey{LiteList, FilesList} {
		for _, tier := range Tiers() {
			b.Terms[tier][key] = Term{Limit: Unlimited}
		}
	}
	return b
}
