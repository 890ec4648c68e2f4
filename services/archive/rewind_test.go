package archive

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/proof"
)

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
