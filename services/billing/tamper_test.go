package billing_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/natsfiles"
	"quire.dev/pkg/natsfiles/natsfilestest"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/views"
	"quire.dev/services/billing"
	"quire.dev/services/billing/internal/projection"
)

type messages = []natsfiles.Message

// tamperings are what somebody who writes to the files of a stopped server may do to a journal.
var tamperings = []struct {
	name string
	edit func(t *testing.T, m messages) messages
	// What notices it: with the snapshots, without them, and without them and the read model's head.
	kept, removed, alone string
}{
	{"nothing", func(_ *testing.T, m messages) messages { return m }, "", "", ""},
	{"a byte flipped", func(t *testing.T, m messages) messages {
		data := m[indexOf(t, m, event.Paste.SettleSubject(0))].Data
		data[len(data)-1] ^= 1
		return m
	}, byAudit, byReadModel, byHead},
	{"a message replaced by a valid one", func(t *testing.T, m messages) messages {
		i := indexOf(t, m, event.AccountSubject(0)) + 1 // the grant
		batch := &event.CommandBatch{}
		decode(t, m[i].Data, batch)
		batch.Commands[0].GetGrant().AmountMicros *= 2
		data, err := event.Encode(batch)
		if err != nil {
			t.Fatal(err)
		}
		m[i].Data = data
		return m
	}, byAudit, byReadModel, byHead},
	{"two messages swapped", func(t *testing.T, m messages) messages {
		i := indexOf(t, m, event.Paste.SettleSubject(0))
		m[i], m[i+1] = m[i+1], m[i]
		return m
	}, byAudit, byReadModel, byHead},
	{"a subject changed", func(t *testing.T, m messages) messages {
		m[indexOf(t, m, event.Paste.SettleSubject(0))].Subject = event.Lite.SettleSubject(0)
		return m
	}, byAudit, byReadModel, byHead},
	{"a time changed", func(_ *testing.T, m messages) messages {
		m[2].Time = m[2].Time.Add(1)
		return m
	}, byAudit, byReadModel, byHead},
	{"a message removed", func(t *testing.T, m messages) messages {
		i := indexOf(t, m, event.UsageSubject(0))
		return slices.Delete(m, i, i+1)
	}, byLength, byLength, byLength},
	{"a message removed and the length mended", func(t *testing.T, m messages) messages {
		i := indexOf(t, m, event.UsageSubject(0))
		last := m[len(m)-1]
		return append(slices.Delete(m, i, i+1), last)
	}, byAudit, byReadModel, byHead},
	{"a message doubled", func(t *testing.T, m messages) messages {
		i := indexOf(t, m, event.UsageSubject(0))
		return slices.Insert(m, i, m[i])
	}, byLast, byReadModel, byHead},
	{"the tail cut off", func(_ *testing.T, m messages) messages { return m[:len(m)-2] }, byLength, byLength, byLength},
	{"the tail replaced", func(_ *testing.T, m messages) messages {
		return append(m[:len(m)-newer-1], slices.Repeat(m[:1], newer+1)...)
	}, byLast, byReadModel, byHead},
	// Beyond reach without a newer head: docs/audit.md says so.
	{"what is newer than the head kept elsewhere", func(_ *testing.T, m messages) messages {
		return append(m[:len(m)-newer], slices.Repeat(m[:1], newer)...)
	}, byLast, byReadModel, byRows},
}

// newer is the number of messages after the head that is kept elsewhere.
const newer = 2

// What notices a tampering, and what it says.
const (
	byAudit     = "audit: the replayed state differs from the live one"
	byHead      = "audit: the chain differs from the head kept elsewhere"
	byRows      = "audit: rows of the read model differ from the journal"
	byLength    = "but the read model was written up to"
	byLast      = ", at which snapshot"
	byReadModel = "but the read model was written from messages whose chain is"
)

func indexOf(t *testing.T, m messages, subject string) int {
	t.Helper()
	i := slices.IndexFunc(m, func(m natsfiles.Message) bool { return m.Subject == subject })
	if i < 0 {
		t.Fatalf("no message on %s", subject)
	}
	return i
}

// TestTheChainNoticesEveryTampering: a billing that was stopped in good order is started again on an edited journal.
func TestTheChainNoticesEveryTampering(t *testing.T) {
	original := t.TempDir()
	var head *event.AuditAnswer
	t.Run("made", func(t *testing.T) { // its servers end with it
		s := stackIn(t, original)
		r := s.start(billing.Config{}, 0)
		s.account(alice, plan.Pro)
		s.grant(alice, 5_000)
		s.serve(alice, plan.LiteGet, 3)
		s.publish(event.Paste.SettleSubject(0), &event.UsageBatch{Source: event.Paste.Stream(0), Settlements: []*event.Settlement{
			{Account: alice, Sequence: 1, StorageDelta: 1000, StoredMs: time.Now().UnixMilli()},
		}})
		s.serve(alice, plan.PastesGet, 3)
		head = s.audit()
		s.serve(alice, plan.FilesGet, 3)
		if last := s.audit().LastSequence; last != head.LastSequence+newer {
			t.Fatalf("the head is at %d, the end at %d", head.LastSequence, last)
		}
		r.stop()
		s.server.Stop()
	})
	for _, tampering := range tamperings {
		for how, noticed := range map[string]string{"kept": tampering.kept, "removed": tampering.removed, "alone": tampering.alone} {
			t.Run(tampering.name+", snapshots "+how, func(t *testing.T) {
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(original)); err != nil {
					t.Fatal(err)
				}
				natsfilestest.Rewrite(t, filepath.Join(dir, "nats"), event.Billing.Stream(0), func(m messages) messages { return tampering.edit(t, m) })
				s := stackIn(t, dir)
				if how != "kept" {
					for _, i := range s.snapshots() {
						if err := s.blobs.Delete(t.Context(), i.Key); err != nil {
							t.Fatal(err)
						}
					}
				}
				if how == "alone" {
					if err := s.views.Commit(t.Context(), views.Batch{Deletes: []views.Delete{
						{Collection: projection.Heads, ID: event.Billing.Stream(0), Seq: 1 << 60},
					}}); err != nil {
						t.Fatal(err)
					}
				}
				if by := s.notice(head); !strings.Contains(by, noticed) {
					t.Errorf("noticed by %q, want %q", by, noticed)
				}
			})
		}
	}
}

// TestTheHeadOfTheChainIsKeptOutsideTheJournal: in the log, the metrics and the read model, where each new one replaces the old.
func TestTheHeadOfTheChainIsKeptOutsideTheJournal(t *testing.T) {
	s := newStack(t)
	s.log = &lines{}
	r := s.start(billing.Config{SnapshotMessages: 1}, 0)
	s.account(alice, plan.Pro)
	for range 2 {
		s.serve(alice, plan.LiteGet, 1)
		head := s.audit()
		series := fmt.Sprintf(`quire_billing_chain_head{chain="%x",partition="0"} %d`, head.Chain, head.LastSequence)
		eventually.True(t, series, func() bool { return strings.Contains(r.exposed(), series) })
		if n := strings.Count(r.exposed(), "\nquire_billing_chain_head{"); n != 1 {
			t.Errorf("%d series of one partition", n)
		}
		eventually.True(t, "the log", s.log.has(fmt.Sprintf(`msg="chain head" stream=BILLING_0 sequence=%d chain=%x`, head.LastSequence, head.Chain)))
		eventually.True(t, "the read model", func() bool {
			stored, err := projection.StoredHead(t.Context(), s.views, event.Billing.Stream(0))
			return err == nil && stored.Sequence == head.LastSequence && bytes.Equal(stored.Chain[:], head.Chain)
		})
	}
	r.stop()
	if strings.Contains(r.exposed(), "\nquire_billing_chain_head{") {
		t.Error("a stopped partition has a head")
	}
}

// notice starts billing, audits it, and compares an earlier head. It returns what the first of these notices, if any.
func (s *stack) notice(head *event.AuditAnswer) string {
	s.t.Helper()
	service, r := s.launch(billing.Config{}, 0)
	select {
	case <-service.Ready():
	case err := <-r.done:
		r.done <- err
		if !errors.Is(err, billing.ErrJournal) {
			s.t.Fatalf("ends with %v", err)
		}
		return err.Error()
	case <-time.After(time.Minute):
		s.t.Fatal("not ready in a minute")
	}
	defer r.stop()
	a := s.auditOf(0, &event.AuditQuery{Head: head.LastSequence})
	switch {
	case !bytes.Equal(a.LiveHash, a.ReplayHash):
		return byAudit
	case !bytes.Equal(a.HeadChain, head.Chain):
		return byHead
	case !a.Match:
		return byRows
	}
	return ""
}
