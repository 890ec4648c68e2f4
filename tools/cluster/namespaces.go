package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// With Options.Isolated each process is in its own network namespace. A bridge connects them:
//
//	this process ── bridge 10.77.0.1/24 ──┬── nats-0 10.77.0.2
//	                                      ├── nats-1 10.77.0.3 …
//
// This process needs the right to create namespaces, which `unshare --map-root-user --net --mount` gives to anyone, and
// /run/netns must be writable.
const (
	bridge       = "quire0"
	bridgePrefix = "10.77.0."
	unusedMAC    = "02:00:00:00:00:fe" // no host has this Ethernet address
)

// Clients is the address of this process for processes in namespaces, as a CIDR.
const Clients = bridgePrefix + "1/32"

func makeBridge(ctx context.Context) error {
	err := ip(ctx,
		"link set lo up",
		"link add "+bridge+" type bridge",
		"addr add "+bridgePrefix+"1/24 dev "+bridge,
		"link set "+bridge+" up",
	)
	if err != nil {
		return fmt.Errorf("make network namespaces (this needs root, or unshare --map-root-user --net --mount): %w", err)
	}
	return nil
}

// makeNamespace creates a host's namespace and a virtual cable from it to the bridge. The host's end of the cable is eth0.
func makeNamespace(ctx context.Context, h *host) error {
	err := ip(ctx,
		"netns add "+h.name,
		"link add "+h.cable+" type veth peer name eth0 netns "+h.name,
		"link set "+h.cable+" master "+bridge,
		"link set "+h.cable+" up",
		"-n "+h.name+" link set lo up",
		"-n "+h.name+" addr add "+h.ip+"/24 dev eth0",
		"-n "+h.name+" link set eth0 up",
	)
	if err != nil {
		return fmt.Errorf("make a network namespace for %s: %w", h.name, err)
	}
	return nil
}

func removeNamespaces(hosts []*host) error {
	var errs []error
	for _, h := range hosts {
		errs = append(errs, ip(context.Background(), "netns del "+h.name))
	}
	return errors.Join(append(errs, ip(context.Background(), "link del "+bridge))...)
}

// Cut pulls the cable of the process: packets to and from it are dropped silently. Heal plugs it in again.
func (p *Process) Cut(ctx context.Context) error {
	if err := p.isolated(); err != nil {
		return err
	}
	return ip(ctx, "link set "+p.host.cable+" down")
}

// CutFrom drops what the process sends to the others, so that no connection between them works. What it sends to other
// processes arrives. Heal undoes it.
func (p *Process) CutFrom(ctx context.Context, others ...*Process) error {
	if err := p.isolated(); err != nil {
		return err
	}
	var lines []string
	for _, other := range others {
		lines = append(lines, "-n "+p.name+" neigh replace "+other.host.ip+" lladdr "+unusedMAC+" nud permanent dev eth0")
	}
	return ip(ctx, lines...)
}

// Slow slows the process's link down in both directions and describes how much. Packets are delayed
// where the kernel has netem, else the link is limited to 2 Mbit/s. Heal undoes it.
func (p *Process) Slow(ctx context.Context) (string, error) {
	if err := p.isolated(); err != nil {
		return "", err
	}
	var err error
	for _, kind := range []struct{ description, qdisc string }{
		{"30 ms of delay each way, 1 % of packets lost", "netem delay 30ms 10ms loss 1%"},
		{"2 Mbit/s, up to 100 ms of queue", "tbf rate 2mbit burst 16kb latency 100ms"},
	} {
		err = errors.Join(command(ctx, "tc", "qdisc replace dev "+p.host.cable+" root "+kind.qdisc),
			command(ctx, "tc", "-n "+p.name+" qdisc replace dev eth0 root "+kind.qdisc))
		if err == nil {
			return kind.description, nil
		}
	}
	return "", err
}

// Heal undoes Cut, CutFrom and Slow.
func (p *Process) Heal(ctx context.Context) error {
	if err := p.isolated(); err != nil {
		return err
	}
	// Both fail if Slow was not called.
	_ = command(ctx, "tc", "qdisc del dev "+p.host.cable+" root")
	_ = command(ctx, "tc", "-n "+p.name+" qdisc del dev eth0 root")
	return errors.Join(ip(ctx, "-n "+p.name+" neigh flush dev eth0 nud permanent"), ip(ctx, "link set "+p.host.cable+" up"))
}

func (p *Process) isolated() error {
	if !p.host.isolated {
		return fmt.Errorf("%s shares the loopback interface: start the cluster with Options.Isolated", p.name)
	}
	return nil
}

// ip runs the program ip once for each line, up to the first failure.
func ip(ctx context.Context, lines ...string) error {
	for _, line := range lines {
		if err := command(ctx, "ip", line); err != nil {
			return err
		}
	}
	return nil
}

func command(ctx context.Context, program, line string) error {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, strings.Fields(line)...)
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, line, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}
