// Package export writes the messages of billing's journals to files, for programs that check bills without Quire. docs/journal.md,
// Exports, specifies the files.
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
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

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
}

// line is a message of a file.
type line struct {
	Sequence uint64 `json:"sequence,string"`
	Time     int64  `json:"time,string"` // Unix nanoseconds
	Subject  string `json:"subject"`
	Data     []byte `json:"data"`
}

// Run exports the journals up to their present ends to a folder that is empty or does not exist. It holds one message at a time and the
// buffers of the connection. The manifest is written last: a folder without it has no finished export.
func Run(ctx context.Context, nc *nats.Conn, folder string, o Options) (*Manifest, error) {
	metadata, err := journal.Open(nc, event.Billing.Stream(0)).Metadata(ctx)
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
	for p := range partitions {
		if o.Partition >= 0 && o.Partition != p {
			continue
		}
		one, err := exportJournal(ctx, nc, folder, p, o.Progress)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", event.Billing.Stream(p), err)
		}
		m.Journals = append(m.Journals, one)
	}
	m.Exported = time.Now().UTC().Truncate(time.Millisecond)
	return m, m.write(folder)
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

// exportJournal writes the file of one partition.
func exportJournal(ctx context.Context, nc *nats.Conn, folder string, partition int, progress func(string, uint64, uint64)) (of Journal, err error) {
	of = Journal{Stream: event.Billing.Stream(partition), Partition: partition}
	of.File = of.Stream + ".jsonl"
	file, err := os.OpenFile(filepath.Join(folder, of.File), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return of, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	j := journal.Open(nc, of.Stream)
	end, err := j.LastSequence(ctx)
	if err != nil {
		return of, err
	}
	out := newWriter(file, partition)
	err = j.Replay(ctx, 0, end, out.add, func(done, total uint64) { progress("exporting "+of.Stream, done, total) })
	if err != nil {
		return of, err
	}
	if err := out.buffer.Flush(); err != nil {
		return of, err
	}
	head := out.chain.Head()
	if head.Sequence != end {
		return of, fmt.Errorf("%w: %d of %d were read", journal.ErrTruncated, head.Sequence, end)
	}
	of.Messages, of.Bytes, of.SHA256, of.Chain = head.Sequence, out.bytes, hex.EncodeToString(out.sum.Sum(nil)), head.Chain
	return of, file.Sync()
}

// writer writes messages as lines.
type writer struct {
	buffer *bufio.Writer
	lines  *json.Encoder
	sum    hash.Hash
	bytes  int64
	chain  *billing.Chain
}

func newWriter(to io.Writer, partition int) *writer {
	w := &writer{buffer: bufio.NewWriterSize(to, bufferBytes), sum: sha256.New(), chain: billing.NewChain(partition)}
	w.lines = json.NewEncoder(w)
	return w
}

// Write implements io.Writer for the lines.
func (w *writer) Write(p []byte) (int, error) {
	w.sum.Write(p)
	n, err := w.buffer.Write(p)
	w.bytes += int64(n)
	return n, err
}

func (w *writer) add(m journal.Message) error {
	if err := w.chain.Add(m); err != nil {
		return err
	}
	return w.lines.Encode(line{Sequence: m.Sequence, Time: m.Time.UnixNano(), Subject: m.Subject, Data: m.Data})
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
