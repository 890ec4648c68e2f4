package scenario

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestRefusedCallsUnderFreshIdempotencyKeysFillNoJournal: a client whose quota is used up can't make the journal grow with each
// call, and the retry of a call that was served gets its answer, through any edge.
func TestRefusedCallsUnderFreshIdempotencyKeysFillNoJournal(t *testing.T) {
	i := common(t)
	const quota, calls = 100, 1000
	a := i.account(t, "free")
	create := func(key string) answer {
		return a.with(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}, header: map[string]string{"Idempotency-Key": key}})
	}
	served := create("the first")
	served.ok(t, http.StatusCreated)
	for range quota - 1 {
		a.quick(t, nil)
	}
	entries := func() (sum int64) {
		for _, p := range i.audit(t)["partitions"].([]any) {
			sum += number(t, p.(object), "entries")
		}
		return sum
	}
	before, begun := entries(), time.Now()
	for n := range calls {
		create(fmt.Sprint("fresh ", n)).fails(t, http.StatusTooManyRequests, "quota_exhausted", "")
		if n%100 != 0 {
			continue
		}
		for range i.bases {
			again := create("the first")
			again.hasHeader(t, "Idempotency-Replayed", "true")
			if again.status != served.status || string(again.body) != string(served.body) {
				t.Errorf("the retry was answered %d %s", again.status, again.body)
			}
		}
	}
	// An edge has billing decide 8 refusals each time that it remembers none, which it does for a second.
	rounds := int64(time.Since(begun)/time.Second) + 2
	if grown, most := entries()-before, int64(10*len(i.bases))*rounds; grown > most {
		t.Errorf("%d refused calls in %s are %d entries in the journal, want %d at most", calls, time.Since(begun), grown, most)
	}
	if used := a.used(t, "pasteLite.create"); used != quota {
		t.Errorf("%d counted", used)
	}
	a.setTier(t, "pro")
	create("fresh 1").ok(t, http.StatusCreated)
}
