package snapshots

import (
	"fmt"
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
	for _, s := range superfluous(list, now) {
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
	if again := superfluous(list[:3], now.Add(365*24*time.Hour)); len(again) != 0 {
		t.Errorf("the last three go when they are old: %v", again)
	}
}
