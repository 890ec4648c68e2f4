package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// namespaces are hosts of their own for each process: network namespaces that a bridge connects. They need the right to
// make them, which `unshare --map-root-user --net --mount` gives to anybody; /run/netns must be writable there.
//
//	this process ── bridge 10.77.0.1/24 ──┬── nats-0 10.77.0.2
//	                                      ├── nats-1 10.77.0.3 …
type namespaces struct {
	names []string
}

const (
	bridge    = "quire0"
	bridgeIP  = "10.77.0.1"
	nowhereHW = "02:00:00:00:00:fe" // nobody has this address
)

func newNamespaces(ctx context.Context) (*namespaces, error) {
	n := &namespaces{}
	for _, line := range []string{
		"link set lo up",
		"link add " + bridge + " type bridge",
		"addr add " + bridgeIP + "/24 dev " + bridge,
		"link set " + bridge + " up",
	} {
		if err := ip(ctx, line); err != nil {
			return nil, fmt.Errorf("make network namespaces (they need root, or unshare --map-root-user --net --mount): %w", err)
		}
	}
	return n, nil
}

func (n *namespaces) address(name string) string {
	return fmt.Sprintf("10.77.0.%d", slices.Index(n.names, name)+2)
}

// outer is the bridge's end of the cable to a host; its other end is eth0.
func (n *namespaces) outer(name string) string {
	return fmt.Sprintf("quire%d", slices.Index(n.names, name)+2)
}

func (n *namespaces) add(ctx context.Context, name string) (string, error) {
	n.names = append(n.names, name)
	address, outer := n.address(name), n.outer(name)
	for _, line := range []string{
		"netns add " + name,
		"link add " + outer + " type veth peer name eth0 netns " + name,
		"link set " + outer + " master " + bridge,
		"link set " + outer + " up",
		"-n " + name + " link set lo up",
		"-n " + name + " addr add " + address + "/24 dev eth0",
		"-n " + name + " link set eth0 up",
	} {
		if err := ip(ctx, line); err != nil {
			return "", fmt.Errorf("make a network namespace for %s: %w", name, err)
		}
	}
	return address, nil
}

func (n *namespaces) command(name, program string, args ...string) *exec.Cmd {
	// nsenter becomes the program: signals and the process id are its.
	return exec.Command("nsenter", append([]string{"--net=/run/netns/" + name, "--", program}, args...)...)
}

func (n *namespaces) close() error {
	var errs []error
	for _, name := range n.names {
		errs = append(errs, ip(context.Background(), "netns del "+name))
	}
	return errors.Join(append(errs, ip(context.Background(), "link del "+bridge))...)
}

// Cut pulls the process's cable: packets to and from it are lost without a word. Heal mends that, CutFrom and Slow.
func (p *Process) Cut(ctx context.Context) error {
	n, err := p.namespaces()
	if err != nil {
		return err
	}
	return ip(ctx, "link set "+n.outer(p.name)+" down")
}

// CutFrom loses what the process sends to the others, so that no connection between them lives; what it sends to
// anybody else arrives.
func (p *Process) CutFrom(ctx context.Context, others ...*Process) error {
	n, err := p.namespaces()
	if err != nil {
		return err
	}
	for _, other := range others {
		if err := ip(ctx, "-n "+p.name+" neigh replace "+n.address(other.name)+" lladdr "+nowhereHW+" nud permanent dev eth0"); err != nil {
			return err
		}
	}
	return nil
}

// Slow makes the process's link a bad one, in both directions: 30 ms of delay, where the kernel has netem, else one of
// 2 Mbit/s that queues up to 100 ms. It returns what it did.
func (p *Process) Slow(ctx context.Context) (string, error) {
	n, err := p.namespaces()
	if err != nil {
		return "", err
	}
	kinds := []struct{ what, qdisc string }{
		{"30 ms of delay each way, 1 % of packets lost", "netem delay 30ms 10ms loss 1%"},
		{"2 Mbit/s, up to 100 ms of queue", "tbf rate 2mbit burst 16kb latency 100ms"},
	}
	for _, kind := range kinds {
		err = errors.Join(command(ctx, "tc", "qdisc replace dev "+n.outer(p.name)+" root "+kind.qdisc),
			command(ctx, "tc", "-n "+p.name+" qdisc replace dev eth0 root "+kind.qdisc))
		if err == nil {
			return kind.what, nil
		}
	}
	return "", err
}

// Heal undoes what Cut, CutFrom and Slow did to the process.
func (p *Process) Heal(ctx context.Context) error {
	n, err := p.namespaces()
	if err != nil {
		return err
	}
	// These fail where there is nothing to undo.
	_ = command(ctx, "tc", "qdisc del dev "+n.outer(p.name)+" root")
	_ = command(ctx, "tc", "-n "+p.name+" qdisc del dev eth0 root")
	return errors.Join(ip(ctx, "-n "+p.name+" neigh flush dev eth0 nud permanent"), ip(ctx, "link set "+n.outer(p.name)+" up"))
}

func (p *Process) namespaces() (*namespaces, error) {
	if p.host.ns == nil {
		return nil, fmt.Errorf("%s shares the loopback interface: start the cluster with Options.Isolated", p.name)
	}
	return p.host.ns, nil
}

func ip(ctx context.Context, line string) error { return command(ctx, "ip", line) }

func command(ctx context.Context, program, line string) error {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, strings.Fields(line)...)
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, line, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}
