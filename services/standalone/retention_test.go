package standalone

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/host"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/services/standalone/internal/export"
)

// generations returns those of each billing journal, beside a running process.
func (a *archivedInstallation) generations(t *testing.T) (all [][]journal.Generation) {
	t.Helper()
	cfg, err := host.ReadSettings(host.Quire, append(slices.Clip(a.settings), "QUIRE_DATA="+a.folder))
	if err != nil {
		t.Fatal(err)
	}
	err = withJournals(t.Context(), cfg, Deps{Logger: slog.New(slog.DiscardHandler)}, false, func(ctx context.Context, from export.Source) error {
		for p := range a.journals {
			list, err := journal.Generations(ctx, from.NC, installation.Stream(event.Billing, p))
			if err != nil {
				return err
			}
			all = append(all, list)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// untilGenerations waits until something is true of the generations of each journal.
func (a *archivedInstallation) untilGenerations(t *testing.T, what string, is func([]journal.Generation) bool) {
	t.Helper()
	eventually.NoError(t, what, func() error {
		for p, list := range a.generations(t) {
			if !is(list) {
				return fmt.Errorf("BILLING_%d has %+v", p, list)
			}
		}
		return nil
	})
}

// generationsPass closes and deletes generations, kills the process meanwhile, and has everything show, audit, explain, export, back up and
// restore the same.
func (a *archivedInstallation) generationsPass(t *testing.T) {
	a, random, requests, want := a.drawn(t)
	passing := append(slices.Clip(a.settings), "QUIRE_GENERATION_AGE=1s", "QUIRE_JOURNAL_RETENTION=1s")
	deleting := append(slices.Clip(a.settings), "QUIRE_JOURNAL_RETENTION=1s")
	for number := 1; number <= 3; number++ {
		c := launch(t, a.folder, passing...)
		a.use(t, c.base)
		a.untilGenerations(t, "a closed generation", func(list []journal.Generation) bool {
			open := list[len(list)-1]
			return open.Number >= number || open.Last < open.First // nothing is written to this one
		})
		a.use(t, c.base)
		if random.IntN(2) == 0 {
			_ = c.end(t, syscall.SIGKILL)
			c = launch(t, a.folder, passing...)
			a.use(t, c.base)
		}
		for range 2 { // a snapshot and the audit must cover all that is closed: these starts close no generation
			if err := c.end(t, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			c = launch(t, a.folder, deleting...)
		}
		if out, errs, code := quire(t, a.folder, a.settings, "audit", "--new"); code != 0 {
			t.Errorf("audit: %d %q %q", code, out, errs)
		}
		a.untilGenerations(t, "a deleted generation", func(list []journal.Generation) bool { return len(list) == 1 })
		_ = c.end(t, []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[random.IntN(2)])
	}
	c := launch(t, a.folder, a.settings...)
	firsts := a.begins(t, a.folder)
	t.Log("the journals begin with", firsts)
	if slices.Contains(firsts, 1) {
		t.Error("nothing of one was deleted")
	}
	if got := a.explains(t, a.folder, requests); !slices.Equal(got, want) {
		t.Errorf("explained:\n%s\nbefore:\n%s", got, want)
	}
	passesDoctor(t, a.folder, a.settings)
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	before := a.export(t, a.folder)
	if err := os.RemoveAll(filepath.Join(a.blobs, "keys", "billing")); err != nil { // all snapshots, and seals of months
		t.Fatal(err)
	}
	c = launch(t, a.folder, a.settings...)
	a.goesOn(t, c, a.folder)
	written := uint64(0)
	for p, after := range a.export(t, a.folder) {
		if after.Messages < before[p].Messages || before[p].Messages+1 < firsts[p] {
			t.Errorf("the journal begins with %d and had %d messages, and %d later", firsts[p], before[p].Messages, after.Messages)
		}
		written += after.Messages - before[p].Messages
	}
	if written == 0 {
		t.Error("nothing was written")
	}
	a.restored(t, random, requests, want)
	a.lacking(t)
}
