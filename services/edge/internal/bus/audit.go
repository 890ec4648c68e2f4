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
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/wait"
)

const (
	// auditTimeout bounds an audit whose context has no deadline.
	auditTimeout = time.Hour
	// auditAsk bounds the wait for one answer. The audit goes on meanwhile, and asking again joins it.
	// Between two questions the bus checks that the instance still folds the partition.
	auditAsk = 10 * time.Second
	// auditPause is the wait before a replica is asked again. One that refuses auditTries times fails the audit.
	auditPause = 250 * time.Millisecond
	auditTries = 20

	// rollFirst is how long the first roll call waits for answers; each further one waits twice as long.
	// rollWait bounds all of them. It is longer than it takes to notice that an instance is gone, and to
	// take its partitions over.
	rollFirst = 300 * time.Millisecond
	rollWait  = 15 * time.Second
)

var (
	errMissing = errors.New("not all replicas are known")
	errMoved   = errors.New("the instance does not fold the partition any more")
)

// replicas holds, for each partition, the names of the instances that fold it.
type replicas [][]string

// Audit has every replica of every billing partition fold the journal again, and returns an answer
// for each partition. It is a match if all its replicas match, and those at the same place of the journal
// have the same state. The longer the journals, the longer an audit takes; ctx should have a deadline.
func (b *Bus) Audit(ctx context.Context) ([]*event.AuditAnswer, error) {
	known, err := b.rollCall(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	audits := make([]*event.AuditAnswer, b.cfg.Partitions)
	err = b.scatter(ctx, auditTimeout, func(ctx context.Context, p int) error {
		answers, err := b.auditPartition(ctx, p, known[p])
		if err != nil {
			return callFault(err, false)
		}
		audits[p] = mergeAudits(answers)
		b.cfg.Logger.Info("audited", "partition", p, "replicas", len(answers), "sequence", audits[p].LastSequence, "match", audits[p].Match)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return audits, nil
}

// rollCall asks the billing instances for the partitions that each folds. It returns once all live instances have answered and
// each partition has a replica.
func (b *Bus) rollCall(ctx context.Context) (found replicas, err error) {
	ctx, cancel := context.WithTimeout(ctx, rollWait)
	defer cancel()
	err = b.repeat(ctx, wait.Backoff{First: rollFirst, Most: rollWait}, func(ctx context.Context) (bool, error) {
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

// auditPartition has all replicas of a partition audit it. Those that give it up meanwhile are left out.
// If none remains, the replicas that fold the partition now are asked.
func (b *Bus) auditPartition(ctx context.Context, partition int, names []string) ([]*event.AuditAnswer, error) {
	for {
		var (
			mu      sync.Mutex
			answers []*event.AuditAnswer
			group   errgroup.Group
		)
		for _, name := range names {
			group.Go(func() error {
				answer, err := b.auditReplica(ctx, partition, name)
				if errors.Is(err, errMoved) {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				answers = append(answers, answer)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		if len(answers) > 0 {
			return answers, nil
		}
		known, err := b.rollCall(ctx)
		if err != nil {
			return nil, err
		}
		names = known[partition]
	}
}

// auditReplica has one instance audit a partition. It returns errMoved if the instance does not fold it any more.
func (b *Bus) auditReplica(ctx context.Context, partition int, name string) (*event.AuditAnswer, error) {
	query, err := event.Encode(&event.Query{NowMs: b.Now().UnixMilli(), Query: &event.Query_Audit{Audit: &event.AuditQuery{}}})
	if err != nil {
		return nil, err
	}
	for refusals := 0; ; {
		attempt, cancel := context.WithTimeout(ctx, auditAsk)
		data, err := rpc.CallOnce(attempt, b.nc, event.ReplicaSubject(partition, name), query)
		cancel()
		if err == nil {
			return decodeAudit(data)
		}
		if refused := (*rpc.Error)(nil); errors.As(err, &refused) {
			refusals++
		}
		if refusals == auditTries || !wait.For(ctx, auditPause) {
			return nil, fmt.Errorf("audit of partition %d by %s: %w", partition, name, err)
		}
		known, err := b.rollCall(ctx)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(known[partition], name) {
			return nil, errMoved
		}
	}
}

func decodeAudit(data []byte) (*event.AuditAnswer, error) {
	var answer event.QueryAnswer
	if err := event.Decode(data, &answer); err != nil {
		return nil, err
	}
	if answer.Status != event.QueryStatus_QUERY_OK || answer.GetAudit() == nil {
		return nil, errAnswer
	}
	return answer.GetAudit(), nil
}

// mergeAudits makes one answer of those of a partition's replicas: one that does not match, if there is any,
// else that of the replica that is furthest ahead.
func mergeAudits(answers []*event.AuditAnswer) *event.AuditAnswer {
	slices.SortFunc(answers, func(a, b *event.AuditAnswer) int { return cmp.Compare(b.LastSequence, a.LastSequence) })
	if i := slices.IndexFunc(answers, func(a *event.AuditAnswer) bool { return !a.Match }); i >= 0 {
		return answers[i]
	}
	for i, a := range answers[1:] {
		before := answers[i]
		if a.LastSequence == before.LastSequence && !bytes.Equal(a.LiveHash, before.LiveHash) {
			// Each replica agrees with its own replay, but not with the other: they may run two versions.
			return &event.AuditAnswer{
				Stream: a.Stream, Partition: a.Partition, LastSequence: a.LastSequence, Entries: a.Entries,
				LiveHash: a.LiveHash, ReplayHash: before.ReplayHash,
			}
		}
	}
	return answers[0]
}
