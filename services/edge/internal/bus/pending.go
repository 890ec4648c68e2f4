package bus

import (
	"context"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/fault"
)

// Bus is safe for concurrent use.
type Bus struct {
	cfg   Config
	nc    *nats.Conn
	ready chan struct{}
}

func newBus(nc *nats.Conn, cfg Config) (*Bus, error) {
	return &Bus{cfg: cfg, nc: nc, ready: make(chan struct{})}, nil
}

func (b *Bus) run(ctx context.Context) error { <-ctx.Done(); return nil }

func unavailable() error {
	return &fault.Error{Kind: fault.Unavailable, Message: "The service is unavailable. Try again.", RetryAfter: 1}
}

// PendingVerdict is an admission under way.
type PendingVerdict struct{}

func (b *Bus) startAdmit(Admission) *PendingVerdict { return &PendingVerdict{} }

// Wait returns the verdict. Of an admission whose verdict is not known when ctx or AdmitTimeout
// ends, the bus gives the hold back by itself. Called once.
func (p *PendingVerdict) Wait(ctx context.Context) (*Verdict, error) { return nil, unavailable() }

// Served reports that an admitted read was answered. It rides in the partition's next batch, and is
// kept until the journal has it; it blocks while too many wait already.
func (b *Bus) Served(a Admission) {}

// Void gives an admission back, and returns when that is stored in the journal. failed says that
// the call failed in its execution and counts towards too_many_failures. When Void itself fails
// the bus goes on trying behind the caller's back.
func (b *Bus) Void(ctx context.Context, a Admission, failed bool) error { return unavailable() }

// Write publishes r to the journal of d and returns what its fold decided. DeadlineMs is set here.
// After Unavailable nothing was done and nothing will be: the caller voids the admission. After
// OutcomeUnknown the fold settles it.
func (b *Bus) Write(ctx context.Context, d event.Domain, r *event.Request) (*event.Outcome, error) {
	return nil, unavailable()
}

// PendingRead is a read under way.
type PendingRead struct{}

// StartRead asks for a document, or for an outcome kept under an idempotency id, without waiting.
func (b *Bus) StartRead(d event.Domain, r *event.Read) *PendingRead { return &PendingRead{} }

// Wait returns the answer. It may be left out when nobody wants it any more.
func (p *PendingRead) Wait(ctx context.Context) (*event.ReadAnswer, error) { return nil, unavailable() }

// List asks every partition for one page and merges them in the order of (created, id). NowMs is
// set here. In the answer, More and the scanned position say where the next page starts.
func (b *Bus) List(ctx context.Context, d event.Domain, q *event.ListRequest) (*event.ListAnswer, error) {
	return nil, unavailable()
}

// Command publishes an account command and returns its outcome. RequestId is set where it is empty.
func (b *Bus) Command(ctx context.Context, c *event.Command) (*event.CommandOutcome, error) {
	return nil, unavailable()
}

// Query asks the billing partition of account. NowMs and Account are set here.
func (b *Bus) Query(ctx context.Context, account event.AccountID, q *event.Query) (*event.QueryAnswer, error) {
	return nil, unavailable()
}

// Explain asks every billing partition how a request was decided, whosever it was. A request that
// no partition knows is a fault.NotFound.
func (b *Bus) Explain(ctx context.Context, id event.RequestID) (*event.ExplainAnswer, error) {
	return nil, unavailable()
}

// Audit has every billing partition fold its journal again, and returns their answers by partition.
// Its only deadline is that of ctx.
func (b *Bus) Audit(ctx context.Context) ([]*event.AuditAnswer, error) { return nil, unavailable() }

// User asks billing's user store. NowMs is set here.
func (b *Bus) User(ctx context.Context, r *event.UserRequest) (*event.UserAnswer, error) {
	return nil, unavailable()
}
