package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/wait"
)

// partitionsAsk bounds one question about the number of partitions. It is also how often the log says that
// nobody answers.
const partitionsAsk = 5 * time.Second

// errPartitions says that the journals have another number of partitions than this edge, which would look
// for everything in the wrong place.
var errPartitions = errors.New("another number of partitions than the journals have")

// CheckPartitions asks billing how many partitions there are: an edge has no right to look at the streams
// itself. It waits until an instance answers, or ctx ends. errPartitions if the number is not the
// configured one.
func (b *Bus) CheckPartitions(ctx context.Context) error {
	err := b.repeat(ctx, wait.Backoff{First: partitionsAsk, Most: partitionsAsk}, func(ctx context.Context) (bool, error) {
		data, err := rpc.Call(ctx, b.nc, event.InstancesSubject, nil)
		if err != nil {
			b.cfg.Logger.Warn("no billing instance says yet how many partitions there are", "cause", err)
			return false, err
		}
		_, err = b.instance(data)
		return true, err
	})
	if err != nil {
		return fmt.Errorf("ask for the number of partitions: %w", err)
	}
	return nil
}

// instance reads what a billing instance says of itself.
func (b *Bus) instance(data []byte) (event.Instance, error) {
	var i event.Instance
	if err := json.Unmarshal(data, &i); err != nil {
		return i, fmt.Errorf("decode the answer of a billing instance: %w", err)
	}
	if i.Partitions != b.cfg.Partitions {
		return i, fmt.Errorf("%w: started with %d, billing has %d", errPartitions, b.cfg.Partitions, i.Partitions)
	}
	return i, nil
}
