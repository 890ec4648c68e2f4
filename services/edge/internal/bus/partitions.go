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

// partitionsTimeout bounds one question for the number of partitions, and is the interval of warnings that no instance answers.
const partitionsTimeout = 5 * time.Second

// errPartitions: with a different number of partitions than the journals, the edge would ask the wrong ones.
var errPartitions = errors.New("another number of partitions than the journals have")

// CheckPartitions asks billing how many partitions there are: an edge has no right to look at the streams
// itself. It waits until an instance answers, or ctx ends. If the number differs from Config.Partitions the
// error is errPartitions. It returns the id of the installation, empty from older versions of billing.
func (b *Bus) CheckPartitions(ctx context.Context) (installation string, err error) {
	err = b.repeat(ctx, wait.Backoff{Initial: partitionsTimeout, Max: partitionsTimeout}, func(ctx context.Context) (bool, error) {
		data, err := rpc.Call(ctx, b.nc, event.InstancesSubject, nil)
		if err != nil {
			b.cfg.Logger.Warn("no billing instance has answered with the number of partitions yet", "cause", err)
			return false, err
		}
		answer, err := b.instance(data)
		installation = answer.Installation
		return true, err
	})
	if err != nil {
		return "", fmt.Errorf("ask for the number of partitions: %w", err)
	}
	return installation, nil
}

// instance decodes the answer of a billing instance, and checks its number of partitions.
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
