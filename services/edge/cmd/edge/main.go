// Command edge runs one edge of a cluster.
package main

import (
	"context"
	"os"
	"time"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/blob/s3"
	"quire.dev/pkg/config"
	"quire.dev/pkg/lifecycle"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/telemetry"
	"quire.dev/services/edge"
)

func main() { os.Exit(lifecycle.Main(run)) }

type settings struct {
	edge    edge.Config
	natsURL string
	s3URL   string
	log     telemetry.LogConfig
}

func read(environ []string) (*settings, error) {
	r := config.New(environ)
	r.Known("QUIRE_MONGO_URL", "QUIRE_DATA", "QUIRE_ANON_LIMIT", "QUIRE_CONTENT_RETENTION")
	out := &settings{
		edge: edge.Config{
			Listen:            r.Address("QUIRE_LISTEN", "127.0.0.1:8080"),
			OpsListen:         r.Address("QUIRE_OPS_LISTEN", ""),
			PublicURL:         r.URL("QUIRE_PUBLIC_URL", "", "http", "https"),
			Secret:            []byte(r.Secret("QUIRE_SECRET", apikey.MinSecretBytes).Reveal()),
			AdminToken:        r.Secret("QUIRE_ADMIN_TOKEN", apikey.MinSecretBytes).Reveal(),
			TrustedProxies:    r.CIDRs("QUIRE_TRUSTED_PROXIES"),
			Partitions:        r.Int("QUIRE_PARTITIONS", 16, config.Range[int]{Min: 1, Max: 256}),
			AskPartitions:     true,
			MaxConns:          r.Int("QUIRE_MAX_CONNS", edge.DefaultMaxConns, config.Range[int]{Min: 16, Max: 1 << 20}),
			MaxConnsPerSource: r.Int("QUIRE_MAX_CONNS_PER_SOURCE", edge.DefaultMaxConnsPerSource, config.Range[int]{Min: 1, Max: 1 << 20}),
			StopGrace:         r.Duration("QUIRE_STOP_GRACE", edge.DefaultStopGrace, config.Range[time.Duration]{Min: 0, Max: time.Hour}),
		},
		natsURL: r.URL("QUIRE_NATS_URL", "", "nats", "tls", "ws", "wss"),
		s3URL:   r.URL("QUIRE_S3_URL", "", "http", "https"),
		log: telemetry.LogConfig{
			Service: "edge",
			Level:   r.Choice("QUIRE_LOG_LEVEL", "info", "debug", "info", "warn", "error"),
			Format:  r.Choice("QUIRE_LOG_FORMAT", "json", "json", "text"),
		},
	}
	out.edge.ClockOffset = r.Duration("QUIRE_CLOCK_OFFSET", 0,
		config.Range[time.Duration]{Min: -3650 * 24 * time.Hour, Max: 3650 * 24 * time.Hour})
	if dev := r.Bool("QUIRE_DEV", false); out.edge.ClockOffset != 0 && !dev {
		r.Reject("QUIRE_CLOCK_OFFSET", "unset, or QUIRE_DEV=1 beside it: it makes bills wrong")
	}
	const shared = "set: every edge of a cluster shares it"
	if len(out.edge.Secret) == 0 {
		r.Reject("QUIRE_SECRET", shared)
	}
	if out.natsURL == "" {
		r.Reject("QUIRE_NATS_URL", shared)
	}
	if out.s3URL == "" {
		r.Reject("QUIRE_S3_URL", shared)
	}
	return out, r.Err()
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
	nc, err := rpc.Connect(cfg.natsURL, "edge", log)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := rpc.WaitConnected(ctx, nc); err != nil { // the server says how large a message may be
		return err
	}
	blobs, err := s3.Open(ctx, s3.Config{URL: cfg.s3URL})
	if err != nil {
		return err
	}
	service, err := edge.New(cfg.edge, edge.Deps{
		NC: nc, Blobs: blobs, Logger: log, Metrics: telemetry.NewMetrics(), Health: telemetry.NewHealth(),
	})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}
