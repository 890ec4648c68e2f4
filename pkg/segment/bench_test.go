package segment_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/segment"
)

// usageMentions is what billing says about batches of usage.
func usageMentions(m segment.Message, found *segment.Mentions) {
	var batch event.UsageBatch
	if event.Decode(m.Data, &batch) != nil {
		return
	}
	for _, a := range batch.Admissions {
		if a.Anonymous {
			found.Networks = append(found.Networks, a.Account)
		} else {
			found.Accounts = append(found.Accounts, a.Account)
		}
		found.Request(int64(binary.BigEndian.Uint64(a.RequestId) >> 16))
	}
}

// load is what three edges publish: batches of admissions, a tenth of them of writes and a twentieth without an account, each
// with the settlement of the edge's batch before.
type load struct {
	r                  *rand.Rand
	ids, prints        []uint64
	edges              []string
	numbers, sequences [3]uint64
	sequence           uint64
	nanos              int64
	batch              int
}

func newLoad(accounts, batch int) *load {
	l := &load{r: rand.New(rand.NewPCG(1, 2)), nanos: startNanos, batch: batch, edges: []string{"Ab3x9QzK", "k2L9mm0a", "Zz81ppQw"}}
	for range accounts {
		l.ids, l.prints = append(l.ids, l.r.Uint64()), append(l.prints, l.r.Uint64())
	}
	return l
}

func (l *load) next(t testing.TB) segment.Message {
	l.sequence++
	l.nanos += l.r.Int64N(2_000_000) + int64(l.batch)*20_000
	edge := l.r.IntN(len(l.edges))
	l.numbers[edge]++
	batch := &event.UsageBatch{Source: l.edges[edge], Number: l.numbers[edge], SinceMs: l.r.Int64N(5)}
	for range l.batch {
		batch.Admissions = append(batch.Admissions, l.admission())
	}
	if before := l.sequences[edge]; before > 0 {
		served := &event.Served{Sequence: before}
		for place := range l.batch {
			if l.batch > 1 && l.r.IntN(10) > 0 {
				served.Places = append(served.Places, uint32(place))
			}
		}
		batch.Served = append(batch.Served, served)
	}
	l.sequences[edge] = l.sequence
	data, err := event.Encode(batch)
	if err != nil {
		t.Fatal(err)
	}
	return segment.Message{Sequence: l.sequence, TimeNanos: l.nanos, Subject: event.UsageSubject(0), Data: data}
}

func (l *load) admission() *event.Admission {
	id := make([]byte, 16)
	binary.BigEndian.PutUint64(id, uint64(l.nanos/1_000_000-l.r.Int64N(5))<<16|0x7000|l.r.Uint64N(1<<12))
	binary.BigEndian.PutUint64(id[8:], 1<<63|l.r.Uint64N(1<<62))
	a := &event.Admission{RequestId: id, QuotaKey: 1 + l.r.Uint32N(13), Write: l.r.IntN(10) == 0}
	if a.Anonymous = l.r.IntN(20) == 0; a.Anonymous {
		a.Account = uint64(l.r.IntN(len(l.ids)))*0x9e3779b97f4a7c15 + 1
		return a
	}
	i := l.r.IntN(len(l.ids))
	a.Account, a.KeyVersion, a.KeyFingerprint = l.ids[i], 1, l.prints[i]
	return a
}

// loads are accounts and admissions in a batch.
var loads = []struct{ accounts, batch int }{{1000, 1}, {1000, 500}, {100_000, 1}, {100_000, 500}}

// put writes the messages as segments and returns their sizes: of data, blobs and indexes.
func put(b testing.TB, a *segment.Archive, messages []segment.Message) (stored, index int64, last segment.Segment) {
	b.Helper()
	var before segment.Hash
	for len(messages) > 0 {
		w, err := a.Create(stream, 0, before)
		if err != nil {
			b.Fatal(err)
		}
		defer w.Close()
		for len(messages) > 0 && err == nil {
			if err = w.Add(messages[0]); err == nil {
				messages = messages[1:]
			}
		}
		if err != nil && !errors.Is(err, segment.ErrFull) {
			b.Fatal(err)
		}
		before = w.Chain()
		if last, err = w.Put(context.Background()); err != nil {
			b.Fatal(err)
		}
		summary, err := a.Describe(context.Background(), last)
		if err != nil {
			b.Fatal(err)
		}
		stored, index = stored+last.Size, index+summary.IndexBytes
	}
	return stored, index, last
}

// BenchmarkSegments measures writing with Put and its Verify, a replay, and a search for an account, over 128 MB of data in a
// store on disk. The last one reads what one account's frames in one segment take.
func BenchmarkSegments(b *testing.B) {
	for _, load := range loads {
		from := newLoad(load.accounts, load.batch)
		var messages []segment.Message
		raw := int64(0)
		for raw < 128<<20 {
			messages = append(messages, from.next(b))
			raw += int64(len(messages[len(messages)-1].Data))
		}
		admissions := float64(len(messages) * load.batch)
		a, err := segment.New(newStore(b), segment.Options{Installation: installation, Chain: chain, Mentions: usageMentions, Folder: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		name := fmt.Sprintf("accounts=%d/batch=%d", load.accounts, load.batch)
		b.Run(name+"/write", func(b *testing.B) {
			b.SetBytes(raw)
			for b.Loop() {
				stored, index, _ := put(b, a, messages)
				b.ReportMetric(float64(raw)/admissions, "raw-B/admission")
				b.ReportMetric(float64(stored)/admissions, "B/admission")
				b.ReportMetric(100*float64(index)/float64(stored), "%index")
			}
			b.ReportMetric(float64(b.N*len(messages))/b.Elapsed().Seconds(), "messages/s")
		})
		b.Run(name+"/replay", func(b *testing.B) {
			b.SetBytes(raw)
			for b.Loop() {
				if err := a.Replay(b.Context(), stream, 1, 0, func(segment.Message) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*len(messages))/b.Elapsed().Seconds(), "messages/s")
		})
		b.Run(name+"/find", func(b *testing.B) {
			m := messages[len(messages)/2]
			for b.Loop() {
				q := segment.Query{Account: from.ids[0], Times: &segment.Between{Lowest: m.TimeNanos - 1e9, Highest: m.TimeNanos + 1e9}}
				for _, err := range a.Messages(b.Context(), a.Find(b.Context(), stream, q)) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
