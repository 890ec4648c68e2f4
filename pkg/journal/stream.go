package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/wait"
)

// Keys of a stream's metadata.
const (
	// partitionsKey holds the number of partitions that the stream was created
	// for. Another number would move accounts and items to other partitions, so
	// a process with another number must not start.
	partitionsKey = "quire-partitions"
	// domainKey holds the service that owns the stream.
	domainKey    = "quire-domain"
	partitionKey = "quire-partition"
	// InstallationKey holds the id of the installation that the stream belongs to.
	InstallationKey = "quire-installation"
)

// dedupeWindow is the server's minimum. Messages carry no message id, so the
// window stays empty: the folds skip repeated batches themselves.
const dedupeWindow = 100 * time.Millisecond

// codeNoPeers means that a cluster has too few servers for the replicas, or too
// few of them up.
const codeNoPeers = 10005

// Stream describes the stream of one partition of one domain.
type Stream struct {
	Domain    string   // "billing", "paste", "lite", "file"
	Partition int      // counted from 0
	Name      string   // "BILLING_0"
	Subjects  []string // of all its messages
	// KeepForever forbids purges too.
	KeepForever bool
	// Replicas defaults to 1. An existing stream with fewer is scaled up; one
	// with more keeps them.
	Replicas int
	// MaxBytes bounds the stream, also an existing one. A full stream refuses
	// new messages (ErrFull). 0: no bound.
	MaxBytes int64
	// Installation is the id of the installation that the stream belongs to. An
	// existing stream without an id gets this one. Empty: none is set.
	Installation string
}

// Partitions returns the number of partitions that a stream was created for,
// from its metadata.
func Partitions(metadata map[string]string) (int, error) {
	n, err := strconv.Atoi(metadata[partitionsKey])
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: it says %q", ErrPartitions, metadata[partitionsKey])
	}
	return n, nil
}

// Ensure creates missing streams, and upgrades and checks existing ones. It
// waits for servers that are not ready yet, until ctx ends. Errors:
// ErrPartitions for a stream created for another number of partitions,
// ErrStreamConfig for one that is less safe against loss than a new one, or
// that belongs to another installation.
//
// Only the provisioning user may do this: anyone who may change a stream may
// have it publish to any subject. Services call Await.
func Ensure(ctx context.Context, nc *nats.Conn, streams []Stream, partitions int) error {
	return each(ctx, nc, streams, "ensure", notReady, func(ctx context.Context, js jetstream.JetStream, s Stream) error {
		return ensure(ctx, js, s, partitions)
	})
}

// errOutdated: the stream was created by an older version and not upgraded yet.
var errOutdated = errors.New("stream is not up to date")

// Await waits until the streams exist and are up to date, and checks them as
// Ensure does. It changes nothing. It calls waiting, unless nil, every 10 s
// with the reason of the wait.
func Await(ctx context.Context, nc *nats.Conn, streams []Stream, partitions int, waiting func(error)) error {
	if waiting == nil {
		waiting = func(error) {}
	}
	lastLog := time.Now()
	temporary := func(err error) bool {
		if !notReady(err) && !errors.Is(err, jetstream.ErrStreamNotFound) && !errors.Is(err, errOutdated) {
			return false
		}
		if time.Since(lastLog) >= logEvery {
			lastLog = time.Now()
			waiting(err)
		}
		return true
	}
	return each(ctx, nc, streams, "await", temporary, func(ctx context.Context, js jetstream.JetStream, s Stream) error {
		list, err := streamsOf(ctx, js, s)
		if err != nil {
			return err
		}
		have := list[len(list)-1].Config
		if isClosing(have, s) {
			return fmt.Errorf("%w: %s is being closed", errOutdated, have.Name)
		}
		want := s.config(partitions)
		if err := check(have, want); err != nil {
			return err
		}
		if !hasAll(have.Subjects, want.Subjects) {
			return fmt.Errorf("%w: it lacks a subject of %q", errOutdated, want.Subjects)
		}
		return nil
	})
}

// logEvery is how often Await reports why it waits.
const logEvery = 10 * time.Second

// each calls do for every stream, and retries temporary errors.
func each(
	ctx context.Context, nc *nats.Conn, streams []Stream, what string,
	temporary func(error) bool, do func(context.Context, jetstream.JetStream, Stream) error,
) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("open jetstream: %w", err)
	}
	for _, s := range streams {
		retry := wait.Backoff{Initial: 20 * time.Millisecond, Max: time.Second}
		for {
			attempt, cancel := context.WithTimeout(ctx, apiWait)
			err := do(attempt, js, s)
			cancel()
			if err == nil {
				break
			}
			if temporary(err) {
				if retry.Wait(ctx) {
					continue
				}
				err = errors.Join(err, ctx.Err())
			}
			return fmt.Errorf("%s stream %s: %w", what, s.Name, err)
		}
	}
	return nil
}

func hasAll(have, want []string) bool {
	return !slices.ContainsFunc(want, func(s string) bool { return !slices.Contains(have, s) })
}

// notReady reports whether an error may go away by itself.
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
	return isUnreached(err) || errors.Is(err, ErrUnavailable)
}

func ensure(ctx context.Context, js jetstream.JetStream, s Stream, partitions int) error {
	want := s.config(partitions)
	list, err := streamsOf(ctx, js, s)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = js.CreateStream(ctx, want)
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return err
		}
		// Another process was faster; check its stream like any other.
		list, err = streamsOf(ctx, js, s)
	}
	if err != nil {
		return err
	}
	have := list[len(list)-1].Config
	for _, info := range list[:len(list)-1] {
		if closed := info.Config; renewClosed(&closed, want, have.FirstSeq-1) {
			if _, err := js.UpdateStream(ctx, closed); err != nil {
				return fmt.Errorf("update %s: %w", closed.Name, err)
			}
		}
	}
	if isClosing(have, s) {
		return newClosing(js, s, partitions).run(ctx, have.Name)
	}
	if err := check(have, want); err != nil {
		return err
	}
	if !renew(&have, want) {
		return nil
	}
	if _, err := js.UpdateStream(ctx, have); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	return nil
}

// Streams describes the stream of a journal, or its generations, oldest first. The error is ErrNoStream if the journal has none.
func Streams(ctx context.Context, nc *nats.Conn, s Stream) ([]*jetstream.StreamInfo, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	list, err := streamsOf(ctx, js, s)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = fmt.Errorf("%s: %w", s.Name, ErrNoStream)
	}
	return list, err
}

// streamsOf is Streams with the errors of the client.
func streamsOf(ctx context.Context, js jetstream.JetStream, s Stream) (list []*jetstream.StreamInfo, err error) {
	for _, name := range names(s.Name) {
		existing, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		info := existing.CachedInfo()
		number, _, err := generationOf(info.Config.Metadata)
		if err != nil {
			return nil, err
		}
		list = append(list, info)
		if number == 0 && !isClosing(info.Config, s) {
			break // there is no other one
		}
	}
	if len(list) == 0 {
		return nil, jetstream.ErrStreamNotFound
	}
	slices.SortFunc(list, func(a, b *jetstream.StreamInfo) int {
		first, _, _ := generationOf(a.Config.Metadata)
		second, _, _ := generationOf(b.Config.Metadata)
		return first - second
	})
	return list, nil
}

// isClosing reports whether the newest generation of a stream takes no messages.
func isClosing(have jetstream.StreamConfig, s Stream) bool {
	return have.Metadata[lastKey] != "" || IsClosing(s.Name, have.Subjects)
}

// renew upgrades the settings of an existing stream and reports whether
// anything changed. It removes nothing.
func renew(have *jetstream.StreamConfig, want jetstream.StreamConfig) bool {
	before := *have
	have.MaxBytes = want.MaxBytes
	have.Replicas = max(have.Replicas, want.Replicas)
	have.Description = want.Description
	changed := have.MaxBytes != before.MaxBytes || have.Replicas != before.Replicas || have.Description != before.Description
	if !hasAll(have.Subjects, want.Subjects) {
		have.Subjects, changed = want.Subjects, true
	}
	if id := want.Metadata[InstallationKey]; id != "" && have.Metadata[InstallationKey] == "" {
		have.Metadata = maps.Clone(have.Metadata)
		have.Metadata[InstallationKey], changed = id, true
	}
	return changed
}

// renewClosed is renew of a closed generation with so many messages, whose end another process may have overwritten.
func renewClosed(closed *jetstream.StreamConfig, want jetstream.StreamConfig, last uint64) (changed bool) {
	if closed.Replicas < want.Replicas {
		closed.Replicas, changed = want.Replicas, true
	}
	if closed.Metadata[lastKey] == "" {
		closed.Metadata = maps.Clone(closed.Metadata)
		closed.Metadata[lastKey], closed.Metadata[closedKey], changed = strconv.FormatUint(last, 10), now(), true
	}
	return changed
}

func (s Stream) config(partitions int) jetstream.StreamConfig {
	maxBytes := s.MaxBytes
	if maxBytes <= 0 {
		maxBytes = -1
	}
	metadata := map[string]string{
		partitionsKey: strconv.Itoa(partitions),
		domainKey:     s.Domain,
		partitionKey:  strconv.Itoa(s.Partition),
	}
	if s.Installation != "" {
		metadata[InstallationKey] = s.Installation
	}
	return jetstream.StreamConfig{
		Name:              s.Name,
		Description:       fmt.Sprintf("Quire: journal of %s, partition %d of %d", s.Domain, s.Partition, partitions),
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
		Metadata:          metadata,
	}
}

// Check returns ErrPartitions or ErrStreamConfig for a stream that services do not start with.
func Check(have jetstream.StreamConfig, want Stream, partitions int) error {
	config := want.config(partitions)
	if isClosing(have, want) {
		config.Subjects = []string{ClosedSubject(want.Name)}
	}
	return check(have, config)
}

// check compares the settings that keep messages safe and those that identify
// the stream's partition.
func check(have, want jetstream.StreamConfig) error {
	if made := have.Metadata[partitionsKey]; made != want.Metadata[partitionsKey] {
		return fmt.Errorf("%w: created for %q, started with %q", ErrPartitions, made, want.Metadata[partitionsKey])
	}
	for _, rule := range []struct {
		broken bool
		what   string
	}{
		// A stream of an older version has fewer subjects.
		{!hasAll(want.Subjects, have.Subjects), "other subjects"},
		{have.Metadata[domainKey] != want.Metadata[domainKey], "another domain"},
		{have.Metadata[partitionKey] != want.Metadata[partitionKey], "another partition"},
		{otherInstallation(have, want), "another installation"},
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
		{have.RePublish != nil, "publishes elsewhere"},
	} {
		if rule.broken {
			return fmt.Errorf("%w: %s", ErrStreamConfig, rule.what)
		}
	}
	return nil
}

// otherInstallation reports whether both have ids, and the ids differ.
func otherInstallation(have, want jetstream.StreamConfig) bool {
	a, b := have.Metadata[InstallationKey], want.Metadata[InstallationKey]
	return a != "" && b != "" && a != b
}
