package billing_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/projection"
)

// forgeEntries replaces the stored entries of alice by blocks with other ones.
func (s *stack) forgeEntries(change func(projection.EntryRun) []projection.EntryRun) {
	s.t.Helper()
	p := projection.New(s.views, "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	blocks, err := p.EntryBlocks(s.t.Context(), event.AccountID(alice))
	if err != nil || len(blocks) == 0 {
		s.t.Fatalf("%d blocks, %v", len(blocks), err)
	}
	all, err := p.EntriesAfter(s.t.Context(), event.AccountID(alice), 0, views.MaxList)
	if err != nil || all.Len() < 3 {
		s.t.Fatalf("%d entries from %d, %v", all.Len(), all.First, err)
	}
	var batch views.Batch
	for _, b := range blocks {
		batch.Deletes = append(batch.Deletes, views.Delete{Collection: projection.Entries, ID: b.ID, Seq: b.Seq})
	}
	last := blocks[len(blocks)-1]
	for i, run := range change(all) {
		doc := last
		doc.ID += strings.Repeat("x", i+1)
		doc.Keys = slices.Clone(doc.Keys)
		doc.Keys[slices.IndexFunc(doc.Keys, func(k views.Key) bool { return k.Name == "number" })].Value = views.Int(int64(run.First) + int64(run.Len()) - 1)
		projection.EncodeEntries(&doc, &run)
		batch.Puts = append(batch.Puts, views.Put{Collection: projection.Entries, Doc: doc})
	}
	if err := s.views.Commit(s.t.Context(), batch); err != nil {
		s.t.Fatal(err)
	}
}

// part is the run of n entries after the first ones.
func part(run projection.EntryRun, skipped, n int) projection.EntryRun {
	const size = event.EntryBytes
	return projection.EntryRun{First: run.First + uint64(skipped), Before: run.After(skipped), Data: slices.Clone(run.Data[skipped*size : (skipped+n)*size])}
}

// TestTheAuditNamesTamperedEntries: by the first number that does not fit the chain, or the last one that a wrong hash is after. Only
// a part of the chain from some number on is right: older entries are deleted.
func TestTheAuditNamesTamperedEntries(t *testing.T) {
	slow(t)
	t.Parallel()
	const size = event.EntryBytes
	type run = projection.EntryRun
	for _, c := range []struct {
		name   string
		change func(all run, n int) []run
		want   string // of the difference; empty: none
	}{
		{"split", func(all run, n int) []run { return []run{part(all, 0, 2), part(all, 2, n-2)} }, ""},
		{"first deleted", func(all run, n int) []run { return []run{part(all, 2, n-2)} }, ""},
		{"edited", func(all run, n int) []run {
			all.Data[size+15]++
			return []run{all}
		}, "entries hash"},
		{"edited in another block", func(all run, n int) []run {
			first := part(all, 0, 2)
			first.Data[size+15]++
			return []run{first, part(all, 2, n-2)}
		}, "entries hash"},
		{"swapped", func(all run, n int) []run {
			copy(all.Data, slices.Concat(all.Data[size:2*size], all.Data[:size]))
			return []run{all}
		}, "entries hash"},
		{"one deleted", func(all run, n int) []run { return []run{part(all, 0, 1), part(all, 2, n-2)} }, "entries  present missing"},
		{"newest deleted", func(all run, n int) []run { return []run{part(all, 0, n-1)} }, "entries  present missing"},
		{"doubled", func(all run, n int) []run { return []run{part(all, 0, 2), part(all, 1, n-1)} }, "entries  missing present"},
		{"one made up", func(all run, n int) []run {
			all.Data = append(all.Data, all.Data[:size]...)
			return []run{all}
		}, "entries  missing present"},
		{"forged beginning", func(all run, n int) []run {
			rest := part(all, 2, n-2)
			rest.Before[0]++
			return []run{rest}
		}, "entries hash"},
		{"damaged", nil, "entries  as billing wrote it"},
	} {
		for _, way := range []string{"stopped", "running"} {
			t.Run(c.name+"/"+way, func(t *testing.T) {
				s, cfg := books(t)
				tamper := func() {
					if c.change == nil {
						s.exec(`UPDATE "doc.billing_entries" SET body = x'00' WHERE number = (SELECT max(number) FROM "doc.billing_entries" WHERE id LIKE ? || '%')`,
							event.AccountID(alice).String())
						return
					}
					s.forgeEntries(func(all run) []run { return c.change(all, all.Len()) })
				}
				if way == "stopped" {
					tamper()
				}
				s.start(cfg, later)
				if way == "running" {
					if a := s.audit(); !a.Match {
						t.Fatalf("before: %v", a)
					}
					tamper()
				}
				a := s.audit()
				if c.want == "" {
					if !a.Match {
						t.Errorf("%v", a)
					}
				} else if a.Match || !names(a, alice, c.want) || differing(a, "entries") != 1 {
					t.Errorf("want %q: %v", c.want, a)
				}
			})
		}
	}
}
