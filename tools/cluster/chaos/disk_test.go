package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/trace/tracetest"
)

// syncDelay is what a sync takes on the slow disk.
const syncDelay = 400 * time.Millisecond

// slowDisk slows the disk of one NATS server down. "A slow disk under NATS" in docs/runbook.md must lead from one slow request to that
// server, and its remedy must help.
func slowDisk(t *testing.T, b *bench) (err error) {
	a := newAsker(t, b)
	planted := a.leader(t, a.request(t, nil).Request.Journal.Stream)
	end, err := b.c.Process(planted).SlowDisk(t.Context(), syncDelay)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()

	slow := a.request(t, func(parts map[string]int64) bool { return parts["admitSyncMs"] >= syncDelay.Milliseconds() })
	stream := slow.Request.Journal.Stream
	t.Logf("request %s waited: %v; its admission is in %s", slow.Request.ID, slow.Timing.Parts, stream)
	if found := a.leader(t, stream); found != planted {
		t.Errorf("the explanation leads to %s, the slow disk is under %s", found, planted)
	}
	if traced := a.slowJournal(t, slow); a.leader(t, traced) != planted {
		t.Errorf("the trace leads to the leader of %s, %s; the slow disk is under %s", traced, a.leader(t, traced), planted)
	}
	if _, err := a.conn.RequestWithContext(t.Context(), "$JS.API.STREAM.LEADER.STEPDOWN."+stream, nil); err != nil {
		return fmt.Errorf("move the leader of %s: %w", stream, err)
	}
	eventually.True(t, "another server leads "+stream, func() bool { return a.leader(t, stream) != planted })
	quick := a.request(t, func(parts map[string]int64) bool { return parts["admitSyncMs"] < syncDelay.Milliseconds() })
	t.Logf("behind another leader a request waited: %v", quick.Timing.Parts)
	return nil
}

// asker sends requests and looks into them as an operator does.
type asker struct {
	b    *bench
	key  string
	conn *nats.Conn
}

// explained is the part of an explanation that the runbook uses.
type explained struct {
	trace   string
	Request struct {
		ID      string
		Journal struct{ Stream string }
	}
	Timing struct {
		DurationMs *int64
		Parts      map[string]int64
	}
}

func newAsker(t *testing.T, b *bench) *asker {
	t.Helper()
	conn, err := nats.Connect(b.c.NATSURL("operator"), nats.CustomInboxPrefix("_INBOX_operator"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return &asker{b: b, conn: conn, key: b.account(t, "disk@example.org")}
}

// leader is the server that leads a stream, as `nats stream info` shows it.
func (a *asker) leader(t *testing.T, stream string) (name string) {
	t.Helper()
	eventually.NoError(t, "the leader of "+stream, func() error {
		answer, err := a.conn.RequestWithContext(t.Context(), "$JS.API.STREAM.INFO."+stream, nil)
		if err != nil {
			return err
		}
		var info struct {
			Cluster struct{ Leader string }
		}
		if err := json.Unmarshal(answer.Data, &info); err != nil {
			return err
		}
		if name = info.Cluster.Leader; name == "" {
			return errors.New("it has none")
		}
		return nil
	})
	return name
}

// slowJournal follows the longest span down the trace of a request, as "Traces" in docs/runbook.md says, to the journal that was slow.
func (a *asker) slowJournal(t *testing.T, e explained) (stream string) {
	t.Helper()
	below := func(name string, parent []byte) (span *otlp.Span) {
		eventually.True(t, "a span of "+name+" in the trace of "+e.Request.ID, func() bool {
			list := a.b.traces.Below(e.trace, parent)
			if i := slices.IndexFunc(list, func(s *otlp.Span) bool { return strings.HasSuffix(s.Name, name) }); i >= 0 {
				span = list[i]
			}
			return span != nil
		})
		return span
	}
	root := below("POST /", clientSpan)
	if id := tracetest.Attribute(root, "quire.request_id"); id != e.Request.ID {
		t.Errorf("the trace is of %s, want %s", id, e.Request.ID)
	}
	journal := below(" journal", below("admit", root.SpanId).SpanId)
	waited := time.Duration(journal.EndTimeUnixNano - journal.StartTimeUnixNano)
	t.Logf("its trace has %q of %s, %v", journal.Name, tracetest.Attribute(journal, "quire.stream"), waited)
	if waited < syncDelay/2 {
		t.Errorf("%q took %v, the disk %v", journal.Name, waited, syncDelay)
	}
	return tracetest.Attribute(journal, "quire.stream")
}

// clientSpan is the span of the client in its traceparent.
var clientSpan = []byte{0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31}

// request creates quick pastes until the explanation of one has the wanted parts, and returns that. nil wants nothing of them. A
// request without parts was faster than 20 ms.
func (a *asker) request(t *testing.T, wanted func(parts map[string]int64) bool) (e explained) {
	t.Helper()
	eventually.NoError(t, "a request", func() error {
		trace := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
		header, err := a.b.call(t.Context(), http.MethodPost, "/?language=plaintext", "a slow disk", http.StatusCreated, nil,
			"x-api-key", a.key, "Content-Type", "text/plain", "traceparent", fmt.Sprintf("00-%s-%x-01", trace, clientSpan))
		if err != nil {
			return err
		}
		id := header.Get("X-Request-Id")
		eventually.NoError(t, "the explanation of "+id, func() error {
			e = explained{trace: trace}
			_, err := a.b.call(t.Context(), http.MethodGet, "/api/admin/requests/"+id, "", http.StatusOK, &e,
				"Authorization", "Bearer "+a.b.c.AdminToken())
			if err == nil && e.Timing.DurationMs == nil {
				err = errors.New("its edge has not reported it")
			}
			return err
		})
		if wanted != nil && !wanted(e.Timing.Parts) {
			return fmt.Errorf("%s waited: %v", id, e.Timing.Parts)
		}
		return nil
	})
	return e
}
