package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/s3"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// starts is how long billing takes to be ready after a kill -9. All its journals are its own to fold: another instance
// folds them too, and answers meanwhile.
type starts struct {
	fromJournal  time.Duration // without a snapshot
	fromSnapshot time.Duration
	snapshots    []snapshotSize
}

// snapshotSize is what the newest snapshots of all partitions hold together.
type snapshotSize struct {
	accounts int
	bytes    int64
}

const restartLimit = 2 * time.Minute

// restart kills one billing instance and starts it again.
func (s *system) restart(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, restartLimit)
	defer cancel()
	p := s.cluster.Process("billing-0")
	if err := p.Kill(); err != nil {
		return 0, err
	}
	started := time.Now()
	if err := p.Start(ctx); err != nil {
		return 0, fmt.Errorf("start billing again: %w", err)
	}
	return time.Since(started), nil
}

// restarts starts billing again from the journal, then from a snapshot. Where more is not 0, it makes so many accounts
// more, has each read and create, and looks at the snapshots again.
func (r *runner) restarts(ctx context.Context, more int) (*starts, error) {
	s, found := r.system, &starts{}
	// An instance that starts soon after another's death is given no share while that one counts as alive.
	s.cluster.Set(map[string]string{"QUIRE_BILLING_PARTITIONS": partitionRange(s.partitions)})
	var err error
	if found.fromJournal, err = s.restart(ctx); err != nil {
		return nil, err
	}
	// From now on this instance writes a snapshot as soon as anything has changed; it begins with one at its stop.
	s.cluster.Set(map[string]string{"QUIRE_SNAPSHOT_MESSAGES": "1"})
	restarting, cancel := context.WithTimeout(ctx, restartLimit)
	defer cancel()
	if err := s.cluster.Process("billing-0").Restart(restarting); err != nil {
		return nil, err
	}
	if found.fromSnapshot, err = s.restart(ctx); err != nil {
		return nil, err
	}
	size, err := s.newestSnapshots(ctx)
	if err != nil {
		return nil, err
	}
	found.snapshots = append(found.snapshots, snapshotSize{len(r.accounts), size})
	if more == 0 {
		return found, nil
	}
	others, err := s.makeAccounts(ctx, "other", more, false)
	if err != nil {
		return nil, err
	}
	for method, list := range map[string]string{
		http.MethodGet: requestList(others, r.paths), http.MethodPost: requestList(others, []string{createPath}),
	} {
		if _, err := r.run(ctx, job{method: method, list: list, length: 2 * time.Second, connections: r.generator.Connections}); err != nil {
			return nil, err
		}
	}
	if err := s.cluster.Process("billing-0").Restart(restarting); err != nil { // its last snapshot has all of it
		return nil, err
	}
	if size, err = s.newestSnapshots(ctx); err != nil {
		return nil, err
	}
	found.snapshots = append(found.snapshots, snapshotSize{len(r.accounts) + more, size})
	return found, nil
}

// partitionRange names all partitions, as QUIRE_BILLING_PARTITIONS wants them.
func partitionRange(partitions int) string {
	if partitions == 1 {
		return "0"
	}
	return fmt.Sprintf("0-%d", partitions-1)
}

// newestSnapshots adds up the sizes of the newest snapshot of each partition.
func (s *system) newestSnapshots(ctx context.Context) (int64, error) {
	state, err := os.ReadFile(filepath.Join(s.dir, "cluster.json"))
	if err != nil {
		return 0, err
	}
	url, err := bucketURL(state, s.cluster.Process("minio").URL())
	if err != nil {
		return 0, err
	}
	bucket, err := s3.Open(ctx, s3.Config{URL: url})
	if err != nil {
		return 0, err
	}
	var all []blob.Info
	err = bucket.Sweep(ctx, "billing/", time.Now().Add(time.Hour), func(info blob.Info) error {
		all = append(all, info)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("list snapshots: %w", err)
	}
	newest := newestByStream(all)
	if len(newest) != s.partitions {
		return 0, fmt.Errorf("snapshots of %d partitions, want %d", len(newest), s.partitions)
	}
	var sum int64
	for _, info := range newest {
		sum += info.Size
	}
	return sum, nil
}

// newestByStream finds the newest of the snapshots billing/<stream>/<sequence>-…
func newestByStream(all []blob.Info) map[string]blob.Info {
	newest := map[string]blob.Info{}
	for _, info := range all {
		parts := strings.Split(info.Key, "/")
		if len(parts) == 3 && info.Key > newest[parts[1]].Key {
			newest[parts[1]] = info
		}
	}
	return newest
}

// bytesPerAccount is the slope between the two sizes, 0 where there is one only.
func (s *starts) bytesPerAccount() float64 {
	if s == nil || len(s.snapshots) < 2 {
		return 0
	}
	first, last := s.snapshots[0], s.snapshots[len(s.snapshots)-1]
	return float64(last.bytes-first.bytes) / float64(last.accounts-first.accounts)
}

// fullAccountBytes is what an account takes in a snapshot that has used every quota key in two months, beyond its
// quotas, and has five grants.
func fullAccountBytes() int {
	const now, many = 1_800_000_000_000, 50_000
	account := &event.AccountState{
		Account: 1 << 63, Tier: uint32(plan.Max), CreatedMs: now, KeyVersion: 3, KeyFingerprint: 1 << 63, KeyPrefix: "qk_abcdef",
		KeyCreatedMs: now, StorageBytes: 20 << 30, StorageSinceMs: now, SettledBalanceMicros: 1e12, LedgerCount: 1e6,
	}
	for month := range uint32(2) {
		m := &event.MonthState{Month: 24311 - month, ByteMsHigh: 1 << 30, ByteMsLow: 1 << 63, SpentMicros: 1e9, Tier: uint32(plan.Max)}
		for key := range plan.KeyCount {
			m.Usage = append(m.Usage, &event.KeyUsage{QuotaKey: uint32(key), Used: many, Overage: many / 2, SpentMicros: 1e7})
		}
		account.Months = append(account.Months, m)
	}
	for n := range uint64(5) {
		account.Grants = append(account.Grants, &event.GrantState{
			Grant: 1<<40 + n, AmountMicros: 1e12, LeftMicros: 1e11, ExpiresMs: now, CreatedMs: now, Reason: "monthly credits",
		})
	}
	data, err := event.Encode(&event.BillingState{Accounts: []*event.AccountState{account}})
	if err != nil {
		panic(err) // it holds nothing that can't be encoded
	}
	return len(data)
}
