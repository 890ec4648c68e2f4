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

// Bucket is the key-value bucket shared by the members of all services. A member's key is <service>.<instance>.
const Bucket = "QUIRE_MEMBERS"

// bucket is one member's access to the bucket. Each request to the server takes callTimeout at most. Not safe for concurrent
// use.
type bucket struct {
	cfg Config
	js  jetstream.JetStream
	kv  jetstream.KeyValue // nil until find succeeds
}

func newBucket(nc *nats.Conn, cfg Config) (*bucket, error) {
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(callTimeout(cfg)))
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	return &bucket{cfg: cfg, js: js}, nil
}

// callTimeout bounds one request to the server to about a heartbeat, because the next heartbeat tries again.
func callTimeout(cfg Config) time.Duration {
	return min(max(cfg.Heartbeat, 500*time.Millisecond), 2*time.Second)
}

func (b *bucket) key() string { return b.cfg.Service + "." + b.cfg.Instance }

// call is a list of steps, done in this order until one fails.
type call struct {
	find     bool // look the bucket up again
	watch    bool // begin a new watch
	announce *announcement
}

// result is the outcome of a call.
type result struct {
	watch    *watch // the new one, even if a later step failed; nil if none was begun
	beat     uint64 // beat of the announcement stored
	revision uint64 // revision of its entry; 0: nothing was stored
	err      error
}

func (b *bucket) do(ctx context.Context, c call) result {
	var result result
	if c.find || b.kv == nil {
		found, err := b.find(ctx)
		if err != nil {
			result.err = fmt.Errorf("find bucket %s: %w", Bucket, err)
			return result
		}
		c.watch = c.watch || found
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

// errNoBucket: members may not create the bucket.
var errNoBucket = errors.New("the bucket is missing; the provisioning job creates it")

// find opens the bucket. found reports whether it was not open before.
func (b *bucket) find(ctx context.Context) (found bool, err error) {
	kv, err := b.js.KeyValue(ctx, Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return false, errNoBucket
	}
	if err != nil {
		return false, err
	}
	found = b.kv == nil
	b.kv = kv
	return found, nil
}

// Ensure creates the bucket if needed, and raises its replicas and TTL to what a member needs. It lowers neither, because the
// services share the bucket. A longer TTL is harmless: each member judges silence by its own. The bucket lives in memory,
// because an announcement is worthless after a TTL. With three replicas it survives the loss of one server; if its content is
// lost anyway, members announce themselves again.
//
// Only the provisioning user may do this: anyone who may change a stream may have it publish to any subject.
func Ensure(ctx context.Context, nc *nats.Conn, cfg Config) error {
	cfg = cfg.withDefaults()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(callTimeout(cfg)))
	if err == nil {
		err = ensure(ctx, js, cfg)
	}
	if err != nil {
		return fmt.Errorf("ensure bucket %s: %w", Bucket, err)
	}
	return nil
}

func ensure(ctx context.Context, js jetstream.JetStream, cfg Config) error {
	want := jetstream.KeyValueConfig{
		Bucket: Bucket, Description: "Quire: live instances of the services and what they fold", Metadata: map[string]string{"quire-domain": "members"},
		TTL: cfg.TTL, Storage: jetstream.MemoryStorage, Replicas: cfg.BucketReplicas, History: 1,
	}
	kv, err := js.KeyValue(ctx, Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateKeyValue(ctx, want)
		if !errors.Is(err, jetstream.ErrBucketExists) {
			return err
		}
		kv, err = js.KeyValue(ctx, Bucket) // another process created it first, with other settings
	}
	if err != nil {
		return err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return err
	}
	have := status.Config()
	if have.Replicas >= want.Replicas && have.TTL >= want.TTL && have.Description == want.Description {
		return nil
	}
	have.Replicas, have.TTL = max(have.Replicas, want.Replicas), max(have.TTL, want.TTL)
	have.Description = want.Description
	_, err = js.UpdateKeyValue(ctx, have)
	return err
}

// leave deletes the member's key, which tells the others immediately that it is gone.
func (b *bucket) leave(ctx context.Context) error {
	if b.kv == nil {
		return nil
	}
	return b.kv.Delete(ctx, b.key())
}

// entry decodes an entry of the bucket.
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

// watch is a subscription to the keys of a service until stop is called or the connection is closed.
type watch struct {
	jetstream.KeyWatcher
	cancel context.CancelFunc
}

// watch begins a watch, which first delivers the last entry of each key and then nil. It does not end with ctx.
func (b *bucket) watch(ctx context.Context) (*watch, error) {
	// A watch ends with the context it was begun with. So a timer, instead of a deadline, bounds the call.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	timeout := time.AfterFunc(callTimeout(b.cfg), cancel)
	watcher, err := b.kv.Watch(ctx, b.cfg.Service+".*")
	if !timeout.Stop() {
		return nil, context.DeadlineExceeded // the timer has ended any watch
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return &watch{watcher, cancel}, nil
}

// stop ends the watch, and reads the remaining updates: the subscription blocks until each is read. Unlike KeyWatcher.Stop it
// does not wait for the server to delete the consumer.
func (w *watch) stop() {
	w.cancel()
	for range w.Updates() {
	}
}
