package bus

import (
	"context"
	"errors"

	"quire.dev/pkg/journal"
	"quire.dev/pkg/rpc"
	"quire.dev/services/edge/internal/fault"
)

var (
	errExpired   = errors.New("out of time")
	errQueue     = errors.New("too many requests wait for the journal")
	errStuck     = errors.New("the journal has not stored earlier settlements yet")
	errAnswer    = errors.New("the answer does not fit the question")
	errReadModel = errors.New("the read model did not answer")
	errUnseen    = errors.New("the outcome is not shown yet")
)

func unavailable(cause error) *fault.Error {
	return &fault.Error{Kind: fault.Unavailable, Message: "A part of the service did not respond. Try again.", RetryAfter: 1, Cause: cause}
}

func outcomeUnknown(cause error) *fault.Error {
	return &fault.Error{
		Kind:    fault.OutcomeUnknown,
		Message: "The outcome was not confirmed in time. It is safe to retry with the same Idempotency-Key.",
		Cause:   cause,
	}
}

func tooLarge(cause error) *fault.Error {
	return &fault.Error{Kind: fault.TooLarge, Message: "The request is too large.", Cause: cause}
}

// appendFault converts an appender's error to a fault.
func appendFault(err error) *fault.Error {
	switch {
	case errors.Is(err, journal.ErrUnknown):
		return outcomeUnknown(err)
	case errors.Is(err, journal.ErrTooLarge):
		return tooLarge(err)
	}
	return unavailable(err)
}

// callFault converts an rpc error to a fault. A call that changes nothing can be repeated safely, so all its failures except
// TooLarge are Unavailable.
func callFault(err error, changes bool) *fault.Error {
	var refused *rpc.Error
	switch {
	case errors.Is(err, rpc.ErrTooLarge):
		return tooLarge(err)
	case !changes, errors.Is(err, rpc.ErrUnavailable), errors.Is(err, rpc.ErrBusy):
		return unavailable(err)
	case errors.As(err, &refused) && refused.Code == rpc.CodeBusy:
		return unavailable(err)
	}
	return outcomeUnknown(err)
}

// contextFault returns the fault for a caller whose ctx has ended. sent says that the request may have been published.
func contextFault(ctx context.Context, sent bool) *fault.Error {
	cause := errExpired
	if err := context.Cause(ctx); err != nil {
		cause = err
	}
	if sent {
		return outcomeUnknown(cause)
	}
	return unavailable(cause)
}
