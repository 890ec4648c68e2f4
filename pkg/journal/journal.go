// Package journal appends batches to partitioned JetStream streams and folds
// them in order. It is the only package of the project that knows JetStream.
//
// Its guarantees require servers with sync_interval "always" and file storage,
// and three replicas in a cluster. Such a server delivers and acknowledges a
// message only once it is stored durably, so that a fold may answer as soon as
// it receives the message.
package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/wait"
)

// Errors to branch on with errors.Is.
var (
	// ErrPartitions: the stream was created for another number of partitions.
	ErrPartitions = errors.New("stream belongs to another number of partitions")
	// ErrStreamConfig: the stream exists with a configuration that could lose
	// messages, or belongs to another partition.
	ErrStreamConfig = errors.New("stream is configured unsafely")
	// ErrNoStream: the stream does not exist.
	ErrNoStream = errors.New("stream does not exist")
	// ErrExists: the stream to restore exists.
	ErrExists = errors.New("stream exists")
	// ErrNoMessage: no message has that sequence, or none was stored at or
	// after that time.
	ErrNoMessage = errors.New("message does not exist")

	// ErrGap: the next messages were purged or deleted before they were folded.
	ErrGap = errors.New("messages are missing from the stream")
	// ErrTruncated: the stream ends before the sequence already folded. It is
	// another stream, or has lost its newest messages.
	ErrTruncated = errors.New("stream is shorter than what was folded")

	// ErrBusy: the queue of an appender is full. The item was not queued.
	ErrBusy = errors.New("journal queue is full")
	// ErrClosed: the appender is stopping, or its connection is closed.
	ErrClosed = errors.New("journal is closed")
	// ErrUnknown: the batch may have been stored.
	ErrUnknown = errors.New("outcome of the append is unknown")
	// ErrFull: the stream is at its limit. The batch was not stored.
	ErrFull = errors.New("stream is full")
	// ErrTooLarge: an item, or its batch, exceeds the server's message limit.
	// It was not stored.
	ErrTooLarge = errors.New("message is too large")
	// ErrUnavailable: no server accepted the batch, which was not stored, or
	// none responded. A later attempt may succeed.
	ErrUnavailable = errors.New("journal is unavailable")
	// ErrForgotten: the bytes of a batch are no longer kept.
	ErrForgotten = errors.New("batch is no longer kept")
)

const (
	apiPrefix = "$JS.API."
	// apiWait bounds one request to the server if the caller's context allows
	// more. Callers then retry.
	apiWait = 5 * time.Second

	codeStreamNotFound  = 10059
	codeMessageNotFound = 10037
	codeNameExists      = 10130 // of a restore

	codeServiceUnavailable = 503 // as in HTTP
)

// Journal reads one stream, or the generations of a journal that is kept forever. Safe for concurrent use. It needs no close; the
// caller owns the connection.
type Journal struct {
	nc      *nats.Conn
	stream  string
	files   *Files   // nil: it is followed by consumers
	older   Older    // nil: there are no messages from before the stream's first one
	metrics *Metrics // nil: errors are not counted

	open *atomic.Int32 // which of its names the open generation had last
}

// Open returns the Journal of a stream without contacting the server.
func Open(nc *nats.Conn, stream string) *Journal {
	return &Journal{nc: nc, stream: stream, open: new(atomic.Int32)}
}

// Message is one message of a stream, as followers get it. A handler may use Data until it returns.
type Message struct {
	Sequence uint64
	Time     time.Time // when the stream's leader received it, UTC
	Subject  string
	Data     []byte
	Header   nats.Header // only of messages that are followed; nil: none
}

// State is the extent of a stream, as reported by its leader.
type State struct {
	Messages uint64 `json:"messages"`
	First    uint64 `json:"first_seq"` // Last+1 in a stream that was purged completely
	Last     uint64 `json:"last_seq"`
	Bytes    uint64 `json:"bytes"`
	// FirstTime is when the first message was stored; zero in an empty stream.
	FirstTime time.Time `json:"first_ts"`

	// Replicas is the number of servers that are to hold the stream.
	Replicas int `json:"-"`
}

// apiError is an error response of the JetStream API.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s (%d/%d)", e.Description, e.Code, e.ErrCode)
}

// State asks the stream's leader. The response includes every message
// acknowledged before the query, unless other servers have elected another
// leader since and this one has not noticed: see Confirmer. A member that knows
// no leader responds from its own, possibly stale store. Such a response is
// ErrUnavailable.
func (j *Journal) State(ctx context.Context) (State, error) {
	r, err := j.Replication(ctx)
	return r.State, err
}

// Metadata returns the metadata of the stream, such as InstallationKey.
func (j *Journal) Metadata(ctx context.Context) (map[string]string, error) {
	metadata, _, err := j.Made(ctx)
	return metadata, err
}

// Made returns the metadata of the stream and its creation time. Of several generations it is the newest one.
func (j *Journal) Made(ctx context.Context) (metadata map[string]string, created time.Time, err error) {
	e, err := j.newest(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	return e.info.Config.Metadata, e.info.Created, nil
}

// StateFrom is State of a stream known to have reached the sequence least. A
// newly elected leader may still be applying the messages of its quorum, and a
// replaced one responds until it notices. So a response that is too short is
// retried, for 12 seconds if the stream is replicated. EachPartition asks
// several streams.
func (j *Journal) StateFrom(ctx context.Context, least uint64) (State, error) {
	for asked := 1; ; asked++ {
		state, err := j.State(ctx)
		if err != nil || state.Last >= least || state.Replicas == 1 || asked >= doubts(state.Replicas) {
			return state, err
		}
		if !wait.For(ctx, confirmWait) {
			return state, ctx.Err()
		}
	}
}

// EachPartition calls ask for all partitions concurrently, and returns the results by partition, or the first error. StateFrom takes 12
// seconds for a journal that is too short: sequentially, the journals of a restored installation would take minutes.
func EachPartition[T any](ctx context.Context, partitions int, ask func(ctx context.Context, partition int) (T, error)) ([]T, error) {
	list := make([]T, partitions)
	group, ctx := errgroup.WithContext(ctx)
	for p := range partitions {
		group.Go(func() (err error) {
			list[p], err = ask(ctx, p)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return list, nil
}

// LastSequence asks the stream's leader for the sequence of the last message. A
// fold that has reached it has folded every message acknowledged before the
// query, with the exception described at State.
func (j *Journal) LastSequence(ctx context.Context) (uint64, error) {
	e, err := j.newest(ctx)
	return e.Last, err
}

// Partitions returns the number of partitions that the domain's streams were created for.
func (j *Journal) Partitions(ctx context.Context) (int, error) {
	metadata, err := j.Metadata(ctx)
	if err != nil {
		return 0, err
	}
	count, err := Partitions(metadata)
	if err != nil {
		return 0, fmt.Errorf("number of partitions of %s: %w", j.stream, err)
	}
	return count, nil
}

// Purge removes the messages up to and including the sequence upTo. A stream
// with KeepForever refuses it.
func (j *Journal) Purge(ctx context.Context, upTo uint64) error {
	var answer struct {
		Error *apiError `json:"error"`
	}
	request := struct {
		Sequence uint64 `json:"seq"` // the first to keep
	}{upTo + 1}
	if err := j.ask(ctx, "STREAM.PURGE."+j.stream, request, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return j.apiFailure("purge", answer.Error)
	}
	return nil
}

// Get reads one message. ErrNoMessage if it does not exist.
func (j *Journal) Get(ctx context.Context, sequence uint64) (Message, error) {
	m, err := j.get(ctx, map[string]any{"seq": sequence})
	if j.older == nil || !errors.Is(err, ErrNoMessage) {
		return m, err
	}
	if found, ok, older := j.getOlder(ctx, sequence); ok || older != nil {
		return found, older
	}
	return m, err
}

// NextOf reads the first message of a subject at or after a sequence, or returns ErrNoMessage. Before the stream's first message it
// reads all messages up to that one.
func (j *Journal) NextOf(ctx context.Context, subject string, sequence uint64) (Message, error) {
	m, err := j.get(ctx, map[string]any{"seq": sequence, "next_by_subj": subject})
	if j.older == nil || err != nil && !errors.Is(err, ErrNoMessage) {
		return m, err
	}
	// Asked after the message, so that none is left out if the stream begins later meanwhile.
	last, olderErr := j.lastOlder(ctx)
	if err == nil {
		last = min(last, m.Sequence-1)
	}
	if olderErr != nil || last < sequence {
		return m, cmp.Or(olderErr, err)
	}
	found, ok, olderErr := j.firstOlder(ctx, max(sequence, 1), last, func(m Message) bool { return m.Subject == subject })
	if ok || olderErr != nil {
		return found, olderErr
	}
	return m, err
}

// SeekTime returns the sequence of the first message at or after t, or else the
// next sequence.
func (j *Journal) SeekTime(ctx context.Context, t time.Time) (uint64, error) {
	state, err := j.State(ctx)
	if err != nil {
		return 0, err
	}
	next := state.Last + 1
	m, err := j.get(ctx, map[string]any{"start_time": t.UTC().Format(time.RFC3339Nano), "next_by_subj": ">"})
	if err == nil {
		next = m.Sequence
	} else if !errors.Is(err, ErrNoMessage) {
		return 0, err
	}
	// If the stream has a message before the next one, it is earlier than t, and so are the older ones.
	last, err := j.lastOlder(ctx)
	if last = min(last, next-1); err != nil || last == 0 || last+1 < next {
		return next, err
	}
	return j.older.SeekTime(ctx, j.stream, t, last)
}

// get reads the first message that a request wants, of the first generation that has one.
func (j *Journal) get(ctx context.Context, request map[string]any) (m Message, err error) {
	list, err := j.extents(ctx)
	if err != nil {
		return Message{}, err
	}
	for _, e := range list {
		m, err = j.getFrom(ctx, e.name, request)
		if gone := errors.Is(err, ErrNoStream) && e.closed; !gone && !errors.Is(err, ErrNoMessage) {
			return m, err
		}
	}
	return m, err
}

func (j *Journal) getFrom(ctx context.Context, stream string, request map[string]any) (Message, error) {
	var answer struct {
		Error   *apiError `json:"error"`
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := j.ask(ctx, "STREAM.MSG.GET."+stream, request, &answer); err != nil {
		return Message{}, err
	}
	if answer.Error != nil {
		return Message{}, j.apiFailure("read message of", answer.Error)
	}
	m := answer.Message
	return Message{Sequence: m.Seq, Time: m.Time.UTC(), Subject: m.Subject, Data: m.Data}, nil
}

func (j *Journal) apiFailure(what string, e *apiError) error {
	err := fmt.Errorf("%s %s: %w", what, j.stream, e)
	switch {
	case e.ErrCode == codeStreamNotFound:
		err = fmt.Errorf("%s %s: %w", what, j.stream, ErrNoStream)
	case e.ErrCode == codeMessageNotFound:
		err = fmt.Errorf("%s %s: %w", what, j.stream, ErrNoMessage)
	case e.Code == codeServiceUnavailable: // no leader, or no quorum
		err = fmt.Errorf("%s %s: %w: %w", what, j.stream, ErrUnavailable, e)
	}
	return j.metrics.count(err)
}

// ask sends one request to the JetStream API.
func (j *Journal) ask(ctx context.Context, api string, request, answer any) error {
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return fmt.Errorf("encode %s: %w", api, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, apiWait)
	defer cancel()
	m, err := j.nc.RequestWithContext(ctx, apiPrefix+api, body)
	if err != nil {
		if isUnreached(err) {
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return j.metrics.count(fmt.Errorf("ask %s: %w", api, err))
	}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		return j.metrics.count(fmt.Errorf("decode answer to %s: %w", api, err))
	}
	return nil
}

// isUnreached reports whether no server responded.
func isUnreached(err error) bool {
	for _, known := range []error{
		nats.ErrNoResponders, nats.ErrTimeout, context.DeadlineExceeded, nats.ErrDisconnected, nats.ErrReconnectBufExceeded,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	var unwritten *net.OpError
	return errors.As(err, &unwritten)
}
