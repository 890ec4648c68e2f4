package standalone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/archived"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/lifecycle"
	"quire.dev/pkg/natsfiles"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/segment"
	"quire.dev/pkg/wait"
	"quire.dev/services/standalone/internal/durable"
	"quire.dev/services/standalone/internal/natsserver"
)

const (
	// checkBudget bounds the time for reading the journals' files, newest first, before the server starts.
	checkBudget = 2 * time.Minute
	// checkAtOnce is the total size of journals up to which all are read before the start. Of larger ones the files that the
	// server does not read when it starts are read later: a million pastes have two gigabytes of journals.
	checkAtOnce      = 64 << 20
	reconnectWait    = 50 * time.Millisecond
	reconnectOutside = 500 * time.Millisecond
)

// startJournal starts the embedded journal server after checking its files. Files of a version unknown to natsfiles are left to
// the server. It does nothing if the settings name a server.
func (p *process) startJournal(ctx context.Context) error {
	if p.cfg.NATSURL != "" {
		return nil
	}
	version := cmp.Or(p.deps.NATSVersion, natsserver.Version)
	plain := !natsfiles.Supports(version)
	if plain {
		p.deps.Logger.Warn("unknown file format of this NATS version: files are not checked, and followed by consumers", "version", version)
	}
	clean, first := p.folder.Clean, true
	server, err := natsserver.Start(ctx, natsserver.Options{
		Folder: p.folder.NATS(),
		Logger: p.deps.Logger,
		Plain:  plain,
		BeforeStart: func(ctx context.Context) error {
			if !plain {
				if err := p.checkJournals(ctx, clean, first); err != nil {
					return err
				}
			}
			clean, first = false, false // later starts follow a failure
			return p.folder.Started()
		},
	})
	if err != nil {
		return err
	}
	p.journal = server
	p.shared.Answers = new(rpc.Local)
	if !plain {
		p.shared.Files = journal.NewFiles(p.folder.NATS())
	}
	// The stop counts as orderly once everything opened later is closed.
	p.host.OnClose(func() error {
		server.Stop()
		return p.folder.Stopped()
	})
	p.host.Add("journal server", lifecycle.Func(server.Run))
	p.host.Health.Watch("journal", server.Health)
	return nil
}

// checkJournals reads the journals' files before the server, which would truncate unreadable ones. At the first start it may
// leave some of large journals for later.
func (p *process) checkJournals(ctx context.Context, clean, first bool) error {
	atOnce, budget := cmp.Or(p.deps.CheckAtOnce, checkAtOnce), checkBudget
	if !first {
		atOnce = 0
	}
	if p.folder.Suspect {
		atOnce, budget = 0, 0 // read all, however long it takes
	}
	report, err := natsfiles.Check(ctx, p.folder.NATS(), natsfiles.Options{
		Expected: p.folder.Streams(),
		Clean:    clean,
		Forever:  func(stream string) bool { return isOf(stream, event.Billing) },
		Also:     alsoIn,
		Closed: func(stream string, subjects []string) bool {
			return isOf(stream, event.Billing) && journal.IsClosing(stream, subjects)
		},
		Continued: func(stream string) string {
			if !isOf(stream, event.Billing) {
				return ""
			}
			return journal.OtherStream(stream)
		},
		Gapless:  func(stream string) bool { return isOf(stream, event.Domains()...) },
		AtOnce:   atOnce,
		Budget:   budget,
		Progress: func(done, total int64) { p.progress("checking the journals' files, in bytes", done, total) },
	})
	if err != nil {
		return err
	}
	if p.folder.Suspect {
		if err := errors.Join(report.DropIndexes(), p.folder.SetSuspect(false)); err != nil {
			return err
		}
	}
	removed, err := report.RemoveUnfinished()
	if err != nil {
		return err
	}
	for _, folder := range removed {
		p.deps.Logger.Info("removed a stream without messages: the process was killed while creating it", "folder", folder)
	}
	deleted, err := report.KeepDeleted(p.folder.Deleted())
	if err != nil {
		return err
	}
	for _, folder := range deleted {
		p.deps.Logger.Warn("moved a generation away: the process was killed while deleting it. It is kept until the archive is known to have its messages", "folder", folder)
	}
	if report.Left() > 0 {
		p.checkLater("the journals' files", func(ctx context.Context) error { return p.checkRest(ctx, report) })
	}
	if report.Skipped > 0 {
		p.deps.Logger.Warn("older journal files were not checked", "files", report.Skipped, "budget", checkBudget)
	}
	kept, err := report.KeepTorn(p.folder.Torn())
	for _, file := range kept {
		p.deps.Logger.Warn("an unacknowledged write was truncated; a copy was kept", "file", file)
	}
	if err != nil {
		return err
	}
	return report.RenewIndexes(durable.Write)
}

// checkRest reads the journals' files left by the check before the start. If one is damaged the process stops, and the next
// start reads all of them first.
func (p *process) checkRest(ctx context.Context, report *natsfiles.Report) error {
	p.deps.Logger.Info("checking the rest of the journals' files", "files", report.Left())
	err := report.CheckRest(ctx)
	if errors.Is(err, natsfiles.ErrDamaged) {
		return errors.Join(err, p.folder.SetSuspect(true))
	}
	return err
}

// isOf reports whether a stream is one of the domains' journals.
func isOf(stream string, domains ...event.Domain) bool {
	return slices.ContainsFunc(domains, func(d event.Domain) bool {
		return strings.HasPrefix(stream, strings.TrimSuffix(d.Stream(0), "0"))
	})
}

// alsoIn lists the subjects that a billing stream's messages may have besides those that it takes now. A closed one takes only the message that closes
// it, and a restored one has such messages too.
func alsoIn(stream string) []string {
	var partition int
	if _, err := fmt.Sscanf(stream, "BILLING_%d", &partition); err != nil {
		return nil
	}
	return append(event.Billing.Subjects(partition), journal.ClosedSubject(stream))
}

func (p *process) progress(what string, done, total int64) {
	if p.deps.Progress != nil {
		p.deps.Progress(what, done, total)
	}
}

// connect opens a separate connection for a service: inside the process, or to the server elsewhere.
func (p *process) connect(name string) (*nats.Conn, error) {
	nc, err := p.dial(name)
	if err == nil {
		p.host.OnClose(func() error { nc.Close(); return nil })
	}
	return nc, err
}

// connectToDelete connects as the archive does to delete a generation of a journal.
func (p *process) connectToDelete() (*nats.Conn, error) {
	if p.journal == nil {
		return rpc.ConnectOnce(p.cfg.RetentionNATSURL, "retention")
	}
	return p.dial("retention", nats.NoReconnect())
}

// dial connects to the journal server. The caller closes the connection.
func (p *process) dial(name string, more ...nats.Option) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		// A message that can't be sent now must fail: its sender decides about a retry.
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			p.deps.Logger.Warn("journal connection", "service", name, "error", err)
		}),
	}
	url := p.cfg.NATSURL
	if p.journal != nil {
		options = append(options, nats.InProcessServer(p.journal), nats.ReconnectWait(reconnectWait), nats.ReconnectJitter(0, 0))
	} else {
		options = append(options, nats.ReconnectWait(reconnectOutside))
	}
	nc, err := nats.Connect(url, append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("connect %s to the journal: %w", name, err)
	}
	return nc, nil
}

// addProvisioning creates the journals. In one process the services wait for it; they have the permissions too, but one place
// decides what a journal is.
func (p *process) addProvisioning() error {
	nc, err := p.connect("provision")
	if err != nil {
		return err
	}
	p.host.Add("provisioning", lifecycle.Func(func(ctx context.Context) error {
		if name := nc.ConnectedClusterName(); p.journal == nil && name != "" && p.cfg.Replicas <= 1 {
			p.deps.Logger.Warn("each journal is on only one server of the NATS cluster and would be lost with it: set QUIRE_REPLICAS", "cluster", name)
		}
		cfg := installation.Config{Partitions: p.cfg.Partitions, Replicas: p.replicas()}
		if err := installation.Provision(ctx, nc, cfg); err != nil && ctx.Err() == nil {
			return err
		}
		p.closeGenerations(ctx, nc, cfg)
		return nil
	}))
	return nil
}

// generationsEvery is the time between two looks for generations to close. It is a tenth of a short age.
const generationsEvery = time.Minute

// closeGenerations closes the generations of the billing journals that are due, until ctx ends.
func (p *process) closeGenerations(ctx context.Context, nc *nats.Conn, cfg installation.Config) {
	g, every := p.cfg.Generations(), generationsEvery
	if p.journal != nil {
		g.Apart = 0
	}
	if g.Age > 0 {
		every = min(every, max(g.Age/10, time.Second))
	}
	if !g.Enabled() {
		<-ctx.Done()
		return
	}
	for ctx.Err() == nil {
		// What was deleted must not be looked for any more when the next one is closed, and what is opened must.
		err := p.recordStreams(ctx, nc)
		if err == nil {
			err = errors.Join(installation.CloseGenerations(ctx, nc, cfg, g, p.deps.Logger), p.recordStreams(ctx, nc))
		}
		if err != nil && ctx.Err() == nil {
			p.deps.Logger.Warn("a generation of a billing journal could not be closed yet", "error", err)
		}
		wait.For(ctx, every)
	}
}

// replicas of each journal. The embedded server is a single one.
func (p *process) replicas() int {
	if p.journal != nil {
		return 1
	}
	return p.cfg.Replicas
}

// rememberJournals checks that the billing journals have lost no message, and records the existing streams.
func (p *process) rememberJournals(ctx context.Context, nc *nats.Conn) error {
	err := p.eachBillingJournal(ctx, nc, func(name string, state journal.State) error {
		if state.Messages != state.Last+1-state.First {
			return fmt.Errorf("%s holds %d messages from %d to %d: %w", name, state.Messages, state.First, state.Last, errIncomplete)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.recordStreams(ctx, nc)
}

// checkArchive returns errIncomplete unless the archive has the messages that the billing journals no longer have. It lists all segments,
// of which there are more with each day, so it runs beside the work. What is kept of interrupted deletions is deleted then.
func (p *process) checkArchive(ctx context.Context, blobs blob.Store) error {
	nc, err := p.dial("standalone")
	if err != nil {
		return err
	}
	defer nc.Close()
	for retry := (wait.Backoff{Initial: time.Second, Max: time.Minute}); ; {
		err := p.eachBillingJournal(ctx, nc, func(name string, state journal.State) error {
			err := archived.Has(ctx, blobs, name, state.First-1)
			if errors.Is(err, segment.ErrGap) {
				err = errors.Join(fmt.Errorf("%s begins with message %d: %w", name, state.First, errIncomplete), err)
			}
			return err
		})
		switch {
		case err == nil:
			return os.RemoveAll(p.folder.Deleted())
		case errors.Is(err, errIncomplete):
			return err
		case ctx.Err() != nil:
			return nil
		}
		p.deps.Logger.Warn("the archive of the billing journals could not be checked yet", "error", err)
		retry.Wait(ctx)
	}
}

// eachBillingJournal calls do with the state of each billing journal that has had a message.
func (p *process) eachBillingJournal(ctx context.Context, nc *nats.Conn, do func(name string, state journal.State) error) error {
	for partition := range p.cfg.Partitions {
		name := event.Billing.Stream(partition)
		state, err := journal.Open(nc, name).State(ctx)
		if err != nil {
			return fmt.Errorf("look at %s: %w", name, err)
		}
		if state.Last == 0 {
			continue
		}
		if err := do(name, state); err != nil {
			return err
		}
	}
	return nil
}

// recordStreams records the streams of all journals, so that the next start notices missing ones.
func (p *process) recordStreams(ctx context.Context, nc *nats.Conn) error {
	if p.journal == nil {
		return nil
	}
	var names []string
	for _, domain := range event.Domains() {
		for _, s := range installation.Streams(domain, p.cfg.Partitions) {
			streams, err := journal.Streams(ctx, nc, s)
			if err != nil {
				return fmt.Errorf("look at %s: %w", s.Name, err)
			}
			for _, one := range streams {
				names = append(names, one.Config.Name)
			}
		}
	}
	return p.folder.Record(names)
}

var errIncomplete = errors.New("the billing journal has lost messages; stop and restore the data folder from a backup, with `quire restore`")
