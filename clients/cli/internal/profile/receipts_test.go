package profile

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const exampleService = "https://a.example"

// numbered is a receipt with a number, of one of several chains.
func numbered(number int, chain byte) string {
	return strconv.Itoa(number) + "." + strings.Repeat(fmt.Sprintf("%02x", chain), 32)
}

func keep(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, r *Receipts, want Kept) {
	t.Helper()
	if got, err := r.Get(); err != nil || got != want {
		t.Errorf("%+v %v, want %+v", got, err, want)
	}
}

func TestTheFirstAndTheNewestReceiptAreKept(t *testing.T) {
	t.Parallel()
	s := Open(filepath.Join(t.TempDir(), "quire"), nil)
	r := s.Receipts(exampleService, key)
	want(t, r, Kept{})
	for _, step := range []struct{ seen, newest int }{{5, 5}, {4, 5}, {9, 9}, {8, 9}, {10, 10}} {
		keep(t, r.See(numbered(step.seen, 1)))
		want(t, r, Kept{Verified: numbered(5, 1), Newest: numbered(step.newest, 1)})
	}
	keep(t, r.See(numbered(10, 2))) // a second receipt with the number does not hide the first
	want(t, r, Kept{Verified: numbered(5, 1), Newest: numbered(10, 1)})
	for _, other := range []*Receipts{s.Receipts(exampleService, "qk_other"), s.Receipts("https://b.example", key)} {
		want(t, other, Kept{})
		keep(t, other.See(numbered(1, 3)))
	}
	want(t, r, Kept{Verified: numbered(5, 1), Newest: numbered(10, 1)})
	data, err := os.ReadFile(r.Path())
	if err != nil || strings.Contains(string(data), key) {
		t.Errorf("%v: the key is in %s", err, data)
	}
	for _, path := range []string{r.Path(), r.Path() + ".lock"} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
}

func TestAVerifiedReceiptMovesForwardOnly(t *testing.T) {
	t.Parallel()
	r := Open(t.TempDir(), nil).Receipts(exampleService, key)
	keep(t, r.See(numbered(5, 1)))
	from, err := r.Get()
	keep(t, err)
	keep(t, r.See(numbered(12, 1))) // meanwhile
	keep(t, r.Verified(from, numbered(9, 1)))
	want(t, r, Kept{Verified: numbered(9, 1), Newest: numbered(12, 1)})
	keep(t, r.Verified(from, numbered(8, 1))) // of another process, which began earlier
	want(t, r, Kept{Verified: numbered(9, 1), Newest: numbered(12, 1)})
	keep(t, r.Verified(from, numbered(15, 1)))
	want(t, r, Kept{Verified: numbered(15, 1), Newest: numbered(15, 1)})
}

// TestEvidenceIsNotReplaced: once entries did not fit, the two receipts stay until they fit or the user starts anew.
func TestEvidenceIsNotReplaced(t *testing.T) {
	t.Parallel()
	r := Open(t.TempDir(), nil).Receipts(exampleService, key)
	keep(t, r.See(numbered(5, 1)))
	keep(t, r.See(numbered(9, 1)))
	before, err := r.Get()
	keep(t, err)
	keep(t, r.See(numbered(10, 2))) // meanwhile
	keep(t, r.Mismatched(before))
	evidence := Kept{Verified: numbered(5, 1), Newest: numbered(9, 1), Mismatch: true}
	keep(t, r.See(numbered(11, 2)))
	want(t, r, evidence)
	keep(t, r.Verified(before, numbered(11, 2))) // of another process, which knew nothing of the mismatch
	want(t, r, evidence)
	keep(t, r.Verified(evidence, numbered(11, 1)))
	want(t, r, Kept{Verified: numbered(11, 1), Newest: numbered(11, 1)})
	keep(t, r.Mismatched(before))
	keep(t, r.Restart(numbered(3, 3)))
	want(t, r, Kept{Verified: numbered(3, 3), Newest: numbered(3, 3)})
}

func TestAReceiptsFileThatCantBeReadStays(t *testing.T) {
	t.Parallel()
	entry := func(format int, verified, newest string) string {
		r := Open(t.TempDir(), nil).Receipts(exampleService, key)
		return fmt.Sprintf(`{"format":%d,"services":{%q:{%q:{"verified":%q,"newest":%q}}}}`, format, exampleService, r.keyHash, verified, newest)
	}
	for name, content := range map[string]string{
		"empty":                     "",
		"garbage":                   "\x00garbage",
		"another type":              `[]`,
		"an older format":           entry(0, numbered(5, 1), numbered(9, 1)),
		"a newer format":            entry(2, numbered(5, 1), numbered(9, 1)),
		"no services":               `{"format":1}`,
		"verified is no receipt":    entry(1, "5", numbered(9, 1)),
		"newest is no receipt":      entry(1, numbered(5, 1), ""),
		"verified is beyond newest": entry(1, numbered(9, 1), numbered(8, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Open(t.TempDir(), nil).Receipts(exampleService, key)
			keep(t, os.WriteFile(r.Path(), []byte(content), 0o600))
			_, err := r.Get()
			for _, err := range []error{err, r.See(numbered(20, 1)), r.Restart(numbered(20, 1))} {
				if err == nil || !strings.Contains(err.Error(), r.Path()) {
					t.Errorf("%v", err)
				}
			}
			if data, err := os.ReadFile(r.Path()); err != nil || string(data) != content {
				t.Errorf("it is now %q: %v", data, err)
			}
		})
	}
	r := Open(t.TempDir(), nil).Receipts(exampleService, key)
	keep(t, os.WriteFile(r.Path(), []byte(entry(1, numbered(9, 1), numbered(9, 1))), 0o600))
	want(t, r, Kept{Verified: numbered(9, 1), Newest: numbered(9, 1)})
	// Neither rights nor a file: root may read every file, but no folder.
	r = Open(t.TempDir(), nil).Receipts(exampleService, key)
	keep(t, os.Mkdir(r.Path(), 0o700))
	if err := r.See(numbered(1, 1)); err == nil {
		t.Error("a folder is taken for the file")
	}
}

const variableOfWriter = "QUIRE_TEST_WRITER"

// TestMain runs the test's program as a writer of TestWritersDontUndoEachOther, if the variable has its folder and numbers.
func TestMain(m *testing.M) {
	numbers := strings.Fields(os.Getenv(variableOfWriter))
	if len(numbers) == 0 {
		os.Exit(m.Run())
	}
	r := Open(numbers[0], nil).Receipts(exampleService, numbers[1])
	for _, n := range numbers[2:] {
		number, err := strconv.Atoi(n)
		if err == nil {
			err = r.See(numbered(number, 1))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// TestWritersDontUndoEachOther: processes that keep receipts of one key, and of another, at the same time.
func TestWritersDontUndoEachOther(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	folder := t.TempDir()
	const writers, each = 4, 40
	greatest := map[string]int{}
	var running []*exec.Cmd
	for w := range writers {
		own := fmt.Sprint("qk_", w%2)
		numbers := []string{folder, own}
		for range each {
			n := 1 + random.IntN(1000)
			greatest[own] = max(greatest[own], n)
			numbers = append(numbers, strconv.Itoa(n))
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), variableOfWriter+"="+strings.Join(numbers, " ")), os.Stderr
		keep(t, cmd.Start())
		running = append(running, cmd)
	}
	for _, cmd := range running {
		keep(t, cmd.Wait())
	}
	for own, n := range greatest {
		if got, err := Open(folder, nil).Receipts(exampleService, own).Get(); err != nil || got.Newest != numbered(n, 1) {
			t.Errorf("%s: %+v %v, want %d", own, got, err, n)
		}
	}
	left, err := filepath.Glob(filepath.Join(folder, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}
