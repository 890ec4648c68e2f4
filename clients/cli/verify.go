package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quire.dev/cli/internal/profile"
	"quire.dev/cli/internal/terminal"
	"quire.dev/client"
)

// keptReceipts are the receipts of the account's key at its service.
func (a *app) keptReceipts(as account) (*profile.Receipts, error) {
	store, err := a.store()
	if err != nil {
		return nil, err
	}
	return store.Receipts(cleanURL(as.url), as.key), nil
}

// keepReceipt keeps the newest receipt of the command's calls. A failure is a warning: the calls were carried out. Without a folder for
// profiles nothing is kept.
func (a *app) keepReceipt(ctx context.Context) {
	if a.connected == nil || a.connected.NewestReceipt() == "" {
		return
	}
	if kept, err := a.keptReceipts(a.connectedAs); err == nil {
		a.warn(keep(ctx, func() error { return kept.See(a.connected.NewestReceipt()) }))
	}
}

// warn prints why receipts were not kept, if there is a reason.
func (a *app) warn(err error) {
	if err != nil {
		a.note("The receipt was not kept: %v", err)
	}
}

// keep changes the kept receipts, also after Ctrl-C. It does not wait long for another process that changes them.
func keep(ctx context.Context, change func() error) error {
	const lockTimeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockTimeout)
	defer cancel()
	_, err := terminal.Await(ctx, func() (struct{}, error) { return struct{}{}, change() })
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("another process has locked the receipts for %s", lockTimeout)
	}
	return err
}

// verifiedJSON is what usage --verify prints with --json.
type verifiedJSON struct {
	After   *string        `json:"after"`  // receipt from which on entries were verified; null if none was kept
	Newest  *string        `json:"newest"` // receipt with the last of them; null if the account has none
	Entries int            `json:"entries"`
	Calls   int64          `json:"calls"`
	Credits client.Credits `json:"credits"`
}

// verify compares the entries behind the account's receipts with the kept ones. reset discards these first.
func (a *app) verify(ctx context.Context, reset bool) error {
	c, as, err := a.connect()
	if err != nil {
		return err
	}
	receipts, err := a.keptReceipts(as)
	if err != nil {
		return err
	}
	kept, err := receipts.Get()
	if err != nil {
		return err
	}
	if !reset && kept == (profile.Kept{}) {
		a.note("No receipt was kept yet.")
	}
	if reset || kept == (profile.Kept{}) {
		return a.beginReceipts(ctx, c, as, receipts)
	}
	verified, err := c.Account.VerifyReceipts(ctx, kept.Verified, kept.Newest)
	if errors.As(err, new(*client.ReceiptError)) {
		a.warn(keep(ctx, func() error { return receipts.Mismatched(kept) }))
	}
	if err != nil {
		return unverified(receipts, reached(as, err))
	}
	if err := a.showVerified(kept.Verified, verified); err != nil {
		return err
	}
	a.warn(keep(ctx, func() error { return receipts.Verified(kept, verified.Newest) }))
	return nil
}

// beginReceipts keeps the service's newest receipt, instead of those before.
func (a *app) beginReceipts(ctx context.Context, c *client.Client, as account, receipts *profile.Receipts) error {
	page, err := c.Account.Receipts(ctx, client.ReceiptsQuery{PageSize: 1})
	if err != nil {
		return reached(as, err)
	}
	shown, text := verifiedJSON{}, "Nothing was verified: the account has no entries yet."
	if page.Newest != "" {
		number, err := client.ReceiptNumber(page.Newest)
		if err != nil {
			return err
		}
		shown.Newest = &page.Newest
		text = fmt.Sprintf("Nothing was verified. Receipt %d, the service's newest, is now kept: the next --verify begins with it.", number)
	}
	if err := keep(ctx, func() error { return receipts.Restart(page.Newest) }); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(shown)
	}
	return a.print(text)
}

func (a *app) showVerified(after string, v *client.VerifiedReceipts) error {
	shown := verifiedJSON{After: &after, Newest: &v.Newest, Entries: len(v.Entries)}
	shown.Calls, shown.Credits = counted(v.Entries)
	if a.json {
		return a.printJSON(shown)
	}
	last, err := client.ReceiptNumber(v.Newest)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("No new entries. Receipt %d is still the newest.", last)
	if len(v.Entries) > 0 {
		text = fmt.Sprintf("Verified %s, up to %d: %s and %s credits, refunds deducted.", entries(shown.Entries), last, count(int(shown.Calls), "call"), shown.Credits)
	}
	return a.print(text + fmt.Sprintf("\nNot proven: that entries were right when they were made, that calls without a receipt were not counted, and entries after %d.", last))
}

func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// counted are the calls that entries counted, and the credits that these cost, as docs/journal.md (Receipts) has it. Refunds may be of
// earlier entries.
func counted(entries []*client.ChainEntry) (calls int64, credits client.Credits) {
	for _, e := range entries {
		switch e.Kind {
		case "admitted":
			calls, credits = calls+1, credits+e.Amount
		case "late":
			if e.Charge != "waived" {
				calls, credits = calls+1, credits+e.Amount
			}
		case "undone":
			calls, credits = calls-1, credits-e.Amount
		case "free":
			credits -= e.Amount
		}
	}
	return calls, credits
}

// hintedError is an error with its code for --json, and with what the user can do.
type hintedError struct {
	error
	code, hint string
}

// Unwrap is the error.
func (e *hintedError) Unwrap() error { return e.error }

const startAnew = "To start anew with the service's newest receipt, run quire paste usage --verify --reset."

// unverified adds to the failure of a verification what to do about it.
func unverified(receipts *profile.Receipts, err error) error {
	var mismatch *client.ReceiptError
	switch {
	case errors.As(err, &mismatch):
		hint := fmt.Sprintf("The receipts that show it stay in %s: copy the file. %s", receipts.Path(), startAnew)
		if mismatch.Number > mismatch.After {
			hint = fmt.Sprintf("The last receipt that fits is %d. ", mismatch.After) + hint
		}
		return &hintedError{err, "receipt_mismatch", hint}
	case errors.As(err, new(*client.EntriesNotKeptError)):
		return &hintedError{err, "entries_not_kept", "The operator's journal still has them. " + startAnew}
	}
	return err
}
