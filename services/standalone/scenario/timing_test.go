package scenario

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/services/standalone/internal/quiretest"
)

// timing returns what the admin API knows of the time of a request, once it has the time of the settlement.
func (i *instance) timing(t testing.TB, requestID string) (timing object) {
	t.Helper()
	eventually.True(t, "the request is settled", func() bool {
		timing = at(t, i.admin(t, "GET", "/api/admin/requests/"+requestID, nil).ok(t, http.StatusOK), "timing").(object)
		return timing["settledAt"] != nil
	})
	return timing
}

// reported is timing once the edge's report has arrived.
func (i *instance) reported(t testing.TB, requestID string) (timing object) {
	t.Helper()
	eventually.True(t, "the request is reported", func() bool {
		timing = i.timing(t, requestID)
		return timing["durationMs"] != nil
	})
	return timing
}

func timeIn(t testing.TB, o object, name string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text(t, o, name))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return at
}

// TestASlowRequestIsExplainedByItsParts: the client sends the body slowly. The account's holder sees no parts.
func TestASlowRequestIsExplainedByItsParts(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	began := i.now().Add(-time.Second) // the API has milliseconds
	r, err := http.NewRequestWithContext(t.Context(), "POST", i.edge()+"/api/dev/paste-lite/create", quiretest.SlowBody(t.Context(), "a quick paste"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/plain")
	r.Header.Set("x-api-key", a.key)
	created, err := i.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	created.Body.Close()
	if created.StatusCode != http.StatusCreated {
		t.Fatal(created.Status)
	}
	id := created.Header.Get("X-Request-Id")
	timing := i.reported(t, id)
	duration, sum := number(t, timing, "durationMs"), int64(0)
	for name := range at(t, timing, "parts").(object) {
		ms := number(t, timing, "parts", name)
		if ms < 0 || ms > duration {
			t.Errorf("%s is %d ms of %d", name, ms, duration)
		}
		if name != "readMs" { // it runs beside the admission
			sum += ms
		}
	}
	if sum > duration || number(t, timing, "parts", "bodyMs") < quiretest.SlowBodyTime.Milliseconds()/2 {
		t.Errorf("the parts of %d ms are %v", duration, timing["parts"])
	}
	started, admitted, settled := timeIn(t, timing, "startedAt"), timeIn(t, timing, "admittedAt"), timeIn(t, timing, "settledAt")
	if started.Before(began) || admitted.Before(started) || settled.Before(admitted) || i.now().Before(settled) {
		t.Errorf("started %v, admitted %v, settled %v, in a test that began %v", started, admitted, settled, began)
	}
	if timing, shown := a.do(t, "GET", "/api/users/user/requests/"+id, nil).ok(t, http.StatusOK)["timing"]; shown {
		t.Errorf("the holder sees %v", timing)
	}
}

// TestPartsAreOfSlowRequestsOnly: a request has parts if it took 20 ms, and most take less.
func TestPartsAreOfSlowRequestsOnly(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	id := a.quick(t, nil)
	eventually.NoError(t, "a request is fast", func() error {
		got := a.do(t, "GET", "/api/dev/paste-lite/get/"+id, nil)
		got.ok(t, http.StatusOK)
		timing := i.reported(t, got.header.Get("X-Request-Id"))
		ms := number(t, timing, "durationMs")
		if slow := timing["parts"] != nil; slow != (ms >= 20) {
			t.Errorf("a request of %d ms has the parts %v", ms, timing["parts"])
		}
		if ms >= 20 {
			return fmt.Errorf("a read took %d ms", ms)
		}
		return nil
	})
	// One without an account is in no request log, but in the journal.
	keyless := i.do(t, "POST", "/api/dev/paste-lite/create", request{body: object{"content": "x"}})
	keyless.ok(t, http.StatusCreated)
	timing := i.timing(t, keyless.header.Get("X-Request-Id"))
	if timing["durationMs"] != nil || timing["parts"] != nil || timeIn(t, timing, "admittedAt").IsZero() {
		t.Errorf("a keyless request: %v", timing)
	}
}
