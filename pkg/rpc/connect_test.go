package rpc_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/freeport"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/rpc"
)

// lines is a log that can be searched while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// natsServer is a server without JetStream.
func natsServer(t *testing.T, change func(*server.Options)) *server.Server {
	t.Helper()
	options := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true}
	if change != nil {
		change(options)
	}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	eventually.True(t, "the server takes connections", func() bool { return s.ReadyForConnections(time.Second) })
	return s
}

// pair is two servers that don't know each other, behind proxies, and a connection to one of them.
type pair struct {
	nc      *nats.Conn
	proxies map[string]*journaltest.Proxy // by URL
	log     *lines
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{proxies: map[string]*journaltest.Proxy{}, log: &lines{}}
	var urls []string
	for range 2 {
		s := natsServer(t, nil)
		nc, err := nats.Connect(s.ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		serveCalls(t, nc, 4, upper)
		x := journaltest.StartProxy(t, s.Addr().String())
		p.proxies[x.URL()] = x
		urls = append(urls, x.URL())
	}
	var err error
	if p.nc, err = rpc.Connect(strings.Join(urls, ","), "edge", p.log.logger()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.nc.Close)
	if err := rpc.WaitConnected(t.Context(), p.nc); err != nil {
		t.Fatal(err)
	}
	p.mustAnswer(t)
	return p
}

func (p *pair) mustAnswer(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if answer, err := rpc.Call(ctx, p.nc, callSubject, []byte("a")); err != nil || string(answer) != "A" {
		t.Fatalf("answer %q, %v", answer, err)
	}
}

// cutOff drops all packets of the connection's server.
func (p *pair) cutOff() (url string) {
	url = p.nc.ConnectedUrl()
	p.proxies[url].Cut()
	return url
}

func (p *pair) waitElsewhere(t *testing.T, left string) {
	t.Helper()
	eventually.True(t, "the connection is at the other server", func() bool {
		return p.nc.IsConnected() && p.nc.ConnectedUrl() != left
	})
	p.mustAnswer(t)
	for _, want := range []string{"connection to NATS is lost", "connected to NATS"} {
		eventually.True(t, "the log says: "+want, func() bool { return strings.Contains(p.log.String(), want) })
	}
}

// By default a client notices that after four minutes.
func TestConnectionLeavesAServerThatIsCutOff(t *testing.T) {
	p := newPair(t)
	p.waitElsewhere(t, p.cutOff())
}

func TestWritesToAServerThatIsCutOffEnd(t *testing.T) {
	p := newPair(t)
	left := p.cutOff()
	payload := make([]byte, 512<<10)
	eventually.True(t, "a request can't be sent, or the connection is at the other server", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := rpc.CallOnce(ctx, p.nc, callSubject, payload)
		if err != nil && !errors.Is(err, rpc.ErrUnavailable) && !errors.Is(err, rpc.ErrTimeout) {
			t.Fatalf("call: %v, want %v or %v", err, rpc.ErrUnavailable, rpc.ErrTimeout)
		}
		return errors.Is(err, rpc.ErrUnavailable) || p.nc.ConnectedUrl() != left
	})
	p.waitElsewhere(t, left)
}

func TestNothingIsTakenWithoutAConnection(t *testing.T) {
	p := newPair(t)
	for url, x := range p.proxies { // the other one first, so that the client can't go there
		if url != p.nc.ConnectedUrl() {
			x.Cut()
		}
	}
	p.cutOff()
	eventually.True(t, "the connection is given up", func() bool { return !p.nc.IsConnected() })
	if err := p.nc.Publish("late", nil); err == nil {
		t.Error("a message was taken while there was no connection")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := rpc.Call(ctx, p.nc, callSubject, nil); !errors.Is(err, rpc.ErrUnavailable) {
		t.Errorf("call: %v, want %v", err, rpc.ErrUnavailable)
	}
}

func TestConnectionLeavesALameDuck(t *testing.T) {
	ducks := map[string]*server.Server{}
	var urls []string
	for range 2 {
		s := natsServer(t, func(o *server.Options) {
			o.LameDuckGracePeriod, o.LameDuckDuration = 20*time.Millisecond, 100*time.Millisecond
		})
		ducks[s.ClientURL()] = s
		urls = append(urls, s.ClientURL())
	}
	var log lines
	nc, err := rpc.Connect(strings.Join(urls, ","), "edge", log.logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if err := rpc.WaitConnected(t.Context(), nc); err != nil {
		t.Fatal(err)
	}
	left := nc.ConnectedUrl()
	go ducks[left].LameDuckShutdown()
	eventually.True(t, "the connection is at the other server", func() bool {
		return nc.IsConnected() && nc.ConnectedUrl() != left
	})
	eventually.True(t, "the log tells", func() bool { return strings.Contains(log.String(), "about to stop") })
}

func TestConnectWaitsForAServerAndShowsNoPassword(t *testing.T) {
	port, err := freeport.Next()
	if err != nil {
		t.Fatal(err)
	}
	var log lines
	nc, err := rpc.Connect("nats://billing:hunter2@127.0.0.1:"+strconv.Itoa(port), "billing", log.logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	eventually.True(t, "the log tells", func() bool { return strings.Contains(log.String(), "NATS is unreachable") })
	waiting, cancel := context.WithCancel(t.Context())
	cancel()
	if err := rpc.WaitConnected(waiting, nc); !errors.Is(err, context.Canceled) {
		t.Errorf("waited: %v", err)
	}
	natsServer(t, func(o *server.Options) { o.Port, o.Username, o.Password = port, "billing", "hunter2" })
	if err := rpc.WaitConnected(t.Context(), nc); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the log tells", func() bool { return strings.Contains(log.String(), "connected to NATS") })
	if !strings.HasPrefix(nc.NewInbox(), "_INBOX_billing.") {
		t.Errorf("inbox %s", nc.NewInbox())
	}
	nc.Close()
	if err := rpc.WaitConnected(t.Context(), nc); !errors.Is(err, rpc.ErrClosed) {
		t.Errorf("waited for a closed connection: %v", err)
	}
	_, err = rpc.Connect("nats://edge:hunter2@%zz", "edge", slog.New(slog.DiscardHandler))
	if err == nil {
		t.Fatal("a malformed address was taken")
	}
	if strings.Contains(err.Error()+log.String(), "hunter2") {
		t.Errorf("the password shows: %v\n%s", err, log.String())
	}
}

// TestAServerStoppedWhileDisconnectedGetsNoRequestsAfterwards: a subscription restored with the connection, without a goroutine
// that reads it, would take its share of the requests for the rest of the process.
func TestAServerStoppedWhileDisconnectedGetsNoRequestsAfterwards(t *testing.T) {
	first := natsServer(t, nil)
	address := first.Addr().(*net.TCPAddr)
	nc, err := rpc.Connect(first.ClientURL(), "lite", (&lines{}).logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	serving, err := rpc.Serve(nc, "lite.0.read", "replicas", 1, func(_ context.Context, payload []byte) ([]byte, error) { return payload, nil })
	if err != nil {
		t.Fatal(err)
	}
	first.Shutdown()
	first.WaitForShutdown()
	eventually.True(t, "the connection is lost", func() bool { return !nc.IsConnected() })
	drained := make(chan error, 1)
	go func() { drained <- serving.Drain(t.Context()) }()
	second := natsServer(t, func(o *server.Options) { o.Port = address.Port })
	eventually.True(t, "the connection is back", nc.IsConnected)
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	caller, err := nats.Connect(second.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(caller.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := rpc.CallOnce(ctx, caller, "lite.0.read", []byte("x")); !errors.Is(err, rpc.ErrUnavailable) {
		t.Errorf("asked who has stopped: %v, want that nobody is there", err)
	}
}
