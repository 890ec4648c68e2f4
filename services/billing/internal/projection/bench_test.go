package projection

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/pkg/views/sqlite/sqlitetest"
	"quire.dev/services/billing/internal/account"
)

// BenchmarkRequests writes requests with their ends and reports into SQLite, and reports what one takes on disk: in commits of 5,000
// requests of one account, of 50 accounts with 100 requests each, and of 5,000 accounts.
func BenchmarkRequests(b *testing.B) {
	const batch = 5000
	const together = 50 // in a message
	for _, accounts := range []int{1, 50, 5000} {
		b.Run(fmt.Sprintf("accounts=%d", accounts), func(b *testing.B) {
			b.ReportAllocs()
			dir := b.TempDir()
			store, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(dir, "v.db"), Collections: Collections()})
			if err != nil {
				b.Fatal(err)
			}
			p := New(store, "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
			var e account.Effects
			var reports []Report
			n, sequence := 0, uint64(0)
			for b.Loop() {
				c := decided(event.AccountID(n%accounts+1), event.NewRequestID(), noon+int64(n/together))
				end := c
				end.Decided, end.Paid, end.Status = false, false, account.SettlementServed
				e.Requests = append(e.Requests, c, end)
				report := reported(c.Account, c.Request, c.TimeMillis, 200)
				report.Path, report.Error = fmt.Sprintf("/api/dev/paste-lite/get/%012x", rand.Int64N(1<<48)), ""
				reports = append(reports, report)
				if n++; n%together != 0 {
					continue
				}
				sequence++
				err := p.Push(b.Context(), sequence, e)
				p.Report(reports)
				reports = reports[:0]
				if n%batch == 0 {
					err = errors.Join(err, p.Flush(b.Context()))
				}
				if err != nil {
					b.Fatal(err)
				}
				e.Requests = e.Requests[:0]
			}
			if err := errors.Join(p.Flush(b.Context()), store.Close()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(sizeOf(b, dir))/float64(n), "disk-B/op")
		})
	}
}

// sizeOf is the number of bytes that the files in a folder have.
func sizeOf(b *testing.B, dir string) (size int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		size += info.Size()
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return size
}

// BenchmarkEntries writes entries of chains into SQLite, and reports what one takes on disk: in commits of 5,000 entries of one account,
// of 50 accounts with 100 entries each, and of 5,000 accounts.
func BenchmarkEntries(b *testing.B) {
	const batch = 5000
	const together = 50 // in a message
	for _, accounts := range []int{1, 50, 5000} {
		b.Run(fmt.Sprintf("accounts=%d", accounts), func(b *testing.B) {
			b.ReportAllocs()
			dir := b.TempDir()
			store, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(dir, "v.db"), Collections: Collections()})
			if err != nil {
				b.Fatal(err)
			}
			p := New(store, "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
			numbers := make([]uint64, accounts)
			var e account.Effects
			n, sequence := 0, uint64(0)
			for b.Loop() {
				of := event.Entry{
					Kind: event.EntryAdmitted, TimeMs: noon + int64(n/together), Month: 202611, QuotaKey: 2, Charge: uint8(event.ChargeSource_CHARGE_QUOTA),
					Request: event.NewRequestID(),
				}
				numbers[n%accounts]++
				entry := account.AccountEntry{Account: event.AccountID(n%accounts + 1), Number: numbers[n%accounts]}
				of.Encode(&entry.Data)
				e.Entries = append(e.Entries, entry)
				if n++; n%together != 0 {
					continue
				}
				sequence++
				err := p.Push(b.Context(), sequence, e)
				if n%batch == 0 {
					err = errors.Join(err, p.Flush(b.Context()))
				}
				if err != nil {
					b.Fatal(err)
				}
				e.Entries = e.Entries[:0]
			}
			if err := errors.Join(p.Flush(b.Context()), store.Close()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(sizeOf(b, dir))/float64(n), "disk-B/op")
		})
	}
}

// BenchmarkLedger writes charges into SQLite, ages them a year later, and reports what a row takes on disk before and after that: of one
// account with a charge in each message, and of 50 and 5,000 accounts that take turns.
func BenchmarkLedger(b *testing.B) {
	const batch = 5000
	for _, accounts := range []int{1, 50, 5000} {
		b.Run(fmt.Sprintf("accounts=%d", accounts), func(b *testing.B) {
			dir := b.TempDir()
			path := filepath.Join(dir, "v.db")
			store, err := sqlite.Open(b.Context(), sqlite.Config{Path: path, Collections: Collections()})
			if err != nil {
				b.Fatal(err)
			}
			p := New(store, "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
			n := 0
			for b.Loop() {
				n++
				request, at := event.NewRequestID(), noon+int64(n)
				err := p.Push(b.Context(), uint64(n), account.Effects{Ledger: []*event.LedgerEntry{{
					Id: account.LedgerID(uint64(n), 0), Account: uint64(n%accounts + 1), TimeMs: at, SettledMs: at + 25, Type: event.LedgerType_LEDGER_CHARGE,
					QuotaKey: 5, AmountMicros: -5000, BalanceMicros: 1e12 - int64(n)*5000, RequestId: request[:], AdmittedBefore: 1, AdmittedIndex: 1,
				}}})
				if n%batch == 0 {
					err = errors.Join(err, p.Flush(b.Context()))
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			if err := p.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			sqlitetest.Vacuum(b, path)
			b.ReportMetric(float64(sizeOf(b, dir))/float64(n), "stored-B/op")
			for _, later := range []time.Duration{0, agedDelay} {
				for id := range min(accounts, n) {
					_, err := p.AgeLedger(b.Context(), event.AccountID(id+1), time.UnixMilli(noon).AddDate(1, 0, 0), time.UnixMilli(noon).Add(later))
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := store.Close(); err != nil {
				b.Fatal(err)
			}
			for _, table := range []string{"doc", "ids"} { // as the store does an hour later
				sqlitetest.Exec(b, path, `DELETE FROM "`+table+`.billing_ledger"`)
			}
			sqlitetest.Vacuum(b, path)
			b.ReportMetric(float64(sizeOf(b, dir))/float64(n), "aged-B/op")
		})
	}
}
