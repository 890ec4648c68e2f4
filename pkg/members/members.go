// Package members says who is alive and who folds what. The live instances of a service announce
// themselves in a NATS KV bucket, and rendezvous hashing over them names each partition's replicas.
//
// There is no leader and no fencing. Two instances that both fold a partition, for a moment, do no harm,
// since a fold's decisions depend on the journal alone; a partition that nobody folds is late. So all
// here leans to the side of folding twice: whoever hears nothing keeps what it has, and a partition that
// moves is given up only once its next replicas say that they serve it.
//
// It uses the KV functions of package nats itself and not nats.go/jetstream, which only pkg/journal may
// know: members keeps no events, and what is in the bucket may be lost.
package members

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"
)

// ErrPartitions says that members who came earlier have another number of partitions.
var ErrPartitions = errors.New("another number of partitions than the members that are there")

// Config describes a member. Zero fields take the defaults said beside them; Service and Partitions have
// none.
type Config struct {
	Service      string // whose partitions are shared: "billing"
	Instance     string // differs between processes, and from boot to boot; drawn at random
	Partitions   int    // the same for all members, or Join refuses
	PerPartition int    // replicas of each partition: 2 for billing; 1

	TTL       time.Duration // of silence, after which the others take over; 3 s
	Heartbeat time.Duration // between two announcements, at most half the TTL; 1 s
	// Handover bounds how long a partition that has moved is folded on while its next replicas don't
	// serve it yet; 10 s.
	Handover time.Duration
	// BucketReplicas is how many servers hold the bucket; 1. In a cluster it is 3, so that the bucket outlives
	// the loss of a server. A bucket that has fewer gets more.
	BucketReplicas int

	Logger *slog.Logger // silent where it is nil
}

// name is what can be one token of a key.
var name = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// shortestTTL is what the server allows.
const shortestTTL = 100 * time.Millisecond

func (c Config) withDefaults() Config {
	if c.Instance == "" {
		c.Instance = strings.ToLower(rand.Text()[:12])
	}
	if c.PerPartition == 0 {
		c.PerPartition = 1
	}
	if c.BucketReplicas == 0 {
		c.BucketReplicas = 1
	}
	for _, d := range []struct {
		value     *time.Duration
		otherwise time.Duration
	}{{&c.TTL, 3 * time.Second}, {&c.Heartbeat, time.Second}, {&c.Handover, 10 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.otherwise
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// validate reports all faults at once, of a configuration with its defaults.
func (c Config) validate() error {
	var faults []error
	for _, rule := range []struct {
		broken bool
		what   string
	}{
		{!name.MatchString(c.Service), fmt.Sprintf("service %q is not 1 to 64 letters, digits, - and _", c.Service)},
		{!name.MatchString(c.Instance), fmt.Sprintf("instance %q is not 1 to 64 letters, digits, - and _", c.Instance)},
		{c.Partitions < 1, fmt.Sprintf("%d partitions", c.Partitions)},
		{c.PerPartition < 1, fmt.Sprintf("%d replicas per partition", c.PerPartition)},
		{c.BucketReplicas < 1 || c.BucketReplicas > 5, fmt.Sprintf("%d replicas of the bucket", c.BucketReplicas)},
		{c.TTL < shortestTTL, fmt.Sprintf("TTL of %v is below %v", c.TTL, shortestTTL)},
		{c.Heartbeat < 0 || 2*c.Heartbeat > c.TTL, fmt.Sprintf("heartbeat of %v is not within half the TTL of %v", c.Heartbeat, c.TTL)},
		{c.Handover < 0, fmt.Sprintf("handover of %v", c.Handover)},
	} {
		if rule.broken {
			faults = append(faults, errors.New(rule.what))
		}
	}
	return errors.Join(faults...)
}
