package members

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Bucket is the key-value bucket in which all services' instances announce themselves, each under
// <service>.<instance>.
const Bucket = "QUIRE_MEMBERS"

// stream is the bucket's, by NATS' convention.
const stream = "KV_" + Bucket

// bucket is one member's access to it. Every call is bounded; one runs at a time.
type bucket struct {
	cfg Config
	js  nats.JetStreamContext
	kv  nats.KeyValue // nil until it was found or made
}

func newBucket(nc *nats.Conn, cfg Config) (*bucket, error) {
	js, err := nc.JetStream(nats.MaxWait(callWait(cfg)))
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	return &bucket{cfg: cfg, js: js}, nil
}

// callWait bounds one question to the server: about a beat, since the next one asks again.
func callWait(cfg Config) time.Duration {
	return min(max(cfg.Heartbeat, 500*time.Millisecond), 2*time.Second)
}

func (b *bucket) key() string { return b.cfg.Service + "." + b.cfg.Instance }

// request is what is to be done with the bucket, in this order; nothing after the first failure.
type request struct {
	ensure bool // it may not exist, or not any more
	watch  bool
	say    *announcement // nil: nothing
}

// result is what came of it.
type result struct {
	watcher  nats.KeyWatcher // nil where there is no new one; set beside an error too
	beat     uint64
	revision uint64 // of the announcement
	err      error
}

func (b *bucket) do(r request) result {
	var result result
	if r.ensure || b.kv == nil {
		made, err := b.ensure()
		if err != nil {
			result.err = fmt.Errorf("ensure bucket %s: %w", Bucket, err)
			return result
		}
		r.watch = r.watch || made
	}
	if r.watch {
		watcher, err := b.kv.Watch(b.cfg.Service + ".*")
		if err != nil {
			result.err = fmt.Errorf("watch bucket %s: %w", Bucket, err)
			return result
		}
		result.watcher = watcher
	}
	if r.say == nil {
		return result
	}
	value, err := json.Marshal(r.say)
	if err == nil {
		result.beat = r.say.Beat
		result.revision, err = b.kv.Put(b.key(), value)
	}
	if err != nil {
		result.err = fmt.Errorf("announce in bucket %s: %w", Bucket, err)
	}
	return result
}

// ensure finds the bucket or makes it. It is kept in memory: what it says is worth a TTL. With three
// replicas it lives as long as two servers; once lost, the members say it again.
func (b *bucket) ensure() (made bool, err error) {
	kv, err := b.js.KeyValue(Bucket)
	if errors.Is(err, nats.ErrBucketNotFound) {
		kv, err = b.js.CreateKeyValue(&nats.KeyValueConfig{
			Bucket: Bucket, Description: "live instances and what they fold",
			TTL: b.cfg.TTL, Storage: nats.MemoryStorage, Replicas: b.cfg.BucketReplicas, History: 1,
		})
		made = err == nil
		if errors.Is(err, nats.ErrStreamNameAlreadyInUse) {
			kv, err = b.js.KeyValue(Bucket) // another member was faster, with other settings
		}
	}
	if err != nil {
		return false, err
	}
	if err := b.widen(); err != nil {
		return false, err
	}
	b.kv = kv
	return made, nil
}

// widen lifts the replicas and the TTL of a bucket that has fewer. It lowers neither: the services share
// it, and liveness is judged by each member's own TTL.
func (b *bucket) widen() error {
	info, err := b.js.StreamInfo(stream)
	if err != nil {
		return err
	}
	cfg := info.Config
	if cfg.Replicas >= b.cfg.BucketReplicas && cfg.MaxAge >= b.cfg.TTL {
		return nil
	}
	cfg.Replicas, cfg.MaxAge = max(cfg.Replicas, b.cfg.BucketReplicas), max(cfg.MaxAge, b.cfg.TTL)
	_, err = b.js.UpdateStream(&cfg)
	return err
}

// leave deletes the member's key, which tells the others at once.
func (b *bucket) leave() error {
	if b.kv == nil {
		return nil
	}
	return b.kv.Delete(b.key())
}

// read makes a sighting of an entry.
func (b *bucket) read(e nats.KeyValueEntry) (sighting, error) {
	s := sighting{
		instance: strings.TrimPrefix(e.Key(), b.cfg.Service+"."), revision: e.Revision(), created: e.Created(),
		gone: e.Operation() != nats.KeyValuePut,
	}
	if s.gone {
		return s, nil
	}
	if err := json.Unmarshal(e.Value(), &s.said); err != nil {
		return s, fmt.Errorf("announcement of %s: %w", s.instance, err)
	}
	return s, nil
}

// stopWatch ends a watcher. Its goroutine blocks on what nobody reads, so it is read to the end.
func stopWatch(w nats.KeyWatcher) {
	_ = w.Stop() // the server drops what it was not told of
	for range w.Updates() {
	}
}
