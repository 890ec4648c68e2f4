package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/segment"
	"quire.dev/pkg/tilelog"
)

const (
	testSecret = "a secret of the log's key for tests"
	partitions = 3
)

// stack is the servers and stores of a test.
type stack struct {
	t      *testing.T
	server *journaltest.Server
	nc     *nats.Conn
	blobs  *failing
	secret string
	sent   int
}

func newStack(t *testing.T) *stack {
	t.Helper()
	store, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	s := &stack{t: t, blobs: &failing{Store: store}, secret: testSecret}
	s.journal(journaltest.Start(t))
	return s
}

// journal makes the journals on a server.
func (s *stack) journal(server *journaltest.Server) {
	s.t.Helper()
	s.server, s.nc = server, server.Conn(s.t)
	if err := installation.Provision(s.t.Context(), s.nc, installation.Config{Partitions: partitions}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stack) service(blobs blob.Store) *Service {
	s.t.Helper()
	service, err := New(Config{PartitionCount: partitions, Secret: s.secret, Installation: func() string { return "test" }, CutMessages: 50},
		Deps{NC: s.nc, Blobs: blobs, Clock: func() time.Time { return time.Now().Add(2 * time.Hour) }}) // all messages are old enough for a segment
	if err != nil {
		s.t.Fatal(err)
	}
	if service.key, err = deriveKey(s.secret, "test"); err != nil {
		s.t.Fatal(err)
	}
	return service
}

// publish adds a message to a journal. Its content does not matter to the log.
func (s *stack) publish(partition int) {
	s.t.Helper()
	s.sent++
	subject := event.Billing.Subjects(partition)[0]
	if _, err := s.nc.Request(subject, fmt.Appendf(nil, "message %d", s.sent), nats.DefaultTimeout); err != nil {
		s.t.Fatal(err)
	}
}

// send adds a message of billing.
func (s *stack) send(subject string, batch event.Message) {
	s.t.Helper()
	data, err := event.Encode(batch)
	if err == nil {
		_, err = s.nc.Request(subject, data, nats.DefaultTimeout)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// publishAll adds some messages to all journals.
func (s *stack) publishAll(random *rand.Rand, most int) {
	s.t.Helper()
	for range random.IntN(most + 1) {
		s.publish(random.IntN(partitions))
	}
}

func (s *stack) round(service *Service) error {
	err := service.round(s.t.Context())
	service.report(s.t.Context(), err)
	return err
}

// must runs a round that succeeds, and returns the checkpoint.
func (s *stack) must(service *Service) tlog.Tree {
	s.t.Helper()
	if err := s.round(service); err != nil {
		s.t.Fatal(err)
	}
	return s.checkpoint()
}

// checkpoint is the one that everybody sees.
func (s *stack) checkpoint() tlog.Tree {
	s.t.Helper()
	key, err := deriveKey(s.secret, "test")
	if err != nil {
		s.t.Fatal(err)
	}
	data, err := read(s.t.Context(), s.blobs.Store, proof.LogCheckpoint, tilelog.MaxCheckpoint)
	if err != nil || data == nil {
		s.t.Fatalf("no checkpoint: %v", err)
	}
	tree, err := tilelog.Parse(data, key.verifier)
	if err != nil {
		s.t.Fatal(err)
	}
	return tree
}

// check compares the whole log with the journals: each message once, in order of its partition.
func (s *stack) check(tree tlog.Tree) {
	s.t.Helper()
	service := s.service(s.blobs.Store)
	r := tilelog.NewReader(s.blobs.Store, proof.LogPrefix)
	next, lost := make([]uint64, partitions), map[int][]uint64{}
	err := r.Entries(s.t.Context(), 0, tree.N, tree.N, func(index int64, entry []byte) error {
		inclusion, err := r.ProveInclusion(s.t.Context(), index, tree)
		if err != nil {
			return err
		}
		if err := tlog.CheckRecord(inclusion, tree.N, tree.Hash, index, tlog.RecordHash(entry)); err != nil {
			return err
		}
		decoded, err := proof.Decode(entry)
		if err != nil {
			return err
		}
		if back, ok := decoded.(proof.Rewind); ok {
			next[back.Partition] = back.Sequence
			lost[back.Partition] = slices.DeleteFunc(lost[back.Partition], func(sequence uint64) bool { return sequence > back.Sequence })
			return nil
		}
		got, _ := decoded.(proof.Message)
		next[got.Partition]++
		m, err := service.journals[got.Partition].Get(s.t.Context(), got.Sequence)
		if err != nil && !errors.Is(err, journal.ErrNoMessage) {
			return err
		}
		if want := proof.Digest(got.Partition, next[got.Partition], m.Time, m.Subject, m.Data); got != want {
			lost[got.Partition] = append(lost[got.Partition], next[got.Partition])
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for p, sequences := range lost {
		if len(sequences) > 0 {
			s.t.Fatalf("partition %d has other messages than the log: %d", p, sequences)
		}
	}
	f, err := service.openFiler(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for p, j := range service.journals {
		end, err := j.LastSequence(s.t.Context())
		if err != nil || end != next[p] {
			s.t.Errorf("partition %d has %d messages, the log %d: %v", p, end, next[p], err)
		}
		archived := uint64(0)
		err = f.archive.Replay(s.t.Context(), event.Billing.Stream(p), 1, 0, func(got segment.Message) error {
			archived++
			m, err := j.Get(s.t.Context(), archived)
			if got.Sequence != archived || got.TimeNanos != m.Time.UnixNano() || got.Subject != m.Subject || !bytes.Equal(got.Data, m.Data) {
				return errors.Join(err, fmt.Errorf("message %d is archived as %d", archived, got.Sequence))
			}
			return err
		})
		if err != nil || archived != end {
			s.t.Errorf("partition %d has %d messages, its segments %d: %v", p, end, archived, err)
		}
	}
}

// consistent fails unless a checkpoint has everything of an earlier one.
func (s *stack) consistent(old, tree tlog.Tree) {
	s.t.Helper()
	if old.N == 0 || old == tree {
		return
	}
	consistency, err := tilelog.NewReader(s.blobs.Store, proof.LogPrefix).ProveConsistency(s.t.Context(), old.N, tree)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := tlog.CheckTree(consistency, tree.N, tree.Hash, old.N, old.Hash); err != nil {
		s.t.Fatalf("checkpoints of %d and %d entries: %v", old.N, tree.N, err)
	}
}

// failing is a blob store that fails from a write on.
type failing struct {
	blob.Store
	mu    sync.Mutex
	armed bool
	left  int // writes before the first that fails
}

var errCut = fmt.Errorf("%w: the test cut it off", blob.ErrUnavailable)

func (f *failing) fails() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left--
	return f.armed && f.left < 0
}

func (f *failing) Put(ctx context.Context, key string, r io.Reader, size int64) (blob.Info, error) {
	if f.fails() {
		return blob.Info{}, errCut
	}
	return f.Store.Put(ctx, key, r, size)
}

func (f *failing) Create(ctx context.Context, key string, content []byte) error {
	if f.fails() {
		return errCut
	}
	return f.Store.Create(ctx, key, content)
}

func (f *failing) Delete(ctx context.Context, key string) error {
	if f.fails() {
		return errCut
	}
	return f.Store.Delete(ctx, key)
}

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	return seededWith(t, rand.Uint64())
}

func seededWith(t *testing.T, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// notifying calls done once a blob with a prefix is written.
type notifying struct {
	blob.Store
	prefix string
	done   func()
}

func (n *notifying) Put(ctx context.Context, key string, r io.Reader, size int64) (blob.Info, error) {
	info, err := n.Store.Put(ctx, key, r, size)
	if strings.HasPrefix(key, n.prefix) {
		n.done()
	}
	return info, err
}
