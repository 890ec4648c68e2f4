package bus

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/wait"
	"quire.dev/services/edge/internal/fault"
)

const (
	// auditTimeout bounds an audit whose context has no deadline.
	auditTimeout = time.Hour
	// auditAttempt bounds the wait for one answer. The audit continues meanwhile, and another question joins it.
	// Between two questions the bus checks that the instance still folds the partition.
	auditAttempt = 10 * time.Second
	// auditPause is the wait before a replica is asked again. One that refuses maxAuditRefusals times fails the audit.
	auditPause       = 250 * time.Millisecond
	maxAuditRefusals = 20

	// initialRollCall is how long the first roll call waits for answers; each further one waits twice as long.
	// rollCallTimeout bounds all of them. It is longer than it takes to notice that an instance is gone, and to
	// take its partitions over.
	initialRollCall = 300 * time.Millisecond
	rollCallTimeout = 15 * time.Second
)

var (
	errMissing = errors.New("not all replicas are known")
	errMoved   = errors.New("the instance does not fold the partition any more")
)

// replicas holds, for each partition, the names of the instances that fold it.
type replicas [][]string

// Audit is the progress of an audit of all partitions.
type Audit struct {
	Done, Total uint64 // messages folded, and known to exist, over all replicas
	Ended       bool
	Again       bool                 // replicas were lost and their part is folded again
	Partitions  []*event.AuditAnswer // of the partitions that have ended
	Progress    []Progress           // of each partition, by its number
}

// Heads are sequences at which the replays of an audit note the chain, by partition.
type Heads map[uint32]uint64

// Partitions is the number of billing's partitions.
func (b *Bus) Partitions() int { return b.cfg.Partitions }

// Progress counts messages over all replicas of a partition.
type Progress struct{ Done, Total uint64 }

// auditMode is what replicas are asked about an audit.
type auditMode uint8

const (
	beginAudit  auditMode = iota // start it and report progress
	followAudit                  // start it and poll until it ends
	lookAtAudit                  // only report progress
)

// auditQuestion is the question of one audit.
type auditQuestion struct {
	id      event.RequestID
	mode    auditMode
	over    bool // asked again, of other replicas
	options AuditOptions
}

// AuditOptions choose what an audit compares. The zero value compares everything but old snapshots.
type AuditOptions struct {
	Account   event.AccountID // 0: all
	Partition int             // number of the only partition, plus 1; 0: all
	Until     uint64          // fold up to this message, and compare neither the live state nor the read model; 0: the end
	Deep      bool            // every snapshot
	New       bool            // only what is new since the last complete audit that matched
	Repair    string          // table whose differing rows are written again; empty: none
	Heads     Heads           // sequences for the chain at earlier heads, by partition
}

// only is event.AuditQuery.only.
func (b *Bus) only(o AuditOptions) uint32 {
	if o.Account != 0 {
		return num.Uint32(event.AccountPartition(o.Account, b.cfg.Partitions)) + 1
	}
	return num.Uint32(o.Partition)
}

// Audit has every replica of every billing partition fold its journal again, and follows the audit until ctx ends. A
// partition matches if all its replicas match and replicas at the same sequence have the same state. The audit continues
// after ctx ends; ReadAudit shows its result.
func (b *Bus) Audit(ctx context.Context, id event.RequestID, o AuditOptions) (*Audit, error) {
	return b.auditAll(ctx, auditQuestion{id: id, mode: followAudit, options: o})
}

// BeginAudit starts an audit without waiting for its end.
func (b *Bus) BeginAudit(ctx context.Context, id event.RequestID, o AuditOptions) (*Audit, error) {
	return b.auditAll(ctx, auditQuestion{id: id, mode: beginAudit, options: o})
}

// ReadAudit reports an audit started by any edge. A partition that lost all replicas of the audit resumes it, or starts it again,
// with these options, and repairs nothing. The error is fault.NotFound if no instance knows the audit.
func (b *Bus) ReadAudit(ctx context.Context, id event.RequestID, o AuditOptions) (*Audit, error) {
	o.Repair = ""
	return b.auditAll(ctx, auditQuestion{id: id, mode: lookAtAudit, options: o})
}

func (b *Bus) auditAll(ctx context.Context, q auditQuestion) (*Audit, error) {
	switch only := b.only(q.options); {
	case int(only) > b.cfg.Partitions:
		return nil, wrongOption("partition", "partition must be below %d.", b.cfg.Partitions)
	case q.options.Until != 0 && only == 0 && b.cfg.Partitions > 1:
		return nil, wrongOption("until", "until is a message of one journal: set partition or account too.")
	}
	known, err := b.rollCall(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	if q.options.Repair != "" {
		for p := range known {
			known[p] = known[p][:1] // one replica writes
		}
	}
	parts := make([]auditPart, b.cfg.Partitions)
	ask := func(q auditQuestion, wanted func(p int) bool) error {
		return b.scatter(ctx, auditTimeout, func(ctx context.Context, p int) error {
			if !wanted(p) {
				return nil
			}
			part, err := b.auditPartition(ctx, p, known[p], q)
			if fault.KindOf(err) == fault.InvalidField {
				return err
			}
			if err != nil {
				return callFault(err, false)
			}
			parts[p] = part
			return nil
		})
	}
	if err := ask(q, func(int) bool { return true }); err != nil {
		return nil, err
	}
	lost := func(p int) bool { return len(parts[p].answers) == 0 && parts[p].pending == 0 }
	if q.mode == lookAtAudit {
		switch n := countIf(len(parts), lost); {
		case n == len(parts):
			return nil, fault.New(fault.NotFound, "No such audit. If billing has restarted, resume it with POST /api/admin/audit?resume=<id>.")
		case n > 0:
			if err := ask(auditQuestion{id: q.id, options: q.options, mode: beginAudit, over: true}, lost); err != nil {
				return nil, err
			}
		}
	}
	return b.mergeParts(parts), nil
}

// codeMalformed is billing's refusal of a query.
const codeMalformed = "malformed"

func wrongOption(field, format string, args ...any) error {
	e := fault.New(fault.InvalidField, format, args...)
	e.Field = field
	return e
}

func countIf(n int, is func(int) bool) (count int) {
	for i := range n {
		if is(i) {
			count++
		}
	}
	return count
}

func (b *Bus) mergeParts(parts []auditPart) *Audit {
	all := &Audit{Ended: true}
	for p, part := range parts {
		all.Progress = append(all.Progress, Progress{part.done, part.total})
		all.Done += part.done
		all.Total += part.total
		all.Again = all.Again || part.again
		if part.pending > 0 || len(part.answers) == 0 {
			all.Ended = false
			continue
		}
		merged := mergeAudits(part.answers)
		if merged.Skipped {
			continue
		}
		all.Partitions = append(all.Partitions, merged)
		b.cfg.Logger.Info("audited", "partition", p, "replicas", len(part.answers), "sequence", merged.LastSequence, "match", merged.Match)
	}
	return all
}

// auditPart is the progress of a partition's replicas.
type auditPart struct {
	answers     []*event.AuditAnswer
	pending     int
	done, total uint64
	again       bool
}

func (p *auditPart) add(a *event.QueryAnswer) {
	switch a.Status {
	case event.QueryStatus_QUERY_PENDING:
		progress := a.GetProgress()
		p.pending++
		p.done += progress.GetDone()
		p.total += progress.GetTotal()
		p.again = p.again || progress.GetAgain()
	case event.QueryStatus_QUERY_OK:
		answer := a.GetAudit()
		p.answers = append(p.answers, answer)
		folded := max(answer.Folded, answer.LastSequence-answer.FromSequence)
		p.done += folded
		p.total += folded
		p.again = p.again || answer.Again
	}
}

// rollCall asks each billing instance which partitions it folds. It returns once all live instances have answered and each
// partition has a replica.
func (b *Bus) rollCall(ctx context.Context) (found replicas, err error) {
	ctx, cancel := context.WithTimeout(ctx, rollCallTimeout)
	defer cancel()
	err = b.repeat(ctx, wait.Backoff{Initial: initialRollCall, Max: rollCallTimeout}, func(ctx context.Context) (bool, error) {
		answers, err := rpc.Gather(ctx, b.nc, event.InstancesSubject, nil)
		if err == nil {
			found, err = b.replicasOf(answers)
		}
		return err == nil || errors.Is(err, errPartitions), err
	})
	return found, err
}

// replicasOf combines the answers of the billing instances.
func (b *Bus) replicasOf(answers [][]byte) (replicas, error) {
	found := make(replicas, b.cfg.Partitions)
	heard, named := map[string]bool{}, map[string]bool{}
	for _, data := range answers {
		i, err := b.instance(data)
		if err != nil {
			return nil, err
		}
		heard[i.Name] = true
		for _, name := range i.Live {
			named[name] = true
		}
		for _, p := range i.Serves {
			if p >= 0 && p < len(found) {
				found[p] = append(found[p], i.Name)
			}
		}
	}
	for name := range named {
		if !heard[name] {
			return nil, fmt.Errorf("%w: billing instance %s is alive but does not answer", errMissing, name)
		}
	}
	for p, names := range found {
		if len(names) == 0 {
			return nil, fmt.Errorf("%w: no instance folds billing partition %d", errMissing, p)
		}
	}
	return found, nil
}

// auditPartition asks all replicas of a partition, leaving out ones that give it up meanwhile. If none remains, it asks the
// current replicas.
func (b *Bus) auditPartition(ctx context.Context, partition int, names []string, q auditQuestion) (auditPart, error) {
	for {
		var (
			mu    sync.Mutex
			part  auditPart
			heard int
			group errgroup.Group
		)
		for _, name := range names {
			group.Go(func() error {
				answer, err := b.auditReplica(ctx, partition, name, q)
				if errors.Is(err, errMoved) {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				heard++
				if err == nil {
					part.add(answer)
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return auditPart{}, err
		}
		if heard > 0 {
			return part, nil
		}
		known, err := b.rollCall(ctx)
		if err != nil {
			return auditPart{}, err
		}
		names, q.over = known[partition], true
	}
}

// auditReplica asks one instance about its audit of a partition. It returns errMoved if the instance no longer folds it, and
// the latest progress if ctx ends first.
func (b *Bus) auditReplica(ctx context.Context, partition int, name string, q auditQuestion) (*event.QueryAnswer, error) {
	query, err := event.Encode(&event.Query{NowMs: b.Now().UnixMilli(), Query: &event.Query_Audit{
		Audit: &event.AuditQuery{
			Id: q.id[:], Look: q.mode == lookAtAudit, Again: q.over, Account: uint64(q.options.Account), Until: q.options.Until,
			Deep: q.options.Deep, New: q.options.New, Repair: q.options.Repair, Only: b.only(q.options),
			Head: q.options.Heads[num.Uint32(partition)],
		},
	}})
	if err != nil {
		return nil, err
	}
	var pending *event.QueryAnswer
	for refusals := 0; ; {
		attempt, cancel := context.WithTimeout(ctx, auditAttempt)
		data, err := rpc.CallOnce(attempt, b.nc, event.ReplicaSubject(partition, name), query)
		cancel()
		if err == nil {
			answer, err := decodeAudit(data)
			if err != nil || answer.Status != event.QueryStatus_QUERY_PENDING || q.mode != followAudit {
				return answer, err
			}
			pending = answer
			if wait.For(ctx, auditPause) {
				continue
			}
		}
		if ctx.Err() != nil && pending != nil {
			return pending, nil
		}
		if refused := (*rpc.Error)(nil); errors.As(err, &refused) {
			if refused.Code == codeMalformed {
				return nil, fault.New(fault.InvalidField, "Billing refuses the audit: %s.", refused.Message)
			}
			refusals++
		}
		if refusals == maxAuditRefusals || !wait.For(ctx, auditPause) {
			return nil, fmt.Errorf("audit of partition %d by %s: %w", partition, name, err)
		}
		known, err := b.rollCall(ctx)
		switch {
		case err != nil && ctx.Err() != nil && pending != nil:
			return pending, nil
		case err != nil:
			return nil, err
		case !slices.Contains(known[partition], name):
			return nil, errMoved
		}
	}
}

func decodeAudit(data []byte) (*event.QueryAnswer, error) {
	answer := &event.QueryAnswer{}
	if err := event.Decode(data, answer); err != nil {
		return nil, err
	}
	switch {
	case answer.Status == event.QueryStatus_QUERY_PENDING, answer.Status == event.QueryStatus_QUERY_NOT_FOUND:
	case answer.Status != event.QueryStatus_QUERY_OK || answer.GetAudit() == nil:
		return nil, errAnswer
	}
	return answer, nil
}

// mergeAudits combines the answers of a partition's replicas: a mismatch if there is one, else the answer of the replica
// furthest ahead.
func mergeAudits(answers []*event.AuditAnswer) *event.AuditAnswer {
	slices.SortFunc(answers, func(a, b *event.AuditAnswer) int { return cmp.Compare(b.LastSequence, a.LastSequence) })
	if i := slices.IndexFunc(answers, func(a *event.AuditAnswer) bool { return !a.Match }); i >= 0 {
		return answers[i]
	}
	for i, a := range answers[1:] {
		before := answers[i]
		states := a.LastSequence == before.LastSequence && !bytes.Equal(a.LiveHash, before.LiveHash)
		heads := len(a.HeadChain) > 0 && len(before.HeadChain) > 0 && !bytes.Equal(a.HeadChain, before.HeadChain)
		if states || heads {
			// Each replica agrees with its own replay, but not with the other: they may run two versions, or read two journals.
			return &event.AuditAnswer{
				Stream: a.Stream, Partition: a.Partition, LastSequence: a.LastSequence, Entries: a.Entries,
				LiveHash: a.LiveHash, ReplayHash: before.ReplayHash, Chain: a.Chain, TimeMs: a.TimeMs, HeadChain: a.HeadChain,
			}
		}
	}
	return answers[0]
}
