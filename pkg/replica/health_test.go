package replica_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/replica"
)

// TestHealthTellsHowFarEachReplicaIs: it knows no lag where a replica has just started, or where its journal does not answer,
// which it does not wait for longer than a second.
func TestHealthTellsHowFarEachReplicaIs(t *testing.T) {
	at := func(sequence uint64) func() uint64 { return func() uint64 { return sequence } }
	end := func(sequence uint64, err error) func(context.Context) (uint64, error) {
		return func(context.Context) (uint64, error) { return sequence, err }
	}
	told := map[int]replica.Folding{
		0: {Position: at(7), End: end(10, nil), Holds: func() int { return 2 }},
		1: {Position: at(12), End: end(10, nil), Holds: func() int { return 0 }}, // messages came after the journal had answered
		2: {Position: at(7), End: end(10, errors.New("no leader"))},
		3: {Position: at(7), End: func(ctx context.Context) (uint64, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}},
	}
	started := make(chan int, 5)
	var set *replica.Set
	set, assigned, stop := runOf(t, 5, replica.Config{
		NC: journaltest.Start(t).Conn(t),
		Start: func(ctx context.Context, partition int) error {
			if f, ok := told[partition]; ok {
				defer set.Register(partition, f)()
			}
			if partition < 2 {
				defer set.Announce(ctx, partition)()
			}
			started <- partition
			<-ctx.Done()
			return nil
		},
	})
	if got := set.Health(t.Context()); len(got) != 0 {
		t.Errorf("%v before anything was assigned", got)
	}
	assigned <- []int{4, 3, 2, 1, 0}
	for range 5 {
		<-started
	}
	three, none, two := uint64(3), uint64(0), 2
	want := []event.Fold{
		{Partition: 0, Serves: true, Lag: &three, Holds: &two},
		{Partition: 1, Serves: true, Lag: &none, Holds: new(int)},
		{Partition: 2},
		{Partition: 3},
		{Partition: 4},
	}
	if got := set.Health(t.Context()); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	assigned <- []int{1}
	eventually.True(t, "partitions that have moved away are left out", func() bool { return reflect.DeepEqual(set.Health(t.Context()), want[1:2]) })
	if err := stop(); err != nil {
		t.Error(err)
	}
	if got := set.Health(t.Context()); !reflect.DeepEqual(got, []event.Fold{{Partition: 1}}) {
		t.Errorf("%+v after the end", got)
	}
}
