package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/wait"
)

const (
	// closeWait bounds one call that closes a generation, and takeOver is the time after which another one takes it for killed.
	closeWait = 10 * time.Second
	takeOver  = 20 * time.Second
)

// proveWait bounds the wait until all servers know that a generation takes no more messages.
const proveWait = 5 * time.Second

// Advance closes the open generation of a journal and opens the next one. Publishers find nobody for the subjects meanwhile, for a
// fraction of a second, and repeat. The next call, or Ensure, finishes what a killed one left.
//
// ErrGenerations if the generation before has not been deleted, ErrUnavailable if a server of the stream does not answer, or another
// process is closing it: the generation stays open then, unless another error is joined.
func Advance(ctx context.Context, nc *nats.Conn, s Stream, partitions int) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("open jetstream: %w", err)
	}
	list, err := Open(nc, s.Name).extents(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("close a generation of %s: %w", s.Name, err)
	case len(list) > 1:
		return fmt.Errorf("close a generation of %s: %w", s.Name, ErrGenerations)
	}
	if err := newClosing(js, s, partitions).run(ctx, list[0].name); err != nil {
		return fmt.Errorf("close generation %d of %s: %w", list[0].number, s.Name, err)
	}
	return nil
}

// closing closes the generation of a stream, and opens the next one.
type closing struct {
	js         jetstream.JetStream
	stream     Stream
	partitions int
	id         string // of this call
}

func newClosing(js jetstream.JetStream, s Stream, partitions int) closing {
	return closing{js: js, stream: s, partitions: partitions, id: rand.Text()}
}

// run does not end with ctx: nobody can write meanwhile.
func (c closing) run(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	config, err := configOf(ctx, c.js, name)
	if err != nil {
		return err
	}
	if config.Metadata[lastKey] == "" {
		if err := c.move(ctx, config); err != nil {
			return err
		}
		if err := c.prove(ctx, config); err != nil {
			return errors.Join(err, c.moveBack(context.WithoutCancel(ctx), name))
		}
		config, err = c.end(ctx, name)
		if errors.Is(err, ErrFull) { // it is full after this as it was before
			err = errors.Join(err, c.moveBack(context.WithoutCancel(ctx), name))
		}
		if err != nil {
			return err
		}
	}
	return c.next(ctx, config)
}

// readMine reads the configuration of a stream that this call is closing. Another one may have taken over.
func (c closing) readMine(ctx context.Context, name string) (jetstream.StreamConfig, error) {
	config, err := configOf(ctx, c.js, name)
	if id, _, _ := strings.Cut(config.Metadata[closerKey], " "); err == nil && id != c.id {
		err = errCloser
	}
	return config, err
}

var errCloser = fmt.Errorf("%w: another process is closing its generation", ErrUnavailable)

// move takes the stream's subjects away. From then on no leader that knows of it stores a message.
func (c closing) move(ctx context.Context, config jetstream.StreamConfig) error {
	if IsClosing(c.stream.Name, config.Subjects) {
		_, since, _ := strings.Cut(config.Metadata[closerKey], " ")
		if begun, err := time.Parse(time.RFC3339Nano, since); err == nil && time.Since(begun).Abs() < takeOver { // clocks may differ
			return errCloser
		}
	} else if err := c.answers(ctx); err != nil {
		return err
	}
	config.Subjects = []string{ClosedSubject(c.stream.Name)}
	config.Metadata[closerKey] = c.id + " " + now()
	_, err := c.js.UpdateStream(ctx, config)
	return err
}

// answers returns an error unless all servers of the stream do. One that is a few messages behind does: under load some server always is.
func (c closing) answers(ctx context.Context) error {
	r, err := c.journal().Replication(ctx)
	if err != nil {
		return err
	}
	for _, p := range r.Peers {
		if p.Offline || p.Active > silentWait {
			return fmt.Errorf("%w: server %s, which has a copy, does not answer", ErrUnavailable, p.Server)
		}
	}
	return nil
}

// moveBack undoes move.
func (c closing) moveBack(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	config, err := c.readMine(ctx, name)
	if err == nil {
		config.Subjects = c.stream.Subjects
		delete(config.Metadata, closerKey)
		_, err = c.js.UpdateStream(ctx, config)
	}
	if err != nil {
		return fmt.Errorf("open it again: %w", err)
	}
	return nil
}

// prove returns nil once every server of the stream has applied move: one that has not could lead later, and store a message after the
// last one. A server applies changes of streams and consumers in their order, so one that takes part in a new consumer has. The servers
// delete the consumer when it is not used.
func (c closing) prove(ctx context.Context, config jetstream.StreamConfig) error {
	if config.Replicas <= 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, proveWait)
	defer cancel()
	consumer, err := c.js.CreateConsumer(ctx, config.Name, jetstream.ConsumerConfig{
		Description: "shows that all servers know that the generation is closed", DeliverPolicy: jetstream.DeliverNewPolicy,
		FilterSubject: ClosedSubject(c.stream.Name), // the provisioning user may make no other
		AckPolicy:     jetstream.AckNonePolicy, InactiveThreshold: inactive, Replicas: config.Replicas, MemoryStorage: true,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	for retry := (wait.Backoff{Initial: 10 * time.Millisecond, Max: 200 * time.Millisecond}); ; {
		info, err := consumer.Info(ctx)
		if err == nil && takesPart(info.Cluster, config.Replicas) {
			return nil
		}
		if !retry.Wait(ctx) {
			return fmt.Errorf("%w: not every server knows that the generation is closed: %w", ErrUnavailable, errors.Join(err, ctx.Err()))
		}
	}
}

// takesPart reports whether all servers have answered the leader of a group.
func takesPart(group *jetstream.ClusterInfo, servers int) bool {
	return group != nil && group.Leader != "" && len(group.Replicas) == servers-1 &&
		!slices.ContainsFunc(group.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current || p.Offline })
}

// end stores the last message, which a majority has then, and records its sequence.
func (c closing) end(ctx context.Context, name string) (config jetstream.StreamConfig, err error) {
	last, err := c.storeLast(ctx, name)
	if err != nil {
		return config, err
	}
	if config, err = c.readMine(ctx, name); err != nil {
		return config, err
	}
	config.Metadata[lastKey] = strconv.FormatUint(last, 10)
	config.Metadata[closedKey] = now()
	if _, err = c.js.UpdateStream(ctx, config); err != nil {
		return config, err
	}
	// An update by another process may have opened the stream in between, since the servers compare nothing: then it has other messages.
	e, err := c.journal().extent(ctx, name)
	if err == nil && e.info.State.Last != last {
		delete(config.Metadata, lastKey)
		_, err = c.js.UpdateStream(ctx, config)
		err = errors.Join(errCloser, err)
	}
	return config, err
}

func (c closing) journal() *Journal { return Open(c.js.Conn(), c.stream.Name) }

// storeLast stores the last message after the one that is the last now, so that no other call can do so too. If the next generation is
// open, another call has.
func (c closing) storeLast(ctx context.Context, name string) (uint64, error) {
	config, err := c.readMine(ctx, name)
	if err != nil {
		return 0, err
	}
	number, _, err := generationOf(config.Metadata)
	if err != nil {
		return 0, err
	}
	e, err := c.journal().newest(ctx)
	switch {
	case err != nil:
		return 0, err
	case e.number == number+1:
		return e.info.Config.FirstSeq - 1, nil
	case e.name != name || !e.closing:
		return 0, errCloser
	}
	m := nats.NewMsg(ClosedSubject(c.stream.Name))
	m.Data = fmt.Appendf(nil, "generation %d ends", number)
	m.Header.Set(nats.ExpectedLastSeqHdr, strconv.FormatUint(e.Last, 10))
	answer, err := c.js.Conn().RequestMsgWithContext(ctx, m)
	if err != nil {
		return 0, err
	}
	ack := parseAck(answer)
	return ack.sequence, ack.err
}

// next opens the generation after a closed one, unless it is open.
func (c closing) next(ctx context.Context, closed jetstream.StreamConfig) error {
	number, _, err := generationOf(closed.Metadata)
	if err != nil {
		return err
	}
	last, err := strconv.ParseUint(closed.Metadata[lastKey], 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrStreamConfig, lastKey, err)
	}
	s := c.stream
	s.Replicas, s.Installation = max(s.Replicas, closed.Replicas), closed.Metadata[InstallationKey]
	if s.MaxBytes == 0 {
		s.MaxBytes = closed.MaxBytes
	}
	config := s.config(c.partitions)
	config.Name = generationName(s.Name, number+1)
	config.FirstSeq = last + 1
	config.Metadata[generationKey] = strconv.Itoa(number + 1)
	if err := c.create(ctx, config); !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return err
	}
	opened, err := c.js.Stream(ctx, config.Name)
	if err != nil {
		return err
	}
	have := opened.CachedInfo().Config
	if have.Metadata[generationKey] != config.Metadata[generationKey] || have.FirstSeq != config.FirstSeq {
		return fmt.Errorf("%w: %s is generation %q from %d on, want %d", ErrStreamConfig, config.Name, have.Metadata[generationKey], have.FirstSeq, config.FirstSeq)
	}
	return nil
}

// create creates a stream, with fewer copies if a server was lost a moment ago: nobody can write until it is there. Ensure adds the others.
func (c closing) create(ctx context.Context, config jetstream.StreamConfig) error {
	for {
		_, err := c.js.CreateStream(ctx, config)
		var api *jetstream.APIError
		if !errors.As(err, &api) || api.ErrorCode != codeNoPeers || config.Replicas <= 1 {
			return err
		}
		config.Replicas--
	}
}
