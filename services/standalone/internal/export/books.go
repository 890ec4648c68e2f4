package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
	"quire.dev/services/billing"
)

// Books is the file of what billing shows of a partition's accounts, as of the last exported message.
type Books struct {
	File     string `json:"file"`
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256"`
	Lines    uint64 `json:"lines"`
	Sequence uint64 `json:"sequence,string"` // of that message
}

// ReadModel is billing's read model: a views.Store, or a moment of one.
type ReadModel interface {
	Checkpoint(ctx context.Context, stream string) (uint64, error)
	Load(ctx context.Context, collection string, ids []string, parts views.Parts) ([]views.Doc, error)
	List(ctx context.Context, collection string, q views.Query) ([]views.Doc, error)
	Close() error
}

const (
	initialPause = 100 * time.Millisecond
	maxPause     = 2 * time.Second
	// stalledTimeout is how long the read model may stand still before the export fails. Billing writes its checkpoint every few seconds.
	stalledTimeout = time.Minute
	progressEvery  = 1000 // accounts
)

// writeBooks writes the books of the journals that were exported.
func (r *run) writeBooks(ctx context.Context, journals []Journal) (err error) {
	model, err := r.await(ctx, journals)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, model.Close()) }()
	files := map[int]*output{}
	for i := range journals {
		j := &journals[i]
		j.Books = &Books{File: fmt.Sprintf("BOOKS_%d.jsonl", j.Partition), Sequence: j.Messages}
		file, err := create(r.folder, j.Books.File)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // on an error; later ones do nothing
		file.lines.SetEscapeHTML(false)
		files[j.Partition] = file
	}
	lines, done, total := map[int]uint64{}, uint64(0), num.Uint64(r.books.Accounts())
	from := billing.BookSource{Rows: model, Last: func(ctx context.Context, partition int) (uint64, error) {
		return journal.Open(r.NC, event.Billing.Stream(partition)).LastSequence(ctx)
	}}
	err = r.books.Write(ctx, from, func(l billing.BookLine) error {
		lines[l.Partition]++
		if l.Ends {
			if done++; done%progressEvery == 0 || done == total {
				r.Progress("exporting the books", done, total)
			}
		}
		return files[l.Partition].lines.Encode(l.Line)
	})
	if err != nil {
		return fmt.Errorf("books: %w", err)
	}
	for i := range journals {
		b, file := journals[i].Books, files[journals[i].Partition]
		b.Lines = lines[journals[i].Partition]
		if b.Bytes, b.SHA256, err = file.finish(); err == nil {
			err = file.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// await opens the read model once it has all exported messages.
func (r *run) await(ctx context.Context, journals []Journal) (ReadModel, error) {
	pause := wait.Backoff{Initial: initialPause, Max: maxPause}
	var last uint64 // sum of the checkpoints
	moved := time.Now()
	for {
		model, err := r.ReadModel(ctx)
		if err != nil {
			return nil, fmt.Errorf("open billing's read model: %w", err)
		}
		at, behind, err := lag(ctx, model, journals)
		if err == nil && behind == nil {
			return model, nil
		}
		if err := errors.Join(err, model.Close()); err != nil {
			return nil, err
		}
		switch {
		case r.Stopped:
			return nil, fmt.Errorf("%w. Start quire, which writes the rest, and export beside it or after stopping it", behind)
		case at != last:
			last, moved = at, time.Now()
		case time.Since(moved) > stalledTimeout:
			return nil, fmt.Errorf("%w, and has stood still for %v: is billing running? Its log and `quire doctor` say what keeps it", behind, stalledTimeout)
		}
		if !pause.Wait(ctx) {
			return nil, errors.Join(ctx.Err(), behind)
		}
	}
}

// lag returns the sum of the checkpoints, and which journal's messages the read model lacks.
func lag(ctx context.Context, model ReadModel, journals []Journal) (sum uint64, behind, err error) {
	for _, j := range journals {
		at, err := model.Checkpoint(ctx, j.Stream)
		if err != nil {
			return 0, nil, err
		}
		if sum += at; at < j.Messages {
			behind = fmt.Errorf("billing's read model has %d of the %d messages of %s", at, j.Messages, j.Stream)
		}
	}
	return sum, behind, nil
}
