package accounts

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

const (
	maxEntries     = 1000
	defaultEntries = 100
)

type receiptsView struct {
	endpoint.Success
	After    *string            `json:"after"` // receipt before the first entry; null: none
	Entries  []chainedEntryView `json:"entries"`
	Newest   *string            `json:"newest"`   // null: the account's chain has no entries yet
	KeptFrom *uint64            `json:"keptFrom"` // null: none is kept
	HasMore  bool               `json:"hasMore"`
}

type chainedEntryView struct {
	Number    uint64  `json:"number"`
	Receipt   string  `json:"receipt"` // with the entry
	Entry     string  `json:"entry"`   // its bytes, in hex
	Kind      string  `json:"kind"`
	Time      string  `json:"time"`
	Month     string  `json:"month"`
	QuotaKey  *string `json:"quotaKey"`
	Charge    *string `json:"charge"` // null unless the entry is about a request
	Type      *string `json:"type"`   // null unless the entry is of the ledger
	Amount    string  `json:"amount"`
	Key       *string `json:"key"`
	RequestID *string `json:"requestId"`
}

// receipts answers with a page of the account's chain of entries, in order.
func (s *Accounts) receipts(c *endpoint.Call) error {
	q := &event.EntriesQuery{}
	limit := uint64(defaultEntries)
	err := input.QueryFields(c.Ctx, input.Fields{
		"after": input.To(&q.After, entryNumberField),
		"limit": input.To(&limit, input.CountField(maxEntries)),
	}.Set)
	if err == nil {
		err = s.CheckHolder(c)
	}
	if err != nil {
		return err
	}
	q.Limit = uint32(limit)
	a, err := s.Query(c.Who.Account, &event.Query{Query: &event.Query_Entries{Entries: q}})
	if err != nil {
		return err
	}
	page := a.GetEntries()
	switch {
	case page == nil:
		return endpoint.Unavailable(endpoint.ErrQueryAnswer)
	case page.After > page.Newest:
		return httperr.InvalidField("after", fmt.Sprintf("must be %d at most: the account's chain has no more entries", page.Newest))
	case page.After < page.Newest && len(page.AfterHash) == 0:
		return notKept(page)
	}
	return s.JSON(c.Ctx, fiber.StatusOK, viewReceipts(page))
}

// notKept says that the entry after page.After is gone.
func notKept(page *event.EntriesAnswer) error {
	if page.Kept == 0 {
		return fault.New(fault.NotFound, "Entry %d is no longer kept, and neither is a later one. Use after=%d.", page.After+1, page.Newest)
	}
	return fault.New(fault.NotFound, "Entry %d is no longer kept. The first that is kept is %d: use after=%d.", page.After+1, page.Kept, page.Kept-1)
}

// entryNumberField parses the number of an entry, 0 for the beginning of the chain.
func entryNumberField(name string, v input.Value) (*uint64, error) {
	n, err := strconv.ParseUint(string(v.Text), 10, 64)
	if err != nil || n > math.MaxInt64 {
		return nil, httperr.InvalidField(name, "must be the number of an entry, from 0")
	}
	return &n, nil
}

func viewReceipts(page *event.EntriesAnswer) receiptsView {
	out := receiptsView{
		Success: endpoint.Succeeded(), After: receiptText(page.After, page.AfterHash), Newest: receiptText(page.Newest, page.NewestHash),
		Entries: make([]chainedEntryView, 0, len(page.Entries)/event.EntryBytes),
	}
	if page.Kept > 0 {
		out.KeptFrom = &page.Kept
	}
	number, hash := page.After, [32]byte{}
	copy(hash[:], page.AfterHash)
	for rest := page.Entries; len(rest) >= event.EntryBytes; rest = rest[event.EntryBytes:] {
		data := (*[event.EntryBytes]byte)(rest)
		number, hash = number+1, event.LinkEntry(hash, data)
		out.Entries = append(out.Entries, viewChained(number, hash, data))
	}
	out.HasMore = number < page.Newest
	return out
}

// receiptText is a receipt as X-Receipt has it, null for an empty hash.
func receiptText(number uint64, hash []byte) *string {
	if len(hash) == 0 {
		return nil
	}
	return new(strconv.FormatUint(number, 10) + "." + hex.EncodeToString(hash))
}

func viewChained(number uint64, hash [32]byte, data *[event.EntryBytes]byte) chainedEntryView {
	e := event.DecodeEntry(data)
	view := chainedEntryView{
		Number: number, Receipt: *receiptText(number, hash[:]), Entry: hex.EncodeToString(data[:]), Kind: entryKind(e.Kind),
		Time: endpoint.FormatTime(e.TimeMs), Month: fmt.Sprintf("%d-%02d", e.Month/100, e.Month%100), QuotaKey: quotaKeyName(uint32(e.QuotaKey)),
		Amount: plan.Credits(e.Micros),
	}
	if e.Request != (event.RequestID{}) {
		view.RequestID = new(e.Request.String())
	}
	switch e.Kind {
	case event.EntryAdmitted, event.EntryUndone, event.EntryFree, event.EntryLate:
		view.Charge, view.Key = new(entryCharge(e.Charge)), new(apikey.ID(e.Key))
	case event.EntryLedger:
		view.Type = new(ledgerType(event.LedgerType(e.Charge)))
	}
	return view
}

func entryKind(k event.EntryKind) string {
	switch k {
	case event.EntryBegins:
		return "begins"
	case event.EntryAdmitted:
		return "admitted"
	case event.EntryUndone:
		return "undone"
	case event.EntryFree:
		return "free"
	case event.EntryLate:
		return "late"
	case event.EntryLedger:
		return "ledger"
	}
	return "unknown"
}

func entryCharge(charge uint8) string {
	if charge == event.ChargeWaived {
		return "waived"
	}
	return chargeName(event.ChargeSource(charge), 0)
}
