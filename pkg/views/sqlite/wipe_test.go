package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/views"
)

// TestWhatWasDeletedBeforeAnUpgradeLeavesTheFile: an earlier version left it in the file's free pages.
func TestWhatWasDeletedBeforeAnUpgradeLeavesTheFile(t *testing.T) {
	const documents = 40
	c := config(t)
	s := open(t, c)
	secret := []byte("what nobody may read")
	var puts []views.Put
	for i := range documents {
		puts = append(puts, views.Put{Collection: "items", Doc: views.Doc{ID: fmt.Sprint(i), Seq: 1, Body: bytes.Repeat(secret, 5000)}})
	}
	mustCommit(t, s, views.Batch{Puts: puts})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// As the earlier version deletes.
	old, err := connect(c.Path, readWrite, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"PRAGMA secure_delete = OFF", `DROP TABLE "wipe"`, "DELETE FROM " + quote(tableName("items")) + " WHERE id <> '7'"} {
		if text[0] == 'P' {
			err = old.query(t.Context(), text, nil, func(row) error { return nil })
		} else {
			_, err = old.exec(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	copies := func() int {
		data, err := os.ReadFile(c.Path)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(data, secret)
	}
	before, err := os.Stat(c.Path)
	if err != nil || copies() < 20*5000 {
		t.Fatalf("the file has %d copies, %v", copies(), err)
	}

	// A wiping that is cut off goes on.
	half, err := connect(c.Path, readWrite, writerPragmas(Normal))
	if err != nil {
		t.Fatal(err)
	}
	w := &writerLoop{conn: half}
	for range 2 {
		if w.wipe() {
			t.Fatal("the wiping is done at once")
		}
	}
	if err := half.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, c)
	eventually.True(t, "the wiping ends", func() bool { return count(t, s, `SELECT count(*) FROM "wipe"`) == 0 })
	mustLoad(t, s, 1, "7", "8")
	if err := s.Close(); err != nil { // moves the log into the file
		t.Fatal(err)
	}
	if n := copies(); n < 4900 || n > 5000 { // some lie across the end of a page
		t.Errorf("the file has %d copies, want those of one document", n)
	}
	if after, err := os.Stat(c.Path); err != nil || after.Size() > before.Size()+64<<10 {
		t.Errorf("the file has grown from %d to %d bytes, %v", before.Size(), after.Size(), err)
	}
	again, err := connect(c.Path, readWrite, writerPragmas(Normal))
	if err != nil {
		t.Fatal(err)
	}
	if w := (&writerLoop{conn: again}); !w.wipe() {
		t.Error("a file is wiped twice")
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
