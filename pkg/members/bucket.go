package members

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Bucket is the key-value bucket that the members of all services share. A member's key in it is
// <service>.<instance>.
const Bucket = "QUIRE_MEMBERS"

// bucket is one member's access to the bucket. Each request to the server takes callTimeout at most. Not safe for
// concurrent use.
type bucket struct {
	cfg Config
	js  jetstream.JetStream
	kv  jetstream.KeyValue // nil until it was found or made
}

func newBucket(nc *nats.Conn, cfg Config) (*bucket, error) {
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(callTimeout(cfg)))
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	return &bucket{cfg: cfg, js: js}, nil
}

// callTimeout bounds one request to the server. It is about a heartbeat, because the next heartbeat tries again.
func callTimeout(cfg Config) time.Duration {
	return min(max(cfg.Heartbeat, 500*time.Millisecond), 2*time.Second)
}

func (b *bucket) key() string { return b.cfg.Service + "." + b.cfg.Instance }

// call is a list of steps, done in this order up to the first that fails.
type call struct {
	ensure   bool // find the bucket or make it
	watch    bool // begin a new watch
	announce *announcement
}

// result is the outcome of a call.
type result struct {
	watch    *watch // a new one, also if a later step failed; nil if none was begun
	beat     uint64 // of the announcement that the bucket took
	revision uint64 // of its entry; 0 if the bucket took none
	err      error
}

func (b *bucket) do(ctx context.Context, c call) result {
	var result result
	if c.ensure || b.kv == nil {
		made, err := b.ensure(ctx)
		if err != nil {
			result.err = fmt.Errorf("ensure bucket %s: %w", Bucket, err)
			return result
		}
		c.watch = c.watch || made
	}
	if c.watch {
		watch, err := b.watch(ctx)
		if err != nil {
			result.err = fmt.Errorf("watch bucket %s: %w", Bucket, err)
			return result
		}
		result.watch = watch
	}
	if c.announce == nil {
		return result
	}
	value, err := json.Marshal(c.announce)
	if err == nil {
		result.beat = c.announce.Beat
		result.revision, err = b.kv.Put(ctx, b.key(), value)
	}
	if err != nil {
		result.err = fmt.Errorf("announce in bucket %s: %w", Bucket, err)
	}
	return result
}

// ensure finds the bucket or makes it. The bucket is kept in memory, because an announcement is worth nothing after a
// TTL. With three replicas the loss of one server leaves it whole; if it is lost all the same, the members announce
// themselves anew.
func (b *bucket) ensure(ctx context.Context) (made bool, err error) {
	kv, err := b.js.KeyValue(ctx, Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = b.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: Bucket, Description: "live instances and what they fold",
			TTL: b.cfg.TTL, Storage: jetstream.MemoryStorage, Replicas: b.cfg.BucketReplicas, History: 1,
		})
		made = err == nil
		if errors.Is(err, jetstream.ErrBucketExists) {
			kv, err = b.js.KeyValue(ctx, Bucket) // another member made it first, with other settings
		}
	}
	if err != nil {
		return false, err
	}
	if err := b.widen(ctx, kv); err != nil {
		return false, err
	}
	b.kv = kv
	return made, nil
}

// widen raises the replicas and the TTL of a bucket that has less than this member needs. It lowers neither, because
// the services share the bucket. A longer TTL harms nobody: each member judges silence by its own.
func (b *bucket) widen(ctx context.Context, kv jetstream.KeyValue) error {
	status, err := kv.Status(ctx)
	if err != nil {
		return err
	}
	cfg := status.Config()
	if cfg.Replicas >= b.cfg.BucketReplicas && cfg.TTL >= b.cfg.TTL {
		return nil
	}
	cfg.Replicas, cfg.TTL = max(cfg.Replicas, b.cfg.BucketReplicas), max(cfg.TTL, b.cfg.TTL)
	_, err = b.js.UpdateKeyValue(ctx, cfg)
	return err
}

// leave deletes the member's key, from which the others learn at once that it is gone.
func (b *bucket) leave(ctx context.Context) error {
	if b.kv == nil {
		return nil
	}
	return b.kv.Delete(ctx, b.key())
}

// entry reads an entry of the bucket.
func (b *bucket) entry(e jetstream.KeyValueEntry) (entry, error) {
	read := entry{
		instance: strings.TrimPrefix(e.Key(), b.cfg.Service+"."), revision: e.Revision(), created: e.Created(),
		deleted: e.Operation() != jetstream.KeyValuePut,
	}
	if read.deleted {
		return read, nil
	}
	if err := json.Unmarshal(e.Value(), &read.announcement); err != nil {
		return read, fmt.Errorf("announcement of %s: %w", read.instance, err)
	}
	return read, nil
}

// watch is a subscription to the keys of a service. It goes on until stop is called or the connection is closed.
type watch struct {
	jetstream.KeyWatcher
	cancel context.CancelFunc
}

// watch begins one, which first gives the last entry of each key and then nil. It does not end with ctx.
func (b *bucket) watch(ctx context.Context) (*watch, error) {
	// A watch lives no longer than the context that it is begun with. So a timer, and no deadline, bounds the call.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	timeout := time.AfterFunc(callTimeout(b.cfg), cancel)
	watcher, err := b.kv.Watch(ctx, b.cfg.Service+".*")
	if !timeout.Stop() {
		return nil, context.DeadlineExceeded // the timer has ended the watch, if there is one
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &watch{watcher, cancel}, nil
}

// stop ends the watch, and reads the updates that are left: the subscription blocks on each until it is read. It does
// not wait until the server has deleted the consumer, as KeyWatcher.Stop would.
func (w *watch) stop() {
	w.cancel()
	for range w.Updates() {
	}
}
