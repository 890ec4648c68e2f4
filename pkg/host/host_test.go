package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/lifecycle"
	"quire.dev/pkg/members"
	"quire.dev/pkg/views"
)

// The test binary runs itself again as the program that this variable names.
const childVariable = "HOST_TEST_CHILD"

func TestMain(m *testing.M) {
	never := func(context.Context, *Process) error { panic("it is wired with wrong settings") }
	for _, program := range services.programs() {
		if os.Getenv(childVariable) == program.String() {
			os.Exit(Main(program, never))
		}
	}
	os.Exit(m.Run())
}

func TestABinaryWithAWrongSettingEndsWithAllFaults(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range services.programs() {
		cmd := exec.CommandContext(t.Context(), binary)
		cmd.Env = with(childVariable+"="+program.String(), "QUIRE_SECRET=0123456789abcdef", checkpointKey, "QUIRE_LOG_FORMAT=xml", "QUIRE_PARTITION=4")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := cmd.Run()
		want := "2 invalid settings:\nQUIRE_LOG_FORMAT=\"xml\": it must be one of json, text\nQUIRE_PARTITION is not a setting: did you mean QUIRE_PARTITIONS?\n"
		if cmd.ProcessState.ExitCode() != 1 || stderr.String() != want {
			t.Errorf("%s: %v, %q", program, err, stderr.String())
		}
	}
}

// part is ready and serving as the test says.
type part struct {
	ready   chan struct{}
	serving atomic.Bool
	stop    chan error
}

func newPart() *part { return &part{ready: make(chan struct{}), stop: make(chan error)} }

func (p *part) Ready() <-chan struct{} { return p.ready }

func (p *part) Unready() error {
	if p.serving.Load() {
		return nil
	}
	return errors.New("partition 3 is catching up with its journal")
}

func (p *part) Run(ctx context.Context) error {
	select {
	case err := <-p.stop:
		return err
	case <-ctx.Done():
		return nil
	}
}

func start(t *testing.T, p *Process) (stop context.CancelFunc, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(cancel)
	return cancel, done
}

// newProcess has a free port for operators, whose address it logs.
func newProcess(t *testing.T) (p *Process, listening <-chan string) {
	t.Helper()
	lines, out := io.Pipe()
	t.Cleanup(func() { out.Close() })
	addresses := make(chan string, 1)
	go func() {
		decoder := json.NewDecoder(lines)
		for {
			var line struct{ Msg, Address string }
			if decoder.Decode(&line) != nil {
				return
			}
			if line.Msg == "listening for operators" {
				addresses <- line.Address
			}
		}
	}()
	return New(Settings{OpsListen: "127.0.0.1:0"}, slog.New(slog.NewJSONHandler(out, nil))), addresses
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestOperatorsAreAnsweredFromTheFirstPartToTheLast(t *testing.T) {
	p, listening := newProcess(t)
	begun := make(chan struct{})
	p.Add("store", lifecycle.Func(func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return nil
	}))
	service := newPart()
	p.Add("paste", service)
	if p.OpsOnAPI() != nil {
		t.Error("operators are served twice")
	}
	stop, ended := start(t, p)
	ops := "http://" + <-listening
	<-begun
	for path, want := range map[string]string{"/livez": `"success":true`, "/metrics": "go_goroutines", "/debug/pprof/": "goroutine"} {
		if status, body := get(t, ops+path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s while the service starts: %d %s", path, status, body)
		}
	}
	readyz := func(when string, want int, reason string) {
		t.Helper()
		if status, body := get(t, ops+"/readyz"); status != want || !strings.Contains(body, reason) {
			t.Errorf("%s: %d %s", when, status, body)
		}
	}
	const catchingUp = `{"name":"paste","reason":"partition 3 is catching up with its journal"}`
	readyz("while it starts", http.StatusServiceUnavailable, catchingUp)
	service.serving.Store(true)
	close(service.ready)
	readyz("once it serves", http.StatusOK, "")
	service.serving.Store(false)
	readyz("while it catches up again", http.StatusServiceUnavailable, catchingUp)
	stop()
	if err := <-ended; err != nil {
		t.Errorf("an orderly stop returns %v", err)
	}
}

// A process that ended because a store is slow would be started again in a circle, which makes the store slower.
func TestAProcessWaitsForAStoreThatDoesNotAnswerAndSaysSo(t *testing.T) {
	p, listening := newProcess(t)
	service := newPart()
	service.serving.Store(true)
	close(service.ready)
	answers := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- p.RunAfter(ctx, func(ctx context.Context) error {
			err := p.await(ctx, "read model of paste", func(context.Context) error { return <-answers })
			p.Add("paste", service)
			return err
		})
	}()
	ops := "http://" + <-listening
	for _, cause := range []error{views.ErrUnavailable, blob.ErrUnavailable, context.DeadlineExceeded} {
		answers <- cause
		eventually.True(t, "operators see the cause", func() bool {
			status, body := get(t, ops+"/readyz")
			return status == http.StatusServiceUnavailable && strings.Contains(body, "open the read model of paste: "+cause.Error())
		})
		if status, body := get(t, ops+"/livez"); status != http.StatusOK {
			t.Errorf("while it waits it is not alive: %d %s", status, body)
		}
	}
	answers <- nil
	eventually.True(t, "it is ready once the store has answered", func() bool {
		status, _ := get(t, ops+"/readyz")
		return status == http.StatusOK
	})
	stop()
	if err := <-ended; err != nil {
		t.Errorf("an orderly stop returns %v", err)
	}
}

func TestAProcessEndsWithAnErrorThatWaitingDoesNotCure(t *testing.T) {
	p := New(Settings{}, slog.New(slog.DiscardHandler))
	closed := false
	p.OnClose(func() error { closed = true; return nil })
	err := p.RunAfter(t.Context(), func(ctx context.Context) error {
		return p.await(ctx, "bucket", func(context.Context) error { return views.ErrInvalid })
	})
	if !errors.Is(err, views.ErrInvalid) || !strings.Contains(err.Error(), "bucket") || !closed {
		t.Errorf("it returns %v, closed: %v", err, closed)
	}
}

func TestAProcessThatWaitsForAStoreCanBeStopped(t *testing.T) {
	for _, answer := range []error{blob.ErrUnavailable, errors.New("interrupted, in a driver's own words")} {
		p := New(Settings{}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		err := p.RunAfter(ctx, func(ctx context.Context) error {
			return p.await(ctx, "bucket", func(context.Context) error { stop(); return answer })
		})
		if !errors.Is(err, context.Canceled) { // which is no failure to lifecycle.Main
			t.Errorf("it returns %v", err)
		}
	}
}

// follower is a service that does what its membership says.
type follower struct {
	*part
	assigned <-chan []int
	served   func(partition int, serving bool)
	sets     chan []int
}

func (f *follower) Run(ctx context.Context) error {
	for {
		select {
		case set := <-f.assigned:
			for _, p := range set {
				f.served(p, true)
			}
			f.sets <- set
		case <-ctx.Done():
			return nil
		}
	}
}

func TestASharedServiceIsAssignedPartitionsWhileItRuns(t *testing.T) {
	p := New(Settings{Partitions: 3}, slog.New(slog.DiscardHandler))
	p.Program, p.NC = Paste, journaltest.Start(t).Conn(t)
	if err := members.Ensure(t.Context(), p.NC, members.Config{}); err != nil {
		t.Fatal(err)
	}
	membership := p.Join(members.Config{})
	if p.Grace <= lifecycle.DefaultGrace {
		t.Errorf("a grace of %s leaves no time to hand over", p.Grace)
	}
	service := &follower{part: newPart(), assigned: membership.Assigned(), served: membership.Serving, sets: make(chan []int, 10)}
	close(service.ready)
	p.AddShared("paste", service, membership)
	stop, ended := start(t, p)
	if set := <-service.sets; len(set) != 3 {
		t.Errorf("alone it is assigned %v", set)
	}
	if failing := p.Health.Failing(); len(failing) != 1 || failing[0].Name != "paste" {
		t.Errorf("failing are %v", failing)
	}
	service.serving.Store(true)
	if failing := p.Health.Failing(); len(failing) != 0 {
		t.Errorf("failing are %v", failing)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("an orderly stop returns %v", err)
	}
}

func TestAProcessOfWhichNoPartHasBegunIsNotReady(t *testing.T) {
	p := New(Settings{}, slog.New(slog.DiscardHandler))
	if failing := p.Health.Failing(); len(failing) != 1 {
		t.Errorf("failing are %v", failing)
	}
	public := p.OpsOnAPI()
	if public == nil {
		t.Fatal("operators are served nowhere")
	}
	for path, want := range map[string]int{"/livez": http.StatusOK, "/debug/pprof/": http.StatusNotFound, "/debug/pprof/heap": http.StatusNotFound} {
		answer := httptest.NewRecorder()
		public.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if answer.Code != want {
			t.Errorf("%s on the API's listener: %d, want %d", path, answer.Code, want)
		}
	}
}

func TestAPartThatFailsEndsTheProcessAndAllIsClosed(t *testing.T) {
	p := New(Settings{}, slog.New(slog.DiscardHandler))
	var closed []string
	broken, unwritten := errors.New("broken"), errors.New("unwritten")
	p.OnClose(func() error { closed = append(closed, "first"); return unwritten })
	p.OnClose(func() error { closed = append(closed, "second"); return nil })
	service := newPart()
	close(service.ready)
	p.Add("paste", service)
	_, ended := start(t, p)
	service.stop <- broken
	if err := <-ended; !errors.Is(err, broken) || !errors.Is(err, unwritten) {
		t.Errorf("it returns %v", err)
	}
	if strings.Join(closed, " ") != "second first" {
		t.Errorf("closed were %q", closed)
	}
}

func TestAPortThatIsTakenEndsTheProcess(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := New(Settings{OpsListen: taken.Addr().String()}, slog.New(slog.DiscardHandler))
	_, ended := start(t, p)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "listen for operators") {
		t.Errorf("it returns %v", err)
	}
}
