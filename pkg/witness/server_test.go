package witness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	f_note "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const origin = "quire.example/log"

func TestEachCheckpointThatContinuesTheLastOneIsCosigned(t *testing.T) {
	l := newLog(t, origin).grow(70, "a")
	s := open(t, t.TempDir(), l.key)
	c := client(t, s.VerifierKey(), serve(t, s))
	began := time.Now().Add(-time.Second)
	for old := int64(0); old < l.size; {
		for _, size := range []int64{old, min(old+1+old%7, l.size)} {
			signed := l.checkpoint(size, "extension\n")
			line, err := c.Cosign(t.Context(), old, l.proof(old, size), signed)
			if err != nil {
				t.Fatalf("from %d to %d: %v", old, size, err)
			}
			opened, err := note.Open(append(signed, line...), note.VerifierList(c.Verifier()))
			if err != nil {
				t.Fatal(err)
			}
			at, err := f_note.CoSigV1Timestamp(opened.Sigs[0])
			if err != nil || at.Before(began) || at.After(time.Now().Add(time.Second)) {
				t.Errorf("cosigned at %v, %v", at, err)
			}
			old = size
		}
	}
}

// TestTheAnswersOfTheSpecification: each refusal leaves the witness as it was.
func TestTheAnswersOfTheSpecification(t *testing.T) {
	l := newLog(t, origin).grow(20, "a")
	fork := l.fork(5).grow(20, "b")
	stranger, impostor := newLog(t, "other.example").grow(9, "a"), newLog(t, origin).grow(20, "a")
	s := open(t, t.TempDir(), l.key)
	url := serve(t, s)
	want(t, url, l.body(0, 7), http.StatusOK, "")
	forged := l.proof(7, 9)
	forged[0][0] ^= 1
	text := fmt.Sprintf("%s\n9\n%s\n", origin, l.root(9))
	large := l.sign(fmt.Sprintf("%s\n%d\n%s\n", origin, uint64(maxSize)+1, l.root(9)))
	for name, test := range map[string]struct {
		body   []byte
		status int
		text   string
	}{
		"unknown log":                       {stranger.body(0, 9), 404, ""},
		"key of another with the same name": {impostor.body(7, 9), 403, ""},
		"signature of another checkpoint":   {formatRequest(7, l.proof(7, 9), append([]byte(text+"\n"), lastLine(l.checkpoint(8))...)), 403, ""},
		"signed by nobody known":            {formatRequest(7, l.proof(7, 9), append([]byte(text+"\n"), lastLine(stranger.checkpoint(9))...)), 403, ""},
		"old size above the size":           {formatRequest(9, nil, l.checkpoint(8)), 400, ""},
		"rollback from the known size":      {formatRequest(7, nil, l.checkpoint(6)), 400, ""},
		"rollback from an earlier size":     {l.body(5, 6), 409, "7\n"},
		"first checkpoint again":            {l.body(0, 6), 409, "7\n"},
		"old size ahead":                    {l.body(8, 9), 409, "7\n"},
		"fork of the known size":            {fork.body(7, 7), 409, "7\n"},
		"fork with its own proof":           {fork.body(7, 9), 422, ""},
		"fork with the log's proof":         {formatRequest(7, l.proof(7, 9), fork.checkpoint(9)), 422, ""},
		"forged proof":                      {formatRequest(7, forged, l.checkpoint(9)), 422, ""},
		"no proof":                          {formatRequest(7, nil, l.checkpoint(9)), 422, ""},
		"proof of another size":             {formatRequest(7, l.proof(7, 10), l.checkpoint(9)), 422, ""},
		"a proof line too many":             {formatRequest(7, append(l.proof(7, 9), tlog.Hash{}), l.checkpoint(9)), 422, ""},
		"63 proof lines":                    {formatRequest(7, make([]tlog.Hash, 63), l.checkpoint(9)), 422, ""},
		"64 proof lines":                    {formatRequest(7, make([]tlog.Hash, 64), l.checkpoint(9)), 400, ""},
		"proof within one size":             {formatRequest(7, make([]tlog.Hash, 1), l.checkpoint(7)), 422, ""},
		"size that package tlog can't take": {formatRequest(7, nil, large), 400, ""},
		"nothing":                           {nil, 400, ""},
		"no old size":                       {[]byte("\n" + string(l.checkpoint(9))), 400, ""},
		"no checkpoint":                     {[]byte("old 7\n\n"), 400, ""},
		"no empty line":                     {[]byte("old 7\n" + text), 400, ""},
		"no signature":                      {[]byte("old 7\n\n" + text), 400, ""},
		"last line without its end":         {l.body(7, 9)[:len(l.body(7, 9))-1], 400, ""},
		"old size with a zero":              {[]byte("old 07\n\n" + string(l.checkpoint(9))), 400, ""},
		"negative old size":                 {[]byte("old -1\n\n" + string(l.checkpoint(9))), 400, ""},
		"old size with a sign":              {[]byte("old +7\n\n" + string(l.checkpoint(9))), 400, ""},
		"huge old size":                     {[]byte("old 9223372036854775808\n\n" + string(l.checkpoint(9))), 400, ""},
		"lines of Windows":                  {[]byte("old 7\r\n\r\n" + string(l.checkpoint(9))), 400, ""},
		"short proof line":                  {[]byte("old 7\nAAAA\n\n" + string(l.checkpoint(9))), 400, ""},
		"proof line with bits at the end":   {[]byte("old 7\n" + strings.Repeat("A", 42) + "B=\n\n" + string(l.checkpoint(9))), 400, ""},
		"size with a zero":                  {formatRequest(7, nil, l.sign(strings.Replace(text, "\n9\n", "\n09\n", 1))), 400, ""},
		"negative size":                     {formatRequest(7, nil, l.sign(strings.Replace(text, "\n9\n", "\n-9\n", 1))), 400, ""},
		"short root":                        {formatRequest(7, nil, l.sign(origin+"\n9\nAAAA\n")), 400, ""},
		"two lines":                         {formatRequest(7, nil, l.sign(origin+"\n9\n")), 400, ""},
		"no origin":                         {formatRequest(7, nil, l.sign("\n9\n"+l.root(9).String()+"\n")), 400, ""},
		"empty extension line":              {formatRequest(7, nil, l.sign(text+"\nx\n")), 400, ""},
		"a control character":               {formatRequest(7, nil, l.sign(text+"\x01\n")), 400, ""},
	} {
		t.Run(name, func(t *testing.T) { want(t, url, test.body, test.status, test.text) })
	}
	want(t, url, l.body(7, 20), http.StatusOK, "")
	for path, status := range map[string]int{"/add-checkpoint": 405, "/": 404, "/add-checkpoint/": 404} {
		response, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != status {
			t.Errorf("GET %s: %s", path, response.Status)
		}
	}
}

func TestTheEmptyTreeHasOneRoot(t *testing.T) {
	l := newLog(t, origin).grow(3, "a")
	s := open(t, t.TempDir(), l.key)
	url := serve(t, s)
	want(t, url, formatRequest(0, nil, l.sign(fmt.Sprintf("%s\n0\n%s\n", origin, tlog.Hash{}))), http.StatusConflict, "0\n")
	want(t, url, l.body(0, 0), http.StatusOK, "")
	want(t, url, formatRequest(0, make([]tlog.Hash, 1), l.checkpoint(3)), http.StatusUnprocessableEntity, "")
	want(t, url, l.body(0, 3), http.StatusOK, "")
	want(t, url, l.body(0, 0), http.StatusConflict, "3\n")
}

// TestTheSameCheckpointIsCosignedAgain: an answer that got lost is asked for again. Nothing is written.
func TestTheSameCheckpointIsCosignedAgain(t *testing.T) {
	l := newLog(t, origin).grow(20, "a")
	folder := t.TempDir()
	s := open(t, folder, l.key)
	url := serve(t, s)
	want(t, url, l.body(0, 20), http.StatusOK, "")
	before, err := os.Stat(s.folder.logPath(origin))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		want(t, url, l.body(20, 20), http.StatusOK, "")
	}
	after, err := os.Stat(s.folder.logPath(origin))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was written again: %v", err)
	}
}

func TestABodyHasALimit(t *testing.T) {
	l := newLog(t, origin).grow(3, "a")
	s := open(t, t.TempDir(), l.key)
	url := serve(t, s)
	want(t, url, padded(t, l, maxBody+1), http.StatusRequestEntityTooLarge, "")
	want(t, url, padded(t, l, maxBody), http.StatusOK, "")
	stored, err := os.ReadFile(s.folder.logPath(origin))
	if err != nil || len(stored) > 1000 {
		t.Errorf("signatures of strangers are stored: %d bytes, %v", len(stored), err)
	}
}

// TestOfTwoHistoriesOneIsCosigned: many requests of both at once, with what each witness's answer says about its size.
func TestOfTwoHistoriesOneIsCosigned(t *testing.T) {
	const common, size = 5, 60
	l := newLog(t, origin).grow(size, "a")
	histories := []*testLog{l, l.fork(common).grow(size, "b")}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range 4 {
		folder := t.TempDir()
		s := open(t, folder, l.key)
		c := client(t, s.VerifierKey(), serve(t, s))
		var mu sync.Mutex
		cosigned := map[int]int{} // by history, beyond the common entries
		largest := int64(0)
		var all sync.WaitGroup
		for worker := range 12 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(round*100+worker)))
				history, old := histories[worker%2], int64(0)
				for range 40 {
					to := old + random.Int64N(min(8, size-old+1))
					_, err := c.Cosign(t.Context(), old, history.proof(old, to), history.checkpoint(to))
					var conflict *ConflictError
					switch {
					case err == nil:
						mu.Lock()
						if to > common {
							cosigned[worker%2]++
						}
						largest = max(largest, to)
						mu.Unlock()
						old = to
					case errors.As(err, &conflict):
						old = conflict.Size
					case errors.Is(err, ErrFork) || errors.Is(err, ErrProof):
					default:
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		if len(cosigned) != 1 {
			t.Errorf("cosigned by history: %v", cosigned)
		}
		again, _ := reopen(t, folder, l.key)
		if got := again.logs[origin].last.N; got != largest {
			t.Errorf("the folder has size %d, the largest cosigned one is %d", got, largest)
		}
	}
}

// TestLogsAreApart: each has its own last checkpoint.
func TestLogsAreApart(t *testing.T) {
	a, b := newLog(t, "a.example/log").grow(9, "a"), newLog(t, "b.example/log").grow(9, "b")
	s := open(t, t.TempDir(), a.key, b.key)
	url := serve(t, s)
	want(t, url, a.body(0, 9), http.StatusOK, "")
	want(t, url, b.body(0, 3), http.StatusOK, "")
	want(t, url, b.body(9, 9), http.StatusConflict, "3\n")
	want(t, url, formatRequest(0, nil, b.sign(fmt.Sprintf("%s\n9\n%s\n", "a.example/log", b.root(9)))), http.StatusForbidden, "")
}

// TestALogMayChangeItsKey: with both keys its history goes on, and with the new key alone too.
func TestALogMayChangeItsKey(t *testing.T) {
	before := newLog(t, origin).grow(9, "a")
	after := newLog(t, origin)
	after.hashes, after.size = before.hashes, before.size
	folder := t.TempDir()
	s := open(t, folder, before.key)
	want(t, serve(t, s), before.body(0, 3), http.StatusOK, "")
	s, folder = reopen(t, folder, before.key, after.key)
	url := serve(t, s)
	want(t, url, before.body(3, 4), http.StatusOK, "")
	want(t, url, after.body(4, 5), http.StatusOK, "")
	s, _ = reopen(t, folder, after.key)
	url = serve(t, s)
	want(t, url, before.body(5, 6), http.StatusForbidden, "")
	want(t, url, after.body(5, 6), http.StatusOK, "")
}

// TestAFullDiskIsNoCosignature: what can't be saved is not cosigned, and is once it can.
func TestAFullDiskIsNoCosignature(t *testing.T) {
	l := newLog(t, origin).grow(9, "a")
	fork := l.fork(3).grow(9, "b")
	s := open(t, t.TempDir(), l.key)
	url := serve(t, s)
	want(t, url, l.body(0, 3), http.StatusOK, "")
	obstacle := s.folder.logPath(origin) + ".tmp"
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	want(t, url, l.body(3, 5), http.StatusInternalServerError, "")
	want(t, url, l.body(5, 5), http.StatusConflict, "3\n")
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	want(t, url, fork.body(3, 5), http.StatusOK, "") // the other one was never cosigned
	want(t, url, l.body(5, 5), http.StatusConflict, "5\n")
}

// TestAServerStopsInOrder: it finishes, lets the address and the folder go, and the next one continues.
func TestAServerStopsInOrder(t *testing.T) {
	l := newLog(t, origin).grow(9, "a")
	folder := t.TempDir()
	for round := range int64(2) {
		s := open(t, folder, l.key)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- s.Serve(ctx, listener) }()
		want(t, "http://"+listener.Addr().String(), l.body(3*round, 3*round+3), http.StatusOK, "")
		if _, err := Open(Config{Folder: folder, Logs: []string{l.key}}); !errors.Is(err, ErrInUse) {
			t.Errorf("a second process: %v", err)
		}
		cancel()
		if err := errors.Join(<-stopped, s.Close()); err != nil {
			t.Error(err)
		}
		if conn, err := net.Dial("tcp", listener.Addr().String()); err == nil {
			t.Error("it still listens", conn.Close())
		}
	}
}

func TestFaultsOfAConfigurationAreAllNamed(t *testing.T) {
	l := newLog(t, origin)
	_, err := Open(Config{Logs: []string{"x+y+z", l.key, l.key, strings.Replace(l.key, "+", "+0", 1)}})
	for _, part := range []string{"no folder", `"x+y+z"`, "named twice", "+0"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not have %q", err, part)
		}
	}
	if _, err := Open(Config{Folder: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "no log") {
		t.Errorf("no log: %v", err)
	}
	for _, name := range []string{"", "a b", "a+b", "a,b", "a\n", "\xff", strings.Repeat("a", 201)} {
		folder := filepath.Join(t.TempDir(), "w")
		if _, err := Open(Config{Folder: folder, Logs: []string{l.key}, Name: name}); err == nil || !strings.Contains(err.Error(), "name") {
			t.Errorf("name %q: %v", name, err)
		}
		if _, err := ReadKey(folder); !errors.Is(err, ErrNoKey) {
			t.Errorf("name %q: %v", name, err)
		}
	}
}
