package sqlite_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite"
)

// TestDeletedContentLeavesTheFiles of a store to which nothing else is written: neither the file nor its log has it, even for
// those who read the disk.
func TestDeletedContentLeavesTheFiles(t *testing.T) {
	folder := t.TempDir()
	store, err := sqlite.Open(t.Context(), sqlite.Config{
		Path: filepath.Join(folder, "views.db"), Collections: []views.Collection{{Name: "paste"}}, EmptyLog: 5 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	secret := func(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "what nobody may read %d ", i), 500) }
	holding := func(text []byte) (names []string) {
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(filepath.Join(folder, file.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(data, text) {
				names = append(names, file.Name())
			}
		}
		return names
	}
	for i := range 3 {
		text := secret(i)
		put := views.Batch{Puts: []views.Put{{Collection: "paste", Doc: views.Doc{ID: fmt.Sprint(i), Seq: 1, Body: text}}}}
		if err := store.Commit(t.Context(), put); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "the log is in the file", func() bool {
			names := holding(text[:20])
			return len(names) == 1 && names[0] == "views.db"
		})
		remove := views.Batch{Deletes: []views.Delete{{Collection: "paste", ID: fmt.Sprint(i), Seq: 2}}}
		if i == 2 { // replaced is as good as deleted
			remove = views.Batch{Puts: []views.Put{{Collection: "paste", Doc: views.Doc{ID: fmt.Sprint(i), Seq: 2, Body: []byte("new")}}}}
		}
		if err := store.Commit(t.Context(), remove); err != nil {
			t.Fatal(err)
		}
		eventually.NoError(t, "it has left", func() error {
			if names := holding(text[:20]); len(names) > 0 {
				return fmt.Errorf("it is in %v", names)
			}
			return nil
		})
	}
}

// TestDeletedContentLeavesTheLogOfAKilledProcess at the next start, although nothing is written then.
func TestDeletedContentLeavesTheLogOfAKilledProcess(t *testing.T) {
	open := func(folder string, emptyLog time.Duration) *sqlite.Store {
		t.Helper()
		store, err := sqlite.Open(t.Context(), sqlite.Config{
			Path: filepath.Join(folder, "views.db"), Collections: []views.Collection{{Name: "paste"}}, EmptyLog: emptyLog,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return store
	}
	folder, killed := t.TempDir(), t.TempDir()
	store := open(folder, time.Hour)
	text := bytes.Repeat([]byte("what nobody may read "), 500)
	for _, b := range []views.Batch{
		{Puts: []views.Put{{Collection: "paste", Doc: views.Doc{ID: "1", Seq: 1, Body: text}}}},
		{Deletes: []views.Delete{{Collection: "paste", ID: "1", Seq: 2}}},
	} {
		if err := store.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(killed, "views.db-wal")
	for _, name := range []string{"views.db", "views.db-wal"} { // as they are left by a process that ends now
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(killed, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(log); err != nil || !bytes.Contains(data, text[:20]) {
		t.Fatalf("the log does not have it: %v", err)
	}
	open(killed, 5*time.Millisecond)
	eventually.NoError(t, "it has left", func() error {
		data, err := os.ReadFile(log)
		if err == nil && bytes.Contains(data, text[:20]) {
			err = fmt.Errorf("it is in a log of %d bytes", len(data))
		}
		return err
	})
}
