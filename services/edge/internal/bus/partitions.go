package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
)

// partitionsAsk bounds one question about the number of partitions, and how often it is said that
// nobody answers.
const partitionsAsk = 5 * time.Second

// ErrPartitions says that the journals have another number of partitions than this edge: it would look
// for everything in the wrong place.
var ErrPartitions = errors.New("another number of partitions than the journals have")

// CheckPartitions asks billing, which knows the streams, how many partitions there are. It waits until an
// instance answers, or ctx ends. ErrPartitions where there are others than configured. The edge may not
// look at the streams itself.
func (b *Bus) CheckPartitions(ctx context.Context) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, partitionsAsk)
		data, err := rpc.Call(attempt, b.nc, event.InstancesSubject, nil)
		if err == nil {
			cancel()
			_, err = b.instance(data)
			return err
		}
		if !b.nc.IsClosed() {
			<-attempt.Done()
		}
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case b.nc.IsClosed():
			return fmt.Errorf("ask for the number of partitions: %w", err)
		}
		b.cfg.Logger.Warn("billing does not say yet how many partitions there are", "cause", err)
	}
}

// instance reads what a billing instance says of itself.
func (b *Bus) instance(data []byte) (event.Instance, error) {
	var i event.Instance
	if err := json.Unmarshal(data, &i); err != nil {
		return i, fmt.Errorf("decode what a billing instance is: %w", err)
	}
	if i.Partitions != b.cfg.Partitions {
		return i, fmt.Errorf("%w: started with %d, billing has %d", ErrPartitions, b.cfg.Partitions, i.Partitions)
	}
	return i, nil
}
