package standalone

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/tools/cluster/load"
)

var (
	crashRounds = flag.Int("crash.rounds", 8, "how often TestCrash kills quire")
	crashSeed   = flag.Uint64("crash.seed", 0, "when it kills; 0 draws one")
)

// child is a quire in its own process.
type child struct {
	cmd    *exec.Cmd
	base   string
	stdout *lockedBuffer
	stderr *lockedBuffer
	ended  chan error
}

// lockedBuffer takes the output of a process. A test may read it at the same time.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var listensOn = regexp.MustCompile(`listens on (http://\S+)`)

// environment is the test's environment with only these settings of quire.
func environment(settings ...string) []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "QUIRE_") && !strings.HasPrefix(v, "GOMEMLIMIT=") {
			out = append(out, v)
		}
	}
	return append(out, settings...)
}

func launch(t testing.TB, folder string, settings ...string) *child {
	t.Helper()
	return launchCommand(t, nil, append([]string{"QUIRE_LISTEN=127.0.0.1:0", "QUIRE_DATA=" + folder, "QUIRE_ADMIN_TOKEN=" + testAdminToken}, settings...)...)
}

// launchCommand starts quire with arguments, and waits until it prints the address that it listens on.
func launchCommand(t testing.TB, args []string, settings ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(binary(t), args...), stdout: &lockedBuffer{}, stderr: &lockedBuffer{}, ended: make(chan error, 1)}
	c.cmd.Env = environment(settings...)
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stderr = c.stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() }) // it may have ended already
	greeted := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(io.TeeReader(out, c.stdout))
		for lines.Scan() {
			if m := listensOn.FindStringSubmatch(lines.Text()); m != nil {
				greeted <- m[1]
			}
		}
		c.ended <- c.cmd.Wait()
	}()
	select {
	case c.base = <-greeted:
	case err := <-c.ended:
		c.ended <- err
		t.Fatalf("quire ended at once: %v\n%s", err, c.stderr)
	case <-time.After(bootLimit):
		t.Fatalf("quire is not ready after %s\n%s", bootLimit, c.stderr)
	}
	return c
}

// end sends a signal and waits for the process.
func (c *child) end(t testing.TB, signal syscall.Signal) error {
	t.Helper()
	if err := c.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-c.ended:
		c.ended <- err
		return err
	case <-time.After(bootLimit):
		t.Fatalf("quire still runs %s after %s\n%s", bootLimit, signal, c.stderr)
		return nil
	}
}

// TestCrashKeepsWhatWasAcknowledged kills quire at random instants under load and restarts it on the same folder. Everything
// acknowledged exists, nothing is counted that no client asked for, and the audit matches.
func TestCrashKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	random := rand.New(rand.NewPCG(seed, seed))
	t.Logf("seed %d: again with -args -crash.seed=%d", seed, seed)
	folder := filepath.Join(t.TempDir(), "data")
	c := launch(t, folder)
	l := newCrowd(t, c.base, 24)
	for round := range *crashRounds {
		stop := running(t, l)
		more(t, "the load goes on", l, 20+random.Int64N(500))
		_ = c.end(t, syscall.SIGKILL) // "signal: killed"
		stop()
		c = launch(t, folder)
		l.Move(c.base)
		if err := check(t, l); err != nil {
			t.Fatalf("after kill %d (seed %d): %v\n%s", round+1, seed, err, c.stderr)
		}
	}
	t.Logf("what clients saw:\n%s", l.Gaps())
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("orderly stop: %v\n%s", err, c.stderr)
	}
	settles(t, folder, l)
}

// settles starts quire on the folder with its clock three minutes ahead, so that unsettled holds close at once. Then it
// verifies the promises again: no hold explains a difference in a count any more.
func settles(t *testing.T, folder string, l *load.Load) {
	t.Helper()
	c := launch(t, folder, "QUIRE_DEV=1", "QUIRE_CLOCK_OFFSET=3m")
	l.Move(c.base)
	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	if err := errors.Join(l.Settled(ctx, c.openHolds), check(t, l)); err != nil {
		t.Errorf("settled: %v\n%s", err, c.stderr)
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("orderly stop: %v\n%s", err, c.stderr)
	}
}

// openHolds is how many holds billing says are open.
func (c *child) openHolds(ctx context.Context) (int64, error) { return load.OpenHolds(ctx, c.base) }

// A call that was admitted and then killed with its process holds its Idempotency-Key until billing closes the hold, two
// minutes later. Its client must not have to wait for that.
func TestAWriteThatAKillCutOffIsDecidedAtTheNextStart(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	c := launch(t, folder)
	key := accountKey(t, c.base)
	upload := func(body io.Reader) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.base+"/api/dev/files/upload?name=a.txt", body)
		if err != nil {
			t.Fatal(err)
		}
		request.ContentLength = 8
		request.Header.Set("Content-Type", "text/plain")
		request.Header.Set("x-api-key", key)
		request.Header.Set("Idempotency-Key", "once")
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
		if err != nil {
			return nil
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	half, rest := io.Pipe()
	first := make(chan *http.Response, 1)
	go func() { first <- upload(half) }()
	if _, err := rest.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "it is admitted", func() bool {
		n, err := c.openHolds(t.Context())
		return err == nil && n == 1
	})
	second := upload(strings.NewReader("halfrest"))
	if second == nil || second.StatusCode != http.StatusConflict {
		t.Fatalf("while the first one runs: %v", second)
	}
	if wait, err := strconv.Atoi(second.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 60 {
		t.Errorf("Retry-After: %q", second.Header.Get("Retry-After"))
	}
	_ = c.end(t, syscall.SIGKILL)
	rest.Close()
	if r := <-first; r != nil {
		t.Fatalf("the first one is answered %s", r.Status)
	}
	c = launch(t, folder)
	again := upload(strings.NewReader("halfrest"))
	if again == nil || again.StatusCode != http.StatusCreated {
		t.Fatalf("after the start: %v", again)
	}
	replayed := upload(strings.NewReader("halfrest"))
	if replayed == nil || replayed.StatusCode != http.StatusCreated || replayed.Header.Get("Idempotency-Replayed") != "true" {
		t.Fatalf("and once more: %v", replayed)
	}
	eventually.NoError(t, "no hold is open", func() error {
		n, err := c.openHolds(t.Context())
		if err == nil && n != 0 {
			err = fmt.Errorf("%d are", n)
		}
		return err
	})
}

// accountKey creates a Pro account and returns its API key.
func accountKey(t *testing.T, base string) string {
	t.Helper()
	return accountKeyOf(t, base, "a@example.org")
}

func accountKeyOf(t *testing.T, base, email string) string {
	t.Helper()
	status, body := called(t, http.MethodPost, base+"/api/admin/accounts", testAdminToken, `{"email":"`+email+`","tier":"pro"}`)
	var made struct {
		APIKey string `json:"apiKey"`
	}
	if err := json.Unmarshal([]byte(body), &made); err != nil || made.APIKey == "" {
		t.Fatalf("make an account: %d, %v", status, err)
	}
	return made.APIKey
}

// called sends a request with an API key or an admin token.
func called(t *testing.T, method, url, bearer, body string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+bearer)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// TestStopsInOrderUnderLoad stops quire by SIGTERM under load: running requests are finished.
func TestStopsInOrderUnderLoad(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	c := launch(t, folder)
	l := newCrowd(t, c.base, 16)
	stop := running(t, l)
	more(t, "the load has begun", l, 100)
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("it ends with %v\n%s", err, c.stderr)
	}
	stop()
	if _, err := os.Stat(filepath.Join(folder, "CLEAN")); err != nil {
		t.Errorf("the stop was not an orderly one: %v", err)
	}
	c = launch(t, folder)
	l.Move(c.base)
	if err := check(t, l); err != nil {
		t.Error(err)
	}
}

// TestAKillWhileStreamsComeAndGo leaves the folder of one that was being created, and of one that was being deleted. The next start
// serves.
func TestAKillWhileStreamsComeAndGo(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	_ = launch(t, folder).end(t, syscall.SIGKILL)
	streams := streamsFolder(t, folder)
	created, deleted := filepath.Join(streams, "BILLING_0_ODD"), filepath.Join(streams, ".BILLING_1_ODD")
	for _, stream := range []string{created, deleted} {
		if err := os.MkdirAll(filepath.Join(stream, "msgs"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := launch(t, folder)
	for _, stream := range []string{created, deleted} {
		eventually.True(t, "it is removed", func() bool { _, err := os.Stat(stream); return errors.Is(err, os.ErrNotExist) })
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("%v\n%s", err, c.stderr)
	}
}

// streamsFolder is where the journal server has the folders of its streams.
func streamsFolder(t *testing.T, data string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(data, "nats", "jetstream", "*", "streams"))
	if err != nil || len(found) != 1 {
		t.Fatalf("folders of streams: %v, %v", found, err)
	}
	return found[0]
}

// TestADamagedJournalIsRefused: quire repairs nothing silently.
func TestADamagedJournalIsRefused(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	c := launch(t, folder)
	l := newCrowd(t, c.base, 4, load.Crowd)
	stop := running(t, l)
	more(t, "some load", l, 100)
	_ = c.end(t, syscall.SIGKILL)
	stop()
	blocks, err := filepath.Glob(filepath.Join(folder, "nats", "jetstream", "*", "streams", "BILLING_0", "msgs", "1.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("blocks %v, %v", blocks, err)
	}
	data, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(blocks[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, folder, "damaged", blocks[0], "at byte", "restore the data folder from a backup")
	if after, err := os.ReadFile(blocks[0]); err != nil || !bytes.Equal(after, data) {
		t.Error("the damaged file was changed")
	}
}

// TestAMissingReadModelIsRefused: only billing's read model has the users and sessions.
func TestAMissingReadModelIsRefused(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	if err := launch(t, folder).end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	view := filepath.Join(folder, "views", "billing.db")
	if err := os.Rename(view, view+".aside"); err != nil {
		t.Fatal(err)
	}
	refuses(t, folder, "damaged", view, "restore the data folder from a backup")
	if err := os.WriteFile(view, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, folder, "damaged", view, "restore the data folder from a backup")
	if err := os.Rename(view+".aside", view); err != nil {
		t.Fatal(err)
	}
	launch(t, folder)
}

// refuses starts quire on the folder, which must fail with one line that contains each of message.
func refuses(t *testing.T, folder string, message ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(t)) // it would go on if it took the folder
	cmd.Env = environment("QUIRE_LISTEN=127.0.0.1:0", "QUIRE_DATA="+folder)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("exit %v\n%s", err, out)
	}
	for _, want := range message {
		if !strings.Contains(string(out), want) {
			t.Errorf("the message does not say %q: %s", want, out)
		}
	}
}

const idleConnections = 10_000

// TestTenThousandIdleConnectionsStayBelow400MB measures the resident memory of the process.
func TestTenThousandIdleConnectionsStayBelow400MB(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	const needed = idleConnections + 1000
	if limit.Cur < needed {
		raised := syscall.Rlimit{Cur: needed, Max: max(limit.Max, needed)}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err != nil {
			t.Skipf("NOT TESTED: 10,000 connections. %d open files are allowed: %v", limit.Cur, err)
		}
	}
	c := launch(t, filepath.Join(t.TempDir(), "data"))
	l := newCrowd(t, c.base, 16)
	conns := make([]net.Conn, 0, idleConnections)
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	buf := make([]byte, 4096)
	for n := range idleConnections {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.base, "http://"))
		if err != nil {
			t.Fatalf("connection %d: %v", n, err)
		}
		conns = append(conns, conn)
		if n%10 != 0 {
			continue
		}
		// Some have sent a request before.
		if _, err := io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: q\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := conn.Read(buf); err != nil || !bytes.HasPrefix(buf[:got], []byte("HTTP/1.1 200")) {
			t.Fatalf("connection %d: %v %.60q", n, err, buf[:got])
		}
	}
	stop := running(t, l)
	more(t, "others are served", l, 2000)
	stop()
	peak := resident(t, c.cmd.Process.Pid)
	t.Logf("peak resident memory %d MB", peak>>20)
	if peak > 400<<20 {
		t.Errorf("peak resident memory is %d MB, at most 400 are allowed", peak>>20)
	}
	if err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// resident is the peak of the process's resident memory.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("NOT TESTED: memory. There is no /proc: %v", err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatal("no VmHWM")
	}
	kb, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}
