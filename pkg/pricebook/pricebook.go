// Package pricebook converts price books between their form in the journal and the one that programs work with.
package pricebook

import (
	"crypto/sha256"
	"encoding/hex"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// Of converts a published price book. It ignores unknown tiers and quota keys. A price above every possible balance is
// reduced to one micro-credit above it. A book without an id has the built-in plans, whose storage costs the same and whose
// credits cost a dollar.
func Of(b *event.PriceBook) *plan.Book {
	book := &plan.Book{
		CreditPrice: plan.Micros(min(b.CreditPriceMicros, plan.MaxBalance)), AnonymousLimit: int(b.AnonymousLimit), AnonymousWindowMillis: b.AnonymousWindowMs,
	}
	if b.Id == "" {
		book.CreditPrice = plan.Credit
		for _, tier := range plan.Tiers() {
			of := &book.Plans[tier]
			of.Name, of.FreeStorageBytes, of.StorageCentsPerGBMonth = tier.String(), b.FreeStorageBytes, b.StorageCentsPerGbMonth
		}
	}
	for _, t := range b.Tiers {
		tier := plan.Tier(t.Tier)
		if !tier.Valid() || b.Id == "" && !tier.BuiltIn() {
			continue
		}
		of := &book.Plans[tier]
		if b.Id != "" {
			of.Name, of.FeeCents, of.FreeStorageBytes, of.StorageCentsPerGBMonth = t.Name, t.FeeCents, t.FreeStorageBytes, t.StorageCentsPerGbMonth
		}
		for _, term := range t.Terms {
			if key := plan.QuotaKey(term.QuotaKey); key.Valid() {
				of.Terms[key] = plan.Term{
					Limit: term.Limit, Price: plan.Micros(min(term.PriceMicros, plan.MaxBalance+1)), Overage: term.Overage,
				}
			}
		}
	}
	return book
}

// Configured is a configured price book to publish, without its time.
func Configured(book *plan.Book) *event.PriceBook {
	free := &book.Plans[plan.Free]
	b := &event.PriceBook{
		AnonymousLimit: num.Uint32(book.AnonymousLimit), AnonymousWindowMs: book.AnonymousWindowMillis,
		FreeStorageBytes: free.FreeStorageBytes, StorageCentsPerGbMonth: free.StorageCentsPerGBMonth,
	}
	for _, tier := range plan.Tiers() {
		b.Tiers = append(b.Tiers, tierEvent(book, tier))
	}
	return b
}

// Applied is a price book to apply at a time, without the time of its message. Equal books for equal times have equal ids.
func Applied(book *plan.Book, effectiveMillis int64) (*event.PriceBook, error) {
	b := &event.PriceBook{
		AnonymousLimit: num.Uint32(book.AnonymousLimit), AnonymousWindowMs: book.AnonymousWindowMillis,
		CreditPriceMicros: num.Uint64(book.CreditPrice), EffectiveMs: effectiveMillis,
	}
	for _, tier := range book.Tiers() {
		t, of := tierEvent(book, tier), &book.Plans[tier]
		t.Name, t.FeeCents, t.FreeStorageBytes, t.StorageCentsPerGbMonth = of.Name, of.FeeCents, of.FreeStorageBytes, of.StorageCentsPerGBMonth
		b.Tiers = append(b.Tiers, t)
	}
	data, err := event.Encode(b)
	if err != nil {
		return nil, err
	}
	b.Id = short(data)
	return b, nil
}

func tierEvent(book *plan.Book, tier plan.Tier) *event.TierPlan {
	t := &event.TierPlan{Tier: uint32(tier)}
	for _, key := range book.QuotaKeys() {
		term := book.Plans[tier].Terms[key]
		t.Terms = append(t.Terms, &event.Term{
			QuotaKey: uint32(key), Limit: term.Limit, PriceMicros: num.Uint64(term.Price), Overage: term.Overage,
		})
	}
	return t
}

// Clash reports whether the next book has another plan under a number of a book, or a plan of it under another number.
func Clash(book, next *plan.Book) bool {
	for t := range next.Plans {
		name, other := next.Plans[t].Name, book.Plans[t].Name
		at, found := book.Tier(name)
		if name != "" && (other != "" && other != name || found && int(at) != t) {
			return true
		}
	}
	return false
}

// Same reports whether two price books have the same plans, limits and prices.
func Same(a, b *event.PriceBook) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *Of(a) == *Of(b)
}

// Hash is a hash of a price book as text, for comparison between instances.
func Hash(book *plan.Book) string {
	data, err := event.Encode(Configured(book))
	if err != nil {
		return "" // equals none
	}
	return short(data)
}

func short(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
