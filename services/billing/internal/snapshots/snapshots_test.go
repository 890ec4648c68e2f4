package snapshots

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func TestOldSnapshotsAreThinned(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var list []Snapshot
	for age := time.Duration(0); age < 40*24*time.Hour; age += 20 * time.Minute {
		list = append(list, Snapshot{Key: fmt.Sprint(age), Stored: now.Add(-age)})
	}
	gone := map[string]bool{}
	for _, s := range superfluous(list, now, math.MaxInt) {
		gone[s.Key] = true
	}
	var kept []time.Duration
	for _, s := range list {
		if !gone[s.Key] {
			kept = append(kept, now.Sub(s.Stored))
		}
	}
	perHour, perDay := map[time.Duration]int{}, 0
	for i, age := range kept {
		if i < keepLast && age != time.Duration(i)*20*time.Minute {
			t.Errorf("the last three: %v", kept[:keepLast])
		}
		if i >= keepLast && age < 24*time.Hour {
			perHour[age/time.Hour]++
		}
		if age >= 24*time.Hour {
			perDay++
		}
		if age >= 31*24*time.Hour {
			t.Errorf("one of %v is kept", age)
		}
	}
	for hour, n := range perHour {
		if n > 2 { // the clock's hours and those of age overlap
			t.Errorf("%d in hour %d", n, hour)
		}
	}
	if len(perHour) < 23 || perDay < 29 || perDay > 32 {
		t.Errorf("%d hours, %d days are kept", len(perHour), perDay)
	}
	if again := superfluous(list[:3], now.Add(365*24*time.Hour), math.MaxInt); len(again) != 0 {
		t.Errorf("the last three go when they are old: %v", again)
	}
}

// TestSnapshotsAreKeptForEverInShortDistances: an explanation of any age begins at one. Large ones are further apart, so that
// their total size stays within perMessage.
func TestSnapshotsAreKeptForEverInShortDistances(t *testing.T) {
	const spacing = 1000
	for _, size := range []int64{1, spacing * perMessage, 10 * spacing * perMessage} {
		apart := max(spacing, uint64(size)/perMessage)
		var list []Snapshot
		for n := range uint64(600) { // as they are taken, and thinned each time
			now := time.Unix(int64(n)*86_400, 0)
			list = append([]Snapshot{{Key: fmt.Sprint(n), Sequence: (n + 1) * 130, Stored: now, Size: size}}, list...)
			gone := map[string]bool{}
			for _, s := range superfluous(list, now.Add(40*24*time.Hour), spacing) {
				gone[s.Key] = true
			}
			var kept []Snapshot
			for _, s := range list {
				if !gone[s.Key] {
					kept = append(kept, s)
				}
			}
			list = kept
		}
		before, bytes := uint64(0), int64(0)
		for i := len(list) - 1; i >= 0; i-- {
			if d := list[i].Sequence - before; d > apart {
				t.Errorf("%d messages lie before the snapshot at %d", d, list[i].Sequence)
			}
			before = list[i].Sequence
			bytes += size
		}
		if most := int64(2*list[0].Sequence*perMessage) + keepLast*size; size > 1 && bytes > most {
			t.Errorf("%d snapshots of %d bytes for %d messages", len(list), size, list[0].Sequence)
		}
	}
}
