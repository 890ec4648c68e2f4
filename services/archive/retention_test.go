package archive

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/segment"
)

var generational = installation.Stream(event.Billing, 0)

// retention is that of partition 0, whose clock is two hours ahead.
func (s *stack) retention(after time.Duration) *retention {
	service := s.service(s.blobs)
	service.cfg.Retention = after
	service.deps.Deleting = func() (*nats.Conn, error) { return s.server.Conn(s.t), nil }
	return newRetention(service)
}

// audited notes an audit as billing does.
func (s *stack) audited(upTo uint64) {
	s.t.Helper()
	note := fmt.Appendf(nil, "%s%020d-1-0123456789abcdef and a MAC", installation.SnapshotPrefix(generational.Name), upTo)
	if _, err := s.blobs.Put(s.t.Context(), installation.AuditedKey(generational.Name), bytes.NewReader(note), int64(len(note))); err != nil {
		s.t.Fatal(err)
	}
}

// close closes the open generation of partition 0, and returns it.
func (s *stack) close() journal.Generation {
	s.t.Helper()
	if err := journal.Advance(s.t.Context(), s.nc, generational, partitions); err != nil {
		s.t.Fatal(err)
	}
	return s.generations(2)[0]
}

func (s *stack) generations(want int) []journal.Generation {
	s.t.Helper()
	list, err := journal.Generations(s.t.Context(), s.nc, generational)
	if err != nil || len(list) != want {
		s.t.Fatalf("%d generations, want %d: %v", len(list), want, err)
	}
	return list
}

// retire looks at partition 0 once.
func (s *stack) retire(r *retention) string {
	s.t.Helper()
	_, waits, err := r.retire(s.t.Context(), 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return waits
}

// TestAClosedGenerationIsDeleted once it is old enough, in segments, and audited to its last message, and not before.
func TestAClosedGenerationIsDeleted(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for range 20 {
		s.publish(0)
	}
	service := s.service(s.blobs)
	s.must(service)
	open := s.retention(time.Second)
	s.audited(1000)
	s.retire(open)
	s.generations(1)
	closed := s.close()
	s.publish(0)
	s.audited(0)
	if waits := s.retire(open); waits != waitsForSegments {
		t.Errorf("the closing message is in no segment: it waits because %q", waits)
	}
	s.must(service)
	for _, c := range []struct {
		name    string
		r       *retention
		audited uint64
		waits   string
		left    int
	}{
		{"young", s.retention(3 * time.Hour), closed.Last, "", 2},
		{"never audited", open, 0, waitsForAudit, 2},
		{"not audited to the end", open, closed.Last - 1, waitsForAudit, 2},
		{"audited to the end", open, closed.Last, "", 1},
		{"deleted", open, closed.Last, "", 1},
	} {
		s.audited(c.audited)
		if waits := s.retire(c.r); waits != c.waits {
			t.Errorf("%s: it waits because %q, want %q", c.name, waits, c.waits)
		}
		s.generations(c.left)
	}
	if left := s.generations(1)[0]; left.First != closed.Last+1 || left.Number != closed.Number+1 {
		t.Errorf("the generation that is left: %+v", left)
	}
	s.publish(0)
	s.must(service)
	s.check(s.must(s.service(s.blobs)))
}

// TestAGenerationIsComparedBeforeItIsDeleted: one of which the archive has something else stays.
func TestAGenerationIsComparedBeforeItIsDeleted(t *testing.T) {
	t.Parallel()
	fill := func(s *stack) {
		for range 20 {
			s.publish(0)
		}
		s.close()
		s.publish(0)
	}
	t.Run("another journal", func(t *testing.T) {
		t.Parallel()
		s := newStack(t)
		fill(s)
		s.must(s.service(s.blobs))
		s.journal(journaltest.Start(t))
		fill(s)
		s.audited(1000)
		if _, _, err := s.retention(time.Second).retire(t.Context(), 0); !errors.Is(err, errAltered) {
			t.Errorf("got %v, want %v", err, errAltered)
		}
		s.generations(2)
	})
	t.Run("a damaged segment", func(t *testing.T) {
		t.Parallel()
		s := newStack(t)
		fill(s)
		s.must(s.service(s.blobs))
		s.audited(1000)
		s.damage(segment.Prefix(generational.Name))
		if _, _, err := s.retention(time.Second).retire(t.Context(), 0); !errors.Is(err, segment.ErrDamaged) {
			t.Errorf("got %v, want %v", err, segment.ErrDamaged)
		}
		s.generations(2)
	})
	t.Run("a note of something else", func(t *testing.T) {
		t.Parallel()
		s := newStack(t)
		fill(s)
		s.must(s.service(s.blobs))
		for _, note := range []string{"", "billing/BILLING_1/00000000000000001000-1-ab", "billing/BILLING_0/1000-1-ab", "billing/BILLING_0/-0000000000000001000-1-ab"} {
			if _, err := s.blobs.Put(t.Context(), installation.AuditedKey(generational.Name), bytes.NewReader([]byte(note)), int64(len(note))); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.retention(time.Second).retire(t.Context(), 0); err == nil {
				t.Errorf("the note %q was believed", note)
			}
		}
		s.generations(2)
	})
}

// damage changes a byte in the middle of every blob with a prefix.
func (s *stack) damage(prefix string) {
	s.t.Helper()
	var keys []string
	err := s.blobs.Sweep(s.t.Context(), prefix, time.Now().Add(time.Hour), func(info blob.Info) error {
		keys = append(keys, info.Key)
		return nil
	})
	if err != nil || len(keys) == 0 {
		s.t.Fatalf("%d blobs: %v", len(keys), err)
	}
	for _, key := range keys {
		data, err := blob.Read(s.t.Context(), s.blobs, key, 1<<20)
		if err != nil {
			s.t.Fatal(err)
		}
		data = slices.Clone(data)
		data[len(data)/3] ^= 1
		if _, err := s.blobs.Put(s.t.Context(), key, bytes.NewReader(data), int64(len(data))); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestADeletionThatFailedIsRepeated, and several instances do not get in each other's way.
func TestADeletionThatFailedIsRepeated(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.publish(0)
	closed := s.close()
	s.must(s.service(s.blobs))
	s.audited(closed.Last)
	r := s.retention(time.Second)
	works := r.deps.Deleting
	r.deps.Deleting = func() (*nats.Conn, error) { return nil, nats.ErrNoServers }
	if _, _, err := r.retire(t.Context(), 0); !errors.Is(err, nats.ErrNoServers) {
		t.Errorf("got %v", err)
	}
	r.round(t.Context())
	if r.reported[0] == "" {
		t.Error("the failure was not reported")
	}
	s.generations(2)
	r.deps.Deleting = works
	other := s.retention(time.Second)
	other.deps.Deleting = func() (*nats.Conn, error) { // overtaken by the other instance, when it has compared everything
		s.retire(r)
		return works()
	}
	if _, _, err := other.retire(t.Context(), 0); err == nil {
		t.Error("a generation that is gone was deleted")
	}
	s.generations(1)
	r.round(t.Context())
	if r.reported[0] != "" {
		t.Errorf("still reported: %s", r.reported[0])
	}
}
