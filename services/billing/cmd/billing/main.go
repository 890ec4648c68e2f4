// Command billing runs one billing instance of a cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/blob/s3"
	"quire.dev/pkg/config"
	"quire.dev/pkg/lifecycle"
	"quire.dev/pkg/members"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/views/mongo"
	"quire.dev/services/billing"
)

func main() { os.Exit(lifecycle.Main(run)) }

type settings struct {
	billing   billing.Config
	offset    time.Duration
	natsURL   string
	mongoURL  string
	database  string
	s3URL     string
	opsListen string
	log       telemetry.LogConfig
}

func read(environ []string) (*settings, error) {
	r := config.New(environ)
	r.Known("QUIRE_LISTEN", "QUIRE_PUBLIC_URL", "QUIRE_ADMIN_TOKEN", "QUIRE_SECRET", "QUIRE_TRUSTED_PROXIES", "QUIRE_DATA",
		"QUIRE_CONTENT_RETENTION")
	limit := r.Int("QUIRE_ANON_LIMIT", 10, config.Range[int]{Min: 0, Max: 1_000_000})
	count := r.Int("QUIRE_PARTITIONS", 16, config.Range[int]{Min: 1, Max: 256})
	out := &settings{
		billing: billing.Config{
			PartitionCount:   count,
			Partitions:       partitions(r, count),
			Book:             plan.Published(limit),
			Replicas:         r.Int("QUIRE_REPLICAS", 3, config.Range[int]{Min: 1, Max: 5}),
			SnapshotMessages: r.Int("QUIRE_SNAPSHOT_MESSAGES", 50_000, config.Range[int]{Min: 1, Max: 1 << 30}),
			SnapshotInterval: r.Duration("QUIRE_SNAPSHOT_INTERVAL", 10*time.Minute, config.Range[time.Duration]{Min: time.Second, Max: 24 * time.Hour}),
			StopTimeout:      r.Duration("QUIRE_STOP_GRACE", 20*time.Second, config.Range[time.Duration]{Min: time.Second, Max: time.Hour}),
		},
		natsURL:   r.URL("QUIRE_NATS_URL", "", "nats", "tls", "ws", "wss"),
		mongoURL:  r.URL("QUIRE_MONGO_URL", "", "mongodb", "mongodb+srv"),
		database:  r.String("QUIRE_MONGO_DATABASE", "quire_billing"),
		s3URL:     r.URL("QUIRE_S3_URL", "", "http", "https"),
		opsListen: r.Address("QUIRE_OPS_LISTEN", ":9090"),
		log: telemetry.LogConfig{
			Service: "billing",
			Level:   r.Choice("QUIRE_LOG_LEVEL", "info", "debug", "info", "warn", "error"),
			Format:  r.Choice("QUIRE_LOG_FORMAT", "json", "json", "text"),
		},
	}
	out.offset = r.Duration("QUIRE_CLOCK_OFFSET", 0,
		config.Range[time.Duration]{Min: -3650 * 24 * time.Hour, Max: 3650 * 24 * time.Hour})
	if dev := r.Bool("QUIRE_DEV", false); out.offset != 0 && !dev {
		r.Reject("QUIRE_CLOCK_OFFSET", "unset, or QUIRE_DEV=1 beside it: it makes bills wrong")
	}
	for name, value := range map[string]string{"QUIRE_NATS_URL": out.natsURL, "QUIRE_MONGO_URL": out.mongoURL, "QUIRE_S3_URL": out.s3URL} {
		if value == "" {
			r.Reject(name, "set: every instance of a cluster shares it")
		}
	}
	return out, r.Err()
}

// partitions reads which of them this instance folds: "0-7,12", its share of all where it is unset.
func partitions(r *config.Reader, count int) []int {
	const name = "QUIRE_BILLING_PARTITIONS"
	text := r.String(name, "")
	if text == "" {
		return nil
	}
	seen := map[int]bool{}
	var list []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		from, err1 := strconv.Atoi(first)
		to, err2 := from, error(nil)
		if isRange {
			to, err2 = strconv.Atoi(last)
		}
		if err1 != nil || err2 != nil || from < 0 || to < from || to >= count {
			r.Reject(name, fmt.Sprintf(`partitions below %d, such as "0-7,12"`, count))
			return nil
		}
		for p := from; p <= to; p++ {
			if !seen[p] {
				seen[p] = true
				list = append(list, p)
			}
		}
	}
	return list
}

func run(ctx context.Context) error {
	cfg, err := read(os.Environ())
	if err != nil {
		return err
	}
	log, err := telemetry.NewLogger(os.Stderr, cfg.log)
	if err != nil {
		return err
	}
	metrics, health := telemetry.NewMetrics(), telemetry.NewHealth()
	nc, err := rpc.Connect(cfg.natsURL, "billing", log)
	if err != nil {
		return err
	}
	defer nc.Close()
	store, err := mongo.Open(ctx, mongo.Config{URI: cfg.mongoURL, Database: cfg.database, Collections: billing.Collections(), Logger: log})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }() // nothing is left to write
	blobs, err := s3.Open(ctx, s3.Config{URL: cfg.s3URL})
	if err != nil {
		return err
	}
	member := share(cfg, nc, log)
	service, err := billing.New(cfg.billing, billing.Deps{
		NC: nc, Views: store, Blobs: blobs, Offset: cfg.offset, Logger: log, Metrics: metrics, Health: health,
	})
	if err != nil {
		return err
	}
	group := lifecycle.New(log)
	// A start folds what the journal holds since the last snapshot, which may be all of it.
	group.Start, group.Grace = 24*time.Hour, 2*cfg.billing.StopTimeout
	group.Add("operators' listener", lifecycle.Func(func(ctx context.Context) error {
		return serveOperators(ctx, cfg.opsListen, telemetry.Handler(metrics, health))
	}))
	group.Add("read model", lifecycle.Func(store.Run))
	if member == nil {
		group.Add("billing", service)
	} else {
		group.Grace += member.StopTime()
		group.Add("billing", shared{service, member})
	}
	return group.Run(ctx)
}

// replicas of each partition: while one is lost the other answers.
const replicas = 2

// handover is how long a partition that has moved is folded on at most: its next replica reads a snapshot
// and what the journal holds since.
const handover = 30 * time.Second

// share makes the settings follow the members of the service. It returns nil where they name the
// partitions.
func share(cfg *settings, nc *nats.Conn, log *slog.Logger) *members.Membership {
	if cfg.billing.Partitions != nil {
		return nil
	}
	member := members.NewMembership(nc, members.Config{
		Service: "billing", Partitions: cfg.billing.PartitionCount, PerPartition: replicas, Handover: handover,
		BucketReplicas: cfg.billing.Replicas, Logger: log,
	})
	cfg.billing.Assigned, cfg.billing.Served = member.Assigned(), member.Serving
	cfg.billing.Instance, cfg.billing.Live = member.Instance(), member.Live
	return member
}

// shared is a service that folds its share of the partitions, and hands it over before it stops.
type shared struct {
	*billing.Service
	member *members.Membership
}

// Run implements lifecycle.Component.
func (s shared) Run(ctx context.Context) error { return s.member.Host(ctx, s.Service.Run) }

// serveOperators answers /livez, /readyz and /metrics until ctx ends.
func serveOperators(ctx context.Context, address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for operators: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve operators: %w", err)
	}
	return nil
}
