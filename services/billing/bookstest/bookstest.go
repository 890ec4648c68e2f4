// Package bookstest computes books from a journal alone, for tests that compare them with exported ones. It is apart from package
// billing since tests of other modules fold too.
package bookstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/bookjson"
	"quire.dev/services/billing/internal/partition"
)

// Lines are the lines of a partition's books as of the last of its messages, which begin with the first one.
func Lines(t testing.TB, number int, messages []journal.Message) (lines []string) {
	t.Helper()
	fold, kinds := account.New(), partition.KindsOf(number)
	ledger, closed := map[uint64][]string{}, map[event.AccountID][]string{}
	for _, m := range messages {
		effects, err := fold.Apply(partition.MessageOf(m, kinds))
		if err != nil && !errors.Is(err, account.ErrUndecodable) {
			t.Fatal(err)
		}
		for _, e := range effects.Ledger {
			data, err := bookjson.Message(e)
			ledger[e.Account] = append(ledger[e.Account], encode(t, bookjson.Line{Ledger: data}, err))
		}
		for _, c := range effects.Closed {
			of, err := bookjson.NewClosed(c.Account, c.Statement)
			closed[c.Account] = append(closed[c.Account], encode(t, bookjson.Line{Closed: of}, err))
		}
	}
	for _, id := range fold.AccountIDs() {
		lines = append(append(lines, ledger[uint64(id)]...), closed[id]...)
		of, err := bookjson.NewAccount(fold.Shown(id))
		lines = append(lines, encode(t, bookjson.Line{Account: of}, err))
	}
	return lines
}

func encode(t testing.TB, line bookjson.Line, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(line); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
