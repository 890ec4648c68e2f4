package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/event"
	"quire.dev/pkg/host"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/services/standalone/internal/bundle"
	"quire.dev/services/standalone/internal/datafolder"
	"quire.dev/services/standalone/internal/doctor"
)

// BundleOptions are the options of WriteBundle.
type BundleOptions struct {
	Version string   // of quire
	Environ []string // with the settings, in the form of os.Environ
	Ops     []string // base URLs of operators' listeners; none: the listener of the process on the data folder
	Log     string   // file whose end is included; empty: none
}

// WriteBundle writes an archive of diagnostic data, without secrets. What can't be collected, because of invalid settings or without a
// running process, is listed as missing in the archive and in the result.
func WriteBundle(ctx context.Context, w io.Writer, o BundleOptions) (bundle.Contents, error) {
	cfg, err := host.ReadSettings(host.Quire, o.Environ)
	b := bundle.Config{
		Version: o.Version, Settings: host.Show(o.Environ), Secrets: host.SecretValues(o.Environ), Data: cfg.Data, Ops: o.Ops, Log: o.Log,
		Now: time.Now(),
	}
	lack := func(name string, err error) {
		b.Missing = append(b.Missing, bundle.Missing{Name: name, Reason: err.Error()})
	}
	if err != nil {
		lack("doctor.json, streams.json", err)
	} else {
		b.Doctor = func(ctx context.Context) []doctor.Finding { return doctor.Examine(ctx, doctor.Config{Settings: cfg}) }
		b.Streams = func(ctx context.Context) ([]*jetstream.StreamInfo, error) { return streamStates(ctx, cfg) }
	}
	kept, err := datafolder.Secrets(cfg.Data)
	b.Secrets = append(b.Secrets, kept...)
	if err != nil && b.Log != "" {
		lack("log.txt", fmt.Errorf("secrets in it would not be recognized: %w", err))
		b.Log = ""
	}
	if len(b.Ops) == 0 {
		base, err := opsURL(cfg)
		if err != nil {
			lack("ops", err)
		} else {
			b.Ops = []string{base}
		}
	}
	return bundle.Write(ctx, w, b)
}

// opsURL is where a process with these settings serves operators.
func opsURL(cfg host.Settings) (string, error) {
	if cfg.OpsListen != "" {
		if _, port, _ := net.SplitHostPort(cfg.OpsListen); port == "0" {
			return "", errors.New("QUIRE_OPS_LISTEN has any free port: set --ops to the one in the log")
		}
		return ListenURL(cfg.OpsListen), nil
	}
	holder, running, err := datafolder.Running(cfg.Data)
	switch {
	case err != nil:
		return "", err
	case !running:
		return "", fmt.Errorf("no quire is running on %s: set QUIRE_DATA, QUIRE_OPS_LISTEN or --ops", cfg.Data)
	case holder.URL == "":
		return "", errors.New("quire is starting and serves nothing yet: set QUIRE_OPS_LISTEN, which it serves from the beginning")
	}
	return holder.URL, nil
}

// ListenURL is the URL of a server on this machine that listens on an address.
func ListenURL(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "http://" + address
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// streamStates returns the state of each journal's stream. On an error it returns those read before.
func streamStates(ctx context.Context, cfg host.Settings) (states []*jetstream.StreamInfo, err error) {
	opened := host.New(cfg, slog.New(slog.DiscardHandler))
	defer func() { err = errors.Join(err, opened.Close()) }()
	nc, err := connectAs(ctx, "debug-bundle", opened, cfg, opened.Log)
	if err != nil {
		return nil, err
	}
	for _, domain := range event.Domains() {
		for _, want := range installation.Streams(domain, cfg.Partitions) {
			list, err := journal.Streams(ctx, nc, want)
			if errors.Is(err, journal.ErrNoStream) {
				continue // doctor says so
			}
			if err != nil {
				return states, fmt.Errorf("state of %s: %w", want.Name, err)
			}
			states = append(states, list...)
		}
	}
	return states, nil
}
