package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/rpc"
	"quire.dev/services/edge/internal/fault"
)

// instance answers the questions for the health of a service as one of its instances.
func (w *world) instance(t *testing.T, domain event.Domain, is event.Instance) {
	t.Helper()
	is.Partitions = max(is.Partitions, w.partitions)
	data, err := json.Marshal(is)
	if err != nil {
		t.Fatal(err)
	}
	w.answersHealth(t, domain, is.Name, data)
}

func (w *world) answersHealth(t *testing.T, domain event.Domain, name string, data []byte) {
	t.Helper()
	s, err := rpc.Serve(w.nc, domain.InstancesSubject(), name, 1, func(_ context.Context, asked []byte) ([]byte, error) {
		if string(asked) != event.AskHealth {
			t.Errorf("%s is asked %q", name, asked)
		}
		return data, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Drain(context.Background()) })
}

// TestHealthHearsEveryInstanceOfEveryService, and knows which of them should have answered.
func TestHealthHearsEveryInstanceOfEveryService(t *testing.T) {
	w := newBareWorld(t, 2)
	one, five, none := 1, uint64(5), uint64(0)
	serves := func(p int) event.Fold { return event.Fold{Partition: p, Serves: true, Lag: &none, Holds: &one} }
	behind := event.Fold{Partition: 1, Lag: &five}
	// Each service has another trouble: of billing, an instance catches up, and what is no answer is passed over.
	live := []string{"a", "b"}
	w.instance(t, event.Billing, event.Instance{Name: "b", Live: live, Serves: []int{0}, Folds: []event.Fold{serves(0), behind}})
	w.instance(t, event.Billing, event.Instance{Name: "a", Live: live, Serves: []int{0, 1}, Folds: []event.Fold{serves(0), serves(1), {Partition: 2}, {Partition: -1}}})
	w.instance(t, event.Billing, event.Instance{Name: "other", Partitions: 3, Live: []string{"x"}, Serves: []int{0}})
	w.answersHealth(t, event.Billing, "malformed", []byte("no JSON"))
	// Instances of an earlier version tell no figures, and those with fixed partitions know of no others: both are heard.
	w.instance(t, event.Paste, event.Instance{Name: "d", Serves: []int{0, 1}})
	w.instance(t, event.Paste, event.Instance{Name: "c", Serves: []int{0, 1}})
	// One is alive and does not answer, and a partition has a member that does not serve.
	w.instance(t, event.Lite, event.Instance{Name: "e", Live: []string{"e", "g", "f"}, Serves: []int{0}, Folds: []event.Fold{serves(0), behind}})
	if err := w.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	plain := func(p int) event.Fold { return event.Fold{Partition: p, Serves: true} }
	want := []ServiceHealth{
		{Service: event.Billing, Partitions: [][]Member{{{"a", serves(0)}, {"b", serves(0)}}, {{"a", serves(1)}, {"b", behind}}}},
		{Service: event.Paste, Partitions: [][]Member{{{"c", plain(0)}, {"d", plain(0)}}, {{"c", plain(1)}, {"d", plain(1)}}}},
		{Service: event.Lite, Partitions: [][]Member{{{"e", serves(0)}}, {{"e", behind}}}, Silent: []string{"f", "g"}},
		{Service: event.File, Partitions: make([][]Member, 2)}, // has no instances
	}
	b := w.idle(t, nil)
	var got []ServiceHealth
	eventually.NoError(t, "all are heard in time", func() (err error) { // a busy machine may need longer for an answer
		if got, err = b.Health(t.Context()); err == nil && !reflect.DeepEqual(got, want) {
			err = fmt.Errorf("%+v, want %+v", got, want)
		}
		return err
	})
	var unserved []int
	for _, h := range got {
		for p := range h.Partitions {
			if !h.Served(p) {
				unserved = append(unserved, p)
			}
		}
	}
	if !slices.Equal(unserved, []int{1, 0, 1}) {
		t.Errorf("unserved: %v", unserved)
	}
}

func TestHealthIsUnavailableWithoutAConnection(t *testing.T) {
	w := newBareWorld(t, 1)
	b := w.idle(t, nil)
	b.nc.Close()
	if _, err := b.Health(t.Context()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("%v", err)
	}
}
