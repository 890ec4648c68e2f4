package cluster

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
)

// network says where processes live.
type network struct {
	state *state
	ns    *namespaces // nil: all on the loopback interface
	hosts map[string]*host
}

// host is where one process lives.
type host struct {
	name  string
	ip    string
	ports map[string]int // by use
	ns    *namespaces    // nil on the loopback interface
}

func newNetwork(ctx context.Context, isolated bool, s *state) (network, error) {
	n := network{state: s, hosts: map[string]*host{}}
	if isolated {
		var err error
		if n.ns, err = newNamespaces(ctx); err != nil {
			return n, err
		}
	}
	return n, nil
}

// add makes a host with a port for each use.
func (n network) add(ctx context.Context, name string, uses ...string) (*host, error) {
	h := &host{name: name, ip: "127.0.0.1", ports: map[string]int{}, ns: n.ns}
	for _, use := range uses {
		port, err := n.state.reserve(name + "/" + use)
		if err != nil {
			return nil, err
		}
		h.ports[use] = port
	}
	if n.ns != nil {
		var err error
		if h.ip, err = n.ns.add(ctx, name); err != nil {
			return nil, err
		}
	}
	n.hosts[name] = h
	return h, nil
}

func (n network) host(name string) *host { return n.hosts[name] }

func (n network) close() error {
	if n.ns == nil {
		return nil
	}
	return n.ns.close()
}

func (h *host) address(use string) string {
	port, ok := h.ports[use]
	if !ok {
		panic(fmt.Sprintf("%s has no port for %s", h.name, use))
	}
	return net.JoinHostPort(h.ip, strconv.Itoa(port))
}

func (h *host) command(program string, args ...string) *exec.Cmd {
	if h.ns == nil {
		return exec.Command(program, args...)
	}
	return h.ns.command(h.name, program, args...)
}
