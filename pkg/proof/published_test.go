package proof

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/tilelog"
)

// TestMessagesAreFoundInTheLog of partitions with few and with many messages, and after losses.
func TestMessagesAreFoundInTheLog(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	blobs, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	writing, err := tilelog.Open(t.Context(), blobs, LogPrefix, tlog.Tree{})
	if err != nil {
		t.Fatal(err)
	}
	const partitions = 3
	var ends [partitions]uint64
	where := map[Message]int64{}
	size := int64(0)
	add := func(entry []byte) {
		if err := writing.Append(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
		size++
	}
	for range 200 {
		p := []int{0, 1, 1, 1, 1, 1}[random.IntN(6)]
		for range random.IntN(40) {
			ends[p]++
			m := Digest(p, ends[p], time.Unix(1_800_000_000, random.Int64N(1e9)).UTC(), fmt.Sprintf("billing.%d.usage", p), []byte{byte(random.IntN(256)), 1, 2, byte(size)})
			where[m] = size
			add(m.Encode())
		}
		if random.IntN(70) == 0 && ends[p] > 0 {
			ends[p] = random.Uint64N(ends[p])
			add(Rewind{Partition: p, Sequence: ends[p]}.Encode())
			for m := range where {
				if m.Partition == p && m.Sequence > ends[p] {
					delete(where, m)
				}
			}
		}
	}
	tree, err := writing.Sync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := &Published{Tree: tree, reader: tilelog.NewReader(blobs, LogPrefix)}
	tried := 0
	for m, index := range where {
		if got, err := l.find(t.Context(), m); err != nil || got != index {
			t.Fatalf("%d of partition %d: at %d, %v; want %d", m.Sequence, m.Partition, got, err, index)
		}
		if tried++; tried == 40 {
			break
		}
	}
	for p := range partitions {
		at, err := l.last(t.Context(), p)
		if ends[p] == 0 {
			if !errors.Is(err, ErrNotLogged) {
				t.Errorf("partition %d without messages: %v, %v", p, at, err)
			}
			continue
		}
		if _, isLast := where[at.entry]; err != nil || at.entry.Partition != p || isLast && at.entry.Sequence != ends[p] {
			t.Errorf("partition %d ends at %v, %v; want %d", p, at, err, ends[p])
		}
	}
	never := Digest(0, 1, time.Time{}, "billing.0.usage", nil)
	if _, err := l.find(t.Context(), never); !errors.Is(err, ErrNotLogged) {
		t.Errorf("a message that was never logged: %v", err)
	}
}
