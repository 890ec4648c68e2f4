package billing_test

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/archived/archivedtest"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/billing"
	"quire.dev/services/billing/internal/projection"
)

// archive is the archive of the stack's installation.
func (s *stack) archive() archivedtest.Archive {
	s.t.Helper()
	id, err := installation.Journals(s.nc, event.Billing.Stream(0)).Owner(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return archivedtest.Archive{Blobs: s.blobs, Installation: id, Partitions: s.count}
}

// age archives the messages of partition 0 up to one at least, in drawn segments, and has the stream begin after that one.
func (s *stack) age(random *rand.Rand, to uint64) {
	s.t.Helper()
	archive, stream, last := s.archive(), event.Billing.Stream(0), s.lastSequence()
	listing := s.segments()
	for filed := listing; filed < to; {
		filed += 1 + random.Uint64N(last-filed)
		archive.File(s.t, s.nc, stream, 0, filed)
	}
	s.trim(archive, to+1)
}

// trim has the stream of partition 0 begin with a message.
func (s *stack) trim(archive archivedtest.Archive, first uint64) {
	s.t.Helper()
	described := installation.Stream(event.Billing, 0)
	described.Installation = archive.Installation
	archivedtest.Trim(s.t, s.nc, described, s.count, first)
}

// segments is the last archived message of partition 0.
func (s *stack) segments() (last uint64) {
	s.t.Helper()
	err := s.blobs.Sweep(s.t.Context(), "archive/", time.Now().Add(time.Hour), func(i blob.Info) error {
		_, name, _ := strings.Cut(strings.TrimPrefix(i.Key, "archive/BILLING_0/"), "-")
		n := uint64(0)
		for _, digit := range name[:20] {
			n = 10*n + uint64(digit-'0')
		}
		last = max(last, n)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return last
}

// shown is what billing shows of a journal up to a message.
type shown struct {
	hash     []byte
	chain    []byte
	explains []*event.ExplainAnswer
	searches [][]*event.LedgerEntry
}

// questions are what a test asks for.
type questions struct {
	until    uint64 // message
	ids      []uint64
	requests [][]byte
	middle   int64 // time within the ledgers
}

// show asks for everything. The audits must match.
func (s *stack) show(of questions) (out shown) {
	s.t.Helper()
	for _, q := range []*event.AuditQuery{{}, {Deep: true}, {Account: of.ids[0]}, {New: true}} {
		if a := s.auditOf(0, q); !a.Match {
			s.t.Fatalf("audit %v: %v", q, a)
		}
	}
	a := s.auditOf(0, &event.AuditQuery{Until: of.until, Head: of.until})
	out.hash, out.chain = a.ReplayHash, a.HeadChain
	for _, request := range of.requests {
		var e *event.QueryAnswer
		eventually.True(s.t, "an explanation", func() bool {
			e = s.query(&event.Query{Query: &event.Query_Explain{Explain: &event.ExplainQuery{RequestId: request, AnyAccount: true, Follow: true}}})
			return e.Status != event.QueryStatus_QUERY_PENDING
		})
		if e.GetExplain() == nil {
			s.t.Fatalf("request %x: %v", request, e.Status)
		}
		e.GetExplain().Folded = 0 // depends on the snapshots
		out.explains = append(out.explains, e.GetExplain())
	}
	for _, id := range of.ids {
		out.searches = append(out.searches, s.searches(id, 50, of.requests[0], of.middle)...)
	}
	return out
}

func (s *stack) sameShown(when string, got, want shown) {
	s.t.Helper()
	if len(got.hash) == 0 || !bytes.Equal(got.hash, want.hash) || !bytes.Equal(got.chain, want.chain) {
		s.t.Fatalf("%s: the state's hash is %x, want %x, the chain %x, want %x", when, got.hash, want.hash, got.chain, want.chain)
	}
	for i, e := range got.explains {
		if !proto.Equal(e, want.explains[i]) {
			s.t.Fatalf("%s: explanation\n%v\nwant\n%v", when, e, want.explains[i])
		}
	}
	for i, list := range got.searches {
		if !slices.EqualFunc(list, want.searches[i], func(a, b *event.LedgerEntry) bool { return proto.Equal(a, b) }) {
			s.t.Fatalf("%s: search %d has %d entries, want %d", when, i, len(list), len(want.searches[i]))
		}
	}
}

// deleteBlobs deletes the blobs with a prefix.
func (s *stack) deleteBlobs(prefix string) {
	s.t.Helper()
	err := s.blobs.Sweep(s.t.Context(), prefix, time.Now().Add(time.Hour), func(i blob.Info) error { return s.blobs.Delete(s.t.Context(), i.Key) })
	if err != nil {
		s.t.Fatal(err)
	}
}

// requestsOf draws admitted requests of a journal.
func (s *stack) requestsOf(random *rand.Rand, count int) (drawn [][]byte) {
	s.t.Helper()
	var all [][]byte
	err := journal.Open(s.nc, event.Billing.Stream(0)).Replay(s.t.Context(), 0, s.lastSequence(), func(m journal.Message) error {
		batch := &event.UsageBatch{}
		if m.Subject != event.UsageSubject(0) || event.Decode(m.Data, batch) != nil {
			return nil
		}
		for _, a := range batch.Admissions {
			all = append(all, bytes.Clone(a.RequestId))
		}
		return nil
	}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for range count {
		drawn = append(drawn, all[random.IntN(len(all))])
	}
	return drawn
}

// TestAnArchivedJournalIsTheSame as one that the stream has: state, audits, explanations, ledgers whose old rows are made again.
// Also without snapshots and with a new read model, and for a second replica that starts while the first one is killed.
func TestAnArchivedJournalIsTheSame(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newStack(t)
	var ahead atomic.Int64
	s.clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	ids := []uint64{alice, bob, carol}
	cfg := billing.Config{SnapshotMessages: 7, HistoryMessages: 1 + random.IntN(40), SealInterval: 50 * time.Millisecond}
	offset := s.traffic(random, cfg, ids)
	cfg.LedgerRetention = time.Hour
	r := s.start(cfg, offset)
	for _, id := range ids {
		eventually.True(t, "old rows are aged", func() bool { return s.rows(projection.Aged, id) >= 2 })
	}
	s.grant(alice, 1)
	q := questions{s.lastSequence(), ids, s.requestsOf(random, 6), time.Now().Add(aMonth).UnixMilli()}
	until, want := q.until, s.show(q)
	ahead.Store(int64(3 * time.Hour)) // rows that are aged are deleted
	s.kill(r)

	for _, c := range []struct {
		when     string
		snapshot bool
	}{{"with snapshots", true}, {"without snapshots", false}, {"with a later beginning", true}} {
		s.age(random, max(s.first()-1, 1+random.Uint64N(until-1)))
		if !c.snapshot {
			s.deleteBlobs("billing/BILLING_0")
			s.newReadModel()
		}
		cfg.Instance = "a"
		r := s.start(cfg, offset)
		s.sameShown(c.when, s.show(q), want)
		cfg.Instance = "b"
		second := s.start(cfg, offset)
		s.kill(r)
		s.sameShown(c.when+", second replica", s.show(q), want)
		second.stop()
	}
}

// TestABillsProofIsTheSameFromTheArchive: the messages with its seal and with its price books are there, one of them applied.
func TestABillsProofIsTheSameFromTheArchive(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newStack(t)
	r := s.start(sealing(), 0)
	s.account(alice, plan.Pro)
	s.serve(alice, plan.LiteGet, 2)
	s.applyAt(0, appliedAt(t, bookWith(200), time.Now()))
	s.serve(alice, plan.LiteGet, 2)
	now := time.Now().UTC()
	closed := time.Date(now.Year(), now.Month()+1, 3, 0, 0, 0, 0, time.UTC).Sub(now)
	r.stop()
	r = s.start(sealing(), closed)
	s.serve(alice, plan.LiteGet, 1)
	var want *event.ProofAnswer
	ask := func() bool {
		want = s.query(&event.Query{Account: alice, Query: &event.Query_Proof{Proof: &event.ProofQuery{Period: now.Format("2006-01"), Logged: 1 << 40}}}).GetProof()
		return want.GetStatementText() != nil
	}
	eventually.True(t, "the month is sealed", ask)
	before := want
	if len(before.Books) != 2 {
		t.Fatalf("price books %v", before.Books)
	}
	r.stop()
	s.age(random, before.Seal.Sequence)
	s.start(sealing(), closed)
	if !ask() || !proto.Equal(before, want) {
		t.Errorf("the proof is\n%v\nwant\n%v", want, before)
	}
}

// TestBillingNamesTheSegmentThatItLacks, and starts once it is there again.
func TestBillingNamesTheSegmentThatItLacks(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newStack(t)
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Pro)
	s.serve(alice, plan.LiteGet, 2)
	r.stop()
	s.age(random, s.lastSequence()) // the stream is empty
	segments := s.takeBlobs("archive/")
	key := slices.Max(slices.Collect(maps.Keys(segments)))
	damaged := bytes.Clone(segments[key])
	damaged[random.IntN(len(damaged))] ^= 1
	for _, from := range []string{"the snapshot of the stop", "the first message"} {
		for says, data := range map[string][]byte{key: damaged, "are missing from the archive": nil} {
			if s.deleteBlobs(key); data != nil {
				s.put(key, data)
			}
			_, r := s.launch(billing.Config{}, 0)
			err := <-r.done
			r.done <- err
			if !errors.Is(err, billing.ErrJournal) || !strings.Contains(err.Error(), says) {
				t.Errorf("from %s: %v, want ErrJournal and %q", from, err, says)
			}
		}
		s.put(key, segments[key])
		r := s.start(billing.Config{}, 0)
		if a := s.audit(); !a.Match {
			t.Errorf("from %s: audit %v", from, a)
		}
		r.stop()
		s.deleteBlobs("billing/BILLING_0")
		s.newReadModel()
	}
}

// takeBlobs reads the blobs with a prefix.
func (s *stack) takeBlobs(prefix string) map[string][]byte {
	s.t.Helper()
	all := map[string][]byte{}
	err := s.blobs.Sweep(s.t.Context(), prefix, time.Now().Add(time.Hour), func(i blob.Info) (err error) {
		all[i.Key], err = blob.Read(s.t.Context(), s.blobs, i.Key, 1<<20)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// first is the first message of the stream of partition 0.
func (s *stack) first() uint64 {
	s.t.Helper()
	state, err := journal.Open(s.nc, event.Billing.Stream(0)).State(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return state.First
}

// newReadModel replaces the read model by an empty one.
func (s *stack) newReadModel() {
	s.t.Helper()
	store, err := sqlite.Open(s.t.Context(), sqlite.Config{Path: filepath.Join(s.t.TempDir(), "billing.db"), Collections: billing.Collections()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = store.Close() })
	s.views = &switched{Store: store}
}
