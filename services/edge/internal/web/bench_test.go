package web

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/services/edge/internal/bus"
)

// BenchmarkCreate has 256 clients that create quick pastes of 1 KiB, over a journal with fsync. The services accept
// everything. Allocations include the services' and the clients'.
func BenchmarkCreate(b *testing.B) {
	secret := theSecret(b)
	_, addr := startServerOn(b, busOfYes(b), Config{}, func(*Server) {})
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for i := range 256 {
		key := secret.NewKey(event.NewAccountID(), []byte{byte(i)})
		key.Version = 1
		group.Go(func() {
			if err := createWhile(addr, secret.Format(key), func() bool { return left.Add(-1) >= 0 }); err != nil {
				b.Error(err)
			}
		})
	}
	group.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creations/s")
}

// createWhile creates quick pastes over one connection.
func createWhile(addr, key string, more func() bool) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	body := `{"content":"` + strings.Repeat("x", 1024) + `"}`
	request := fmt.Appendf(nil, "POST /api/dev/paste-lite/create HTTP/1.1\r\nHost: a\r\nx-api-key: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
	for r := bufio.NewReader(c); more(); {
		if _, err := c.Write(request); err != nil {
			return err
		}
		if err := readCreated(r); err != nil {
			return err
		}
	}
	return nil
}

// readCreated reads an answer without the allocations of net/http.
func readCreated(r *bufio.Reader) error {
	status, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if created := "HTTP/1.1 201 "; string(status[:min(len(status), len(created))]) != created {
		return fmt.Errorf("the answer is %q", status)
	}
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		const name = "Content-Length: "
		switch {
		case len(line) == len("\r\n"):
			_, err := r.Discard(length)
			return err
		case len(line) > len(name) && string(line[:len(name)]) == name:
			for _, digit := range line[len(name) : len(line)-len("\r\n")] {
				length = 10*length + int(digit-'0')
			}
		}
	}
}

// busOfYes returns a running bus whose billing admits every call, and whose quick paste service accepts every document.
func busOfYes(b *testing.B) *bus.Bus {
	b.Helper()
	server := journaltest.Start(b)
	nc := server.Conn(b)
	for _, d := range []event.Domain{event.Billing, event.Lite} {
		stream := journal.Stream{Domain: string(d), Name: d.Stream(0), Subjects: d.Subjects(0), KeepForever: d == event.Billing}
		if err := journal.Ensure(b.Context(), nc, []journal.Stream{stream}, 1); err != nil {
			b.Fatal(err)
		}
	}
	out, err := bus.New(server.Conn(b), bus.Config{Partitions: 1})
	if err != nil {
		b.Fatal(err)
	}
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(func() {
		cancel()
		group.Wait()
	})
	group.Go(func() {
		if err := out.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	group.Go(func() { answer(ctx, nc, event.Billing, admitAll) })
	group.Go(func() { answer(ctx, nc, event.Lite, createAll) })
	<-out.Ready()
	return out
}

// answer publishes fold's answer to each message of a domain's journal, until ctx ends.
func answer(ctx context.Context, nc *nats.Conn, d event.Domain, fold func(m journal.Message) (string, event.Message, error)) {
	_ = journal.Open(nc, d.Stream(0)).Follow(ctx, 0, func(_ context.Context, m journal.Message) error {
		subject, answer, err := fold(m)
		if err != nil {
			return err
		}
		data, err := event.Encode(answer)
		if err != nil {
			return err
		}
		return nc.Publish(subject, data)
	}, journal.FollowOptions{}) // unanswered calls fail the benchmark
}

func admitAll(m journal.Message) (string, event.Message, error) {
	var batch event.UsageBatch
	err := event.Decode(m.Data, &batch)
	admitted := &event.Verdict{Decision: event.Decision_ADMITTED, Limit: -1, Remaining: -1}
	verdicts := &event.VerdictBatch{
		Source: batch.Source, Number: batch.Number, Sequence: m.Sequence, Rules: 1,
		Verdicts: make([]*event.Verdict, 0, len(batch.Admissions)),
	}
	for range batch.Admissions {
		verdicts.Verdicts = append(verdicts.Verdicts, admitted)
	}
	return event.VerdictSubject(batch.Source), verdicts, err
}

func createAll(m journal.Message) (string, event.Message, error) {
	var batch event.RequestBatch
	err := event.DecodeRequests(m.Data, &batch)
	made := make([]event.Outcome, len(batch.Requests))
	outcomes := &event.OutcomeBatch{
		Source: batch.Source, Number: batch.Number, Sequence: m.Sequence, Outcomes: make([]*event.Outcome, 0, len(made)),
	}
	for i, r := range batch.Requests {
		o := &made[i]
		o.Index, o.Status, o.Item, o.RequestId = uint32(i), event.OutcomeStatus_OK, r.Item, r.RequestId
		o.Version, o.CreatedMs = 1, r.DeadlineMs
		outcomes.Outcomes = append(outcomes.Outcomes, o)
	}
	return event.Lite.OutcomeSubject(batch.Source), outcomes, err
}
