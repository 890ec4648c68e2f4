package host

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/apikey"
	"quire.dev/pkg/config"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/witness"
)

// Program is one of the project's programs, or a set of them.
type Program uint16

// Programs.
const (
	Edge Program = 1 << iota
	Billing
	Paste
	Lite
	File
	Archive
	Quire     // all services in one process
	Provision // creates the journals, and ends

	documents  = Paste | Lite | File
	services   = Edge | Billing | Archive | documents
	everything = services | Quire // all that serve requests
)

// String is the name of the program in logs and documents, and of its user in the journal server.
func (p Program) String() string {
	return map[Program]string{Edge: "edge", Billing: "billing", Paste: "paste", Lite: "lite", File: "file", Archive: "archive", Quire: "quire", Provision: "provision"}[p]
}

// Settings are the values of a program's settings. table says which program reads which; others are zero.
type Settings struct {
	Listen     string
	PublicURL  string // empty: http://<listener>
	UpgradeURL string // empty: the console's page about the plan
	ContentURL string // empty: PublicURL
	Operator   string // name of who runs the service, for statements; empty: none
	OperatorAt string // their address
	Contact    string // contact for account holders; empty: unknown
	SMTPURL    string // empty: no e-mails are sent
	MailFrom   string

	StripeKey           config.Secret // empty: payments are not taken online
	StripeWebhookSecret config.Secret
	StripeTax           bool
	StripeURL           string // empty: Stripe's
	CheckoutSuccessURL  string // empty: the console's page about the plan

	OpsListen      string // empty: operators use Listen
	Data           string
	Secret         config.Secret
	SecretPrevious config.Secrets
	AdminToken     config.Secret
	AdminListen    string // empty: admins use Listen
	TrustedProxies []netip.Prefix

	MaxConns          int
	MaxConnsPerSource int
	RenderBytes       int64
	StopGrace         time.Duration

	Partitions        int
	BillingPartitions []int // nil: the instance's share
	Replicas          int
	AnonymousLimit    int
	RegisterLimit     int
	UnmeteredRate     int

	WebhookAllowPrivate bool

	CheckpointKey      config.Secret
	CheckpointInterval time.Duration
	Witnesses          string // empty: none
	SegmentAge         time.Duration
	GenerationBytes    int64         // 0: not by size
	GenerationAge      time.Duration // 0: not by age
	JournalRetention   time.Duration // 0: forever
	RetentionNATSURL   string        // empty: none

	RequestRetention time.Duration
	LedgerRetention  time.Duration
	SnapshotMessages int
	SnapshotInterval time.Duration
	ContentRetention time.Duration
	TrashRetention   time.Duration
	KeepOrphans      bool
	CacheBytes       int64
	OverlayBytes     int64

	NATSURL        string // empty means embedded, as in the URLs below
	PostgresURL    string // at most one of PostgresURL and MongoURL is set
	PostgresSchema string // empty: quire_<service>
	MongoURL       string
	MongoDatabase  string
	S3URL          string

	LogLevel  slog.Level
	LogFormat string

	AccessLogSlow   time.Duration // 0: no request is logged for its time
	AccessLogSample float64

	TraceEndpoint string // empty: no traces
	TraceHeaders  config.Secret
	TraceShare    float64
	TraceRate     int

	Dev         bool
	ClockOffset time.Duration
}

// setting is a row of the table.
type setting struct {
	name     string
	value    config.Value
	readers  Program
	fallback string             // default, as text; empty: none
	except   map[Program]string // readers with another default
	needed   Program            // readers that require it, or instead
	why      string             // completes "it must be set, since"
	instead  string             // a setting that excludes this one
	secret   bool               // is or contains a secret
	meaning  string             // in Markdown
}

const maxPartitions = 256

// table lists all settings. docs/settings.md is generated from it: after a change run `go test ./pkg/host -update`.
func (s *Settings) table() []setting {
	const (
		alone  = "a separate service has nothing embedded"
		mongo  = "QUIRE_MONGO_URL"
		shared = "every edge of a cluster shares it"

		adminTokens = "a token of at least 16 bytes without colon and comma, or a list like ann:<token>,bob:<token> of different names and tokens"
	)
	return []setting{
		{
			name: "QUIRE_LISTEN", value: config.Address(&s.Listen), readers: Edge | Quire, fallback: "127.0.0.1:8080",
			meaning: "Address of the API. Port 0 stands for any free port.",
		},
		{
			name: "QUIRE_PUBLIC_URL", value: config.URL(&s.PublicURL, "http", "https"), readers: Edge | Billing | Quire,
			meaning: "Beginning of all links in answers and e-mails. Without it links begin with `http://` and the address of the API, and no e-mails are sent.",
		},
		{
			name: "QUIRE_UPGRADE_URL", value: config.URL(&s.UpgradeURL, "http", "https"), readers: Edge | Quire,
			meaning: "Address where a user gets a plan with higher limits. Refusals for a quota name it as `upgradeUrl`. Without it they name the console's page about the plan.",
		},
		{
			name: "QUIRE_CONTENT_URL", value: config.URL(&s.ContentURL, "http", "https"), readers: Edge | Quire,
			meaning: "A second origin of the same edges, on another host, for raw content and downloads. Links to those lead there, and it answers nothing else. Without it they are under the public URL.",
		},
		{
			name: "QUIRE_OPERATOR", value: config.Text(&s.Operator), readers: Edge | Quire,
			meaning: "Name of the company or person who runs the service. Statements show it as their sender.",
		},
		{
			name: "QUIRE_OPERATOR_ADDRESS", value: config.Text(&s.OperatorAt), readers: Edge | Quire,
			meaning: "Postal address and whatever else the law asks of the sender of a bill, such as a tax number. `|` begins a new line.",
		},
		{
			name: "QUIRE_CONTACT", value: config.Text(&s.Contact), readers: Edge | Quire,
			meaning: "Whom account holders ask about plans, credits and payments: an e-mail address or a URL. Pages and refused checkouts name it.",
		},
		{
			name: "QUIRE_SMTP_URL", value: config.URL(&s.SMTPURL, "smtp", "smtps"), readers: Billing | Quire, secret: true,
			meaning: "SMTP server for e-mails to account holders: receipts, and top-ups that are turned off. `smtps://user:password@host:465`, or `smtp://user:password@host:587` for STARTTLS, which is required except on this machine. `QUIRE_MAIL_FROM` and `QUIRE_PUBLIC_URL` are required with it. Without it no e-mails are sent.",
		},
		{
			name: "QUIRE_MAIL_FROM", value: config.Text(&s.MailFrom), readers: Billing | Quire,
			meaning: "Sender of e-mails, such as `Example Pastes <billing@example.com>`.",
		},
		{
			name: "QUIRE_STRIPE_KEY", value: config.SecretText(&s.StripeKey, 8), readers: Edge | Quire, secret: true,
			meaning: "Secret or restricted API key of a Stripe account, which takes payments for credits and plans: see [the guide](guides/set-up-payments.md). Without it, admins record payments.",
		},
		{
			name: "QUIRE_STRIPE_WEBHOOK_SECRET", value: config.SecretText(&s.StripeWebhookSecret, 8), readers: Edge | Quire, secret: true,
			meaning: "Signing secret of the webhook endpoint `/payments/webhook` in that account. Required with `QUIRE_STRIPE_KEY`.",
		},
		{
			name: "QUIRE_STRIPE_TAX", value: config.Bool(&s.StripeTax), readers: Edge | Quire, fallback: "false",
			meaning: "Has Stripe Tax add tax to what is bought on its pages. Prices are before tax then. Top-ups are charged without.",
		},
		{
			name: "QUIRE_STRIPE_URL", value: config.URL(&s.StripeURL, "http", "https"), readers: Edge | Quire,
			meaning: "Address of Stripe's API, for tests with a stand-in. Without it, Stripe's own.",
		},
		{
			name: "QUIRE_CHECKOUT_SUCCESS_URL", value: config.URL(&s.CheckoutSuccessURL, "http", "https"), readers: Edge | Quire,
			meaning: "Page to which the payment provider leads after a payment. Without it, the console's page about the plan.",
		},
		{
			name: "QUIRE_OPS_LISTEN", value: config.Address(&s.OpsListen), readers: everything, fallback: ":9090",
			except:  map[Program]string{Edge: "", Quire: ""},
			meaning: "Address of `/livez`, `/readyz`, `/metrics` and the profiles under `/debug/pprof`. Without it the first three are served on `QUIRE_LISTEN`, and the profiles nowhere.",
		},
		{
			name: "QUIRE_DATA", value: config.Text(&s.Data), readers: Quire, fallback: "./data",
			meaning: "The data folder. Only one process can use it at a time.",
		},
		{
			name: "QUIRE_SECRET", value: config.SecretText(&s.Secret, apikey.MinSecretBytes), readers: Edge | Billing | Quire,
			needed: Edge, why: shared, secret: true,
			meaning: "Secret that signs API keys, sessions, links and management tokens, and encrypts the secrets of webhooks, for which billing has the same as the edges: without it no webhooks can be created. quire generates one at its first start and keeps it in the data folder.",
		},
		{
			name: "QUIRE_SECRET_PREVIOUS", value: config.SecretTexts(&s.SecretPrevious, apikey.MinSecretBytes), readers: Edge | Billing | Quire, secret: true,
			meaning: "Other secrets, separated by commas, whose signatures and encryption are accepted too. Used to rotate `QUIRE_SECRET`: see [operations.md](operations.md#rotate-secrets).",
		},
		{
			name: "QUIRE_ADMIN_TOKEN", value: config.CheckedSecret(&s.AdminToken, adminTokens, func(text string) error {
				_, err := admin.ParseTokens(text)
				return err
			}),
			readers: Edge | Quire, secret: true,
			meaning: "Token for `/api/admin`, or a list like `ann:<token>,bob:<token>`. The log of admin actions shows the name of the token, or `admin` for a token without one. Without a token an edge does not serve these paths; quire creates one at its first start and keeps it in the data folder.",
		},
		{
			name: "QUIRE_ADMIN_LISTEN", value: config.Address(&s.AdminListen), readers: Edge | Quire,
			meaning: "Separate address of `/api/admin`, for example one reachable only from your own network. Nothing else is served there, and `QUIRE_LISTEN` no longer serves these paths. Without it they are on `QUIRE_LISTEN`.",
		},
		{
			name: "QUIRE_TRUSTED_PROXIES", value: config.Networks(&s.TrustedProxies), readers: Edge | Quire,
			meaning: "Networks of the proxies in front of the API. `X-Forwarded-For` is ignored unless it comes from one of them.",
		},
		{
			name: "QUIRE_MAX_CONNS", value: config.Int(&s.MaxConns, 16, 1<<20), readers: Edge, fallback: "16384",
			meaning: "Maximum number of open connections to the API.",
		},
		{
			name: "QUIRE_MAX_CONNS_PER_SOURCE", value: config.Int(&s.MaxConnsPerSource, 1, 1<<20), readers: Edge, fallback: "12288",
			meaning: "Maximum number of open connections from one IPv4 address or IPv6 /48. Behind a proxy all connections come from its address.",
		},
		{
			name: "QUIRE_RENDER_BYTES", value: config.Bytes(&s.RenderBytes, "64MiB", "16GiB"), readers: Edge | Quire, fallback: "64MiB",
			meaning: "Memory that the processes which render pages of texts may allocate together. Each gets 64 MiB at least, and there are at most half as many as processors, and 4.",
		},
		{
			name: "QUIRE_STOP_GRACE", value: config.Duration(&s.StopGrace, "1s", "1h"), readers: Edge | Billing, fallback: "10s",
			except:  map[Program]string{Billing: "20s"},
			meaning: "Time for running work to finish at a stop.",
		},
		{
			name: "QUIRE_PARTITIONS", value: config.Int(&s.Partitions, 1, maxPartitions), readers: everything | Provision, fallback: "16",
			except:  map[Program]string{Quire: "1"},
			meaning: "Number of partitions of every journal. It is fixed once the journals exist, and must be the same for all processes. A process with another number stops with an error that names both. An edge asks billing for the number before it takes requests.",
		},
		{
			name: "QUIRE_REPLICAS", value: config.Int(&s.Replicas, 1, 5), readers: Provision | Quire, fallback: "3",
			except:  map[Program]string{Quire: "1"},
			meaning: "Number of copies of each journal, each on another NATS server. Journals that have fewer get more, and none loses any. quire has one embedded server, so it needs more than 1 only with `QUIRE_NATS_URL`.",
		},
		{
			name: "QUIRE_ANON_LIMIT", value: config.Int(&s.AnonymousLimit, 0, 1_000_000), readers: Billing | Quire, fallback: "10",
			meaning: "Number of quick pastes that one source may create without a key in 24 hours.",
		},
		{
			name: "QUIRE_REGISTER_LIMIT", value: config.Int(&s.RegisterLimit, 1, 1_000_000), readers: Billing | Quire, fallback: "20",
			meaning: "Number of accounts that one source, an IPv4 /24 or an IPv6 /48, may register in a day of UTC.",
		},
		{
			name: "QUIRE_UNMETERED_RATE", value: config.Int(&s.UnmeteredRate, 0, 1_000_000), readers: Edge | Quire, fallback: "100",
			meaning: "Number of calls a second that no quota counts (lists, usage, explanations, answers 304, pages, accounts) for one account, and for one source without an API key. Bursts may be ten times as large. 0 means no limit.",
		},
		{
			name: "QUIRE_WEBHOOK_ALLOW_PRIVATE", value: config.Bool(&s.WebhookAllowPrivate), readers: Billing | Quire, fallback: "false",
			meaning: "Allows webhooks in private networks and on this machine, and without TLS. For development, and for installations whose users all belong to that network: any user could reach its servers.",
		},
		{
			name: "QUIRE_BILLING_PARTITIONS", value: config.Ints(&s.BillingPartitions, maxPartitions-1), readers: Billing,
			meaning: "Partitions that this instance always folds. Without it the instances share all partitions.",
		},
		{
			name: "QUIRE_CHECKPOINT_KEY", value: config.SecretText(&s.CheckpointKey, proof.MinSecretBytes), readers: Archive | Quire,
			needed: Archive, why: "the log is signed with it", secret: true,
			meaning: "Secret from which the key of [the log](proof.md) is derived. No other service may have it. With another secret the log can't go on. quire generates one at its first start and keeps it in the data folder.",
		},
		{
			name: "QUIRE_CHECKPOINT_INTERVAL", value: config.Duration(&s.CheckpointInterval, "1s", "1d"), readers: Archive | Billing | Quire, fallback: "1m",
			meaning: "Time between two checkpoints of [the log](proof.md), and between two [seals](journal.md#seals) in a billing journal.",
		},
		{
			name: "QUIRE_WITNESSES", value: config.Checked(&s.Witnesses, "entries like `name+hash+base64@https://witness.example` of different keys", func(text string) error {
				_, err := witness.ParseWitnesses(text)
				return err
			}),
			readers: Archive | Quire,
			meaning: "Witnesses that cosign every checkpoint of [the log](proof.md), each as `<verifier key>@<URL>`, separated by spaces or commas: see [witness.md](witness.md).",
		},
		{
			name: "QUIRE_SEGMENT_AGE", value: config.Duration(&s.SegmentAge, "1s", "30d"), readers: Archive | Quire, fallback: "1h",
			meaning: "Age at which messages of the billing journals are copied into a segment in the blob store, full or not: see [formats/segments.md](formats/segments.md).",
		},
		{
			name: "QUIRE_GENERATION_BYTES", value: config.Bytes(&s.GenerationBytes, "0", "1TiB"), readers: Provision | Quire, fallback: "0",
			meaning: "Size of a billing journal at which its generation is closed and the next one opened: see [generations.md](generations.md). 0 closes none by its size.",
		},
		{
			name: "QUIRE_GENERATION_AGE", value: config.Duration(&s.GenerationAge, "0s", "3650d"), readers: Provision | Quire, fallback: "0s",
			meaning: "Age of the first message of a billing journal at which its generation is closed and the next one opened. 0 closes none by its age.",
		},
		{
			name: "QUIRE_JOURNAL_RETENTION", value: config.Duration(&s.JournalRetention, "0s", "3650d"), readers: Archive | Billing | Quire, fallback: "0s",
			meaning: "How long a closed generation of a billing journal stays on the NATS servers: see [generations.md](generations.md). It is deleted once its messages are in segments, were read back and compared, and are covered by an audit that matched. Billing audits what is new once a day meanwhile. 0 keeps all.",
		},
		{
			name: "QUIRE_REQUEST_RETENTION", value: config.Duration(&s.RequestRetention, "1h", "400d"), readers: Billing | Quire, fallback: "30d",
			meaning: "How long the request logs of accounts keep a request. Each account also keeps at most 10,000 requests. Entries of its chain stay for as long, and at least since the beginning of the previous month.",
		},
		{
			name: "QUIRE_LEDGER_RETENTION", value: config.Duration(&s.LedgerRetention, "0s", "3650d"), readers: Billing | Quire, fallback: "0s",
			meaning: "How long the read model keeps the ledgers of accounts, in whole months, and at least since the beginning of the previous month. Older entries are recomputed from the billing journal on request: see [scaling.md](scaling.md#old-entries-of-the-ledger). 0 keeps all.",
		},
		{
			name: "QUIRE_SNAPSHOT_MESSAGES", value: config.Int(&s.SnapshotMessages, 1, 1<<30), readers: Billing, fallback: "50000",
			meaning: "Number of messages between two snapshots. A start folds the messages after the last snapshot. One is also written after 1.8 million admissions, settlements and commands.",
		},
		{
			name: "QUIRE_SNAPSHOT_INTERVAL", value: config.Duration(&s.SnapshotInterval, "1s", "1d"), readers: Billing, fallback: "10m",
			meaning: "Time between two snapshots.",
		},
		{
			name: "QUIRE_CONTENT_RETENTION", value: config.Duration(&s.ContentRetention, "1h", "3650d"),
			readers: documents | Quire, fallback: "7d",
			meaning: "How long requests stay in the journal, including content deleted meanwhile. It must be longer than the age of your oldest backup of the read models.",
		},
		{
			name: "QUIRE_TRASH_RETENTION", value: config.Duration(&s.TrashRetention, "1h", "3650d"),
			readers: documents | Quire, fallback: "7d",
			meaning: "How long unused blobs stay in the trash of the blob store before they are deleted. A blob that turns out to be in use is moved back.",
		},
		{
			name: "QUIRE_KEEP_ORPHANS", value: config.Bool(&s.KeepOrphans), readers: documents | Quire, fallback: "false",
			meaning: "Switches off the hourly sweep that moves unused blobs to the trash, and empties the trash. Set it while you restore a backup.",
		},
		{
			name: "QUIRE_CACHE_BYTES", value: config.Bytes(&s.CacheBytes, "1MiB", "1TiB"), readers: documents, fallback: "64MiB",
			meaning: "Memory for cached documents, for all partitions together.",
		},
		{
			name: "QUIRE_OVERLAY_BYTES", value: config.Bytes(&s.OverlayBytes, "1MiB", "1TiB"), readers: documents, fallback: "64MiB",
			meaning: "Memory for changes that wait for the read model, for each partition.",
		},
		{
			name: "QUIRE_NATS_URL", value: config.URL(&s.NATSURL, "nats", "tls", "ws", "wss"), readers: everything | Provision,
			needed: services | Provision, why: alone, secret: true,
			meaning: "NATS servers of the journals, separated by commas, each with user and password. Without it quire uses an embedded server.",
		},
		{
			name: "QUIRE_RETENTION_NATS_URL", value: config.URL(&s.RetentionNATSURL, "nats", "tls", "ws", "wss"), readers: Archive | Quire, secret: true,
			meaning: "The NATS servers with the user that deletes closed generations of the billing journals, and may do nothing else. `QUIRE_JOURNAL_RETENTION` needs it with `QUIRE_NATS_URL`.",
		},
		{
			name: "QUIRE_POSTGRES_URL", value: config.URL(&s.PostgresURL, "postgres", "postgresql"), readers: Billing | documents | Quire,
			needed: Billing | documents, why: alone, instead: mongo, secret: true,
			meaning: "PostgreSQL server of the read models, 15 or newer, as `postgres://user:password@host,host/database?sslmode=verify-full`: see [postgres.md](postgres.md). With neither this nor `QUIRE_MONGO_URL` quire uses embedded SQLite.",
		},
		{
			name: "QUIRE_POSTGRES_SCHEMA", value: config.Text(&s.PostgresSchema), readers: Billing | documents,
			except:  map[Program]string{Billing: "quire_billing", Paste: "quire_paste", Lite: "quire_lite", File: "quire_file"},
			meaning: "PostgreSQL schema of the service, created at the first start. Each service has its own. quire uses all four defaults.",
		},
		{
			name: mongo, value: config.URL(&s.MongoURL, "mongodb", "mongodb+srv"), readers: Billing | documents | Quire,
			needed: Billing | documents, why: alone, instead: "QUIRE_POSTGRES_URL", secret: true,
			meaning: "MongoDB server of the read models, instead of PostgreSQL: see [mongodb.md](mongodb.md).",
		},
		{
			name: "QUIRE_MONGO_DATABASE", value: config.Text(&s.MongoDatabase), readers: Billing | documents,
			except:  map[Program]string{Billing: "quire_billing", Paste: "quire_paste", Lite: "quire_lite", File: "quire_file"},
			meaning: "MongoDB database of the service. Each service has its own. quire uses the database in `QUIRE_MONGO_URL`, or `quire`.",
		},
		{
			name: "QUIRE_S3_URL", value: config.URL(&s.S3URL, "http", "https"), readers: everything,
			needed: services, why: alone, secret: true,
			meaning: "Bucket of the blobs, as `https://key:secret@host/bucket?region=…`. Without `key:secret@` the credentials come from the environment (`AWS_ACCESS_KEY_ID` and so on), `~/.aws/credentials`, or the IAM role of the machine or pod. Without the setting quire keeps the blobs in the data folder.",
		},
		{
			name: "QUIRE_LOG_LEVEL", value: config.Level(&s.LogLevel), readers: everything | Provision, fallback: "info",
			except:  map[Program]string{Quire: "warn"},
			meaning: "Minimum level to log.",
		},
		{
			name: "QUIRE_LOG_FORMAT", value: config.Choice(&s.LogFormat, "json", "text"), readers: everything | Provision, fallback: "json",
			except:  map[Program]string{Quire: "text"},
			meaning: "Format of the log lines.",
		},
		{
			name: "QUIRE_ACCESS_LOG_SLOW", value: config.Duration(&s.AccessLogSlow, "0s", "1h"), readers: Edge | Quire, fallback: "1s",
			meaning: "Requests that took at least as long are in the access log, with the parts of their time, and so is each answer 5xx. 0 means that only the latter are: see [runbook.md](runbook.md#a-request-was-slow).",
		},
		{
			name: "QUIRE_ACCESS_LOG_SAMPLE", value: config.Fraction(&s.AccessLogSample), readers: Edge | Quire, fallback: "0",
			meaning: "Share of the other requests that are in the access log.",
		},
		{
			name: "OTEL_EXPORTER_OTLP_ENDPOINT", value: config.URL(&s.TraceEndpoint, "http", "https"), readers: everything,
			meaning: "OpenTelemetry collector that gets the traces of sampled requests by OTLP over HTTP, at `/v1/traces` below this URL. Without it nothing is traced. Its TLS, timeout and queue can be set by the other `OTEL_EXPORTER_OTLP_…` and `OTEL_BSP_…` variables of the OpenTelemetry SDK.",
		},
		{
			name: "OTEL_EXPORTER_OTLP_HEADERS", value: config.CheckedSecret(&s.TraceHeaders, "headers like `name=value,other=value`", func(text string) error {
				_, err := traceHeaders(text)
				return err
			}),
			readers: everything, secret: true,
			meaning: "Headers of the requests to the collector, such as its token, as `name=value` separated by commas, with values percent-encoded.",
		},
		{
			name: "OTEL_TRACES_SAMPLER_ARG", value: config.Fraction(&s.TraceShare), readers: Edge | Quire, fallback: "0.01",
			meaning: "Share of the requests that are traced, of those without a `traceparent`. A request with one is traced as it says.",
		},
		{
			name: "QUIRE_TRACE_RATE", value: config.Int(&s.TraceRate, 1, 10_000), readers: Edge | Quire, fallback: "20",
			meaning: "Maximum number of traced requests per second, counted separately for requests with a sampled `traceparent`, which any client can send, and for all others. A traced request adds 75 bytes to the billing journal, which is kept forever, and 75 to the document's journal if it writes.",
		},
		{
			name: "QUIRE_DEV", value: config.Bool(&s.Dev), readers: everything, fallback: "false",
			meaning: "Allows `QUIRE_CLOCK_OFFSET`, which is for development only.",
		},
		{
			name: "QUIRE_CLOCK_OFFSET", value: config.Duration(&s.ClockOffset, "-3650d", "3650d"), readers: everything, fallback: "0s",
			meaning: "Offset of the clock, for trying month ends. It must be the same for all services. It falsifies bills.",
		},
	}
}

// check adds a fault for a setting that is missing, or set beside one that excludes it. Of two such settings the first is at fault.
func (s setting) check(r *config.Reader, program Program, set map[string]bool) {
	both := set[s.name] && set[s.instead]
	missing := s.needed&program != 0 && !set[s.name] && !set[s.instead]
	switch {
	case both && s.name < s.instead:
		r.Reject(s.name, "unset, or "+s.instead+" unset: a service has one read model")
	case missing && s.instead == "":
		r.Reject(s.name, "set, since "+s.why)
	case missing && s.name > s.instead:
		r.Reject(s.name, "set, or "+s.instead+", since "+s.why)
	}
}

// defaultOf returns the setting's default for one of its readers.
func (s setting) defaultOf(program Program) string {
	if other, ok := s.except[program]; ok {
		return other
	}
	return s.fallback
}

// clientVariables are read by the commands for users (docs/guides/command-line.md), which operators may use too.
func clientVariables() []string {
	return []string{"QUIRE_URL", "QUIRE_API_KEY", "QUIRE_PROFILE", "QUIRE_PASSWORD", "QUIRE_MANAGE_TOKEN", "QUIRE_WEBHOOK_SECRET"}
}

// ReadSettings reads the settings of a program from variables in the form of os.Environ. It allows settings of other programs,
// so that programs can share an environment. The error lists all faults.
func ReadSettings(program Program, environ []string) (Settings, error) {
	var s Settings
	r := config.New(environ)
	set := map[string]bool{}
	for _, row := range s.table() {
		if row.readers&program == 0 {
			r.Known(row.name)
			continue
		}
		set[row.name] = r.Read(row.name, row.defaultOf(program), row.value)
	}
	for _, row := range s.table() {
		row.check(r, program, set)
	}
	for _, name := range clientVariables() {
		r.Known(name)
	}
	if s.ClockOffset != 0 && !s.Dev {
		r.Reject("QUIRE_CLOCK_OFFSET", "unset, or QUIRE_DEV=1 beside it: it falsifies bills")
	}
	for _, p := range s.BillingPartitions {
		if p >= s.Partitions {
			r.Reject("QUIRE_BILLING_PARTITIONS", fmt.Sprintf(`partitions below %d, such as "0-7,12"`, s.Partitions))
			break
		}
	}
	return s, r.Err()
}
