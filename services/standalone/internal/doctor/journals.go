package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/rpc"
)

// minNATS is the oldest version of NATS that the deployment was tried with.
const minNATS = "2.11.0"

// journals examines the NATS servers as a client, and the streams in them.
func journals(ctx context.Context, cfg Config) []Finding {
	const name = "NATS"
	if cfg.Settings.NATSURL == "" {
		return []Finding{ok(name, "in this process")}
	}
	nc, err := rpc.Connect(cfg.Settings.NATSURL, "quire", slog.New(slog.DiscardHandler))
	if err == nil {
		defer nc.Close()
		err = rpc.WaitConnected(ctx, nc)
	}
	if err != nil {
		return []Finding{failed(name, fmt.Errorf("not reached: %w", errors.Join(err, nc.LastError())), "Check QUIRE_NATS_URL, its user and password, and the network policies.")}
	}
	found := []Finding{version(name, nc.ConnectedServerVersion())}
	if state, err := nc.TLSConnectionState(); err == nil && len(state.PeerCertificates) > 0 {
		found = append(found, certificate("certificate of NATS", state.PeerCertificates[0].NotAfter, cfg.Now()))
	}
	return append(found, streams(ctx, nc, cfg)...)
}

func version(check, has string) Finding {
	f := ok(check, "version %s", has)
	if older(has, minNATS) {
		f.Result, f.Advice = Fail, "Upgrade the NATS servers to "+minNATS+" or newer, one after the other."
	}
	return f
}

// older compares versions such as 2.11.3.
func older(a, b string) bool {
	var x, y [3]int
	_, _ = fmt.Sscanf(a, "%d.%d.%d", &x[0], &x[1], &x[2]) // what can't be read is 0, and old
	_, _ = fmt.Sscanf(b, "%d.%d.%d", &y[0], &y[1], &y[2])
	for n := range x {
		if x[n] != y[n] {
			return x[n] < y[n]
		}
	}
	return false
}

var errHalfClosed = errors.New("its generation is being closed, and the next one is not open")

// streams examines the streams of all journals.
func streams(ctx context.Context, nc *nats.Conn, cfg Config) []Finding {
	const name = "journals"
	var found []Finding
	missing, replicas := 0, map[int]int{}
	for _, domain := range event.Domains() {
		for _, want := range installation.Streams(domain, cfg.Settings.Partitions) {
			begun := time.Now()
			list, err := journal.Streams(ctx, nc, want)
			switch {
			case errors.Is(err, journal.ErrNoStream):
				missing++
				continue
			case err != nil:
				return append(found, failed(name, fmt.Errorf("%s: %w", want.Name, err), "Check that JetStream is enabled, that two of three servers run, and the rights of the user."))
			}
			if len(replicas) == 0 {
				found = append(found, clock(cfg, "clock of NATS", list[0].TimeStamp, begun))
			}
			for _, info := range list {
				replicas[info.Config.Replicas]++
				found = append(found, stream(want, info, cfg.Settings.Partitions)...)
			}
			if open := list[len(list)-1].Config; journal.IsClosing(want.Name, open.Subjects) {
				found = append(found, failed("journal "+open.Name, errHalfClosed, "Nobody can write to this partition: run `billing provision`, which ends it."))
			}
		}
	}
	switch {
	case missing > 0 && len(replicas) > 0:
		found = append(found, failed(name, fmt.Errorf("%d streams are missing", missing), "Restore them from a backup. If the number of partitions is wrong, correct QUIRE_PARTITIONS."))
	case missing > 0:
		found = append(found, ok(name, "none exists yet; the first start creates them"))
	case replicas[1] > 0:
		found = append(found, Finding{
			Check: name, Result: Warn, Detail: fmt.Sprintf("%d streams have one replica: the loss of one server loses them", replicas[1]),
			Advice: "Run three NATS servers, and provision with QUIRE_REPLICAS=3.",
		})
	default:
		found = append(found, ok(name, "complete, in %d partitions", cfg.Settings.Partitions))
	}
	return found
}

// stream examines the state of one stream, and returns what is wrong.
func stream(want journal.Stream, info *jetstream.StreamInfo, partitions int) (found []Finding) {
	check := "journal " + info.Config.Name
	if err := journal.Check(info.Config, want, partitions); err != nil {
		found = append(found, failed(check, err, "Services do not start on it. Correct QUIRE_PARTITIONS, or the configuration of the stream."))
	}
	if info.Cluster == nil || info.Config.Replicas == 1 {
		return found
	}
	if info.Cluster.Leader == "" {
		found = append(found, failed(check, errors.New("has no leader: it takes no writes"), "See QuireJournalsClosed in docs/runbook.md."))
	}
	for _, peer := range info.Cluster.Replicas {
		if peer.Offline || !peer.Current {
			found = append(found, Finding{
				Check: check, Result: Warn, Detail: fmt.Sprintf("its replica on %s is offline or behind", peer.Name),
				Advice: "Wait for it, or start that server. See QuireJournalServerDown in docs/runbook.md.",
			})
		}
	}
	return found
}

// varz is the part of a NATS server's /varz that matters.
type varz struct {
	Name      string `json:"server_name"`
	Version   string `json:"version"`
	JetStream struct {
		Config *struct {
			SyncAlways bool   `json:"sync_always"`
			MaxStore   int64  `json:"max_storage"`
			StoreDir   string `json:"store_dir"`
		} `json:"config"`
		Stats *struct {
			Store uint64 `json:"storage"`
		} `json:"stats"`
	} `json:"jetstream"`
}

// monitors examines what only the servers' monitoring knows.
func monitors(ctx context.Context, cfg Config) (found []Finding) {
	if cfg.Settings.NATSURL == "" {
		return nil
	}
	if len(cfg.NATSMonitors) == 0 {
		return []Finding{{
			Check: "sync of NATS", Result: Warn, Detail: "not examined: clients can't ask for sync_interval",
			Advice: "Run quire doctor --nats-monitor http://<server>:8222 where that port is reached, for each server.",
		}}
	}
	for _, base := range cfg.NATSMonitors {
		found = append(found, monitor(ctx, base)...)
	}
	return found
}

func monitor(ctx context.Context, base string) []Finding {
	name := "NATS at " + base
	var v varz
	if err := getJSON(ctx, strings.TrimSuffix(base, "/")+"/varz", &v); err != nil {
		return []Finding{failed(name, err, "Check the address: it must be the http address in nats.conf.")}
	}
	if v.JetStream.Config == nil {
		return []Finding{failed(name, errors.New("JetStream is disabled"), "See QuireJournalsClosed in docs/runbook.md: after a full disk, make room and restart the server.")}
	}
	found := []Finding{version(name, v.Version)}
	if !v.JetStream.Config.SyncAlways {
		found = append(found, failed("sync of "+v.Name, errors.New("sync_interval is not always: a power cut loses what was acknowledged in the last two minutes"), "Set sync_interval: always in the jetstream block of nats.conf."))
	} else {
		found = append(found, ok("sync of "+v.Name, "every write"))
	}
	if v.JetStream.Stats != nil && v.JetStream.Config.MaxStore > 0 {
		found = append(found, room("store of "+v.Name, v.JetStream.Stats.Store, uint64(v.JetStream.Config.MaxStore), "Enlarge the volume and NATS_MAX_FILE_STORE. At the limit NATS takes no writes."))
	}
	return found
}

func getJSON(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return json.NewDecoder(http.MaxBytesReader(nil, response.Body, 1<<20)).Decode(into)
}
