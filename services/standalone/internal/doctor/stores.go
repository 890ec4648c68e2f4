package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"time"

	"quire.dev/pkg/blob/s3"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views/postgres"
)

// readModels examines the server of the read models.
func readModels(ctx context.Context, cfg Config) []Finding {
	const name = "read models"
	switch s := cfg.Settings; {
	case s.PostgresURL != "":
		return database(ctx, cfg)
	case s.MongoURL != "":
		return mongoDB(ctx, cfg)
	}
	return []Finding{ok(name, "SQLite, in the data folder")}
}

func database(ctx context.Context, cfg Config) []Finding {
	const name = "PostgreSQL"
	begun := time.Now()
	s, err := postgres.Inspect(ctx, cfg.Settings.PostgresURL)
	if err != nil {
		return []Finding{failed(name, err, "Check QUIRE_POSTGRES_URL, its user and password. docs/postgres.md has what Quire needs.")}
	}
	found := []Finding{ok(name, "version %s", s.Version), clock(cfg, "clock of PostgreSQL", s.Now, begun)}
	add := func(result Result, detail, advice string) {
		found = append(found, Finding{Check: name, Result: result, Detail: detail, Advice: advice})
	}
	if s.Standby {
		add(Fail, "the server is a standby and takes no writes", "Name all hosts in QUIRE_POSTGRES_URL; target_session_attrs=read-write finds the primary.")
	}
	switch s.SynchronousCommit {
	case "on", "remote_apply":
	default:
		add(Fail, "synchronous_commit is "+s.SynchronousCommit+": a commit may be lost", "Set synchronous_commit=on.")
	}
	if s.StandbyNames == "" {
		add(Warn, "synchronous_standby_names is empty: the loss of the server loses what exists nowhere else, such as users", "Add a synchronous standby.")
	}
	if s.Wide {
		add(Warn, "the user is a superuser, or may create databases or roles", "Give each service its own user, as deploy/postgres/init.sh does.")
	}
	return found
}

// bucket examines the bucket of blobs, and whether it belongs to the installation of the journals.
func bucket(ctx context.Context, cfg Config) []Finding {
	const name = "bucket"
	if cfg.Settings.S3URL == "" {
		return []Finding{ok(name, "a folder, in the data folder")}
	}
	b, err := s3.Inspect(ctx, s3.Config{URL: cfg.Settings.S3URL})
	if err != nil {
		return []Finding{failed(name, err, "Check QUIRE_S3_URL, its keys, and their policy (deploy/minio).")}
	}
	var found []Finding
	switch {
	case b.Missing:
		found = append(found, Finding{Check: name, Result: Warn, Detail: "does not exist yet", Advice: "Create it, private and without versioning: see Install in docs/operations.md."})
	case b.Versioned:
		found = append(found, failed(name, errors.New("is versioned: a delete does not delete"), "Suspend versioning, and delete the versions that are not current."))
	default:
		found = append(found, ok(name, "reached, without versioning"))
	}
	if b.Owner != "" && cfg.Settings.NATSURL != "" {
		found = append(found, owner(ctx, cfg, b.Owner)...)
	}
	if u, err := url.Parse(cfg.Settings.S3URL); err == nil && u.Scheme == "https" {
		found = append(found, served(ctx, cfg, "certificate of the bucket", u)...)
	}
	return found
}

func owner(ctx context.Context, cfg Config, bucket string) []Finding {
	const name = "owner of the bucket"
	nc, err := rpc.ConnectNow(ctx, cfg.Settings.NATSURL, "quire", slog.New(slog.DiscardHandler))
	if err != nil {
		return nil // reported by journals
	}
	defer nc.Close()
	id, err := installation.Journals(nc, event.Billing.Stream(0)).Owner(ctx)
	switch {
	case err != nil:
		return []Finding{{Check: name, Result: Warn, Detail: "the journals do not exist, and the bucket belongs to installation " + bucket, Advice: "Use another bucket for a new installation."}}
	case id != bucket:
		return []Finding{failed(name, fmt.Errorf("the bucket belongs to installation %s, the journals to %s", bucket, id), "Correct QUIRE_S3_URL or QUIRE_NATS_URL: services do not start with both.")}
	}
	return []Finding{ok(name, "the installation of the journals")}
}

// website examines the certificate of the public URL.
func website(ctx context.Context, cfg Config) []Finding {
	u, err := url.Parse(cfg.Settings.PublicURL)
	if err != nil || u.Scheme != "https" {
		return nil
	}
	return served(ctx, cfg, "certificate of the public URL", u)
}

// served examines the certificate that a server shows.
func served(ctx context.Context, cfg Config, name string, u *url.URL) []Finding {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	// Who signed it is the clients' check, which other findings show. Its end is the question here.
	dialer := tls.Dialer{Config: &tls.Config{ServerName: u.Hostname(), InsecureSkipVerify: true}} //nolint:gosec // nothing is sent
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return []Finding{failed(name, err, "Check the address, and that this host reaches it.")}
	}
	defer conn.Close()
	state := conn.(*tls.Conn).ConnectionState()
	return []Finding{certificate(name, state.PeerCertificates[0].NotAfter, cfg.Now())}
}
