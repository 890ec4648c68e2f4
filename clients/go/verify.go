package client

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ReceiptError: the entries that the service shows do not lead from the kept receipt to a newer one. At least one entry after
// After, up to Number, was edited, left out, added or moved since.
type ReceiptError struct {
	After  int64 // number of the last receipt that fits
	Number int64 // of the first entry, or kept receipt, that does not fit
	Reason string
}

func (e *ReceiptError) Error() string {
	return fmt.Sprintf("quire: entry %d does not fit the receipts: %s", e.Number, e.Reason)
}

// EntriesNotKeptError: the service no longer has the entries right after the kept receipt. They stay in the billing journal.
type EntriesNotKeptError struct {
	Number int64 // of the first entry that is missing
	Err    error // what the service said
}

func (e *EntriesNotKeptError) Error() string {
	return fmt.Sprintf("quire: entry %d can no longer be checked: %v", e.Number, e.Err)
}

// Unwrap is what the service said.
func (e *EntriesNotKeptError) Unwrap() error { return e.Err }

// VerifiedReceipts are the entries between a kept receipt and the newest one.
type VerifiedReceipts struct {
	Entries []*ChainEntry // in order, decoded from their bytes
	Newest  string        // receipt with the last of them
}

// NewestReceipt returns the receipt with the greatest number among this client's answers, refusals and failures included;
// empty without one. Keep it for VerifyReceipts.
func (c *Client) NewestReceipt() string { return c.newest.get() }

// ReceiptNumber is the number of a receipt's entry, from 1: of two receipts of an account, the greater one is the newer. What is not a
// receipt is an error.
func ReceiptNumber(receipt string) (int64, error) {
	r, err := parseReceipt(receipt)
	return r.number, err
}

// newestReceipt is safe for concurrent use.
type newestReceipt struct {
	mu     sync.Mutex
	text   string
	number int64
}

func (n *newestReceipt) get() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text
}

func (n *newestReceipt) see(text string) {
	if text == "" {
		return
	}
	r, err := parseReceipt(text)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil && r.number > n.number {
		n.text, n.number = text, r.number
	}
}

// receipt is the state of a chain.
type receipt struct {
	number int64
	hash   [sha256.Size]byte
}

func parseReceipt(text string) (r receipt, err error) {
	number, hash, _ := strings.Cut(text, ".")
	r.number, err = strconv.ParseInt(number, 10, 64)
	n, err2 := 0, errors.New("no hash")
	if len(hash) == hex.EncodedLen(len(r.hash)) {
		n, err2 = hex.Decode(r.hash[:], []byte(hash))
	}
	if err != nil || err2 != nil || n != len(r.hash) || r.number < 1 || r.String() != text {
		return receipt{}, fmt.Errorf("quire: %q is not a receipt: it takes a number, a dot and 64 hexadecimal digits", text)
	}
	return r, nil
}

func (r receipt) String() string {
	return strconv.FormatInt(r.number, 10) + "." + hex.EncodeToString(r.hash[:])
}

// VerifyReceipts fetches the entries after a receipt that you kept, and recomputes the chain from their bytes, up to each newer
// receipt that you have and up to the service's newest one. The entries' fields must match their bytes. A mismatch is a *ReceiptError;
// entries that are no longer kept are an *EntriesNotKeptError. Receipts don't prove that an entry was right when it was created: only
// the journal does.
func (a *Account) VerifyReceipts(ctx context.Context, kept string, newer ...string) (*VerifiedReceipts, error) {
	v, err := newVerification(kept, newer)
	if err != nil {
		return nil, err
	}
	for {
		page, err := a.Receipts(ctx, ReceiptsQuery{After: v.at.number, PageSize: maxEntries})
		if err != nil {
			return nil, v.refused(err)
		}
		done, err := v.add(page)
		if err != nil {
			return nil, err
		}
		if done {
			return &VerifiedReceipts{Entries: v.entries, Newest: v.at.String()}, nil
		}
	}
}

const maxEntries = 1000

// verification follows a chain of entries.
type verification struct {
	at      receipt           // as far as the entries have led
	fits    int64             // number of the last kept receipt that they led to
	known   map[int64]receipt // receipts that were kept, by number
	last    int64             // greatest number of these
	entries []*ChainEntry
}

func newVerification(kept string, newer []string) (*verification, error) {
	at, err := parseReceipt(kept)
	if err != nil {
		return nil, err
	}
	v := &verification{at: at, fits: at.number, known: map[int64]receipt{at.number: at}, last: at.number}
	for _, text := range newer {
		r, err := parseReceipt(text)
		if err != nil {
			return nil, err
		}
		if r.number < at.number {
			return nil, fmt.Errorf("quire: receipt %d is older than the kept one, %d", r.number, at.number)
		}
		if other, known := v.known[r.number]; known && other != r {
			return nil, &ReceiptError{After: at.number, Number: r.number, Reason: "there are two receipts with this number"}
		}
		v.known[r.number], v.last = r, max(v.last, r.number)
	}
	return v, nil
}

func (v *verification) fault(number int64, reason string) error {
	return &ReceiptError{After: v.fits, Number: number, Reason: reason}
}

// refused is the error for a page that the service refused.
func (v *verification) refused(err error) error {
	var gone *NotFoundError
	var invalid *InvalidError
	switch {
	case errors.As(err, &gone) && gone.Code == "not_found": // a proxy's 404 has no code
		return &EntriesNotKeptError{Number: v.at.number + 1, Err: err}
	case errors.As(err, &invalid) && invalid.Field == "after":
		return v.fault(v.at.number, "the service has no such entry")
	}
	return err
}

// add follows the entries of a page. done reports whether they led to the newest receipt.
func (v *verification) add(page *Receipts) (done bool, err error) {
	if page.After != v.at.String() {
		return false, v.fault(v.at.number, "the service has another receipt with this number, "+page.After)
	}
	for _, e := range page.Entries {
		if err := v.follow(e); err != nil {
			return false, err
		}
	}
	newest, err := parseReceipt(page.Newest)
	switch {
	case err != nil:
		return false, v.fault(v.at.number+1, "the service's newest receipt is "+page.Newest)
	case newest.number > v.at.number && len(page.Entries) > 0:
		return false, nil
	case newest.number > v.at.number:
		return false, v.fault(v.at.number+1, "the service leaves it out")
	case newest != v.at:
		return false, v.fault(newest.number, "the service's newest receipt is another one, "+page.Newest)
	case v.last > v.at.number:
		return false, v.fault(v.at.number+1, fmt.Sprintf("the service has no such entry, but you have receipt %d", v.last))
	}
	return true, nil
}

// follow adds an entry to the chain.
func (v *verification) follow(e *ChainEntry) error {
	number := v.at.number + 1
	data, err := hex.DecodeString(e.Entry)
	switch {
	case e.Number != number:
		return v.fault(number, fmt.Sprintf("the service has entry %d in its place", e.Number))
	case err != nil || len(data) != entryBytes:
		return v.fault(number, "it does not have 43 bytes")
	}
	v.at = receipt{number, sha256.Sum256(append(v.at.hash[:], data...))}
	known, kept := v.known[number]
	switch {
	case kept && known != v.at:
		return v.fault(number, "the entries do not lead to the receipt that you kept")
	case e.Receipt != v.at.String():
		return v.fault(number, "it does not lead to its receipt, "+e.Receipt)
	case kept:
		v.fits = number
	}
	v.entries = append(v.entries, decodeEntry(number, v.at.String(), data))
	return nil
}

const (
	entryBytes   = 43
	kindLedger   = 6
	chargeWaived = 0xFF
)

// signed reads a number in two's complement.
func signed(data []byte) int64 { return int64(binary.BigEndian.Uint64(data)) } //nolint:gosec // the bits are kept

// decodeEntry reads an entry as docs/journal.md (Receipts) describes it.
func decodeEntry(number int64, receipt string, data []byte) *ChainEntry {
	month, charge, key := binary.BigEndian.Uint32(data[9:]), data[14], binary.BigEndian.Uint32(data[23:])
	e := &ChainEntry{
		Number: number, Receipt: receipt, Entry: hex.EncodeToString(data),
		Kind:   word(data[0], "", "begins", "admitted", "undone", "free", "late", "ledger"),
		Time:   time.UnixMilli(signed(data[1:])).UTC(),
		Month:  fmt.Sprintf("%d-%02d", month/100, month%100),
		Amount: Credits(signed(data[15:])),
		QuotaKey: word(data[13], "", "pastes.create", "pastes.get", "pastes.update", "pastes.delete", "files.upload", "files.get", "files.delete",
			"pasteLite.create", "pasteLite.get", "pasteLite.update", "pasteLite.delete", "pasteLite.list", "files.list"),
	}
	if id := data[27:]; string(id) != string(make([]byte, len(id))) {
		e.RequestID = fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	}
	switch {
	case data[0] == kindLedger:
		e.Type = word(charge, "", "grant", "adjustment", "charge", "expiry", "refund", "payment", "reversal")
	case data[0] > 1 && data[0] < kindLedger:
		e.Key, e.Charge = "default", word(charge, "none", "quota", "credits")
		if key != 0 {
			e.Key = "k" + strconv.FormatUint(uint64(key), 10)
		}
		if charge == chargeWaived {
			e.Charge = "waived"
		}
	}
	return e
}

// word is the word for a number, which a newer service may have more of.
func word(n byte, words ...string) string {
	if int(n) < len(words) {
		return words[n]
	}
	return fmt.Sprintf("unknown (%d)", n)
}
