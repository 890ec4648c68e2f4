package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/s3"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// starts is how long one instance of billing takes to be ready after a kill -9. It folds all partitions itself. The other
// instance folds them too, and answers in the meantime.
type starts struct {
	FromJournalSeconds  float64 // without a snapshot
	FromSnapshotSeconds float64
	Snapshots           []snapshotSize
}

// snapshotSize is the size of the newest snapshots of all partitions together.
type snapshotSize struct {
	Accounts int
	Bytes    int64
}

const restartLimit = 2 * time.Minute

// restart kills one instance of billing and returns how many seconds its start takes.
func (s *system) restart(ctx context.Context) (float64, error) {
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
	return time.Since(started).Seconds(), nil
}

// restarts starts billing again from the journal, then from a snapshot. Unless more is 0, it then makes that many accounts,
// each of which reads and creates, and measures the snapshots again.
func (r *runner) restarts(ctx context.Context, more int) (*starts, error) {
	s, found := r.system, &starts{}
	// Without this the killed process would count as a member for some seconds, and the new one would get no partitions.
	s.cluster.Set(map[string]string{"QUIRE_BILLING_PARTITIONS": partitionRange(s.partitions)})
	var err error
	if found.FromJournalSeconds, err = s.restart(ctx); err != nil {
		return nil, err
	}
	// With this an instance writes a snapshot after each change. It gets the setting by a restart, at whose stop it writes
	// one too.
	s.cluster.Set(map[string]string{"QUIRE_SNAPSHOT_MESSAGES": "1"})
	restarting, cancel := context.WithTimeout(ctx, restartLimit)
	defer cancel()
	if err := s.cluster.Process("billing-0").Restart(restarting); err != nil {
		return nil, err
	}
	if found.FromSnapshotSeconds, err = s.restart(ctx); err != nil {
		return nil, err
	}
	size, err := s.newestSnapshots(ctx)
	if err != nil {
		return nil, err
	}
	found.Snapshots = append(found.Snapshots, snapshotSize{len(r.accounts), size})
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
	if err := s.cluster.Process("billing-0").Restart(restarting); err != nil { // its last snapshot has all accounts
		return nil, err
	}
	if size, err = s.newestSnapshots(ctx); err != nil {
		return nil, err
	}
	found.Snapshots = append(found.Snapshots, snapshotSize{len(r.accounts) + more, size})
	return found, nil
}

// partitionRange lists all partitions for QUIRE_BILLING_PARTITIONS.
func partitionRange(partitions int) string {
	if partitions == 1 {
		return "0"
	}
	return fmt.Sprintf("0-%d", partitions-1)
}

// newestSnapshots adds up the sizes of the newest snapshot of each partition.
func (s *system) newestSnapshots(ctx context.Context) (int64, error) {
	bucket, err := s3.Open(ctx, s3.Config{URL: s.cluster.S3URL("billing")})
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

// newestByStream finds the newest snapshot of each stream. The keys are billing/<stream>/<sequence>-…
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

// bytesPerAccount is what one account adds to the snapshots, 0 if they were measured once only.
func (s *starts) bytesPerAccount() float64 {
	if len(s.Snapshots) < 2 {
		return 0
	}
	first, last := s.Snapshots[0], s.Snapshots[len(s.Snapshots)-1]
	return float64(last.Bytes-first.Bytes) / float64(last.Accounts-first.Accounts)
}

// fullAccountBytes is the size in a snapshot of an account that has used every quota key beyond its quota in two months,
// and has five grants.
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
