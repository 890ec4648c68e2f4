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
)

const (
	// auditTimeout bounds an audit whose context has no deadline.
	auditTimeout = time.Hour
	// auditAsk bounds the wait for one answer. The audit goes on meanwhile, and who asks again joins it:
	// whether its instance is still there is looked at in between.
	auditAsk = 10 * time.Second
	// auditPause lies before a replica is asked again, auditTries times at most where it says that it can't.
	auditPause = 250 * time.Millisecond
	auditTries = 20

	// rollFirst is how long the first roll call waits for answers, doubled each time; rollWait for all:
	// longer than it takes to notice that an instance is gone, and to take its partitions over.
	rollFirst = 300 * time.Millisecond
	rollWait  = 15 * time.Second
)

var (
	errMissing = errors.New("not all replicas are known")
	errMoved   = errors.New("the instance does not fold the partition any more")
)

// replicas are the names of the instances that fold each partition.
type replicas [][]string

// Audit has every instance that folds a billing partition fold its journal again, and returns an answer
// for each partition: a match where all of them match, and those at the same place have the same state.
// It takes as long as the journals are; ctx should have a deadline.
func (b *Bus) Audit(ctx context.Context) ([]*event.AuditAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
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

// rollCall finds who folds what. It is done when all billing instances that are alive were heard, and
// each partition has a replica.
func (b *Bus) rollCall(ctx context.Context) (replicas, error) {
	ctx, cancel := context.WithTimeout(ctx, rollWait)
	defer cancel()
	var err error
	for wait := rollFirst; ctx.Err() == nil; wait *= 2 {
		listening, stop := context.WithTimeout(ctx, wait)
		var answers [][]byte
		var found replicas
		answers, err = rpc.Gather(listening, b.nc, event.InstancesSubject, nil)
		if err == nil {
			found, err = b.whoFolds(answers)
		}
		if err != nil {
			<-listening.Done() // nobody is there yet, or not all
		}
		stop()
		if err == nil || errors.Is(err, ErrPartitions) {
			return found, err
		}
	}
	return nil, cmp.Or(err, ctx.Err())
}

// whoFolds puts together what instances say of themselves.
func (b *Bus) whoFolds(answers [][]byte) (replicas, error) {
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
			return nil, fmt.Errorf("%w: billing instance %s is alive and does not answer", errMissing, name)
		}
	}
	for p, names := range found {
		if len(names) == 0 {
			return nil, fmt.Errorf("%w: nobody folds billing partition %d", errMissing, p)
		}
	}
	return found, nil
}

// auditPartition has all replicas of a partition audit it. Those that give it up meanwhile are left out,
// unless none remains: then whoever folds it instead is asked.
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

// auditReplica has one instance audit a partition; errMoved where it does not fold it any more.
func (b *Bus) auditReplica(ctx context.Context, partition int, name string) (*event.AuditAnswer, error) {
	query, err := event.Encode(&event.Query{NowMs: b.Now().UnixMilli(), Query: &event.Query_Audit{Audit: &event.AuditQuery{}}})
	if err != nil {
		return nil, err
	}
	for tries := 1; ; {
		attempt, cancel := context.WithTimeout(ctx, auditAsk)
		data, err := rpc.CallOnce(attempt, b.nc, event.ReplicaSubject(partition, name), query)
		cancel()
		var refused *rpc.Error
		switch {
		case err == nil:
			answer := &event.QueryAnswer{}
			if err := event.Decode(data, answer); err != nil {
				return nil, err
			}
			if answer.Status != event.QueryStatus_QUERY_OK || answer.GetAudit() == nil {
				return nil, errAnswer
			}
			return answer.GetAudit(), nil
		case ctx.Err() != nil:
			return nil, err
		case errors.As(err, &refused):
			if tries++; tries > auditTries {
				return nil, fmt.Errorf("audit of partition %d by %s: %w", partition, name, err)
			}
		}
		pause := time.NewTimer(auditPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, ctx.Err()
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

// mergeAudits is the answer of all replicas of a partition: the first that does not match, else that of
// the fold that is furthest.
func mergeAudits(answers []*event.AuditAnswer) *event.AuditAnswer {
	slices.SortFunc(answers, func(a, b *event.AuditAnswer) int { return cmp.Compare(b.LastSequence, a.LastSequence) })
	if i := slices.IndexFunc(answers, func(a *event.AuditAnswer) bool { return !a.Match }); i >= 0 {
		return answers[i]
	}
	for i, a := range answers[1:] {
		before := answers[i]
		if a.LastSequence == before.LastSequence && !bytes.Equal(a.LiveHash, before.LiveHash) {
			// Each is what its own instance makes of the journal: of two versions, say.
			return &event.AuditAnswer{
				Stream: a.Stream, Partition: a.Partition, LastSequence: a.LastSequence, Entries: a.Entries,
				LiveHash: a.LiveHash, ReplayHash: before.ReplayHash,
			}
		}
	}
	return answers[0]
}
