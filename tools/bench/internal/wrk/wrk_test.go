package wrk

import "testing"

func TestWhatWrkCountedIsReadFromItsOutput(t *testing.T) {
	out := "Running 8s test\n  2 threads\n" +
		`RESULT {"requests":3000,"micros":1500000,"p50":40,"p99":90,"connect":1,"read":2,"write":3,"status":4,"timeout":5}` + "\n"
	r, err := parse([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	if r.Rate() != 2000 || r.Errors() != 15 || r.P50 != 40 || r.P99 != 90 {
		t.Errorf("%+v, %v requests a second, %d errors", r, r.Rate(), r.Errors())
	}
}

func TestAnOutputWithoutRequestsIsAnError(t *testing.T) {
	for _, out := range []string{"", "RESULT none\n", `RESULT {"requests":`, `RESULT {"requests":0,"micros":10}`, `RESULT {"requests":1,]}`} {
		if r, err := parse([]byte(out + "\n")); err == nil {
			t.Errorf("%q: %+v", out, r)
		}
	}
}

func TestARequestWithoutASuccessMayHaveBeenCountedOrNot(t *testing.T) {
	got := Tally{100, 10}.With(Result{Requests: 50, Status: 4, Timeout: 2}, 256)
	if want := (Tally{146, 10 + 256 + 6}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for counted, right := range map[uint64]bool{145: false, 146: true, got.Most(): true, got.Most() + 1: false} {
		if err := got.Check("pasteLite.get", counted); (err == nil) != right {
			t.Errorf("%d counted of %+v: %v", counted, got, err)
		}
	}
}
