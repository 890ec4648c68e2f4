// Package members decides which instances of a service fold which partitions. There is no leader:
//
//   - Each live instance is a member. It has one key in a NATS key-value bucket, and writes an announcement there at
//     every heartbeat and at every change.
//   - Each member watches the keys of its service, its own included.
//   - Rendezvous hashing over the members' names gives each partition its owners (Owners). Members that know of the
//     same members compute the same owners.
//   - A member folds the partitions that it owns, and announces which of them it serves.
//   - A member that is no longer an owner folds on until all owners announce that they serve the partition, for
//     Config.Handover at most.
//   - A member that stops announces that it leaves. It owns nothing from then on, hands over what it folds, and
//     deletes its key.
//   - A member that is silent for Config.TTL is dead, and others own its partitions.
//   - A member judges that silence only while it reads its own announcements. If it does not, the bus is away: it
//     forgets nobody and keeps what it has.
//
// So two members may fold a partition at once, for example while one of them is cut off. That does no harm, because a
// fold's decisions depend on the journal alone. A partition that no member folds gives no answers, so each rule
// prefers folding twice.
//
// Nothing is lost with the bucket's content: the members announce themselves again. Ensure creates the bucket itself, which
// members have no right to.
package members

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"
)

// ErrPartitions means that earlier members have another number of partitions.
var ErrPartitions = errors.New("partition count differs from the other members")

// Config describes a member. Zero fields take the default given beside them; Service and Partitions are required.
type Config struct {
	Service      string // that shares the partitions: "billing"
	Instance     string // the member's name, unique for each start of each process; random
	Partitions   int    // the same for all members: Host refuses another number
	PerPartition int    // replicas of each partition; 1

	TTL       time.Duration // silence after which a member counts as dead; 3 s
	Heartbeat time.Duration // between two announcements, at most half the TTL; 1 s
	Handover  time.Duration // how long a partition is folded at most for new owners that don't serve it yet; 10 s
	// BucketReplicas is for Ensure: the number of servers that hold the bucket; 1. In a cluster it is 3, so that the bucket
	// outlives the loss of a server.
	BucketReplicas int

	Logger *slog.Logger // nil: silent
}

// name fits into one token of a key.
var name = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// minTTL is the server's minimum.
const minTTL = 100 * time.Millisecond

func (c Config) withDefaults() Config {
	if c.Instance == "" {
		c.Instance = strings.ToLower(rand.Text()[:12])
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.PerPartition = cmp.Or(c.PerPartition, 1)
	c.BucketReplicas = cmp.Or(c.BucketReplicas, 1)
	c.TTL = cmp.Or(c.TTL, 3*time.Second)
	c.Heartbeat = cmp.Or(c.Heartbeat, time.Second)
	c.Handover = cmp.Or(c.Handover, 10*time.Second)
	return c
}

// validate reports all faults of a configuration at once, after defaults are applied.
func (c Config) validate() error {
	var faults []error
	for _, rule := range []struct {
		broken bool
		fault  string
	}{
		{!name.MatchString(c.Service), fmt.Sprintf("service %q is not 1 to 64 letters, digits, - and _", c.Service)},
		{!name.MatchString(c.Instance), fmt.Sprintf("instance %q is not 1 to 64 letters, digits, - and _", c.Instance)},
		{c.Partitions < 1, fmt.Sprintf("%d partitions", c.Partitions)},
		{c.PerPartition < 1, fmt.Sprintf("%d replicas per partition", c.PerPartition)},
		{c.BucketReplicas < 1 || c.BucketReplicas > 5, fmt.Sprintf("%d replicas of the bucket", c.BucketReplicas)},
		{c.TTL < minTTL, fmt.Sprintf("TTL of %v is below %v", c.TTL, minTTL)},
		{c.Heartbeat < 0 || 2*c.Heartbeat > c.TTL, fmt.Sprintf("heartbeat of %v is not within half the TTL of %v", c.Heartbeat, c.TTL)},
		{c.Handover < 0, fmt.Sprintf("handover of %v", c.Handover)},
	} {
		if rule.broken {
			faults = append(faults, errors.New(rule.fault))
		}
	}
	return errors.Join(faults...)
}
