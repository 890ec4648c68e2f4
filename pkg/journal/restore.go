package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/natsfiles"
)

const (
	// restoreChunk is the size of one message with a part of a snapshot.
	restoreChunk = 256 << 10
	// restoreWait bounds the server's answer to one part. It reads the whole stream before it answers the last one.
	restoreWait    = 30 * time.Second
	restoreEndWait = 30 * time.Minute
)

// Restore creates a stream that does not exist yet, with messages that keep their sequences and times. The sequences of the messages
// that next returns are consecutive and may start anywhere; without messages, last is the stream's last sequence, 0 for a new stream.
// Two generations become one, with the number 0.
//
// The connection needs the right to restore a stream. The error is ErrExists for a stream that exists.
func Restore(ctx context.Context, nc *nats.Conn, s Stream, partitions int, created time.Time, last uint64, next func() (Message, bool, error)) error {
	what := "restore stream " + s.Name
	if _, err := Open(nc, s.Name).extents(ctx); !errors.Is(err, ErrNoStream) {
		return fmt.Errorf("%s: %w", what, cmp.Or(err, ErrExists))
	}
	first, next, err := peek(next)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	config := s.config(partitions)
	if first > 0 {
		last = first - 1
	}
	if s.KeepForever && last > 0 {
		config.FirstSeq = last + 1
	}
	described := struct {
		Created time.Time
		jetstream.StreamConfig
	}{created, config}
	meta, err := json.Marshal(described)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	r := restore{nc: nc}
	if err := r.begin(ctx, config); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	read, count := uint64(0), uint64(0)
	counting := func() (natsfiles.Message, bool, error) {
		m, ok, err := next()
		if ok && err == nil {
			read, count = m.Sequence, count+1
		}
		// Headers are of traces, which nothing reads from a journal later.
		return natsfiles.Message{Sequence: m.Sequence, Time: m.Time, Subject: m.Subject, Data: m.Data}, ok, err
	}
	snapshot := natsfiles.Snapshot{Stream: s.Name, Meta: meta, Last: last, Time: created}
	from, to := io.Pipe()
	go func() { to.CloseWithError(snapshot.WriteTo(to, counting)) }()
	err = r.send(ctx, from)
	_ = from.CloseWithError(errors.New("the restore has ended")) // never fails, and ends the goroutine
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if count == 0 {
		read = last
	}
	// The layout of the files is the server's own: see natsfiles.
	state, err := Open(nc, s.Name).StateFrom(ctx, read)
	if err != nil {
		return err
	}
	if state.Last != read || state.Messages != count {
		return fmt.Errorf("%s: the server has %d messages up to %d, instead of %d up to %d: it does not read these files", what, state.Messages, state.Last, count, read)
	}
	return nil
}

// peek returns the sequence of the first message, 0 without messages, and an iterator over all messages.
func peek(next func() (Message, bool, error)) (first uint64, all func() (Message, bool, error), err error) {
	m, ok, err := next()
	if err != nil {
		return 0, nil, err
	}
	peeked := false
	return m.Sequence, func() (Message, bool, error) {
		if !peeked {
			peeked = true
			return m, ok, nil
		}
		if !ok {
			return Message{}, false, nil
		}
		return next()
	}, nil
}

// restore sends a snapshot.
type restore struct {
	nc      *nats.Conn
	subject string
}

// begin asks the server to create the stream.
func (r *restore) begin(ctx context.Context, config jetstream.StreamConfig) error {
	request, err := json.Marshal(struct {
		Config jetstream.StreamConfig `json:"config"`
		State  struct{}               `json:"state"`
	}{Config: config})
	if err != nil {
		return err
	}
	var answer struct {
		Error   *apiError `json:"error"`
		Deliver string    `json:"deliver_subject"`
	}
	if err := r.ask(ctx, apiPrefix+"STREAM.RESTORE."+config.Name, request, restoreWait, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		if answer.Error.ErrCode == codeNameExists {
			return ErrExists
		}
		return answer.Error
	}
	r.subject = answer.Deliver
	return nil
}

func (r *restore) ask(ctx context.Context, subject string, data []byte, wait time.Duration, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	m, err := r.nc.RequestWithContext(ctx, subject, data)
	if err != nil {
		return err
	}
	if len(m.Data) == 0 {
		return nil // the next part may come
	}
	return json.Unmarshal(m.Data, answer)
}

func (r *restore) send(ctx context.Context, from io.Reader) error {
	buf := make([]byte, restoreChunk)
	for {
		n, err := io.ReadFull(from, buf)
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return err
		}
		if n > 0 {
			if err := r.part(ctx, buf[:n], restoreWait); err != nil {
				return err
			}
		}
		if ended {
			return r.part(ctx, nil, restoreEndWait)
		}
	}
}

func (r *restore) part(ctx context.Context, data []byte, wait time.Duration) error {
	var answer struct {
		Error *apiError `json:"error"`
	}
	if err := r.ask(ctx, r.subject, data, wait, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}
