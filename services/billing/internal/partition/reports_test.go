package partition

import (
	"errors"
	"testing"

	"quire.dev/pkg/event"
)

// TestAReportMustFitItsColumns: the columns that older edges don't send may be absent.
func TestAReportMustFitItsColumns(t *testing.T) {
	report := func(change func(*event.RequestReport)) *event.RequestReport {
		m := &event.RequestReport{
			Accounts: []uint64{7, 7}, RequestIds: make([]byte, 32), TimesMs: []int64{1, 2}, DurationsMs: []uint32{3, 4}, Statuses: []uint32{200, 200},
			QuotaKeys: []uint32{1, 1}, Keys: []uint32{0, 0}, Words: []string{"", "GET", "order-4711"}, Methods: []uint32{1, 1}, Sources: []uint32{0, 0},
			Errors: []uint32{0, 0}, Paths: "/a/b", PathEnds: []uint32{2, 4},
		}
		change(m)
		return m
	}
	got, err := reportsOf(report(func(m *event.RequestReport) {
		m.Clients, m.Timings = []uint32{0, 2}, []*event.RequestTiming{{Index: 1, ReadMs: 5}}
	}))
	if err != nil || got[0].Client != "" || got[0].Timing != nil || got[1].Client != "order-4711" || got[1].Timing.GetReadMs() != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = reportsOf(report(func(*event.RequestReport) {})); err != nil || len(got) != 2 || got[1].Path != "/b" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, change := range map[string]func(*event.RequestReport){
		"too few clients":        func(m *event.RequestReport) { m.Clients = []uint32{0} },
		"a client without word":  func(m *event.RequestReport) { m.Clients = []uint32{0, 3} },
		"a timing of no request": func(m *event.RequestReport) { m.Timings = []*event.RequestTiming{{Index: 2}} },
		"a missing column":       func(m *event.RequestReport) { m.Errors = nil },
	} {
		if _, err := reportsOf(report(change)); !errors.Is(err, errReport) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
