package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"
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
	"quire.dev/pkg/witness"
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
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestTheLogHasEachMessageOnce(t *testing.T) {
	s, random := newStack(t), seeded(t)
	service := s.service(s.blobs)
	s.publish(0)
	last := s.must(service)
	for range 20 {
		s.publishAll(random, 120)
		tree := s.must(service)
		s.consistent(last, tree)
		last = tree
		if random.IntN(4) == 0 {
			service = s.service(s.blobs)
		}
	}
	s.check(last)
	if again := s.must(service); again != last {
		t.Errorf("nothing new, and the log has %d entries, had %d", again.N, last.N)
	}
	key, err := read(t.Context(), s.blobs.Store, proof.LogKey, 1000)
	if err != nil || !strings.HasPrefix(string(key), "quire/test/") || strings.TrimSpace(string(key)) != service.key.public {
		t.Errorf("published key %q, %v", key, err)
	}
}

// TestAKillAtEachWrite cuts a round off at each of its writes, and goes on with another instance.
func TestAKillAtEachWrite(t *testing.T) {
	s, random := newStack(t), seeded(t)
	s.publish(1)
	last := s.must(s.service(s.blobs))
	for written := 0; ; written++ {
		s.publish(0)
		s.publishAll(random, 130)
		s.blobs.armed, s.blobs.left = true, written
		err := s.round(s.service(s.blobs))
		s.blobs.armed = false
		if err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		seen := s.checkpoint()
		s.consistent(last, seen)
		tree := s.must(s.service(s.blobs))
		s.consistent(seen, tree)
		s.check(tree)
		last = tree
		if err == nil {
			break
		}
	}
}

func TestInstancesWriteOneLog(t *testing.T) {
	s, random := newStack(t), seeded(t)
	s.publish(0)
	first := s.must(s.service(s.blobs))
	var group sync.WaitGroup
	errs := make(chan error, 4)
	for range 4 {
		service := s.service(s.blobs)
		group.Go(func() {
			for range 30 {
				if err := service.round(t.Context()); err != nil && !errors.Is(err, errOvertaken) {
					errs <- err
					return
				}
			}
		})
	}
	for range 300 {
		s.publish(random.IntN(partitions))
	}
	group.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	tree := s.must(s.service(s.blobs))
	s.consistent(first, tree)
	s.check(tree)
}

// TestAnOvertakenInstanceChangesNothing: it slept while others made and deleted the cut that it is about to make.
func TestAnOvertakenInstanceChangesNothing(t *testing.T) {
	s := newStack(t)
	slept, awake := s.service(s.blobs), s.service(s.blobs)
	slept.keepCuts, awake.keepCuts = 2, 2
	s.publish(0)
	s.must(slept)
	for range 6 {
		s.publish(1)
		s.must(awake)
	}
	before := s.checkpoint()
	s.publish(2)
	after := s.must(slept) // it opens the log again, and goes on from where the others are
	s.consistent(before, after)
	s.check(after)
	s.check(s.must(awake))
}

// TestAStrayCutIsNotAdded: an instance that was overtaken left the cut that it created when it ended.
func TestAStrayCutIsNotAdded(t *testing.T) {
	s := newStack(t)
	one, two := s.service(s.blobs), s.service(s.blobs)
	one.keepCuts, two.keepCuts = 2, 2
	s.publish(0)
	s.must(one)
	s.must(two)
	for range 6 {
		s.publish(1)
		s.must(one)
	}
	stray := []byte(`{"number":2,"positions":[{"partition":0,"sequence":1},{"partition":1,"sequence":3}]}`)
	if err := s.blobs.Create(t.Context(), cutKey(2), stray); err != nil {
		t.Fatal(err)
	}
	s.publish(2)
	s.check(s.must(two))
	s.check(s.must(s.service(s.blobs)))
}

func TestAJournalOfABackupIsNoticed(t *testing.T) {
	s, random := newStack(t), seeded(t)
	s.publish(0)
	s.publishAll(random, 50)
	kept := s.must(s.service(s.blobs))
	s.server.Stop()
	s.journal(journaltest.Start(t)) // without any message
	if err := s.round(s.service(s.blobs)); !errors.Is(err, ErrRewound) {
		t.Errorf("a shorter journal: %v", err)
	}
	for range 60 {
		s.publish(0)
	}
	if err := s.round(s.service(s.blobs)); !errors.Is(err, ErrRewound) {
		t.Errorf("another journal: %v", err)
	}
	if got := s.checkpoint(); got != kept {
		t.Errorf("the checkpoint has changed from %v to %v", kept, got)
	}
}

// TestABackupIsAccepted restores journals as they were some time ago, and others follow. Then it does so once more.
func TestABackupIsAccepted(t *testing.T) {
	s, random := newStack(t), seeded(t)
	folder := t.TempDir()
	s.inFolder(folder)
	s.publishAll(random, 60)
	s.publish(0)
	last := s.must(s.service(s.blobs))
	for range 2 {
		copied := s.copyJournals(folder)
		kept := s.ends()
		s.publish(1)
		s.publishAll(random, 900)
		logged := s.must(s.service(s.blobs))
		s.consistent(last, logged)
		ends := s.ends()
		s.publish(2)
		s.blobs.armed, s.blobs.left = true, 1 // the cut is there, and its messages are lost
		if err := s.round(s.service(s.blobs)); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		s.blobs.armed = false
		folder = copied
		s.inFolder(folder)
		s.publishAll(random, 50)

		service := s.service(s.blobs)
		if err := s.round(service); !errors.Is(err, ErrRewound) && !errors.Is(err, journal.ErrTruncated) {
			t.Fatal(err)
		}
		found, err := FindRewound(t.Context(), service.cfg, service.deps)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range found {
			if one.Kept != kept[one.Partition] || one.Logged != ends[one.Partition] {
				t.Errorf("partition %d is said to be logged up to %d and kept up to %d, want %d and %d", one.Partition, one.Logged, one.Kept, ends[one.Partition], kept[one.Partition])
			}
		}
		for p := range partitions {
			if changed := slices.ContainsFunc(found, func(one Rewound) bool { return one.Partition == p }); changed != (ends[p] > kept[p]) {
				t.Errorf("partition %d is rewound: %v, from %d to %d", p, changed, ends[p], kept[p])
			}
		}
		if err := AcceptRewound(t.Context(), service.cfg, service.deps, found); err != nil {
			t.Fatal(err)
		}
		last = s.must(s.service(s.blobs))
		s.consistent(logged, last)
		s.check(last)
		if found, err := FindRewound(t.Context(), service.cfg, service.deps); err != nil || len(found) > 0 {
			t.Errorf("found again: %v, %v", found, err)
		}
	}
}

// inFolder restarts the journals in a folder.
func (s *stack) inFolder(folder string) {
	s.t.Helper()
	s.server.Stop()
	s.journal(journaltest.Start(s.t, journaltest.WithFolder(folder)))
}

// copyJournals copies the folder of the journals, as a backup does.
func (s *stack) copyJournals(folder string) (copied string) {
	s.t.Helper()
	s.server.Stop()
	copied = s.t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(folder)); err != nil {
		s.t.Fatal(err)
	}
	s.inFolder(folder)
	return copied
}

// accept accepts what is lost, and returns it.
func (s *stack) accept() []Rewound {
	s.t.Helper()
	service := s.service(s.blobs)
	found, err := FindRewound(s.t.Context(), service.cfg, service.deps)
	if err == nil {
		err = AcceptRewound(s.t.Context(), service.cfg, service.deps, found)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// TestAnOlderBackupIsAcceptedToo: before the archive starts, the journals are restored once more.
func TestAnOlderBackupIsAcceptedToo(t *testing.T) {
	s, folder := newStack(t), t.TempDir()
	s.inFolder(folder)
	s.publish(0)
	s.must(s.service(s.blobs))
	first := s.copyJournals(folder)
	s.publish(0)
	s.publish(0)
	s.must(s.service(s.blobs))
	second := s.copyJournals(folder)
	s.publish(0)
	logged := s.must(s.service(s.blobs))
	s.inFolder(second)
	if found := s.accept(); len(found) != 1 || found[0].Kept != 3 {
		t.Errorf("found %v, want messages up to 3", found)
	}
	service := s.service(s.blobs)
	if _, err := FindRewound(t.Context(), service.cfg, service.deps); err == nil {
		t.Error("a loss is found that is accepted")
	}
	s.inFolder(first)
	s.publish(0)
	s.publish(0)
	s.publish(0) // as many as before, and others
	if err := s.round(s.service(s.blobs)); !errors.Is(err, ErrRewound) {
		t.Errorf("a loss is recorded of another journal: %v", err)
	}
	if found := s.accept(); len(found) != 1 || found[0].Kept != 1 || len(found[0].Segments) != 1 {
		t.Errorf("found %v, want messages up to 1, and the segment after it", found)
	}
	tree := s.must(s.service(s.blobs))
	s.consistent(logged, tree)
	s.check(tree)
}

// TestACutOfLostMessagesIsReplaced: nothing of the log is lost, and the next cut can't be added.
func TestACutOfLostMessagesIsReplaced(t *testing.T) {
	s, folder := newStack(t), t.TempDir()
	s.inFolder(folder)
	s.publish(0)
	logged := s.must(s.service(s.blobs))
	copied := s.copyJournals(folder)
	s.publish(0)
	s.blobs.armed, s.blobs.left = true, 1
	if err := s.round(s.service(s.blobs)); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	s.blobs.armed = false
	s.inFolder(copied)
	if err := s.round(s.service(s.blobs)); !errors.Is(err, journal.ErrTruncated) {
		t.Errorf("got %v", err)
	}
	if found := s.accept(); len(found) != 1 || found[0].Planned != 2 || found[0].Kept != 1 {
		t.Errorf("found %v, want a cut up to 2", found)
	}
	s.publish(1)
	tree := s.must(s.service(s.blobs))
	s.consistent(logged, tree)
	s.check(tree)
}

// TestANewLogSetsSegmentsOfLostMessagesAside: the old log was moved away, and the segments stay.
func TestANewLogSetsSegmentsOfLostMessagesAside(t *testing.T) {
	s := newStack(t)
	s.publish(0)
	s.must(s.service(s.blobs))
	s.publish(0)
	s.must(s.service(s.blobs))
	for _, prefix := range []string{proof.LogPrefix, private} {
		err := s.blobs.Sweep(t.Context(), prefix, time.Now().Add(time.Hour), func(info blob.Info) error {
			return s.blobs.Store.Delete(t.Context(), info.Key)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.inFolder(t.TempDir())
	s.publish(0)
	if err := s.round(s.service(s.blobs)); !errors.Is(err, ErrRewound) {
		t.Errorf("segments of another journal are continued: %v", err)
	}
	if found := s.accept(); len(found) != 1 || len(found[0].Segments) != 2 {
		t.Errorf("found %v, want two segments", found)
	}
	s.check(s.must(s.service(s.blobs)))
}

// TestARoundEndsUnderTraffic: a message comes with each cut.
func TestARoundEndsUnderTraffic(t *testing.T) {
	s := newStack(t)
	s.publish(0)
	busy := &notifying{Store: s.blobs, key: stateKey, done: func() { s.publish(0) }}
	for range 3 {
		service := s.service(busy)
		service.deps.Clock = time.Now // no message is old enough for a segment
		if err := s.round(service); err != nil {
			t.Fatal(err)
		}
	}
	s.check(s.must(s.service(s.blobs)))
}

// ends are the last sequences of the journals.
func (s *stack) ends() (ends []uint64) {
	s.t.Helper()
	for _, j := range s.service(s.blobs).journals {
		end, err := j.LastSequence(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		ends = append(ends, end)
	}
	return ends
}

func TestALogThatWasEditedIsNotContinued(t *testing.T) {
	s, random := newStack(t), seeded(t)
	s.publish(0)
	s.must(s.service(s.blobs))
	stateBefore, err := read(t.Context(), s.blobs.Store, stateKey, maxRecord)
	if err != nil {
		t.Fatal(err)
	}
	s.publish(0)
	s.publishAll(random, 300)
	kept := s.must(s.service(s.blobs))
	put := func(key string, data []byte) {
		t.Helper()
		if data == nil {
			err = s.blobs.Store.Delete(t.Context(), key)
		} else {
			_, err = s.blobs.Store.Put(t.Context(), key, bytes.NewReader(data), int64(len(data)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stateNow, err := read(t.Context(), s.blobs.Store, stateKey, maxRecord)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key  string
		data []byte
		want error
	}{
		"state removed":          {stateKey, nil, ErrIncomplete},
		"state of another log":   {stateKey, bytes.Replace(stateNow, []byte(`"root":"`), []byte(`"root":"AAAA`), 1), nil},
		"state of another size":  {stateKey, bytes.Replace(stateNow, []byte(`"size":`), []byte(`"size":1`), 1), tilelog.ErrDamaged},
		"checkpoint not a note":  {proof.LogCheckpoint, []byte("quire/test\n1\n"), tilelog.ErrCheckpoint},
		"earlier state accepted": {stateKey, stateBefore, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := read(t.Context(), s.blobs.Store, c.key, maxRecord)
			if err != nil {
				t.Fatal(err)
			}
			put(c.key, c.data)
			err = s.round(s.service(s.blobs))
			switch {
			case name == "earlier state accepted" && err != nil: // its cuts are added once more
				t.Error(err)
			case name != "earlier state accepted" && (err == nil || c.want != nil && !errors.Is(err, c.want)):
				t.Errorf("got %v, want %v", err, c.want)
			}
			put(c.key, before)
		})
	}
	s.secret += " and another one"
	if err := s.round(s.service(s.blobs)); !errors.Is(err, tilelog.ErrCheckpoint) {
		t.Errorf("another key: %v", err)
	}
	s.secret = testSecret
	if got := s.checkpoint(); got != kept {
		t.Errorf("the checkpoint has changed from %v to %v", kept, got)
	}
	s.check(s.must(s.service(s.blobs)))
}

// TestAForkIsNotSigned: the log is that of its state, which lacks what is signed.
func TestAForkIsNotSigned(t *testing.T) {
	s := newStack(t)
	for range 3 {
		s.publish(0)
		s.must(s.service(s.blobs))
	}
	stateNow, err := read(t.Context(), s.blobs.Store, stateKey, maxRecord)
	if err != nil {
		t.Fatal(err)
	}
	s.publish(1)
	signed := s.must(s.service(s.blobs))
	// Somebody restores the state and the cuts of an earlier time, and another message comes first.
	if err := errors.Join(write(t.Context(), s.blobs.Store, stateKey, stateNow), s.blobs.Store.Delete(t.Context(), cutKey(4))); err != nil {
		t.Fatal(err)
	}
	s.publish(0)
	if err := s.round(s.service(s.blobs)); !errors.Is(err, ErrForked) {
		t.Errorf("got %v, want %v", err, ErrForked)
	}
	if got := s.checkpoint(); got != signed {
		t.Errorf("the checkpoint has changed from %v to %v", signed, got)
	}
}

func TestRunSignsAndStops(t *testing.T) {
	s := newStack(t)
	for range 200 {
		s.publish(0)
	}
	log := &bytes.Buffer{}
	service, err := New(Config{PartitionCount: partitions, Secret: testSecret, Installation: func() string { return "test" }, CutMessages: 50},
		Deps{NC: s.nc, Blobs: s.blobs, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s.blobs.Store = &notifying{Store: s.blobs.Store, key: proof.LogCheckpoint, done: stop}
	if err := service.Run(ctx); err != nil || service.Unready() != nil {
		t.Errorf("%v, %v: %s", err, service.Unready(), log)
	}
	if got := s.checkpoint(); got.N != 200 {
		t.Errorf("%d entries: %s", got.N, log)
	}
	service.cfg.Secret = testSecret[:MinKeyBytes-1]
	if err := service.Run(t.Context()); err == nil {
		t.Error("a short secret is taken")
	}
}

// notifying calls done once a blob is written.
type notifying struct {
	blob.Store
	key  string
	done func()
}

func (n *notifying) Put(ctx context.Context, key string, r io.Reader, size int64) (blob.Info, error) {
	info, err := n.Store.Put(ctx, key, r, size)
	if key == n.key {
		n.done()
	}
	return info, err
}

func TestMessagesWaitForAFullSegment(t *testing.T) {
	s := newStack(t)
	service := s.service(s.blobs)
	now := time.Now()
	service.deps.Clock = func() time.Time { return now }
	for range 10 {
		s.publish(0)
		s.must(service)
	}
	segments := func() int {
		t.Helper()
		listing, err := service.filer.archive.List(t.Context(), event.Billing.Stream(0))
		if err != nil {
			t.Fatal(err)
		}
		return len(listing.Segments)
	}
	if n := segments(); n != 0 {
		t.Errorf("%d segments of messages that are not old", n)
	}
	m, err := service.journals[0].Get(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	for age, want := range []int{0, 1} {
		now = m.Time.Add(service.cfg.SegmentAge + time.Duration(age) - 1)
		s.must(service)
		if n := segments(); n != want {
			t.Errorf("the oldest message is %v old, and there are %d segments", now.Sub(m.Time), n)
		}
	}
}

func TestSegmentsFindAccountsAndRequests(t *testing.T) {
	s := newStack(t)
	service := s.service(s.blobs)
	first, second := event.NewRequestID(), event.NewRequestID()
	s.send(event.UsageSubject(0), &event.UsageBatch{Source: "edge", Number: 1, Admissions: []*event.Admission{{RequestId: first[:], Account: 1}, {RequestId: second[:], Account: 2, Anonymous: true}}})
	s.must(service)
	s.send(event.Paste.SettleSubject(0), &event.UsageBatch{Source: "PASTE_0", Settlements: []*event.Settlement{{RequestId: first[:], Account: 3}}})
	s.must(service)
	s.send(event.AccountSubject(0), &event.CommandBatch{Source: "edge", Number: 1, Commands: []*event.Command{{RequestId: second[:], Account: 4}}})
	s.must(service)
	for name, c := range map[string]struct {
		query segment.Query
		want  []uint64
	}{
		"an admission":       {segment.Query{Account: 1}, []uint64{1}},
		"a network":          {segment.Query{Network: 2}, []uint64{1}},
		"not an account":     {segment.Query{Account: 2}, nil},
		"a settlement":       {segment.Query{Account: 3}, []uint64{2}},
		"a command":          {segment.Query{Account: 4}, []uint64{3}},
		"an account's calls": {segment.Query{Account: 1, Requests: segment.Around(first, 0)}, []uint64{1}},
		"at another time":    {segment.Query{Account: 1, Requests: &segment.Between{Lowest: first.UnixMilli() - 10_000, Highest: first.UnixMilli() - 5000}}, nil},
	} {
		var got []uint64
		found := service.filer.archive.Messages(t.Context(), service.filer.archive.Find(t.Context(), event.Billing.Stream(0), c.query))
		for m, err := range found {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, m.Sequence)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: messages %v, want %v", name, got, c.want)
		}
	}
}

func TestTheLogIsWitnessed(t *testing.T) {
	s := newStack(t)
	key, err := deriveKey(testSecret, "test")
	if err != nil {
		t.Fatal(err)
	}
	server, err := witness.Open(witness.Config{Folder: t.TempDir(), Name: "witness.example/w", Logs: []string{key.public}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	witnessed := func(service *Service) *Service {
		t.Helper()
		if service.witnesses, err = witness.ParseWitnesses(server.VerifierKey() + "@" + web.URL); err != nil {
			t.Fatal(err)
		}
		return service
	}
	signatures := func() int {
		t.Helper()
		data, err := read(t.Context(), s.blobs.Store, proof.LogCheckpoint, tilelog.MaxCheckpoint)
		if err != nil {
			t.Fatal(err)
		}
		n, err := note.Open(data, note.VerifierList(key.verifier, clientOf(t, server).Verifier()))
		if err != nil {
			t.Fatal(err)
		}
		return len(n.Sigs)
	}
	for range 3 {
		s.publish(0)
		s.publish(1)
		s.must(witnessed(s.service(s.blobs))) // each time one that does not know what the witness knows
		if n := signatures(); n != 2 {
			t.Fatalf("%d signatures", n)
		}
	}
	web.Close()
	s.publish(0)
	s.must(witnessed(s.service(s.blobs)))
	if n := signatures(); n != 1 {
		t.Errorf("%d signatures without a witness", n)
	}
	web = httptest.NewServer(server) // it is back, and is asked again although nothing is new
	t.Cleanup(web.Close)
	signed := s.must(witnessed(s.service(s.blobs)))
	if n := signatures(); n != 2 {
		t.Errorf("%d signatures with a witness that is back", n)
	}
	s.must(s.service(s.blobs)) // without a witness
	if n := signatures(); n != 2 {
		t.Errorf("%d signatures: one got lost", n)
	}
	// An earlier state of everything is restored: the witness knows a longer log, which is not signed twice.
	s.publish(1)
	s.must(witnessed(s.service(s.blobs)))
	early, err := tilelog.Sign(signed, key)
	if err != nil {
		t.Fatal(err)
	}
	root, err := json.Marshal(state{Cut: 4, Size: signed.N, Root: signed.Hash, Positions: positionsOf(t, s, signed)})
	if err := errors.Join(err, write(t.Context(), s.blobs.Store, proof.LogCheckpoint, early), write(t.Context(), s.blobs.Store, stateKey, root), s.blobs.Store.Delete(t.Context(), cutKey(5))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.publish(0)
		if err := s.round(witnessed(s.service(s.blobs))); !errors.Is(err, ErrForked) {
			t.Errorf("another history than the witness's: %v", err)
		}
	}
	if got := s.checkpoint(); got != signed {
		t.Errorf("the checkpoint has %d entries, want %d", got.N, signed.N)
	}
}

// positionsOf are the positions of a log.
func positionsOf(t *testing.T, s *stack, tree tlog.Tree) []position {
	t.Helper()
	positions := make([]position, partitions)
	for p := range positions {
		positions[p].Partition = p
	}
	err := tilelog.NewReader(s.blobs.Store, proof.LogPrefix).Entries(t.Context(), 0, tree.N, tree.N, func(_ int64, entry []byte) error {
		decoded, err := proof.Decode(entry)
		if m, ok := decoded.(proof.Message); ok {
			hash := tlog.RecordHash(entry)
			positions[m.Partition] = position{Partition: m.Partition, Sequence: m.Sequence, Entry: &hash}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return positions
}

// clientOf is a client of a witness.
func clientOf(t *testing.T, server *witness.Server) *witness.Client {
	t.Helper()
	client, err := witness.NewClient(server.VerifierKey(), "https://unused.example")
	if err != nil {
		t.Fatal(err)
	}
	return client
}
