package sqlite

import (
	"errors"
	"os"
	"strings"
	"testing"
)

const pageSize = 4096

// overwritten returns a configuration over a copy of the file of c with other bytes in one page.
func overwritten(t *testing.T, c Config, page int64) Config {
	t.Helper()
	to := copied(t, c)
	f, err := os.OpenFile(to.Path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte(strings.Repeat("damage..", pageSize/8)), (page-1)*pageSize)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return to
}

// openAndCheck opens the file and returns the error of that, or else of its check.
func openAndCheck(t *testing.T, c Config) error {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil {
		return err
	}
	return errors.Join(s.Check(t.Context()), s.Close())
}

// TestTheCheckBesideWorkFindsTheSame damages each tenth page of a file that a crash left.
func TestTheCheckBesideWorkFindsTheSame(t *testing.T) {
	c := config(t)
	s := open(t, c)
	mustCommit(t, s, batch(0, 1, 2000, 200))
	mustCommit(t, s, batch(1, 2, 20, 20_000))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	pages, found := info.Size()/pageSize, 0
	for page := int64(2); page <= pages; page += 10 {
		damaged := overwritten(t, c, page)
		damaged.CheckAtOnce = 1
		if err := os.WriteFile(checkMark(damaged.Path), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		ro, err := connect(damaged.Path, readOnly, nil)
		if err != nil {
			t.Fatal(err)
		}
		whole := wholeCheck(t.Context(), ro)
		if err := ro.Close(); err != nil {
			t.Fatal(err)
		}
		beside := openAndCheck(t, damaged)
		if whole != nil && !errors.Is(beside, ErrDamaged) {
			t.Errorf("page %d of %d: %v, but the check of the whole file says %v", page, pages, beside, whole)
		}
		if whole == nil {
			continue
		}
		found++
		if s, err := Open(t.Context(), damaged); !errors.Is(err, ErrDamaged) {
			t.Errorf("page %d: the file is opened again: %v", page, err)
			if err == nil {
				_ = s.Close()
			}
		}
	}
	if found < int(pages)/20 {
		t.Errorf("%d damaged pages of %d were found", found, pages/10)
	}
}

// TestALargeFileIsCheckedInTheEnd: a clean close does not end the check of a file that was not closed cleanly before.
func TestALargeFileIsCheckedInTheEnd(t *testing.T) {
	c := uncleanCopy(t)
	c.CheckAtOnce = 1
	for range 2 {
		s := open(t, c)
		mustLoad(t, s, 2, "1-1999", "2-0")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(checkMark(c.Path)); err != nil {
			t.Fatalf("the file was closed before its check: %v", err)
		}
	}
	if err := openAndCheck(t, c); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(checkMark(c.Path)); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the file was checked: %v", err)
	}
	s := open(t, c)
	if s.unchecked {
		t.Error("the file is to be checked again")
	}
}

// TestASmallFileIsCheckedFirst: nothing is changed in one that is damaged (TestRefusedFilesAreNotChanged).
func TestASmallFileIsCheckedFirst(t *testing.T) {
	s := open(t, uncleanCopy(t))
	if s.unchecked {
		t.Error("a file of a megabyte is checked later")
	}
}

// TestAFileThatWasFoundDamagedIsCheckedFirst: a backup in its place is opened, although the mark is still there.
func TestAFileThatWasFoundDamagedIsCheckedFirst(t *testing.T) {
	c := uncleanCopy(t)
	c.CheckAtOnce = 1
	if err := mark(c.Path, foundDamage); err != nil {
		t.Fatal(err)
	}
	needed, err := neededChecks(c.Path, 2, 1)
	if err != nil || !needed.first || !needed.later {
		t.Errorf("%+v, %v", needed, err)
	}
	if err := openAndCheck(t, c); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(checkMark(c.Path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark: %v", err)
	}
}
