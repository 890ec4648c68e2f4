package bus

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/telemetry"
)

func TestABusNeedsPartitionsAndAConnection(t *testing.T) {
	w := newBareWorld(t, 1)
	if _, err := New(w.nc, Config{}); err == nil || !strings.Contains(err.Error(), "partitions") {
		t.Fatalf("error %v, want one about partitions", err)
	}
	w.nc.Close()
	if _, err := New(w.nc, Config{Partitions: 1}); err == nil {
		t.Fatal("a bus over a closed connection")
	}
}

func TestSourcesDifferFromBootToBoot(t *testing.T) {
	w := newWorld(t, 1)
	one, two := w.idle(t, nil), w.idle(t, nil)
	if one.name == "" || one.name == two.name {
		t.Fatalf("sources %q and %q", one.name, two.name)
	}
}

func TestMetricsCountWhatWasDone(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	f.with(func() { f.limits[9] = 0 })
	metrics := telemetry.NewMetrics()
	b := w.bus(t, func(c *Config) { c.Metrics = metrics })
	for range 3 {
		if _, err := b.StartAdmit(admission(9), nil).Wait(t.Context()); err != nil {
			t.Fatalf("admit: %v", err)
		}
	}
	if err := b.stop(); err != nil {
		t.Fatalf("run: %v", err)
	}
	page := httptest.NewRecorder()
	telemetry.Handler(metrics, telemetry.NewHealth()).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`quire_bus_batches_total{kind="usage"} 1`, `quire_bus_batch_items_count{kind="usage"} 1`,
		`quire_bus_answer_seconds_count{kind="usage"} 1`, `quire_bus_batches_total{kind="paste"} 0`,
		"quire_bus_refusals_from_memory_total 2", "quire_bus_orphans_total 0", "quire_bus_malformed_answers_total 0",
	} {
		if !strings.Contains(page.Body.String(), "\n"+want+"\n") {
			t.Errorf("not %s:\n%s", want, page.Body)
		}
	}
}

func TestAnswersThatCanNotBeReadAreCountedAndDoNoHarm(t *testing.T) {
	w := newWorld(t, 1)
	newFakeBilling(t, w.nc, 1)
	b := w.bus(t, nil)
	for _, subject := range []string{
		event.AnnounceSubject, event.SourcesSubject, "edge." + b.name + ".7.verdict", "edge." + b.name + ".0.what",
		event.VerdictSubject(b.source(0)), event.CommandOutcomeSubject(b.source(0)), event.Paste.OutcomeSubject(b.source(0)),
	} {
		if err := w.nc.Publish(subject, []byte{0xff}); err != nil {
			t.Fatalf("publish: %v", err)
		}
	}
	if _, err := b.StartAdmit(admission(1), nil).Wait(t.Context()); err != nil {
		t.Fatalf("admit: %v", err)
	}
}
