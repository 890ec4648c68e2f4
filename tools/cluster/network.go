package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strconv"
)

// Ports of a process. Each process has its own IP address, so that all processes use the same ports.
const (
	guardPort  = 12_000 + iota // reserves the network: the cluster listens, but serves nothing
	clientPort                 // of a store, for its clients
	peerPort                   // of a NATS server, for the other servers
	opsPort                    // for operators
	apiPort                    // of an edge
)

// network gives each process an address: of the loopback interface or, with network namespaces, of a host behind a bridge.
type network struct {
	prefix   string       // of all addresses, such as "127.83.17."
	guard    net.Listener // nil with network namespaces
	isolated bool
	hosts    []*host
}

// host is where one process runs.
type host struct {
	name     string
	ip       string
	isolated bool   // in its own network namespace
	cable    string // the bridge's end of its cable, if isolated
}

func newNetwork(ctx context.Context, isolated bool, s *state) (*network, error) {
	if isolated {
		return &network{prefix: bridgePrefix, isolated: true}, makeBridge(ctx)
	}
	n := &network{prefix: s.Network}
	var err error
	for range networkTries {
		n.prefix = cmp.Or(n.prefix, fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(256)))
		n.guard, err = net.Listen("tcp", net.JoinHostPort(n.prefix+"1", strconv.Itoa(guardPort)))
		if err == nil {
			s.Network = n.prefix
			return n, nil
		}
		n.prefix = "" // another cluster has it
	}
	return nil, fmt.Errorf("find a network of the loopback interface that no other cluster has: %w", err)
}

// networkTries bounds the search for a free network. There are 65,024.
const networkTries = 100

// add creates the host of a process.
func (n *network) add(ctx context.Context, name string) (*host, error) {
	number := strconv.Itoa(len(n.hosts) + 2) // 1 is the guard's or the bridge's
	h := &host{name: name, ip: n.prefix + number, isolated: n.isolated, cable: "quire" + number}
	n.hosts = append(n.hosts, h)
	if n.isolated {
		return h, makeNamespace(ctx, h)
	}
	return h, nil
}

// host returns the host of that name, which must have been added.
func (n *network) host(name string) *host {
	return n.hosts[slices.IndexFunc(n.hosts, func(h *host) bool { return h.name == name })]
}

func (n *network) close() error {
	if n.isolated {
		return removeNamespaces(n.hosts)
	}
	return n.guard.Close()
}

func (h *host) address(port int) string { return net.JoinHostPort(h.ip, strconv.Itoa(port)) }

func (h *host) command(program string, args ...string) *exec.Cmd {
	if !h.isolated {
		return exec.Command(program, args...)
	}
	// nsenter becomes the program, so the process id is the program's and signals reach it.
	return exec.Command("nsenter", append([]string{"--net=/run/netns/" + h.name, "--", program}, args...)...)
}
