package bus

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"quire.dev/pkg/event"
)

func TestWrongSettingsAreToldTogether(t *testing.T) {
	w := newWorld(t, 1)
	_, err := New(w.nc, Config{Source: "a.b"})
	if err == nil || !strings.Contains(err.Error(), "partitions") || !strings.Contains(err.Error(), "source") {
		t.Fatalf("error %v, want both faults", err)
	}
	w.nc.Close()
	if _, err := New(w.nc, Config{Partitions: 1}); err == nil {
		t.Fatal("a bus over a closed connection")
	}
}

func TestSourcesDifferFromBootToBoot(t *testing.T) {
	w := newWorld(t, 1)
	one, two := w.idle(t, nil), w.idle(t, nil)
	if one.cfg.Source == "" || one.cfg.Source == two.cfg.Source {
		t.Fatalf("sources %q and %q", one.cfg.Source, two.cfg.Source)
	}
}

func TestMetricsCountWhatWasDone(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	f.with(func() { f.limits[9] = 0 })
	registry := prometheus.NewRegistry()
	b := w.bus(t, func(c *Config) { c.Metrics = registry })
	for range 3 {
		if _, err := b.Admit(t.Context(), admission(9)); err != nil {
			t.Fatalf("admit: %v", err)
		}
	}
	if err := b.stop(); err != nil {
		t.Fatalf("run: %v", err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			got[family.GetName()] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"quire_bus_batches_total": 1, "quire_bus_batch_items": 1, "quire_bus_answer_seconds": 1,
		"quire_bus_refusals_from_memory_total": 2, "quire_bus_orphans_total": 0, "quire_bus_malformed_answers_total": 0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

func TestAnswersThatCanNotBeReadAreCountedAndDoNoHarm(t *testing.T) {
	w := newWorld(t, 1)
	newFakeBilling(t, w.nc, 1)
	b := w.bus(t, nil)
	for _, subject := range []string{
		event.AnnounceSubject, "edge." + b.cfg.Source + ".7.verdict", "edge." + b.cfg.Source + ".0.what",
		event.VerdictSubject(b.source(0)), event.CommandOutcomeSubject(b.source(0)), event.Paste.OutcomeSubject(b.source(0)),
	} {
		if err := w.nc.Publish(subject, []byte{0xff}); err != nil {
			t.Fatalf("publish: %v", err)
		}
	}
	if _, err := b.Admit(context.Background(), admission(1)); err != nil {
		t.Fatalf("admit: %v", err)
	}
}
