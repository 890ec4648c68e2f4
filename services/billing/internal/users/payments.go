package users

import (
	"context"
	"errors"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
)

// payments has one document: the lease of the edge that compares the provider's payments with the journal and charges top-ups.
const (
	payments     = "billing_payments"
	paymentLease = "lease"

	maxPaymentLease = 10 * time.Minute
)

// claimPayments gives the lease to a worker if nobody else has it, renews it, or takes it back. USER_CHANGED: another one has it.
func (u *Users) claimPayments(ctx context.Context, r *event.ClaimPayments) (*event.UserAnswer, error) {
	if r.GetWorker() == "" || len(r.Worker) > 64 || r.LeaseMs < 0 || r.LeaseMs > maxPaymentLease.Milliseconds() {
		return nil, &rpc.Error{Code: "malformed", Message: "a claim needs a worker, and a lease of at most 10 minutes"}
	}
	for range maxTries {
		at, err := u.store.Checkpoint(ctx, payments)
		if err != nil {
			return nil, err
		}
		lease, err := u.paymentsLease(ctx)
		if err != nil {
			return nil, err
		}
		now := u.clock().UnixMilli()
		if lease.Worker != r.Worker && lease.UntilMs > now {
			return &event.UserAnswer{Status: event.UserStatus_USER_CHANGED}, nil
		}
		if lease.Worker != r.Worker && r.LeaseMs == 0 { // already given back
			return &event.UserAnswer{Status: event.UserStatus_USER_CHANGED}, nil
		}
		lease.Worker, lease.UntilMs, lease.ComparedMs = r.Worker, now+r.LeaseMs, max(lease.ComparedMs, min(r.ComparedMs, now))
		head, err := event.Encode(lease)
		if err != nil {
			return nil, err
		}
		err = u.store.Commit(ctx, views.Batch{Stream: payments, From: at, To: at + 1, Puts: []views.Put{
			{Collection: payments, Doc: views.Doc{ID: paymentLease, Seq: at + 1, Head: head}},
		}})
		if err == nil {
			return &event.UserAnswer{Status: event.UserStatus_USER_OK, Payments: lease}, nil
		}
		if !errors.Is(err, views.ErrConflict) {
			return nil, err
		}
	}
	return nil, errBusy
}

func (u *Users) paymentsLease(ctx context.Context) (*event.PaymentsLease, error) {
	docs, err := u.store.Load(ctx, payments, []string{paymentLease}, views.Heads)
	lease := &event.PaymentsLease{}
	if err == nil && len(docs) > 0 {
		err = event.Decode(docs[0].Head, lease)
	}
	return lease, err
}
