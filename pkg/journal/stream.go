package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/wait"
)

// partitionsKey is the key under which a stream's metadata keeps the number of
// partitions that it was made for. Accounts and items would move to other
// partitions with another number, so a process with another number must not start.
const partitionsKey = "quire-partitions"

// dedupeWindow is the shortest that the server takes. Messages carry no message
// id, so that the window stays empty: the folds skip repeated batches themselves.
const dedupeWindow = 100 * time.Millisecond

// codeNoPeers is the refusal of a cluster with too few servers for the replicas,
// or with too few of them up.
const codeNoPeers = 10005

// Stream describes the stream of one partition of one domain.
type Stream struct {
	Domain    string   // "billing", "paste", "lite", "file"
	Partition int      // counted from 0
	Name      string   // "BILLING_0"
	Subjects  []string // of all its messages
	// KeepForever refuses purges too.
	KeepForever bool
	// Replicas defaults to 1. An existing stream with fewer is given more; one
	// with more keeps them.
	Replicas int
	// MaxBytes bounds the stream. A full stream refuses new messages (ErrFull).
	// 0: no bound. An existing stream is given this bound.
	MaxBytes int64
}

// Ensure makes the streams that do not exist and checks those that do. It waits
// for servers that are not ready yet, until ctx ends. Errors: ErrPartitions for a
// stream that was made for another number of partitions, ErrStreamConfig for one
// that could lose messages in a way that a new one could not.
func Ensure(ctx context.Context, nc *nats.Conn, streams []Stream, partitions int) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("open jetstream: %w", err)
	}
	for _, s := range streams {
		if err := ensureWhenReady(ctx, js, s, partitions); err != nil {
			return fmt.Errorf("ensure stream %s: %w", s.Name, err)
		}
	}
	return nil
}

// ensureWhenReady asks again while JetStream, or its quorum, is not up.
func ensureWhenReady(ctx context.Context, js jetstream.JetStream, s Stream, partitions int) error {
	retry := wait.Backoff{First: 20 * time.Millisecond, Most: time.Second}
	for {
		attempt, cancel := context.WithTimeout(ctx, apiWait)
		err := ensure(attempt, js, s, partitions)
		cancel()
		if err == nil || !notReady(err) {
			return err
		}
		if !retry.Wait(ctx) {
			return errors.Join(err, ctx.Err())
		}
	}
}

// notReady reports whether waiting may cure an error.
func notReady(err error) bool {
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api):
		return api.Code == codeServiceUnavailable || api.ErrorCode == codeNoPeers
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return true
	case errors.Is(err, nats.ErrConnectionClosed):
		return false
	}
	return unreached(err)
}

func ensure(ctx context.Context, js jetstream.JetStream, s Stream, partitions int) error {
	want := s.config(partitions)
	existing, err := js.Stream(ctx, s.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = js.CreateStream(ctx, want)
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return err
		}
		// Another process was faster; its stream is checked like any other.
		existing, err = js.Stream(ctx, s.Name)
	}
	if err != nil {
		return err
	}
	have := existing.CachedInfo().Config
	if err := check(have, want); err != nil {
		return err
	}
	if have.MaxBytes == want.MaxBytes && have.Replicas >= want.Replicas {
		return nil
	}
	have.MaxBytes = want.MaxBytes
	have.Replicas = max(have.Replicas, want.Replicas)
	if _, err := js.UpdateStream(ctx, have); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	return nil
}

func (s Stream) config(partitions int) jetstream.StreamConfig {
	maxBytes := s.MaxBytes
	if maxBytes <= 0 {
		maxBytes = -1
	}
	return jetstream.StreamConfig{
		Name:              s.Name,
		Subjects:          s.Subjects,
		Retention:         jetstream.LimitsPolicy,
		Storage:           jetstream.FileStorage,
		Discard:           jetstream.DiscardNew,
		MaxConsumers:      -1,
		MaxMsgs:           -1,
		MaxBytes:          maxBytes,
		MaxMsgsPerSubject: -1,
		MaxMsgSize:        -1,
		Replicas:          max(s.Replicas, 1),
		Duplicates:        dedupeWindow,
		DenyDelete:        true,
		DenyPurge:         s.KeepForever,
		AllowDirect:       true,
		Metadata: map[string]string{
			partitionsKey:     strconv.Itoa(partitions),
			"quire-domain":    s.Domain,
			"quire-partition": strconv.Itoa(s.Partition),
		},
	}
}

// check compares the settings that keep messages safe and those that say which
// partition the stream belongs to.
func check(have, want jetstream.StreamConfig) error {
	if made := have.Metadata[partitionsKey]; made != want.Metadata[partitionsKey] {
		return fmt.Errorf("%w: made for %q, started with %q", ErrPartitions, made, want.Metadata[partitionsKey])
	}
	subjects, wanted := slices.Sorted(slices.Values(have.Subjects)), slices.Sorted(slices.Values(want.Subjects))
	for _, rule := range []struct {
		broken bool
		what   string
	}{
		{!slices.Equal(subjects, wanted), "other subjects"},
		{have.Metadata["quire-domain"] != want.Metadata["quire-domain"], "another domain"},
		{have.Metadata["quire-partition"] != want.Metadata["quire-partition"], "another partition"},
		{have.Storage != want.Storage, "not stored in files"},
		{have.Retention != want.Retention, "retention is not by limits"},
		{have.Discard != want.Discard, "discards old messages"},
		{have.MaxAge != 0, "messages age out"},
		{have.MaxMsgs > 0, "the number of messages is limited"},
		{have.MaxMsgsPerSubject > 0, "the number of messages of a subject is limited"},
		{have.NoAck, "does not acknowledge"},
		{!have.DenyDelete, "allows deletes"},
		{want.DenyPurge && !have.DenyPurge, "allows purges"},
		{have.AllowRollup, "allows roll-ups"},
		{have.AllowMsgTTL, "allows messages that expire"},
		{have.AllowMsgCounter, "counts instead of storing"},
		{have.PersistMode != want.PersistMode, "acknowledges before it stores"},
		{have.Sealed, "is sealed"},
		{have.Mirror != nil || len(have.Sources) > 0, "is fed by other streams"},
		{have.SubjectTransform != nil, "renames subjects"},
	} {
		if rule.broken {
			return fmt.Errorf("%w: %s", ErrStreamConfig, rule.what)
		}
	}
	return nil
}
