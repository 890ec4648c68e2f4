package rpc_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/rpc"
)

// oneProcess is a server whose connections deliver by calls.
type oneProcess struct {
	*journaltest.Server
	local rpc.Local
}

func (s *oneProcess) Local() *rpc.Local { return &s.local }

// bothWays runs a test with connections of one process, and with connections that know nothing of each other.
func bothWays(t *testing.T, test func(t *testing.T, connect func() *nats.Conn, isLocal bool)) {
	t.Run("one process", func(t *testing.T) {
		s := &oneProcess{Server: journaltest.Start(t)}
		test(t, func() *nats.Conn { return s.Conn(t, nats.InProcessServer(s)) }, true)
	})
	t.Run("many processes", func(t *testing.T) {
		s := journaltest.Start(t)
		test(t, func() *nats.Conn { return s.Conn(t) }, false)
	})
}

func listen(t *testing.T, nc *nats.Conn, subject string, room int) (heard chan *nats.Msg, stop func()) {
	t.Helper()
	heard = make(chan *nats.Msg, room)
	stop, err := rpc.Listen(nc, subject, heard)
	if err != nil {
		t.Fatal(err)
	}
	flush(t, nc)
	return heard, stop
}

func flush(t *testing.T, connections ...*nats.Conn) {
	t.Helper()
	for _, nc := range connections {
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}

func publish(t *testing.T, nc *nats.Conn, subject, text string) {
	t.Helper()
	if err := rpc.Publish(nc, subject, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func mustHear(t *testing.T, heard <-chan *nats.Msg, subject, text string) {
	t.Helper()
	if m := <-heard; m.Subject != subject || string(m.Data) != text {
		t.Fatalf("heard %q on %s, want %q on %s", m.Data, m.Subject, text, subject)
	}
}

func TestListenersHearEachMessageOnceAndInOrder(t *testing.T) {
	bothWays(t, func(t *testing.T, connect func() *nats.Conn, isLocal bool) {
		edge, billing := connect(), connect()
		const count = 1000
		heard, _ := listen(t, edge, "edge.a.>", count+1)
		other, _ := listen(t, edge, "edge.ab.>", 1)
		before := edge.Stats().InMsgs
		for i := range count {
			publish(t, billing, "edge.a.verdict", fmt.Sprint(i))
		}
		for i := range count {
			mustHear(t, heard, "edge.a.verdict", fmt.Sprint(i))
		}
		flush(t, billing, edge)
		if passed := edge.Stats().InMsgs - before; isLocal != (passed == 0) {
			t.Errorf("%d of %d messages came through the server", passed, count)
		}
		if len(heard) != 0 || len(other) != 0 {
			t.Errorf("%d messages were heard twice, %d by another listener", len(heard), len(other))
		}
	})
}

func TestAMessageReachesASubscriptionOfNATSWhereNobodyListensInTheProcess(t *testing.T) {
	bothWays(t, func(t *testing.T, connect func() *nats.Conn, _ bool) {
		billing, plain := connect(), connect()
		heard := make(chan *nats.Msg, 1)
		if _, err := plain.ChanSubscribe("prices", heard); err != nil {
			t.Fatal(err)
		}
		flush(t, plain)
		publish(t, billing, "prices", "a")
		mustHear(t, heard, "prices", "a")
	})
}

func TestAListenerHearsWhatOthersSendThroughTheServer(t *testing.T) {
	bothWays(t, func(t *testing.T, connect func() *nats.Conn, _ bool) {
		edge, other := connect(), connect()
		heard, _ := listen(t, edge, "sources", 1)
		if err := other.Publish("sources", []byte("a")); err != nil {
			t.Fatal(err)
		}
		mustHear(t, heard, "sources", "a")
	})
}

func TestAListenerThatHasStoppedHearsNothing(t *testing.T) {
	bothWays(t, func(t *testing.T, connect func() *nats.Conn, _ bool) {
		edge, billing := connect(), connect()
		stopped, stop := listen(t, edge, "a", 2)
		heard, _ := listen(t, edge, "a", 2)
		stop()
		flush(t, edge)
		publish(t, billing, "a", "1")
		mustHear(t, heard, "a", "1")
		if len(stopped) != 0 {
			t.Errorf("heard %q after stop", (<-stopped).Data)
		}
	})
}

func TestAMessageIsACopy(t *testing.T) {
	bothWays(t, func(t *testing.T, connect func() *nats.Conn, _ bool) {
		edge, billing := connect(), connect()
		heard, _ := listen(t, edge, "a", 1)
		data := []byte("first")
		if err := rpc.Publish(billing, "a", data); err != nil {
			t.Fatal(err)
		}
		copy(data, "XXXXX")
		mustHear(t, heard, "a", "first")
	})
}

// TestASlowListenerBlocksNobody: its messages are lost, as in core NATS.
func TestASlowListenerBlocksNobody(t *testing.T) {
	s := &oneProcess{Server: journaltest.Start(t)}
	nc := s.Conn(t, nats.InProcessServer(s))
	heard, _ := listen(t, nc, "a", 1)
	publish(t, nc, "a", "1")
	if err := rpc.Publish(nc, "a", []byte("2")); err == nil {
		t.Error("no error for a message that found no room")
	}
	mustHear(t, heard, "a", "1")
	publish(t, nc, "a", "3")
	mustHear(t, heard, "a", "3")
}
