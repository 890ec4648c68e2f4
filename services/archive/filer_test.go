package archive

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/archived/archivedtest"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/segment"
)

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

// TestALogThatFailsBetweenSegmentsIsOpenedAgain: the failure is the log's, and the next round goes on.
func TestALogThatFailsBetweenSegmentsIsOpenedAgain(t *testing.T) {
	s := newStack(t)
	service := s.service(s.blobs)
	s.publish(0)
	s.publish(1)
	// A message comes with the first segment, and the round that adds it can't write.
	s.blobs.Store = &notifying{Store: s.blobs.Store, prefix: segment.Prefix(event.Billing.Stream(0)), done: func() {
		s.publish(2)
		s.blobs.armed, s.blobs.left = true, 0
	}}
	if err := s.round(service); !errors.Is(err, errCut) || !strings.Contains(err.Error(), "keep the log") || service.keeper != nil {
		t.Errorf("%v, and the log is open: %v", err, service.keeper != nil)
	}
	s.blobs.armed = false
	s.check(s.must(service))
}

// A stream may begin right after what is archived: the log and the segments go on, and old messages are read from the segments.
func TestALogGoesOnWhenTheJournalBeginsLater(t *testing.T) {
	random := seeded(t)
	s := newStack(t)
	for range 5 {
		for range 2 + random.IntN(20) {
			s.publish(0)
		}
		service := s.service(s.blobs)
		s.check(s.must(service))
		last := service.filer.streams[0].last
		archivedtest.Trim(t, s.nc, installation.Stream(event.Billing, 0), partitions, last+1-random.Uint64N(min(last, 3)))
		s.check(s.must(service))
	}
	service := s.service(s.blobs)
	state, err := service.journals[0].State(t.Context())
	if err != nil || state.First < 3 {
		t.Fatalf("%+v, %v", state, err)
	}
	if err := service.journals[0].Replay(t.Context(), 0, state.Last, func(journal.Message) error { return nil }, nil); err != nil {
		t.Error(err)
	}
	rewound, err := FindRewound(t.Context(), service.cfg, service.deps)
	if err != nil || len(rewound) > 0 {
		t.Errorf("%v, %v: nothing is lost", rewound, err)
	}
}
