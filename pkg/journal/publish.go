package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/wait"
)

// answerKind is what a response says about its batch.
type answerKind uint8

const (
	stored  answerKind = iota
	refused            // by the stream or by JetStream: this attempt was not stored
	nobody             // no server listens: this attempt reached no stream
	unclear            // an error that leaves open whether this attempt was stored
)

// answer is one message to an appender's inbox.
type answer struct {
	number   uint64
	sequence uint64 // of a stored batch; 0: unknown
	stream   string // that stored it; empty: unknown
	kind     answerKind
	err      error // nil for a stored batch
	extra    bool  // answers Resend, not an attempt of publish
}

// reply is the subject for the acknowledgment of an attempt.
func (a *Appender[T]) reply(number uint64, attempt int) string {
	b := make([]byte, 0, len(a.inbox)+24)
	b = append(b, a.inbox...)
	b = append(b, '.')
	b = strconv.AppendUint(b, number, 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, int64(attempt), 10)
	return string(b)
}

// receive runs on the goroutine of the acknowledgments' subscription.
func (a *Appender[T]) receive(m *nats.Msg) {
	number, attempt, ok := strings.Cut(m.Subject[min(len(a.inbox)+1, len(m.Subject)):], ".")
	n, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil {
		return
	}
	current := n == a.current.Load()
	if !current && a.cfg.Files == nil {
		return // of an earlier batch
	}
	ans := parseAck(m)
	if ans.kind == stored {
		a.cfg.Files.learn(ans.stream, ans.sequence)
	}
	if !current {
		return
	}
	ans.number, ans.extra = n, attempt == "0"
	a.deliver(ans)
}

// begin starts accepting answers to a batch, until end.
func (a *Appender[T]) begin(number uint64) {
	a.answerMu.Lock()
	defer a.answerMu.Unlock()
	a.current.Store(number)
}

// end drops the remaining answers. A batch has as many confirmations as items; if they filled the channel, the acknowledgment
// of the next batch could be lost and cost it AckWait.
func (a *Appender[T]) end() {
	a.answerMu.Lock()
	defer a.answerMu.Unlock()
	a.current.Store(0)
	for {
		select {
		case <-a.answers:
		default:
			return
		}
	}
}

// deliver never blocks. It drops answers to batches not in flight. An answer that finds the channel full is one of many to the
// same batch, and losing it only costs another attempt.
func (a *Appender[T]) deliver(ans answer) {
	a.answerMu.Lock()
	defer a.answerMu.Unlock()
	if a.current.Load() != ans.number {
		return
	}
	select {
	case a.answers <- ans:
	default:
	}
}

// lastAttempt is the part of MaxWait that must be left for another attempt at a
// batch that is certainly not stored. An attempt cut short would make its
// outcome unknown.
const lastAttempt = 20 * time.Millisecond

// attempts counts the attempts at one batch.
type attempts struct {
	sent     int   // messages given to the connection
	unstored int   // of these, known not to be stored
	cause    error // why the last one failed
}

// unknown reports whether any attempt may have been stored.
func (t *attempts) unknown() bool { return t.sent > t.unstored }

// publish sends the batch until it is known to be stored, is permanently
// refused, or is out of time.
func (a *Appender[T]) publish(ctx context.Context, batch keptBatch, status <-chan nats.Status) (sequence uint64, err error) {
	var (
		t       attempts
		until   time.Time
		ackWait = wait.Backoff{Initial: a.cfg.AckWait, Max: 8 * a.cfg.AckWait}
		pause   = wait.Backoff{Initial: 10 * time.Millisecond, Max: time.Second}
	)
	if a.cfg.MaxWait > 0 {
		until = time.Now().Add(a.cfg.MaxWait)
	}
	for {
		pauses := &pause
		if a.send(&t, batch) {
			pauses = &ackWait
		}
		most := pauses.Next()
		for again := false; !again; {
			left := most
			if !until.IsZero() {
				left = min(most, time.Until(until))
			}
			if left <= 0 && !until.IsZero() && !time.Now().Before(until) {
				return 0, a.gaveUp(&t)
			}
			a.timer.Reset(max(left, 0))
			select {
			case ans := <-a.answers:
				if ans.kind == stored {
					return ans.sequence, nil
				}
				if ans.extra {
					continue
				}
				if err := a.judge(&t, ans); err != nil {
					return 0, err
				}
				most = pause.Next()
			case s := <-status:
				// An acknowledgment sent to the lost connection never arrives.
				again = s == nats.CONNECTED
				if s == nats.CLOSED {
					return 0, a.gaveUp(&t)
				}
			case <-a.timer.C:
				again = left == most
				a.countUnanswered(&t)
			case <-ctx.Done():
				return 0, a.gaveUp(&t)
			}
		}
		if !until.IsZero() && t.sent > 0 && !t.unknown() && time.Until(until) < lastAttempt {
			return 0, a.gaveUp(&t)
		}
		if t.sent > 0 {
			a.cfg.Logger.Warn("appending the batch again", "subject", a.cfg.Subject, "number", a.number,
				"attempts", t.sent, "cause", t.cause)
		}
	}
}

// send reports whether the batch was handed to a live connection.
func (a *Appender[T]) send(t *attempts, batch keptBatch) bool {
	if !a.nc.IsConnected() {
		t.cause = a.cfg.Metrics.count(nats.ErrDisconnected)
		return false
	}
	if err := a.request(a.reply(a.number, t.sent+1), batch); err != nil {
		t.cause = a.cfg.Metrics.count(err)
		return false
	}
	t.sent++
	t.cause = nats.ErrTimeout // unless a response comes
	return true
}

// countUnanswered counts the last attempt if no answer to it has come.
func (a *Appender[T]) countUnanswered(t *attempts) {
	if errors.Is(t.cause, nats.ErrTimeout) {
		_ = a.cfg.Metrics.count(t.cause) // it stays the cause
	}
}

// judge handles an answer other than an acknowledgment. It returns an error if
// the batch is permanently refused.
func (a *Appender[T]) judge(t *attempts, ans answer) error {
	t.cause = a.cfg.Metrics.count(ans.err)
	if ans.kind != unclear {
		t.unstored++
	}
	if ans.kind == refused && a.cfg.MaxWait > 0 && !t.unknown() && !a.forget(a.number) {
		return ans.err
	}
	return nil
}

// gaveUp is the error of a batch that ran out of time.
func (a *Appender[T]) gaveUp(t *attempts) error {
	if a.forget(a.number) || t.unknown() {
		return fmt.Errorf("%w: %w", ErrUnknown, t.cause)
	}
	for _, known := range []error{ErrFull, ErrTooLarge, ErrUnavailable} {
		if errors.Is(t.cause, known) {
			return t.cause
		}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, t.cause)
}

// parseAck parses a stream's response to a publish. The common one,
// {"stream":"BILLING_0","seq":12}, needs no JSON decoder.
func parseAck(m *nats.Msg) answer {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return answer{kind: nobody, err: fmt.Errorf("%w: %w", ErrUnavailable, nats.ErrNoResponders)}
	}
	if !bytes.Contains(m.Data, []byte(`"error"`)) {
		if sequence := ackSequence(m.Data); sequence > 0 {
			return answer{kind: stored, sequence: sequence, stream: ackStream(m.Data)}
		}
	}
	var ack struct {
		Error    *apiError `json:"error"`
		Sequence uint64    `json:"seq"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil {
		return answer{kind: unclear, err: fmt.Errorf("decode acknowledgment: %w", err)}
	}
	switch {
	case ack.Error == nil && ack.Sequence > 0:
		return answer{kind: stored, sequence: ack.Sequence}
	case ack.Error == nil:
		return answer{kind: unclear, err: errors.New("acknowledgment without sequence")}
	}
	return refusal(ack.Error)
}

// ackStream is the name of the stream, which contains no characters escaped by JSON.
func ackStream(data []byte) string {
	_, rest, _ := bytes.Cut(data, []byte(`"stream":"`))
	name, _, _ := bytes.Cut(rest, []byte{'"'})
	return string(name)
}

func ackSequence(data []byte) (sequence uint64) {
	_, rest, _ := bytes.Cut(data, []byte(`"seq":`))
	for i, c := range rest {
		switch {
		case c >= '0' && c <= '9':
			sequence = 10*sequence + uint64(c-'0')
		case c == ' ' && sequence == 0 && i < 4:
		default:
			return sequence
		}
	}
	return 0 // the number is truncated
}

// Codes of errors after which the server has not stored the message
// (nats-server's errors.json).
const (
	codeInsufficientResources = 10023
	codeAccountLimits         = 10002
	codeMemoryLimits          = 10028
	codeStorageLimits         = 10047
	codeMessageTooLarge       = 10054
	codeHeaderTooLarge        = 10097
	codeStoreFailed           = 10077
	codeNotEnabled            = 10076
	codeNotEnabledForAccount  = 10039
	codeClusterNotAvailable   = 10008
	codeStreamSealed          = 10109
)

func refusal(e *apiError) answer {
	switch e.ErrCode {
	case codeStoreFailed:
		// The code covers both a limit, which is checked before anything is
		// written, and a failed write. Only the description tells them apart:
		// ErrMaxBytes, ErrMaxMsgs, ErrMaxMsgsPerSubject of nats-server's
		// store.go.
		if strings.HasPrefix(e.Description, "maximum ") {
			return answer{kind: refused, err: fmt.Errorf("%w: %w", ErrFull, e)}
		}
		return answer{kind: unclear, err: e}
	case codeMessageTooLarge, codeHeaderTooLarge:
		return answer{kind: refused, err: fmt.Errorf("%w: %w", ErrTooLarge, e)}
	case codeInsufficientResources, codeAccountLimits, codeMemoryLimits, codeStorageLimits,
		codeNotEnabled, codeNotEnabledForAccount, codeClusterNotAvailable, codeStreamSealed:
		return answer{kind: refused, err: fmt.Errorf("%w: %w", ErrUnavailable, e)}
	}
	return answer{kind: unclear, err: e}
}
