package journaltest

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// Proxy forwards to a server until it is cut: from then on packets are lost in
// both directions without notice to either side.
type Proxy struct {
	listener net.Listener
	target   string
	cut      chan struct{} // closed once packets are lost
	over     chan struct{} // closed at the end of the test
	all      sync.WaitGroup

	mu   sync.Mutex
	open []net.Conn
}

// StartProxy listens for connections to target, host:port, until the test ends.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	p := &Proxy{listener: listener, target: target, cut: make(chan struct{}), over: make(chan struct{})}
	p.all.Go(p.accept)
	t.Cleanup(p.stop)
	return p
}

// StartProxies puts a proxy before each node of a cluster. It returns one URL for clients, with all proxies, and the
// proxies by the URL of each.
func StartProxies(t testing.TB, c *Cluster) (url string, proxies map[string]*Proxy) {
	t.Helper()
	proxies = map[string]*Proxy{}
	var urls []string
	for _, node := range c.nodes {
		p := StartProxy(t, strings.TrimPrefix(node.URL(), "nats://"))
		proxies[p.URL()] = p
		urls = append(urls, p.URL())
	}
	return strings.Join(urls, ","), proxies
}

// URL is where clients connect to.
func (p *Proxy) URL() string { return "nats://" + p.listener.Addr().String() }

// Cut drops all packets from now on, on new connections, too. It is called once.
func (p *Proxy) Cut() { close(p.cut) }

func (p *Proxy) stop() {
	close(p.over)
	_ = p.listener.Close() // can't fail while listening
	p.mu.Lock()
	for _, c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	p.all.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.open = append(p.open, client, server)
		p.mu.Unlock()
		select {
		case <-p.over: // stop may have missed them
			client.Close()
			server.Close()
			return
		default:
		}
		p.all.Go(func() { p.pass(client, server) })
		p.all.Go(func() { p.pass(server, client) })
	}
}

// pass copies until the proxy is cut; then it neither reads nor closes.
func (p *Proxy) pass(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-p.cut:
			<-p.over
			return
		default:
		}
		if err != nil {
			to.Close()
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			from.Close()
			return
		}
	}
}
