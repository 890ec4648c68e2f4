package standalone

import (
	"log/slog"
	"net/netip"
	"time"

	"quire.dev/pkg/config"
	"quire.dev/pkg/telemetry"
)

// Config are the settings of the all-in-one process. The zero value is of no use: begin with
// FromEnvironment.
type Config struct {
	Listen           string         // host:port; port 0: any free one
	PublicURL        string         // empty: http://<listener>
	Data             string         // folder
	AdminToken       config.Secret  // empty: made and kept in the data folder
	Secret           config.Secret  // signs keys and sessions; empty: made and kept in the data folder
	AnonymousLimit   int            // keyless quick pastes per 24 hours and source
	TrustedProxies   []netip.Prefix // whose X-Forwarded-For counts
	Partitions       int            // of each journal; fixed once they exist
	NATSURL          string         // empty: embedded
	MongoURL         string         // empty: embedded
	S3URL            string         // empty: embedded
	ContentRetention time.Duration  // of the requests in the journals of documents
	Dev              bool
	ClockOffset      time.Duration // added to the clock; only with Dev
	LogLevel         string
	LogFormat        string
}

const (
	defaultListen           = "127.0.0.1:8080"
	defaultAnonymousLimit   = 10
	defaultContentRetention = 7 * 24 * time.Hour
	leastSecret             = 16 // characters
)

// FromEnvironment reads the settings from variables in the form of os.Environ. Its error names every
// fault there is.
func FromEnvironment(environ []string) (Config, error) {
	r := config.New(environ)
	cfg := Config{
		Listen:         r.Address("QUIRE_LISTEN", defaultListen),
		PublicURL:      r.URL("QUIRE_PUBLIC_URL", "", "http", "https"),
		Data:           r.String("QUIRE_DATA", "./data"),
		AdminToken:     r.Secret("QUIRE_ADMIN_TOKEN", leastSecret),
		Secret:         r.Secret("QUIRE_SECRET", leastSecret),
		AnonymousLimit: r.Int("QUIRE_ANON_LIMIT", defaultAnonymousLimit, config.Range[int]{Min: 0, Max: 1_000_000}),
		TrustedProxies: r.CIDRs("QUIRE_TRUSTED_PROXIES"),
		Partitions:     r.Int("QUIRE_PARTITIONS", 1, config.Range[int]{Min: 1, Max: 256}),
		NATSURL:        r.URL("QUIRE_NATS_URL", "", "nats", "tls", "ws", "wss"),
		MongoURL:       r.URL("QUIRE_MONGO_URL", "", "mongodb", "mongodb+srv"),
		S3URL:          r.URL("QUIRE_S3_URL", "", "http", "https"),
		ContentRetention: r.Duration("QUIRE_CONTENT_RETENTION", defaultContentRetention,
			config.Range[time.Duration]{Min: time.Hour, Max: 10 * 365 * 24 * time.Hour}),
		Dev: r.Bool("QUIRE_DEV", false),
		ClockOffset: r.Duration("QUIRE_CLOCK_OFFSET", 0,
			config.Range[time.Duration]{Min: -10 * 365 * 24 * time.Hour, Max: 10 * 365 * 24 * time.Hour}),
		LogLevel:  r.Choice("QUIRE_LOG_LEVEL", "warn", "debug", "info", "warn", "error"),
		LogFormat: r.Choice("QUIRE_LOG_FORMAT", "text", "text", "json"),
	}
	if cfg.ClockOffset != 0 && !cfg.Dev {
		r.Reject("QUIRE_CLOCK_OFFSET", "unset, or QUIRE_DEV=1 beside it: it makes bills wrong")
	}
	return cfg, r.Err()
}

// LogConfig is how the settings want the log.
func (c Config) LogConfig() telemetry.LogConfig {
	return telemetry.LogConfig{Service: "quire", Level: c.LogLevel, Format: c.LogFormat}
}

func orSilent(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}
