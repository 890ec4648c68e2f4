package proofs

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
)

// sendTimeout is for a whole proof, so that slow clients do not keep others from theirs.
const sendTimeout = 5 * time.Minute

var errSlow = errors.New("the client takes too long for a proof")

// begin reserves memory for a proof of the account, which has one at a time. release, which may be called again, gives it back.
func (s *Proofs) begin(id event.AccountID) (release func(), err error) {
	if _, busy := s.proving.LoadOrStore(id, true); busy {
		return nil, endpoint.WaitFor(fault.New(fault.RateLimited, "A proof is being made or sent for this account. Try again in a second."), 1, 1, s.Now())
	}
	select {
	case s.bills <- struct{}{}:
	default:
		s.proving.Delete(id)
		return nil, endpoint.Unavailable(errors.New("too many proofs are being made or sent"))
	}
	return sync.OnceFunc(func() {
		<-s.bills
		s.proving.Delete(id)
	}), nil
}

// send answers with a proof, and releases its memory once it is sent, or can't be.
func (s *Proofs) send(c *endpoint.Call, data []byte, release func()) {
	body := &sending{data: bytes.NewReader(data), now: s.Now, until: s.Now().Add(sendTimeout), release: release}
	c.Context().Response.SetBodyStream(body, len(data))
}

// sending is the body of an answer.
type sending struct {
	data    *bytes.Reader
	now     func() time.Time
	until   time.Time
	release func()
}

func (s *sending) Read(p []byte) (int, error) {
	if s.now().After(s.until) {
		return 0, errSlow
	}
	return s.data.Read(p)
}

// Close is called by the server after the answer, and if the client has gone.
func (s *sending) Close() error {
	s.release()
	return nil
}
