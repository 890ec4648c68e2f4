package standalone

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"quire.dev/pkg/archived/archivedtest"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/host"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/segment"
	"quire.dev/services/standalone/internal/export"
)

// trim has the billing journals of a data folder that no process uses begin later, with drawn messages: one of them with what is not
// archived. It returns the first sequences.
func (a *archivedInstallation) trim(t *testing.T, random *rand.Rand) (firsts []uint64) {
	t.Helper()
	cfg, err := host.ReadSettings(host.Quire, append(slices.Clip(a.settings), "QUIRE_DATA="+a.folder))
	if err != nil {
		t.Fatal(err)
	}
	whole := random.IntN(len(a.journals))
	err = withJournals(t.Context(), cfg, Deps{Logger: slog.New(slog.DiscardHandler)}, false, func(ctx context.Context, from export.Source) error {
		for p := range a.journals {
			state, err := journal.Open(from.NC, event.Billing.Stream(p)).State(ctx)
			if err != nil {
				return err
			}
			stream := installation.Stream(event.Billing, p)
			archived, err := segment.List(ctx, disk.Reading(a.blobs), stream.Name)
			if err != nil {
				return err
			}
			first := archived.Last() + 1
			if p != whole && first > state.First {
				first = state.First + 1 + random.Uint64N(first-state.First)
			}
			if stream.Installation, err = installation.Journals(from.NC, stream.Name).Owner(ctx); err != nil {
				return err
			}
			archivedtest.Trim(t, from.NC, stream, len(a.journals), first)
			firsts = append(firsts, first)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return firsts
}

// begins returns the first sequences of the billing journals beside a running process.
func (a *archivedInstallation) begins(t *testing.T, folder string) (firsts []uint64) {
	t.Helper()
	cfg, err := host.ReadSettings(host.Quire, append(slices.Clip(a.settings), "QUIRE_DATA="+folder))
	if err != nil {
		t.Fatal(err)
	}
	err = withJournals(t.Context(), cfg, Deps{Logger: slog.New(slog.DiscardHandler)}, false, func(ctx context.Context, from export.Source) error {
		for p := range a.journals {
			state, err := journal.Open(from.NC, event.Billing.Stream(p)).State(ctx)
			if err != nil {
				return err
			}
			firsts = append(firsts, state.First)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return firsts
}

// explains are the explanations of requests, by an operator.
func (a *archivedInstallation) explains(t *testing.T, folder string, requests []string) (all []string) {
	t.Helper()
	for _, request := range requests {
		out, errs, code := quire(t, folder, a.settings, "explain", request)
		if code != 0 {
			t.Fatalf("explain %s: %d %q %q", request, code, out, errs)
		}
		all = append(all, out)
	}
	return all
}

// clone is a copy that may be changed.
func (a *archivedInstallation) clone(t *testing.T) *archivedInstallation {
	t.Helper()
	c := *a
	c.folder = filepath.Join(t.TempDir(), "data")
	c.blobs = filepath.Join(c.folder, "blobs")
	socket := os.Remove(filepath.Join(a.folder, "journal.sock")) // can't be copied
	if errors.Is(socket, fs.ErrNotExist) {
		socket = nil // another test has a copy
	}
	if err := errors.Join(socket, os.CopyFS(c.folder, os.DirFS(a.folder))); err != nil {
		t.Fatal(err)
	}
	return &c
}

// drawnRequests draws admitted requests of an export.
func drawnRequests(t *testing.T, folder string, journals []export.Journal, random *rand.Rand) (requests []string) {
	t.Helper()
	for _, j := range journals {
		file, err := os.Open(filepath.Join(folder, j.File))
		if err != nil {
			t.Fatal(err)
		}
		for lines := json.NewDecoder(file); ; {
			var m struct {
				Subject string
				Data    []byte
			}
			if err := lines.Decode(&m); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			batch := &event.UsageBatch{}
			if m.Subject != event.UsageSubject(j.Partition) || event.Decode(m.Data, batch) != nil {
				continue
			}
			for _, admission := range batch.Admissions {
				id, err := event.RequestIDFrom(admission.RequestId)
				if err != nil {
					t.Fatal(err)
				}
				requests = append(requests, id.String())
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	random.Shuffle(len(requests), func(i, k int) { requests[i], requests[k] = requests[k], requests[i] })
	return requests[:4]
}

// drawn returns a copy that may be changed, drawn requests of it, and their explanations.
func (a *archivedInstallation) drawn(t *testing.T) (changing *archivedInstallation, random *rand.Rand, requests, explained []string) {
	t.Helper()
	seed := rand.Uint64()
	t.Log("seed", seed)
	random = rand.New(rand.NewPCG(seed, 0))
	changing = a.clone(t)
	exported := filepath.Join(t.TempDir(), "export")
	requests = drawnRequests(t, exported, exportTo(t, changing.folder, a.settings, exported).Journals, random)
	c := launch(t, changing.folder, a.settings...)
	explained = changing.explains(t, changing.folder, requests)
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return changing, random, requests, explained
}

// beginsLater has journals that begin later show, audit, explain, export, back up and restore the same.
func (a *archivedInstallation) beginsLater(t *testing.T) {
	a, random, requests, want := a.drawn(t)
	a.journals = a.export(t, a.folder) // with what the start has added

	firsts := a.trim(t, random)
	t.Log("the journals begin with", firsts)
	if got := a.export(t, a.folder); !reflect.DeepEqual(got, a.journals) {
		t.Fatalf("exported are\n%+v\nbefore:\n%+v", got, a.journals)
	}
	c := launch(t, a.folder, a.settings...)
	if got := a.begins(t, a.folder); !slices.Equal(got, firsts) {
		t.Errorf("the journals begin with %v, want %v", got, firsts)
	}
	if got := a.explains(t, a.folder, requests); !slices.Equal(got, want) {
		t.Errorf("explained:\n%s\nbefore:\n%s", got, want)
	}
	passesDoctor(t, a.folder, a.settings)
	a.use(t, c.base)
	if err := c.end(t, syscall.SIGKILL); err == nil {
		t.Fatal("it was not killed")
	}
	if err := os.RemoveAll(filepath.Join(a.blobs, "keys", "billing")); err != nil { // all snapshots, and seals of months
		t.Fatal(err)
	}
	c = launch(t, a.folder, a.settings...)
	a.goesOn(t, c, a.folder)
	a.restored(t, random, requests, want)
	a.lacking(t)
}

// restored backs the installation up, twice, and restores the backup: journals that begin later, with their archive.
func (a *archivedInstallation) restored(t *testing.T, random *rand.Rand, requests, want []string) {
	t.Helper()
	place := filepath.Join(t.TempDir(), "backup")
	var firsts []uint64
	for round := range 2 {
		c := launch(t, a.folder, a.settings...)
		if out, errs, code := quire(t, a.folder, a.settings, "backup", "--to", place); code != 0 {
			t.Fatalf("backup: %d %q %q", code, out, errs)
		}
		firsts = a.begins(t, a.folder)
		if err := c.end(t, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			a.serve(t, a.settings, func(base string) { a.use(t, base) })
			a.trim(t, random)
		}
	}
	if out, errs, code := quire(t, a.folder, a.settings, "backup", "verify", "--from", place); code != 0 {
		t.Errorf("backup verify: %d %q %q", code, out, errs)
	}
	folder := filepath.Join(t.TempDir(), "restored")
	if out, errs, code := quire(t, folder, a.settings, "restore", "--from", place); code != 0 {
		t.Fatalf("restore: %d %q %q", code, out, errs)
	}
	c := launch(t, folder, a.settings...)
	for p, first := range a.begins(t, folder) {
		if first > firsts[p] || first == 1 {
			t.Errorf("BILLING_%d begins with %d, restored from one that began with %d", p, first, firsts[p])
		}
	}
	if got := a.explains(t, folder, requests); !slices.Equal(got, want) {
		t.Errorf("explained once restored:\n%s\nbefore:\n%s", got, want)
	}
	agrees(t, folder)
	a.goesOn(t, c, folder)
}

// lacking is without a segment that has what the journal does not: nothing starts, and the message says what is missing. What a kill
// left of a deleted generation is kept until the segments are there.
func (a *archivedInstallation) lacking(t *testing.T) {
	t.Helper()
	deleted := filepath.Join(a.folder, "deleted")
	for p := range a.journals {
		stream := event.Billing.Stream(p)
		folder := filepath.Join(a.blobs, "keys", "archive", stream)
		aside := filepath.Join(t.TempDir(), stream)
		if err := os.Rename(folder, aside); err != nil {
			t.Fatal(err)
		}
		gone := a.halfDeleted(t, stream)
		if out, errs, code := quire(t, a.folder, append(slices.Clip(a.settings), "QUIRE_LISTEN=127.0.0.1:0")); code == 0 || !strings.Contains(errs, "of "+stream+" are missing from the archive") {
			t.Errorf("a start without the archive of %s: %d %q %q", stream, code, out, errs)
		}
		if kept, err := filepath.Glob(filepath.Join(deleted, gone+"-*", gone, "msgs")); err != nil || len(kept) != 1 {
			t.Errorf("what was left of %s is kept in %q, %v", gone, kept, err)
		}
		if err := os.Rename(aside, folder); err != nil {
			t.Fatal(err)
		}
	}
	c := launch(t, a.folder, a.settings...)
	eventually.True(t, "what the archive has is deleted", func() bool { _, err := os.Stat(deleted); return errors.Is(err, os.ErrNotExist) })
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, c.stderr)
	}
}

// halfDeleted makes the folder that a kill leaves of a generation between two steps of the server that deletes it, and returns its name.
func (a *archivedInstallation) halfDeleted(t *testing.T, name string) string {
	t.Helper()
	streams := streamsFolder(t, a.folder)
	gone := journal.OtherStream(name)
	if _, err := os.Stat(filepath.Join(streams, name)); errors.Is(err, os.ErrNotExist) {
		name, gone = gone, name
	}
	if err := os.CopyFS(filepath.Join(streams, gone), os.DirFS(filepath.Join(streams, name))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(streams, gone, "msgs", "99.blk"), make([]byte, 100), 0o600); err != nil { // the other may have no messages
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(streams, gone, "meta.inf")); err != nil {
		t.Fatal(err)
	}
	return gone
}
