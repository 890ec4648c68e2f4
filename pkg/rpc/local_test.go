package rpc_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/rpc"
)

// client is a connection of a service, with what it shares with others of its process.
type client struct {
	*nats.Conn
	local *rpc.Local
}

// bothWays runs a test with clients of one process, and with clients that know nothing of each other.
func bothWays(t *testing.T, test func(t *testing.T, connect func() client)) {
	for name, local := range map[string]*rpc.Local{"one process": new(rpc.Local), "many processes": nil} {
		t.Run(name, func(t *testing.T) {
			s := journaltest.Start(t)
			test(t, func() client { return client{s.Conn(t), local} })
		})
	}
}

func (c client) listen(t *testing.T, subject string, room int) (heard chan *nats.Msg, stop func()) {
	t.Helper()
	heard = make(chan *nats.Msg, room)
	stop, err := c.local.Listen(c.Conn, subject, heard)
	if err != nil {
		t.Fatal(err)
	}
	flush(t, c)
	return heard, stop
}

func flush(t *testing.T, clients ...client) {
	t.Helper()
	for _, c := range clients {
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}

func (c client) publish(t *testing.T, subject, text string) {
	t.Helper()
	if err := c.local.Publish(c.Conn, subject, []byte(text)); err != nil {
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
	bothWays(t, func(t *testing.T, connect func() client) {
		edge, billing := connect(), connect()
		const count = 1000
		heard, _ := edge.listen(t, "edge.a.>", count+1)
		other, _ := edge.listen(t, "edge.ab.>", 1)
		before := edge.Stats().InMsgs
		for i := range count {
			billing.publish(t, "edge.a.verdict", fmt.Sprint(i))
		}
		for i := range count {
			mustHear(t, heard, "edge.a.verdict", fmt.Sprint(i))
		}
		flush(t, billing, edge)
		if passed := edge.Stats().InMsgs - before; (edge.local != nil) != (passed == 0) {
			t.Errorf("%d of %d messages came through the server", passed, count)
		}
		if len(heard) != 0 || len(other) != 0 {
			t.Errorf("%d messages were heard twice, %d by another listener", len(heard), len(other))
		}
	})
}

func TestAMessageReachesASubscriptionOfNATSWhereNobodyListensInTheProcess(t *testing.T) {
	bothWays(t, func(t *testing.T, connect func() client) {
		billing, plain := connect(), connect()
		heard := make(chan *nats.Msg, 1)
		if _, err := plain.ChanSubscribe("prices", heard); err != nil {
			t.Fatal(err)
		}
		flush(t, plain)
		billing.publish(t, "prices", "a")
		mustHear(t, heard, "prices", "a")
	})
}

func TestAListenerHearsWhatOthersSendThroughTheServer(t *testing.T) {
	bothWays(t, func(t *testing.T, connect func() client) {
		edge, other := connect(), connect()
		heard, _ := edge.listen(t, "sources", 1)
		if err := other.Publish("sources", []byte("a")); err != nil {
			t.Fatal(err)
		}
		mustHear(t, heard, "sources", "a")
	})
}

func TestAListenerThatHasStoppedHearsNothing(t *testing.T) {
	bothWays(t, func(t *testing.T, connect func() client) {
		edge, billing := connect(), connect()
		stopped, stop := edge.listen(t, "a", 2)
		heard, _ := edge.listen(t, "a", 2)
		stop()
		flush(t, edge)
		billing.publish(t, "a", "1")
		mustHear(t, heard, "a", "1")
		if len(stopped) != 0 {
			t.Errorf("heard %q after stop", (<-stopped).Data)
		}
	})
}

func TestAMessageIsACopy(t *testing.T) {
	bothWays(t, func(t *testing.T, connect func() client) {
		edge, billing := connect(), connect()
		heard, _ := edge.listen(t, "a", 1)
		data := []byte("first")
		if err := billing.local.Publish(billing.Conn, "a", data); err != nil {
			t.Fatal(err)
		}
		copy(data, "XXXXX")
		mustHear(t, heard, "a", "first")
	})
}

// TestASlowListenerBlocksNobody: its messages are lost, as in core NATS.
func TestASlowListenerBlocksNobody(t *testing.T) {
	c := client{journaltest.Start(t).Conn(t), new(rpc.Local)}
	heard, _ := c.listen(t, "a", 1)
	c.publish(t, "a", "1")
	if err := c.local.Publish(c.Conn, "a", []byte("2")); err == nil {
		t.Error("no error for a message that found no room")
	}
	mustHear(t, heard, "a", "1")
	c.publish(t, "a", "3")
	mustHear(t, heard, "a", "3")
}
