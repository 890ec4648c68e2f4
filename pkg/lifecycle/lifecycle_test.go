package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/lifecycle"
)

// diary is what the components of a test did, in order.
type diary struct {
	mu      sync.Mutex
	entries []string
}

func (d *diary) write(entry string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, entry)
}

func (d *diary) want(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.entries, want) {
		t.Errorf("it went %q, want %q", d.entries, want)
	}
}

// part is a component that writes down what it does. It is ready once its gate is open, and fails with fail's error.
type part struct {
	name  string
	diary *diary
	gate  chan struct{}
	ready chan struct{}
	fail  chan error
	last  error // returned when stopped
}

func newPart(name string, d *diary) *part {
	open := make(chan struct{})
	close(open)
	return &part{name: name, diary: d, gate: open, ready: make(chan struct{}), fail: make(chan error, 1)}
}

func (p *part) Ready() <-chan struct{} { return p.ready }

func (p *part) Run(ctx context.Context) error {
	p.diary.write("start " + p.name)
	select {
	case <-p.gate:
		close(p.ready)
	case <-ctx.Done():
		p.diary.write("stop " + p.name)
		return nil
	}
	select {
	case err := <-p.fail:
		p.diary.write("fail " + p.name)
		return err
	case <-ctx.Done():
		p.diary.write("stop " + p.name)
		return p.last
	}
}

func newGroup(t *testing.T) *lifecycle.Group {
	t.Helper()
	group := lifecycle.New(slog.New(slog.DiscardHandler))
	group.Grace = 30 * time.Second // a test that hangs is to fail by its own limit
	return group
}

func start(t *testing.T, group *lifecycle.Group) (stop func(), result <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() { ended <- group.Run(ctx) }()
	return cancel, ended
}

func TestComponentsStartInOrderAndStopInReverse(t *testing.T) {
	var d diary
	group := newGroup(t)
	for _, name := range []string{"a", "b", "c"} {
		group.Add(name, newPart(name, &d))
	}
	stop, result := start(t, group)
	<-group.Ready()
	stop()
	if err := <-result; err != nil {
		t.Errorf("an orderly stop returns %v", err)
	}
	d.want(t, "start a", "start b", "start c", "stop c", "stop b", "stop a")
}

func TestAComponentStartsOnlyOnceThoseBeforeItAreReady(t *testing.T) {
	var d diary
	group := newGroup(t)
	slow := newPart("slow", &d)
	slow.gate = make(chan struct{})
	group.Add("slow", slow)
	group.Add("next", lifecycle.Func(func(ctx context.Context) error {
		select {
		case <-slow.ready:
		default:
			t.Error("the next component runs before the slow one is ready")
		}
		<-ctx.Done()
		return ctx.Err()
	}))
	stop, result := start(t, group)
	select {
	case <-group.Ready():
		t.Error("the group is ready before its components are")
	default:
	}
	close(slow.gate)
	<-group.Ready()
	stop()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestTheFirstFailureStopsAllAndIsReturned(t *testing.T) {
	var d diary
	group := newGroup(t)
	first, second := errors.New("first"), errors.New("second")
	a, b, c := newPart("a", &d), newPart("b", &d), newPart("c", &d)
	a.last = second
	group.Add("a", a)
	group.Add("b", b)
	group.Add("c", c)
	_, result := start(t, group)
	<-group.Ready()
	b.fail <- first
	err := <-result
	if !errors.Is(err, first) || errors.Is(err, second) || !strings.HasPrefix(err.Error(), "b: ") {
		t.Errorf("the group returns %v, want b's failure", err)
	}
	d.want(t, "start a", "start b", "start c", "fail b", "stop c", "stop a")
}

func TestAFailureWhileStoppingIsReturned(t *testing.T) {
	var d diary
	group := newGroup(t)
	flush := errors.New("flush failed")
	a, b := newPart("a", &d), newPart("b", &d)
	b.last = flush
	group.Add("a", a)
	group.Add("b", b)
	stop, result := start(t, group)
	<-group.Ready()
	stop()
	if err := <-result; !errors.Is(err, flush) {
		t.Errorf("the group returns %v, want b's failure", err)
	}
	d.want(t, "start a", "start b", "stop b", "stop a")
}

func TestAFailureDuringTheStartStopsWhatRuns(t *testing.T) {
	cause := errors.New("port in use")
	for _, failing := range []string{"before", "starting"} {
		var d diary
		group := newGroup(t)
		a, b := newPart("a", &d), newPart("b", &d)
		b.gate = make(chan struct{}) // never ready
		group.Add("a", a)
		if failing == "before" {
			group.Add("b", b)
			a.fail <- cause
		} else {
			group.Add("b", neverReady{lifecycle.Func(func(context.Context) error { return cause })})
		}
		group.Add("c", newPart("c", &d))
		_, result := start(t, group)
		if err := <-result; !errors.Is(err, cause) {
			t.Errorf("%s: the group returns %v", failing, err)
		}
		if slices.Contains(d.entries, "start c") {
			t.Errorf("%s: a component was started after the failure", failing)
		}
		select {
		case <-group.Ready():
			t.Errorf("%s: the group is ready", failing)
		default:
		}
	}
}

// neverReady is a component that says it will be ready and never is.
type neverReady struct{ lifecycle.Func }

func (neverReady) Ready() <-chan struct{} { return nil }

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAStopDuringTheStartIsOrderly(t *testing.T) {
	var d diary
	group := newGroup(t)
	group.Add("a", newPart("a", &d))
	started := make(chan struct{})
	group.Add("b", neverReady{func(ctx context.Context) error {
		close(started)
		return untilDone(ctx)
	}})
	group.Add("c", newPart("c", &d))
	stop, result := start(t, group)
	<-started
	stop()
	if err := <-result; err != nil {
		t.Errorf("the group returns %v", err)
	}
	d.want(t, "start a", "stop a")
}

func TestAComponentThatEndsByItselfIsAFailure(t *testing.T) {
	group := newGroup(t)
	group.Add("short", lifecycle.Func(func(context.Context) error { return nil }))
	_, result := start(t, group)
	if err := <-result; !errors.Is(err, lifecycle.ErrEnded) || !strings.Contains(err.Error(), "short") {
		t.Errorf("the group returns %v, want ErrEnded of the short one", err)
	}
}

func TestAComponentThatDoesNotStopIsLeftBehindAndTheOthersStop(t *testing.T) {
	var d diary
	group := newGroup(t)
	group.Grace = 20 * time.Millisecond
	release := make(chan struct{})
	left := make(chan struct{})
	group.Add("a", newPart("a", &d))
	group.Add("stuck", lifecycle.Func(func(context.Context) error {
		defer close(left)
		<-release
		return nil
	}))
	stop, result := start(t, group)
	<-group.Ready()
	stop()
	if err := <-result; !errors.Is(err, lifecycle.ErrGrace) || !strings.Contains(err.Error(), "stuck") {
		t.Errorf("the group returns %v, want ErrGrace of the stuck one", err)
	}
	d.want(t, "start a", "stop a")
	close(release)
	<-left
}

func TestAPanicBecomesAnErrorWithItsStack(t *testing.T) {
	cause := errors.New("broken")
	for _, value := range []any{"broken", cause} {
		group := newGroup(t)
		group.Add("fragile", lifecycle.Func(func(context.Context) error { panicWith(value); return nil }))
		_, result := start(t, group)
		err := <-result
		var panicked *lifecycle.PanicError
		if !errors.As(err, &panicked) || panicked.Value != value || !strings.Contains(err.Error(), "panicWith") {
			t.Errorf("the group returns %v, want the panic with its stack", err)
		}
		if value == any(cause) && !errors.Is(err, cause) {
			t.Error("the error that was the panic's value is lost")
		}
	}
}

func panicWith(value any) { panic(value) }

func TestAGroupIsAComponentOfAGroup(t *testing.T) {
	var d diary
	inner := newGroup(t)
	inner.Add("a", newPart("a", &d))
	inner.Add("b", newPart("b", &d))
	outer := newGroup(t)
	outer.Add("inner", inner)
	outer.Add("c", newPart("c", &d))
	stop, result := start(t, outer)
	<-outer.Ready()
	stop()
	if err := <-result; err != nil {
		t.Error(err)
	}
	d.want(t, "start a", "start b", "start c", "stop c", "stop b", "stop a")
}

func ExampleGroup() {
	group := lifecycle.New(slog.New(slog.DiscardHandler))
	group.Add("server", lifecycle.Func(func(context.Context) error { return errors.New("port in use") }))
	fmt.Println(group.Run(context.Background()))
	// Output: server: port in use
}
