// Package process runs a document service as a process of its own: settings from the environment,
// connections to NATS, MongoDB and the blob bucket, the paths for operators, and an orderly stop.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"quire.dev/pkg/blob/s3"
	"quire.dev/pkg/config"
	"quire.dev/pkg/document"
	"quire.dev/pkg/lifecycle"
	"quire.dev/pkg/members"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/mongo"
)

// Service is what paste, lite and file have in common.
type Service interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
	Serving() bool
}

// Settings are what a service is made with.
type Settings struct {
	PartitionCount int
	Assigned       <-chan []int // as in document.Config
	Served         func(partition int, serving bool)
	Offset         time.Duration
	Bounds         document.Bounds
}

// Program is one of the services.
type Program struct {
	Name        string // "paste"; its database is quire_paste unless it is told another
	Collections []views.Collection
	New         func(Settings, document.Deps) (Service, error)
}

// Run is for lifecycle.Main.
func (p Program) Run(ctx context.Context) error {
	env, err := read(p.Name, os.Environ())
	if err != nil {
		return err
	}
	log, err := telemetry.NewLogger(os.Stderr, env.log)
	if err != nil {
		return err
	}
	nc, err := rpc.Connect(env.natsURL, p.Name, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	store, err := mongo.Open(ctx, mongo.Config{URI: env.mongoURL, Database: env.database, Collections: p.Collections, Logger: log})
	if err != nil {
		return err
	}
	blobs, err := s3.Open(ctx, s3.Config{URL: env.s3URL})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	metrics := telemetry.NewMetrics()
	member := members.NewMembership(nc, members.Config{
		Service: p.Name, Partitions: env.service.PartitionCount, BucketReplicas: env.service.Bounds.Replicas, Logger: log,
	})
	env.service.Assigned, env.service.Served = member.Assigned(), member.Serving
	service, err := p.New(env.service, document.Deps{NC: nc, Views: store, Blobs: blobs, Logger: log, Metrics: metrics})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	group := lifecycle.New(log)
	group.Grace = member.StopTime() + lifecycle.DefaultGrace
	group.Add("views", lifecycle.Func(store.Run))
	if env.opsListen != "" {
		group.Add("operations", operations(env.opsListen, metrics, service, log))
	}
	group.Add(p.Name, shared{service, member})
	return errors.Join(group.Run(ctx), store.Close())
}

// shared is a service that folds its share of the partitions, and hands it over before it stops.
type shared struct {
	Service
	member *members.Membership
}

// Run implements lifecycle.Component.
func (s shared) Run(ctx context.Context) error { return s.member.Host(ctx, s.Service.Run) }

type environment struct {
	service   Settings
	natsURL   string
	mongoURL  string
	database  string
	s3URL     string
	opsListen string
	log       telemetry.LogConfig
}

func read(name string, environ []string) (*environment, error) {
	r := config.New(environ)
	r.Known("QUIRE_LISTEN", "QUIRE_PUBLIC_URL", "QUIRE_DATA", "QUIRE_ADMIN_TOKEN", "QUIRE_SECRET", "QUIRE_ANON_LIMIT",
		"QUIRE_TRUSTED_PROXIES", "QUIRE_MAX_CONNS", "QUIRE_MAX_CONNS_PER_SOURCE", "QUIRE_STOP_GRACE")
	env := &environment{
		natsURL:   r.URL("QUIRE_NATS_URL", "", "nats", "tls", "ws", "wss"),
		mongoURL:  r.URL("QUIRE_MONGO_URL", "", "mongodb", "mongodb+srv"),
		database:  r.String("QUIRE_MONGO_DATABASE", "quire_"+name),
		s3URL:     r.URL("QUIRE_S3_URL", "", "http", "https"),
		opsListen: r.Address("QUIRE_OPS_LISTEN", ":8081"),
		log: telemetry.LogConfig{
			Service: name,
			Level:   r.Choice("QUIRE_LOG_LEVEL", "info", "debug", "info", "warn", "error"),
			Format:  r.Choice("QUIRE_LOG_FORMAT", "json", "json", "text"),
		},
		service: Settings{
			PartitionCount: r.Int("QUIRE_PARTITIONS", 16, config.Range[int]{Min: 1, Max: 256}),
			Offset:         r.Duration("QUIRE_CLOCK_OFFSET", 0, config.Range[time.Duration]{Min: -3650 * 24 * time.Hour, Max: 3650 * 24 * time.Hour}),
			Bounds: document.Bounds{
				ContentRetention: r.Duration("QUIRE_CONTENT_RETENTION", 7*24*time.Hour, config.Range[time.Duration]{Min: time.Minute, Max: 3650 * 24 * time.Hour}),
				CacheBytes:       int(r.Bytes("QUIRE_CACHE_BYTES", 64<<20, config.Range[int64]{Min: 1 << 20, Max: 1 << 40})),
				OverlayBytes:     int(r.Bytes("QUIRE_OVERLAY_BYTES", 64<<20, config.Range[int64]{Min: 1 << 20, Max: 1 << 40})),
				Replicas:         r.Int("QUIRE_REPLICAS", 3, config.Range[int]{Min: 1, Max: 5}),
			},
		},
	}
	if dev := r.Bool("QUIRE_DEV", false); env.service.Offset != 0 && !dev {
		r.Reject("QUIRE_CLOCK_OFFSET", "unset, or QUIRE_DEV=1 beside it: it makes bills wrong")
	}
	for _, needed := range []struct{ name, value string }{
		{"QUIRE_NATS_URL", env.natsURL}, {"QUIRE_MONGO_URL", env.mongoURL}, {"QUIRE_S3_URL", env.s3URL},
	} {
		if needed.value == "" {
			r.Reject(needed.name, "set: a service of its own has nothing embedded")
		}
	}
	return env, r.Err()
}

// checkEvery is how often the readiness that operators see follows the service's.
const checkEvery = 200 * time.Millisecond

// operations serves liveness, readiness and metrics.
func operations(listen string, metrics *telemetry.Metrics, service Service, log *slog.Logger) lifecycle.Func {
	return func(ctx context.Context) error {
		health := telemetry.NewHealth()
		check := health.Register("journals")
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
		if err != nil {
			return fmt.Errorf("listen for operators: %w", err)
		}
		server := &http.Server{Handler: telemetry.Handler(metrics, health), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
		failed := make(chan error, 1)
		go func() { failed <- server.Serve(listener) }()
		log.Info("listening for operators", "address", listener.Addr().String())
		tick := time.NewTicker(checkEvery)
		defer tick.Stop()
		for {
			if service.Serving() {
				check.Ready()
			} else {
				check.Fail("a partition is catching up with its journal")
			}
			select {
			case err := <-failed:
				return fmt.Errorf("serve operators: %w", err)
			case <-ctx.Done():
				stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
				defer cancel()
				err := server.Shutdown(stop)
				<-failed //nolint:errcheck // it is http.ErrServerClosed
				return err
			case <-tick.C:
			}
		}
	}
}
