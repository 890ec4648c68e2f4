// Package backup copies an installation, while it works, to a folder or a bucket, and restores it.
//
// # What a copy contains
//
// The journals up to a cut, the read models as of a moment before the cut, and all blobs that a document named at the cut. A cut is a
// sequence for each journal, and consistent: every write up to it is whole, which means that its admission, its document and its
// settlement are all in the copy, or absent, so that nothing of it is charged. Everything acknowledged before the copy began is in it.
//
// The journals' ends, read one after another, are not consistent. A document's message may be before the end of its journal, and its
// admission after the end of billing's; it would come back uncharged. Or its settlement is before the end of billing's, and the document
// is not. So the ends are read twice. Between the two readings there was a moment, and what every journal had stored at that moment is
// consistent: an admission is stored before its document, and a document before its settlement. From the second ends on, journals
// are cut back until no message needs one beyond the cut (see cut). That never cuts more than the moment did.
//
// A write before the cut whose settlement is beyond it would be charged late or not at all, since an admission is refunded after two
// minutes. Its settlement follows in the live journal, decided from the same messages. It is copied, as the rest of billing's journal.
//
// # Read models and blobs
//
// A read model continues from its checkpoint, so it may be behind its journal, but not ahead. Document journals are copied from the
// checkpoint on. What no journal has, such as users, is read after the cut, since it is stored before what refers to it. Blobs are
// copied before, and those that documents name since the beginning once more, until none was deleted before it was copied. Snapshots
// of billing beyond the cut are left out.
//
// docs/formats/backup.md specifies what is written.
package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/archived"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
)

// Source is an installation to back up.
type Source struct {
	NC    *nats.Conn
	Blobs blob.Store // only read
	// Snapshot opens the read model of a service as of now.
	Snapshot    func(ctx context.Context, service event.Domain) (views.Snapshot, error)
	Collections func(service event.Domain) []views.Collection
	// Alone reports whether no journal has what is in a collection of billing.
	Alone   func(collection string) bool
	Folder  map[string][]byte // files of the data folder, by name
	Version string            // of quire
	// Progress, if not nil, is called by one goroutine at a time.
	Progress func(what string, done, total uint64)
}

// Errors to branch on with errors.Is.
var (
	// ErrDamaged: a part of the backup is missing or was changed.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrNone: there is no finished backup.
	ErrNone = errors.New("there is no finished backup")
	// ErrNotEmpty: the place to restore to has data.
	ErrNotEmpty = errors.New("is not empty")
)

const (
	// maxRounds bounds how often the cut is taken again, because a blob was deleted, or the user of an erased account, between two
	// steps.
	maxRounds = 50
	// asked is how many journals are asked, or their ends read, at a time.
	asked = 16
	// settleWait bounds the wait for a service to settle and project what is in its journal, without any progress.
	settleWait = 5 * time.Minute
	settlePoll = 100 * time.Millisecond
)

// Run backs up to a store that is empty or has an earlier backup of the same installation, finished or not. It copies only what
// the store does not have. An earlier finished backup stays valid until this one is.
func Run(ctx context.Context, from Source, to blob.Store) (*Manifest, error) {
	if from.Progress == nil {
		from.Progress = func(string, uint64, uint64) {}
	}
	w, err := open(ctx, from, to)
	if err != nil {
		return nil, err
	}
	if err := w.run(ctx); err != nil {
		return nil, errors.Join(err, w.save(context.WithoutCancel(ctx)))
	}
	return w.manifest, nil
}

// work is one run.
type work struct {
	from     Source
	to       *target
	manifest *Manifest
	name     string // its name, part of the keys of what it writes
	journals map[string]*journal.Journal
	streams  []stream
	blobs    *blobs

	followed map[string]uint64 // of document journals: up to where the blobs of their messages are copied
}

// stream is one journal.
type stream struct {
	name      string
	domain    event.Domain
	partition int
}

func streamsOf(partitions int, domains ...event.Domain) []stream {
	var list []stream
	for _, domain := range domains {
		for p := range partitions {
			list = append(list, stream{domain.Stream(p), domain, p})
		}
	}
	return list
}

func open(ctx context.Context, from Source, to blob.Store) (*work, error) {
	first := journal.Open(from.NC, event.Billing.Stream(0))
	metadata, err := first.Metadata(ctx)
	if err != nil {
		return nil, fmt.Errorf("look at the journals: %w", err)
	}
	partitions, err := journal.Partitions(metadata)
	if err != nil {
		return nil, fmt.Errorf("look at the journals: %w", err)
	}
	started := time.Now().UTC()
	w := &work{
		from: from, name: started.Format("20060102T150405") + "-" + strings.ToLower(rand.Text()[:6]),
		journals: map[string]*journal.Journal{}, streams: streamsOf(partitions, event.Domains()...), followed: map[string]uint64{},
		manifest: &Manifest{
			Format: format, Version: from.Version, Installation: metadata[journal.InstallationKey], Partitions: partitions, Started: started,
		},
	}
	older := archived.Of(from.NC, from.Blobs, partitions)
	for _, s := range w.streams {
		w.journals[s.name] = journal.Open(from.NC, s.name)
		if s.domain == event.Billing {
			w.journals[s.name] = w.journals[s.name].WithOlder(older)
		}
	}
	if w.to, err = openTarget(ctx, to); err != nil {
		return nil, err
	}
	if other := w.to.installation(); other != "" && other != w.manifest.Installation {
		return nil, fmt.Errorf("there is a backup of another installation (%s, not %s): choose another place", other, w.manifest.Installation)
	}
	w.blobs = newBlobs(from.Blobs, w.to)
	return w, nil
}

func (w *work) run(ctx context.Context) error {
	ends, err := w.ends(ctx, event.Documents()...)
	if err != nil {
		return err
	}
	w.followed = ends
	if err := w.copyBlobs(ctx); err != nil {
		return err
	}
	if err := w.copyBilling(ctx); err != nil {
		return err
	}
	m, err := w.moment(ctx)
	if err != nil {
		return err
	}
	defer m.close()
	if err := w.dumpModels(ctx, m); err != nil {
		return err
	}
	if err := w.blobs.copyAll(ctx, "exports/"); err != nil {
		return err
	}
	if err := w.copyDocuments(ctx, m); err != nil {
		return err
	}
	m.close() // a read model can't forget old versions of its rows before
	if err := w.finishBilling(ctx, m); err != nil {
		return err
	}
	if err := w.copySnapshots(ctx, m); err != nil {
		return err
	}
	if err := w.copyFolder(ctx); err != nil {
		return err
	}
	w.manifest.Cut, w.manifest.Ended = m.at, time.Now().UTC()
	return w.finish(ctx)
}

// eachStream calls do for the journals of some domains, several at a time.
func (w *work) eachStream(ctx context.Context, domains []event.Domain, do func(context.Context, stream) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(asked)
	for _, s := range streamsOf(w.manifest.Partitions, domains...) {
		group.Go(func() error { return do(ctx, s) })
	}
	return group.Wait()
}

// ends returns the last sequences of the journals of some domains.
func (w *work) ends(ctx context.Context, domains ...event.Domain) (map[string]uint64, error) {
	var mu sync.Mutex
	ends := map[string]uint64{}
	err := w.eachStream(ctx, domains, func(ctx context.Context, s stream) error {
		last, err := w.journals[s.name].LastSequence(ctx)
		mu.Lock()
		defer mu.Unlock()
		ends[s.name] = last
		return err
	})
	return ends, err
}

// moment is a cut of the journals, and the read models as of a moment before it.
type moment struct {
	at     time.Time // everything acknowledged before is in it
	cut    map[string]uint64
	models map[event.Domain]views.Snapshot
	// alone is billing's read model as of a moment after the cut, for the collections that no journal has. A user, say, is stored
	// before the account is created.
	alone views.Snapshot
	// checkpoints of models, by stream
	checkpoints map[event.Domain]map[string]uint64
}

// close closes the read models. It may be called again.
func (m *moment) close() {
	for _, s := range m.models {
		_ = s.Close() // nothing was written
	}
	if m.alone != nil {
		_ = m.alone.Close()
	}
	m.models, m.alone = nil, nil
}

// moment takes moments until none of what the cut needs was deleted before it was read.
func (w *work) moment(ctx context.Context) (*moment, error) {
	pause := wait.Backoff{Initial: 10 * time.Millisecond, Max: time.Second}
	for round := 1; ; round++ {
		m, whole, err := w.tryMoment(ctx)
		if err != nil || whole {
			return m, err
		}
		m.close()
		if !pause.Wait(ctx) {
			return nil, ctx.Err()
		}
		if round == maxRounds {
			return nil, errors.New("large contents or accounts are deleted faster than a backup can follow; try again")
		}
	}
}

func (w *work) tryMoment(ctx context.Context) (_ *moment, whole bool, err error) {
	m := &moment{at: time.Now().UTC(), models: map[event.Domain]views.Snapshot{}, checkpoints: map[event.Domain]map[string]uint64{}}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	// What was deleted before these are copied, was deleted before the cut.
	ends, err := w.ends(ctx, event.Documents()...)
	if err != nil {
		return nil, false, err
	}
	if _, err := w.followBlobs(ctx, ends); err != nil {
		return nil, false, err
	}
	if err := w.openModels(ctx, m); err != nil {
		return nil, false, err
	}
	lower, err := w.ends(ctx, event.Domains()...)
	if err != nil {
		return nil, false, err
	}
	if m.cut, err = w.ends(ctx, event.Domains()...); err != nil {
		return nil, false, err
	}
	if m.alone, err = w.from.Snapshot(ctx, event.Billing); err != nil {
		return nil, false, fmt.Errorf("open the read model of billing: %w", err)
	}
	gone, err := w.followBlobs(ctx, m.cut)
	if err != nil {
		return nil, false, err
	}
	t, err := w.readTails(ctx, lower, m.cut)
	if err != nil {
		return nil, false, err
	}
	cut(m.cut, t.needs)
	for name, sequence := range m.cut {
		if sequence < lower[name] { // a server that had been replaced has answered
			return m, false, nil
		}
	}
	for _, erased := range t.erased {
		if erased.at > m.cut[erased.stream] { // its user, who is the work to do, may be gone
			return m, false, nil
		}
	}
	needed, err := w.areNeeded(ctx, gone, m.cut)
	return m, !needed, err
}

func (w *work) openModels(ctx context.Context, m *moment) error {
	for _, service := range event.Domains() {
		s, err := w.from.Snapshot(ctx, service)
		if err != nil {
			return fmt.Errorf("open the read model of %s: %w", service, err)
		}
		m.models[service] = s
		if m.checkpoints[service], err = s.Checkpoints(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitSettled waits until a document service has settled and projected its journal up to a sequence.
func (w *work) awaitSettled(ctx context.Context, s stream, sequence uint64) error {
	var last uint64
	moved := time.Now()
	for {
		model, err := w.from.Snapshot(ctx, s.domain)
		if err != nil {
			return fmt.Errorf("open the read model of %s: %w", s.domain, err)
		}
		checkpoints, err := model.Checkpoints(ctx)
		checkpoint := checkpoints[s.name]
		if err := errors.Join(err, model.Close()); err != nil {
			return err
		}
		switch {
		case checkpoint >= sequence:
			return nil
		case checkpoint > last:
			last, moved = checkpoint, time.Now()
		case time.Since(moved) > settleWait:
			return fmt.Errorf("the read model of %s stays at message %d of %s; message %d is needed: is the service running?", s.domain, checkpoint, s.name, sequence)
		}
		w.from.Progress("waiting for "+s.name+" to be projected", checkpoint, sequence)
		if !wait.For(ctx, settlePoll) {
			return ctx.Err()
		}
	}
}
