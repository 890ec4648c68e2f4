package billing_test

import (
	"flag"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing"
	"quire.dev/services/billing/internal/account"
)

var (
	auditEntries  = flag.Int("audit.entries", 40_000, "admissions and settlements of BenchmarkAudit/entries")
	auditBatch    = flag.Int("audit.batch", 256, "admissions of each message of BenchmarkAudit/entries")
	auditAccounts = flag.Int("audit.accounts", 2_000, "accounts of BenchmarkAudit/accounts")

	explainMessages = flag.Int("explain.messages", 400, "messages of BenchmarkExplain")
	explainBatch    = flag.Int("explain.batch", 256, "admissions of each of them")
)

// BenchmarkAudit audits a journal of many entries of 300 accounts, one in fifty of them an upload, and one of many accounts with
// one request each. It reports the time of an audit of journal and state (until) and of a whole one beside that of folding the same
// journal once, and the growth of the heap; of the first journal also the rate of an audit of its second half alone, which is new.
func BenchmarkAudit(b *testing.B) {
	b.Run("entries", func(b *testing.B) {
		s := newStack(b)
		r := s.start(billing.Config{}, 0)
		ids := s.manyAccounts(300)
		for _, id := range ids {
			s.grant(id, 1_000_000_000)
		}
		s.useAll(ids, *auditEntries/2, *auditBatch)
		r.stop() // with a snapshot, which the audit covers
		s.start(billing.Config{}, 0)
		if a := s.audit(); !a.Match {
			b.Fatal(a)
		}
		s.useAll(ids, *auditEntries/2, *auditBatch)
		s.auditOf(0, &event.AuditQuery{Account: ids[0]}) // waits for the read model
		started := time.Now()
		a := s.auditOf(0, &event.AuditQuery{New: true})
		took := time.Since(started)
		if !a.Match || a.FromSequence == 0 {
			b.Fatal(a)
		}
		auditing(b, s)
		b.ReportMetric(float64(a.Entries)/took.Seconds(), "new-entries/s")
	})
	b.Run("accounts", func(b *testing.B) {
		const batch = 256
		s := newStack(b)
		s.start(billing.Config{}, 0)
		ids := s.manyAccounts(*auditAccounts)
		for len(ids) > 0 {
			var admissions []*event.Admission
			for _, id := range ids[:min(batch, len(ids))] {
				admissions = append(admissions, admission(id, plan.PastesGet))
			}
			s.usage(admissions, nil)
			s.usage(nil, servedAll(admissions))
			ids = ids[len(admissions):]
		}
		auditing(b, s)
	})
}

// useAll has accounts use the API: so many admissions and settlements, in batches.
func (s *stack) useAll(ids []uint64, entries, batch int) {
	s.t.Helper()
	var before []*event.Settlement
	for n := 0; n < entries/2; n += batch {
		var admissions []*event.Admission
		for i := range batch {
			key := plan.PastesGet
			if (n+i)%50 == 0 {
				key = plan.FilesUpload // beyond its limit it is paid
			}
			admissions = append(admissions, admission(ids[(n+i*7)%len(ids)], key))
		}
		s.usage(admissions, before)
		before = servedAll(admissions)
	}
	s.usage(nil, before)
}

// BenchmarkExplain explains requests of a journal with the snapshots that billing keeps permanently: with -explain.messages 30000 or more full
// batches there are some. It reports the slowest of old, middle and new requests, and the most messages folded for one: with the messages in
// the stream, and with all of them in segments alone.
func BenchmarkExplain(b *testing.B) {
	batch := *explainBatch
	s := newStack(b)
	cfg := billing.Config{SnapshotInterval: 24 * time.Hour}
	r := s.start(cfg, 0)
	const group, each = 300, 40_000 // of the accounts at a time, and their requests, within their quotas
	ids := s.manyAccounts((*explainMessages*batch/(group*each) + 1) * group)
	var before []*event.Settlement
	var asked []*event.Admission
	for n := range *explainMessages {
		var admissions []*event.Admission
		now := ids[n*batch/(group*each)*group:]
		for i := range batch {
			admissions = append(admissions, admission(now[(n+i*7)%group], plan.PastesGet))
		}
		if n%(*explainMessages/20) == 0 {
			asked = append(asked, admissions[n%batch])
		}
		s.usage(admissions, before)
		before = servedAll(admissions)
	}
	s.usage(nil, before)
	b.Run("journal", func(b *testing.B) { s.explaining(b, asked) })
	r.stop()
	s.archiveAll()
	s.start(cfg, 0) // with nothing explained in memory
	b.Run("archive", func(b *testing.B) { s.explaining(b, asked) })
}

// archiveAll moves the journal into segments.
func (s *stack) archiveAll() {
	s.t.Helper()
	const segmentMessages = 5_000 // 64 MiB of full batches
	archive, stream, last := s.archive(), event.Billing.Stream(0), s.lastSequence()
	for filed := uint64(0); filed < last; {
		filed = min(filed+segmentMessages, last)
		archive.File(s.t, s.nc, stream, 0, filed)
	}
	s.trim(archive, last+1)
}

// explaining measures explanations of requests, old to new.
func (s *stack) explaining(b *testing.B, asked []*event.Admission) {
	slowest, folded := time.Duration(0), uint64(0)
	for n := 0; b.Loop(); n++ {
		for _, at := range []int{0, len(asked) / 2, len(asked) - 1} {
			a := asked[max(0, at-n%10)]
			started := time.Now()
			e := s.query(&event.Query{Query: &event.Query_Explain{Explain: &event.ExplainQuery{RequestId: a.RequestId, AnyAccount: true, Follow: true}}})
			for e.Status == event.QueryStatus_QUERY_PENDING {
				e = s.query(&event.Query{Query: &event.Query_Explain{Explain: &event.ExplainQuery{RequestId: a.RequestId, AnyAccount: true, Follow: true}}})
			}
			slowest, folded = max(slowest, time.Since(started)), max(folded, e.GetExplain().GetFolded())
			if e.GetExplain().GetSettlementSequence() == 0 {
				b.Fatal(e)
			}
		}
	}
	b.ReportMetric(slowest.Seconds(), "s-slowest")
	b.ReportMetric(float64(folded), "messages-folded")
	b.ReportMetric(float64(*explainMessages**explainBatch), "admissions")
}

// manyAccounts creates n accounts on Max, many with a message.
func (s *stack) manyAccounts(n int) (ids []uint64) {
	s.t.Helper()
	for len(ids) < n {
		batch := &event.CommandBatch{Source: "test", StampMs: time.Now().UnixMilli()}
		for range min(200, n-len(ids)) {
			ids = append(ids, uint64(len(ids)+1)*0x9E3779B97F4A7C15>>1) // spread
			batch.Commands = append(batch.Commands, &event.Command{Account: ids[len(ids)-1], Action: &event.Command_Create{Create: &event.CreateAccount{
				Tier: uint32(plan.Max), Key: &event.RotateKey{Fingerprint: 7, Prefix: "qk_abcdef"},
			}}})
		}
		s.commands++
		batch.Number = s.commands
		s.publish(event.AccountSubject(0), batch)
		for done := false; !done; {
			outcomes := &event.CommandOutcomeBatch{}
			decode(s.t, s.next(event.CommandOutcomeSubject("test")), outcomes)
			done = outcomes.Number == s.commands
		}
	}
	return ids
}

func servedAll(admissions []*event.Admission) (settlements []*event.Settlement) {
	for _, a := range admissions {
		settlements = append(settlements, &event.Settlement{RequestId: a.RequestId, Result: event.Result_SERVED, Account: a.Account, QuotaKey: a.QuotaKey})
	}
	return settlements
}

// auditing measures audits of what the stack has.
func auditing(b *testing.B, s *stack) {
	b.Helper()
	first := s.audit() // waits for the read model
	if !first.Match {
		b.Fatal(first)
	}
	var folded, hashed, audited time.Duration
	var entries, peak uint64
	for b.Loop() {
		started := time.Now()
		s.replay(account.New())
		folded += time.Since(started)
		started = time.Now()
		s.auditOf(0, &event.AuditQuery{Until: first.LastSequence})
		hashed += time.Since(started)
		runtime.GC()
		before, stop := heap(), make(chan struct{})
		highest := make(chan uint64)
		go func() {
			most := before
			for tick := time.NewTicker(5 * time.Millisecond); ; {
				select {
				case <-tick.C:
					most = max(most, heap())
				case <-stop:
					tick.Stop()
					highest <- most - before
					return
				}
			}
		}()
		started = time.Now()
		a := s.audit()
		audited += time.Since(started)
		close(stop)
		peak = max(peak, <-highest)
		if entries = a.Entries; !a.Match {
			b.Fatal(a)
		}
	}
	b.ReportMetric(float64(entries)*float64(b.N)/audited.Seconds(), "entries/s")
	b.ReportMetric(hashed.Seconds()/folded.Seconds(), "until/fold")
	b.ReportMetric(audited.Seconds()/folded.Seconds(), "audit/fold")
	b.ReportMetric(float64(peak)/1e6, "MB")
	b.ReportMetric(float64(entries), "entries")
}

// heap is the memory that the last collection found in use, in bytes.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
