// Package export writes the messages of billing's journals to files, and what billing shows of the accounts, for programs that check
// bills without Quire. docs/journal.md, Exports, specifies the files.
package export

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/archived"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/services/billing"
)

const (
	format       = 1
	manifestName = "manifest.json"
	bufferBytes  = 1 << 20
)

// Options are the options of Run.
type Options struct {
	Partition int    // the only one; below 0: all
	Version   string // of quire
	Books     bool   // with what billing shows of the accounts
	// Progress is called by one goroutine at a time.
	Progress func(what string, done, total uint64)
}

// Manifest describes a finished export.
type Manifest struct {
	Format       int       `json:"format"`
	Version      string    `json:"version"`
	Installation string    `json:"installation"`
	Partitions   int       `json:"partitions"` // of the installation
	Exported     time.Time `json:"exported"`
	Journals     []Journal `json:"journals"`
}

// Journal is the file of one journal. Its sequences begin at 1 without a gap.
type Journal struct {
	Stream    string `json:"stream"`
	Partition int    `json:"partition"`
	File      string `json:"file"`
	Messages  uint64 `json:"messages"` // the sequence of the last one
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
	Chain     string `json:"chain"` // after the last message
	Books     *Books `json:"books,omitempty"`
}

// line is a message of a file.
type line struct {
	Sequence uint64 `json:"sequence,string"`
	Time     int64  `json:"time,string"` // Unix nanoseconds
	Subject  string `json:"subject"`
	Data     []byte `json:"data"`
}

// Source is what is exported.
type Source struct {
	NC *nats.Conn
	// Blobs has the messages from before the first ones of the journals; nil: the journals must have them.
	Blobs blob.Store
	// ReadModel opens billing's read model as of now, for Options.Books.
	ReadModel func(context.Context) (ReadModel, error)
	// Stopped says that nothing writes the read model.
	Stopped bool
}

// Journal is the journal of a partition, with its archived messages.
func (s Source) Journal(partition, partitions int) *journal.Journal {
	j := journal.Open(s.NC, event.Billing.Stream(partition))
	if s.Blobs == nil {
		return j
	}
	return j.WithOlder(archived.Of(s.NC, s.Blobs, partitions))
}

// Run exports the journals up to their present ends to a folder that is empty or does not exist. It holds one message at a time and the
// buffers of the connection, and for books the state of the accounts. The manifest is written last: a folder without it has no finished
// export.
func Run(ctx context.Context, from Source, folder string, o Options) (*Manifest, error) {
	metadata, err := journal.Open(from.NC, event.Billing.Stream(0)).Metadata(ctx)
	if err != nil {
		return nil, err
	}
	partitions, err := journal.Partitions(metadata)
	if err != nil {
		return nil, err
	}
	if o.Partition >= partitions {
		return nil, fmt.Errorf("no partition %d: the installation has %d, from 0", o.Partition, partitions)
	}
	if err := makeEmpty(folder); err != nil {
		return nil, err
	}
	m := &Manifest{Format: format, Version: o.Version, Installation: metadata[journal.InstallationKey], Partitions: partitions}
	r := &run{Source: from, Options: o, folder: folder, partitions: partitions}
	if o.Books {
		r.books = billing.NewBooks(partitions)
	}
	for p := range partitions {
		if o.Partition >= 0 && o.Partition != p {
			continue
		}
		one, err := r.journal(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", event.Billing.Stream(p), err)
		}
		m.Journals = append(m.Journals, one)
	}
	if o.Books {
		if err := r.writeBooks(ctx, m.Journals); err != nil {
			return nil, err
		}
	}
	m.Exported = time.Now().UTC().Truncate(time.Millisecond)
	return m, m.write(folder)
}

// run is a call of Run.
type run struct {
	Source
	Options
	folder string
	// partitions of the installation
	partitions int
	books      *billing.Books // nil: none
}

func makeEmpty(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s has files, such as %s: choose an empty folder", folder, entries[0].Name())
	}
	return os.MkdirAll(folder, 0o700)
}

// journal writes the file of one partition.
func (r *run) journal(ctx context.Context, partition int) (of Journal, err error) {
	of = Journal{Stream: event.Billing.Stream(partition), Partition: partition}
	of.File = of.Stream + ".jsonl"
	file, err := create(r.folder, of.File)
	if err != nil {
		return of, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	j := r.Journal(partition, r.partitions)
	end, err := j.LastSequence(ctx)
	if err != nil {
		return of, err
	}
	add := func(journal.Message) error { return nil }
	if r.books != nil {
		r.books.Begin(partition)
		add = func(m journal.Message) error { return r.books.Add(partition, m) }
	}
	chain := billing.NewChain(partition)
	err = j.Replay(ctx, 0, end, func(m journal.Message) error {
		if err := chain.Add(m); err != nil {
			return err
		}
		if err := add(m); err != nil {
			return err
		}
		return file.lines.Encode(line{Sequence: m.Sequence, Time: m.Time.UnixNano(), Subject: m.Subject, Data: m.Data})
	}, func(done, total uint64) { r.Progress("exporting "+of.Stream, done, total) })
	if err != nil {
		return of, err
	}
	head := chain.Head()
	if head.Sequence != end {
		return of, fmt.Errorf("%w: %d of %d were read", journal.ErrTruncated, head.Sequence, end)
	}
	of.Messages, of.Chain = head.Sequence, head.Chain
	of.Bytes, of.SHA256, err = file.finish()
	return of, err
}

// output is a file of lines.
type output struct {
	*os.File
	lines  *json.Encoder
	buffer *bufio.Writer
	sum    hash.Hash
	bytes  int64
}

func create(folder, name string) (*output, error) {
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	o := &output{File: file, buffer: bufio.NewWriterSize(file, bufferBytes), sum: sha256.New()}
	o.lines = json.NewEncoder(o)
	return o, nil
}

// Write implements io.Writer for the lines.
func (o *output) Write(p []byte) (int, error) {
	o.sum.Write(p)
	n, err := o.buffer.Write(p)
	o.bytes += int64(n)
	return n, err
}

// finish has the lines on the disk, and returns the file's size and SHA-256 in hex.
func (o *output) finish() (size int64, sum string, err error) {
	if err := o.buffer.Flush(); err != nil {
		return 0, "", err
	}
	return o.bytes, hex.EncodeToString(o.sum.Sum(nil)), o.Sync()
}

// write writes the manifest whole, or not at all.
func (m *Manifest) write(folder string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	part := filepath.Join(folder, manifestName+".tmp")
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(data, '\n'))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(folder, manifestName))
}
