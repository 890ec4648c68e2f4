// Package bus is the edge's side of the message bus: it asks billing for admissions, settles reads,
// publishes writes, and asks the document services. It knows no HTTP.
//
// Every failure is a *fault.Error of one of two kinds: Unavailable, when the thing asked for was
// certainly not done, and OutcomeUnknown, when it was published, or may have been, and nothing
// confirmed it in time. That the caller's context ended is reported by the same two kinds, with
// the context's error as the cause.
package bus

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// Config says how the bus behaves. Only Partitions must be set.
type Config struct {
	Source     string           // names this edge's batches; must be new for each boot. Drawn at random where empty
	Partitions int              // of every journal
	Clock      func() time.Time // the edge's clock, Offset already included; time.Now().Add(Offset) where nil
	Offset     time.Duration    // QUIRE_CLOCK_OFFSET, told in every batch

	AdmitTimeout time.Duration // for a verdict, a void, a command; 5 s
	WriteTimeout time.Duration // for the outcome of a write; 5 s
	ReadTimeout  time.Duration // for a read and for a list; 3 s
	QueryTimeout time.Duration // for a query, an explain and a user request; 10 s
	ResendAfter  time.Duration // a batch unanswered for so long is published again; 1 s
	RefusalTTL   time.Duration // how long a final refusal is remembered; 1 s, and at most that

	Logger  *slog.Logger          // discards where nil
	Metrics prometheus.Registerer // none where nil
}

// Admission asks billing to count one request. The zero KeyVersion is a caller without a key.
type Admission struct {
	RequestID      event.RequestID
	Account        event.AccountID // or the pseudo-account of a keyless caller's network
	Key            plan.QuotaKey
	Anonymous      bool
	KeyVersion     uint32
	KeyFingerprint uint64
	Write          bool   // settled by the document service that folds it; else by Served or Void
	IdempotencyID  []byte // empty without Idempotency-Key
}

// Verdict is what billing decided on an admission. It is shared and must not be changed.
type Verdict struct {
	*event.Verdict
	TimeMs   int64  // fold time of the decision, Unix milliseconds
	Sequence uint64 // position in the billing journal
}

// Admitted tells whether the request may run.
func (v *Verdict) Admitted() bool { return v.Decision == event.Decision_ADMITTED }

// New prepares a bus over nc. It does nothing on the wire before Run.
func New(nc *nats.Conn, cfg Config) (*Bus, error) { return newBus(nc, cfg) }

// Run subscribes to the answers and sends until ctx ends. It then takes nothing new, stores the
// settlements that still wait, and returns. Called once.
func (b *Bus) Run(ctx context.Context) error { return b.run(ctx) }

// Ready is closed once the bus takes requests. Those made earlier wait for it.
func (b *Bus) Ready() <-chan struct{} { return b.ready }

// Now is the edge's time, the clock offset included.
func (b *Bus) Now() time.Time { return b.cfg.Clock() }

// StartAdmit asks for an admission without waiting; it never blocks. The verdict is had by Wait,
// which must be called once for each StartAdmit. A refusal remembered is there at once.
func (b *Bus) StartAdmit(a Admission) *PendingVerdict { return b.startAdmit(a) }

// Admit is StartAdmit and Wait.
func (b *Bus) Admit(ctx context.Context, a Admission) (*Verdict, error) {
	return b.StartAdmit(a).Wait(ctx)
}
