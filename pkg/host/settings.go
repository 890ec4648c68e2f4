package host

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"time"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/config"
	"quire.dev/pkg/telemetry"
)

// Program is one of the project's binaries that serve, or a set of them.
type Program uint8

// The programs.
const (
	Edge Program = 1 << iota
	Billing
	Paste
	Lite
	File
	Quire // all services in one process

	documents  = Paste | Lite | File
	services   = Edge | Billing | documents
	everything = services | Quire
)

// String is the program's name in logs and documents, and that of its user in the journal server.
func (p Program) String() string {
	return map[Program]string{Edge: "edge", Billing: "billing", Paste: "paste", Lite: "lite", File: "file", Quire: "quire"}[p]
}

// Settings are the values of a program's settings: table says which program reads which. One that a program does not
// read is zero.
type Settings struct {
	Listen         string
	PublicURL      string // empty: http://<listener>
	OpsListen      string // empty: operators are served on Listen
	Data           string
	Secret         config.Secret
	AdminToken     config.Secret
	TrustedProxies []netip.Prefix

	MaxConns          int
	MaxConnsPerSource int
	StopGrace         time.Duration

	Partitions        int
	BillingPartitions []int // nil: the instance's share of all
	Replicas          int
	AnonymousLimit    int
	SnapshotMessages  int
	SnapshotInterval  time.Duration
	ContentRetention  time.Duration
	CacheBytes        int64
	OverlayBytes      int64

	NATSURL       string // empty, as the other two: embedded
	MongoURL      string
	MongoDatabase string
	S3URL         string

	LogLevel    slog.Level
	LogFormat   string
	Dev         bool
	ClockOffset time.Duration
}

// setting is a row of the table.
type setting struct {
	name     string
	value    config.Value
	readers  Program
	fallback string             // default, as one would set it; empty: none
	except   map[Program]string // readers that have another default
	needed   Program            // readers that it must be set for
	why      string             // completes "it must be set, since"
	secret   bool               // it is a secret, or holds a password
	meaning  string             // in Markdown
}

const maxPartitions = 256

// table lists all settings. docs/settings.md is made from it: after a change run `go test ./pkg/host -update`.
func (s *Settings) table() []setting {
	const (
		alone  = "a service of its own has nothing embedded"
		shared = "every edge of a cluster shares it"
	)
	return []setting{
		{
			name: "QUIRE_LISTEN", value: config.Address(&s.Listen), readers: Edge | Quire, fallback: "127.0.0.1:8080",
			meaning: "Address of the API; port 0 is any free one.",
		},
		{
			name: "QUIRE_PUBLIC_URL", value: config.URL(&s.PublicURL, "http", "https"), readers: Edge | Quire,
			meaning: "Links in answers begin with it; without it with `http://` and the address that is listened on.",
		},
		{
			name: "QUIRE_OPS_LISTEN", value: config.Address(&s.OpsListen), readers: everything, fallback: ":9090",
			except:  map[Program]string{Edge: "", Quire: ""},
			meaning: "Address of `/livez`, `/readyz` and `/metrics`; where there is none they are on `QUIRE_LISTEN`.",
		},
		{
			name: "QUIRE_DATA", value: config.Text(&s.Data), readers: Quire, fallback: "./data",
			meaning: "The data folder; one process at a time.",
		},
		{
			name: "QUIRE_SECRET", value: config.SecretText(&s.Secret, apikey.MinSecretBytes), readers: Edge | Quire,
			needed: Edge, why: shared, secret: true,
			meaning: "Signs API keys, sessions, links and management tokens. quire makes one at its first start and keeps it in the data folder.",
		},
		{
			name: "QUIRE_ADMIN_TOKEN", value: config.SecretText(&s.AdminToken, apikey.MinSecretBytes),
			readers: Edge | Quire, secret: true,
			meaning: "For `/api/admin`. Without it an edge has no such paths; quire makes one at its first start and keeps it in the data folder.",
		},
		{
			name: "QUIRE_TRUSTED_PROXIES", value: config.Networks(&s.TrustedProxies), readers: Edge | Quire,
			meaning: "Networks whose `X-Forwarded-For` counts.",
		},
		{
			name: "QUIRE_MAX_CONNS", value: config.Int(&s.MaxConns, 16, 1<<20), readers: Edge, fallback: "16384",
			meaning: "Connections to the API at a time.",
		},
		{
			name: "QUIRE_MAX_CONNS_PER_SOURCE", value: config.Int(&s.MaxConnsPerSource, 1, 1<<20), readers: Edge, fallback: "12288",
			meaning: "Connections of one address at a time; behind a proxy all connections come from it.",
		},
		{
			name: "QUIRE_STOP_GRACE", value: config.Duration(&s.StopGrace, "1s", "1h"), readers: Edge | Billing, fallback: "10s",
			except:  map[Program]string{Billing: "20s"},
			meaning: "Time that running work may take at a stop.",
		},
		{
			name: "QUIRE_PARTITIONS", value: config.Int(&s.Partitions, 1, maxPartitions), readers: everything, fallback: "16",
			except:  map[Program]string{Quire: "1"},
			meaning: "Of every journal. Fixed once they exist and the same everywhere: a process of another number ends with both in its error, an edge once billing has told it and before it takes requests.",
		},
		{
			name: "QUIRE_REPLICAS", value: config.Int(&s.Replicas, 1, 5), readers: Billing | documents, fallback: "3",
			meaning: "Of every journal that is made.",
		},
		{
			name: "QUIRE_ANON_LIMIT", value: config.Int(&s.AnonymousLimit, 0, 1_000_000), readers: Billing | Quire, fallback: "10",
			meaning: "Keyless quick pastes in 24 hours and source.",
		},
		{
			name: "QUIRE_BILLING_PARTITIONS", value: config.Ints(&s.BillingPartitions, maxPartitions-1), readers: Billing,
			meaning: "Partitions that this instance folds, whatever other instances there are. Without it the instances share all.",
		},
		{
			name: "QUIRE_SNAPSHOT_MESSAGES", value: config.Int(&s.SnapshotMessages, 1, 1<<30), readers: Billing, fallback: "50000",
			meaning: "Messages between two snapshots; a start folds those that came after one.",
		},
		{
			name: "QUIRE_SNAPSHOT_INTERVAL", value: config.Duration(&s.SnapshotInterval, "1s", "1d"), readers: Billing, fallback: "10m",
			meaning: "Time between two snapshots.",
		},
		{
			name: "QUIRE_CONTENT_RETENTION", value: config.Duration(&s.ContentRetention, "1h", "3650d"),
			readers: documents | Quire, fallback: "7d",
			meaning: "Time that requests, with deleted content too, stay in the journal. Longer than the age of your oldest back-up of MongoDB.",
		},
		{
			name: "QUIRE_CACHE_BYTES", value: config.Bytes(&s.CacheBytes, "1MiB", "1TiB"), readers: documents, fallback: "64MiB",
			meaning: "Documents kept in memory.",
		},
		{
			name: "QUIRE_OVERLAY_BYTES", value: config.Bytes(&s.OverlayBytes, "1MiB", "1TiB"), readers: documents, fallback: "64MiB",
			meaning: "Changes that may wait for the read model, a partition.",
		},
		{
			name: "QUIRE_NATS_URL", value: config.URL(&s.NATSURL, "nats", "tls", "ws", "wss"), readers: everything,
			needed: services, why: alone, secret: true,
			meaning: "Servers of the journals, with user and password, by commas. quire has one embedded.",
		},
		{
			name: "QUIRE_MONGO_URL", value: config.URL(&s.MongoURL, "mongodb", "mongodb+srv"), readers: Billing | documents | Quire,
			needed: Billing | documents, why: alone, secret: true,
			meaning: "Server of the read models. quire has SQLite embedded.",
		},
		{
			name: "QUIRE_MONGO_DATABASE", value: config.Text(&s.MongoDatabase), readers: Billing | documents,
			except:  map[Program]string{Billing: "quire_billing", Paste: "quire_paste", Lite: "quire_lite", File: "quire_file"},
			meaning: "One for each service. quire takes the one that `QUIRE_MONGO_URL` names, or `quire`.",
		},
		{
			name: "QUIRE_S3_URL", value: config.URL(&s.S3URL, "http", "https"), readers: everything,
			needed: services, why: alone, secret: true,
			meaning: "Bucket of the blobs: `https://key:secret@host/bucket?region=…`. quire has a folder.",
		},
		{
			name: "QUIRE_LOG_LEVEL", value: config.Level(&s.LogLevel), readers: everything, fallback: "info",
			except:  map[Program]string{Quire: "warn"},
			meaning: "The least level that is logged.",
		},
		{
			name: "QUIRE_LOG_FORMAT", value: config.Choice(&s.LogFormat, "json", "text"), readers: everything, fallback: "json",
			except:  map[Program]string{Quire: "text"},
			meaning: "Form of the log's lines.",
		},
		{
			name: "QUIRE_DEV", value: config.Bool(&s.Dev), readers: everything, fallback: "false",
			meaning: "Allows what is for development only: `QUIRE_CLOCK_OFFSET`.",
		},
		{
			name: "QUIRE_CLOCK_OFFSET", value: config.Duration(&s.ClockOffset, "-3650d", "3650d"), readers: everything, fallback: "0s",
			meaning: "Added to the clock, to try month ends; the same for all services. It makes bills wrong.",
		},
	}
}

// defaultOf is the setting's default for one of its readers.
func (s setting) defaultOf(program Program) string {
	if other, ok := s.except[program]; ok {
		return other
	}
	return s.fallback
}

// ReadSettings reads the settings of a program from variables in the form of os.Environ. Settings that only other
// programs read may be there too, so that programs can share an environment. The error names all faults.
func ReadSettings(program Program, environ []string) (Settings, error) {
	var s Settings
	r := config.New(environ)
	for _, row := range s.table() {
		if row.readers&program == 0 {
			r.Known(row.name)
			continue
		}
		if set := r.Read(row.name, row.defaultOf(program), row.value); !set && row.needed&program != 0 {
			r.Reject(row.name, "set, since "+row.why)
		}
	}
	if s.ClockOffset != 0 && !s.Dev {
		r.Reject("QUIRE_CLOCK_OFFSET", "unset, or QUIRE_DEV=1 beside it: it makes bills wrong")
	}
	for _, p := range s.BillingPartitions {
		if p >= s.Partitions {
			r.Reject("QUIRE_BILLING_PARTITIONS", fmt.Sprintf(`partitions below %d, such as "0-7,12"`, s.Partitions))
			break
		}
	}
	return s, r.Err()
}

// Logger makes a program's log.
func (s Settings) Logger(program Program, w io.Writer) *slog.Logger {
	return telemetry.NewLogger(w, telemetry.LogConfig{Service: program.String(), Level: s.LogLevel, Text: s.LogFormat == "text"})
}
