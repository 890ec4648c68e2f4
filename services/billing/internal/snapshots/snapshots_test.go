package snapshots

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// never keeps no snapshot for its distance.
var never = Spacing{Messages: math.MaxInt64, Entries: math.MaxInt64}

func TestOldSnapshotsAreThinned(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var list []Snapshot
	for age := time.Duration(0); age < 40*24*time.Hour; age += 20 * time.Minute {
		list = append(list, Snapshot{Key: fmt.Sprint(age), Stored: now.Add(-age)})
	}
	gone := map[string]bool{}
	for _, s := range superfluous(list, now, never) {
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
	if again := superfluous(list[:3], now.Add(365*24*time.Hour), never); len(again) != 0 {
		t.Errorf("the last three go when they are old: %v", again)
	}
}

// TestSnapshotsAreKeptForEverInShortDistances: an explanation of any age begins at one, and folds few messages and few entries. Large ones are
// further apart, so that their total size stays within perMessage and perEntry.
func TestSnapshotsAreKeptForEverInShortDistances(t *testing.T) {
	spacing := Spacing{Messages: 1000, Entries: 40_000}
	for _, size := range []int64{1, 1_000_000, 10_000_000} {
		for _, entries := range []uint64{1, 40, 256} { // of a message
			apart := spacing.Apart(size)
			var list []Snapshot
			for n := range uint64(600) { // as they are taken, and thinned each time
				sequence, now := (n+1)*70, time.Unix(int64(n)*86_400, 0)
				list = append([]Snapshot{{
					Key: fmt.Sprint(n), Sequence: sequence, Entries: sequence * entries, Stored: now, Size: size,
				}}, list...)
				list = thinned(list, now.Add(40*24*time.Hour), spacing)
			}
			var before Snapshot
			for _, s := range slices.Backward(list) {
				if s.Sequence-before.Sequence > apart.Messages || s.Entries-before.Entries > apart.Entries {
					t.Errorf("%d messages with %d entries each lie before the snapshot at %d", s.Sequence-before.Sequence, entries, s.Sequence)
				}
				before = s
			}
			bytes, most := int64(len(list))*size, int64(2*(before.Sequence*perMessage+before.Entries*perEntry))+keepLast*size
			if size > 1 && bytes > most {
				t.Errorf("%d snapshots of %d bytes for %d messages of %d entries", len(list), size, before.Sequence, entries)
			}
		}
	}
}

// thinned is a list of snapshots without the superfluous ones.
func thinned(list []Snapshot, now time.Time, spacing Spacing) []Snapshot {
	gone := map[string]bool{}
	for _, s := range superfluous(list, now, spacing) {
		gone[s.Key] = true
	}
	return slices.DeleteFunc(list, func(s Snapshot) bool { return gone[s.Key] })
}

// TestOneMoreEntryKeepsASnapshot, as one more message does.
func TestOneMoreEntryKeepsASnapshot(t *testing.T) {
	spacing := Spacing{Messages: 100, Entries: 1000}
	for name, c := range map[string]struct {
		older, middle, newer Snapshot
		kept                 bool
	}{
		"both within":         {Snapshot{}, Snapshot{Sequence: 50, Entries: 500}, Snapshot{Sequence: 100, Entries: 1000}, false},
		"one more message":    {Snapshot{}, Snapshot{Sequence: 50, Entries: 500}, Snapshot{Sequence: 101, Entries: 1000}, true},
		"one more entry":      {Snapshot{}, Snapshot{Sequence: 50, Entries: 500}, Snapshot{Sequence: 100, Entries: 1001}, true},
		"as large as allowed": {Snapshot{}, Snapshot{Sequence: 50, Size: 1000*perEntry + perEntry - 1}, Snapshot{Sequence: 100, Entries: 1001}, true},
		"larger":              {Snapshot{}, Snapshot{Sequence: 50, Size: 1001 * perEntry}, Snapshot{Sequence: 100, Entries: 1001}, false},
	} {
		now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		var list []Snapshot
		for n := range keepLast { // which are kept anyway
			list = append(list, Snapshot{Key: fmt.Sprint("last", n), Sequence: 5000 - uint64(n), Entries: 50_000, Stored: now})
		}
		c.newer.Key, c.middle.Key, c.older.Key = "newer", "middle", "older"
		list = append(list, c.newer, c.middle)
		if c.older.Sequence > 0 { // else the beginning of the journal
			list = append(list, c.older, Snapshot{Key: "first"})
		}
		kept := thinned(list, now.Add(1000*24*time.Hour), spacing)
		if got := slices.ContainsFunc(kept, func(s Snapshot) bool { return s.Key == "middle" }); got != c.kept {
			t.Errorf("%s: kept is %v: %v", name, got, kept)
		}
	}
}
