package members

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal/journaltest"
)

// host hosts a member until the test ends. Its work serves the assigned partitions and passes the sets on.
func host(t *testing.T, m *Member) (sets <-chan []int, stop context.CancelFunc, ended <-chan error) {
	t.Helper()
	t.Cleanup(provisioning(t.Context(), m.nc, m.cfg))
	ctx, cancel := context.WithCancel(context.Background())
	out, done, gone := make(chan []int, 100), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		done <- m.Host(ctx, func(ctx context.Context) error {
			for assigned := m.Assigned(); ; {
				select {
				case set, ok := <-assigned:
					if !ok {
						assigned = nil
						continue
					}
					for _, p := range set {
						m.Serving(p, true)
					}
					out <- set
				case <-ctx.Done():
					return nil
				}
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-gone })
	return out, cancel, done
}

// TestAMemberJoinsWhenAServerIsThere: before that it can be created, and stopped.
func TestAMemberJoinsWhenAServerIsThere(t *testing.T) {
	server, cfg := journaltest.Start(t), quick(1)
	nc := server.Conn(t, nats.MaxReconnects(-1))
	server.Stop()
	_, stop, ended := host(t, New(nc, cfg))
	stop()
	if err := <-ended; err != nil {
		t.Fatalf("stopped before a server was there: %v", err)
	}
	first, second := New(nc, cfg), New(nc, cfg)
	sets, _, _ := host(t, first)
	server.Restart(t)
	if set := <-sets; len(set) != cfg.Partitions {
		t.Fatalf("alone it has %v", set)
	}
	others, leave, left := host(t, second)
	var mine, its []int
	eventually.True(t, "the partitions are shared", func() bool {
		for {
			select {
			case mine = <-sets:
			case its = <-others:
			default:
				return len(mine) > 0 && len(mine)+len(its) == cfg.Partitions && !slices.ContainsFunc(mine, func(p int) bool { return slices.Contains(its, p) })
			}
		}
	})
	leave()
	if err := <-left; err != nil {
		t.Fatalf("left with %v", err)
	}
	eventually.True(t, "all partitions are the first one's again", func() bool {
		select {
		case mine = <-sets:
		default:
		}
		return len(mine) == cfg.Partitions
	})
}

func TestAMemberOfAnotherPartitionCountIsRefused(t *testing.T) {
	server, cfg := journaltest.Start(t), quick(1)
	sets, _, _ := host(t, New(server.Conn(t), cfg))
	<-sets
	cfg.Partitions++
	_, _, ended := host(t, New(server.Conn(t), cfg))
	if err := <-ended; !errors.Is(err, ErrPartitions) {
		t.Fatalf("ended with %v", err)
	}
}
