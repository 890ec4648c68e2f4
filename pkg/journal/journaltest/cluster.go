package journaltest

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"quire.dev/pkg/eventually"
)

// Cluster is a set of replicating servers on the loopback interface, each with
// its own temporary folder.
type Cluster struct {
	nodes []*Server
}

// StartCluster runs count servers until the test ends, and waits until they
// have elected a leader.
func StartCluster(t testing.TB, count int, options ...Option) *Cluster {
	t.Helper()
	ports := make([]int, count)
	routes := make([]*url.URL, count)
	for i := range ports {
		port := freePort(t)
		ports[i] = port
		routes[i] = &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)}
	}
	c := &Cluster{}
	for i, port := range ports {
		node := prepare(t, append([]Option{WithListener(t), func(o *server.Options) {
			o.ServerName = fmt.Sprintf("journaltest-%d", i)
			o.Cluster = server.ClusterOpts{Name: "journaltest", Host: "127.0.0.1", Port: port}
			o.Routes = routes
		}}, options...))
		c.nodes = append(c.nodes, node)
		t.Cleanup(node.Stop)
	}
	// In parallel: none is ready for JetStream before most of them are up.
	for _, node := range c.nodes {
		node.run(t)
	}
	eventually.True(t, "a leader of the cluster", func() bool {
		leads := func(srv *server.Server) bool {
			return srv.JetStreamIsLeader() && len(srv.JetStreamClusterPeers()) == count
		}
		return c.count(leads) == 1 && c.count((*server.Server).JetStreamIsCurrent) == count
	})
	return c
}

// count returns the number of running servers for which is returns true.
func (c *Cluster) count(is func(*server.Server) bool) (n int) {
	for _, node := range c.nodes {
		if srv := node.server(); srv != nil && is(srv) {
			n++
		}
	}
	return n
}

// WaitCurrent waits until all servers hold the whole stream. Stopping a server
// before that leaves the others without a quorum for seconds.
func (c *Cluster) WaitCurrent(t testing.TB, stream string) {
	t.Helper()
	eventually.True(t, "all replicas of "+stream, func() bool {
		current := func(srv *server.Server) bool {
			return srv.JetStreamIsCurrent() && srv.JetStreamIsStreamCurrent("$G", stream)
		}
		return c.count(current) == len(c.nodes)
	})
}

// Conn connects to one of the servers, and fails over to the others.
func (c *Cluster) Conn(t testing.TB, options ...nats.Option) *nats.Conn {
	t.Helper()
	var urls []string
	for _, node := range c.nodes {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", node.opts.Port))
	}
	return connect(t, strings.Join(urls, ","), options)
}

// Node is one of the servers, counted from 0.
func (c *Cluster) Node(i int) *Server { return c.nodes[i] }

// LeaderOf waits until the stream has a leader, and returns its index.
func (c *Cluster) LeaderOf(t testing.TB, stream string) int {
	t.Helper()
	leader := -1
	eventually.True(t, "a leader of "+stream, func() bool {
		for i, node := range c.nodes {
			if srv := node.server(); srv != nil && srv.JetStreamIsStreamLeader("$G", stream) {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

// connect makes the connections of Server and Cluster.
func connect(t testing.TB, url string, options []nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append([]nats.Option{
		nats.MaxReconnects(-1),
		nats.ReconnectWait(5 * time.Millisecond),
		nats.ReconnectJitter(0, 0),
		// Many tests cut connections on purpose; ignore their errors.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, options...)...)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}
