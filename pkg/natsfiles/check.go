package natsfiles

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrDamaged is wrapped by every error about missing or changed messages.
var ErrDamaged = errors.New("journal is damaged")

// Options are the expectations of a check.
type Options struct {
	// Expected names the streams that must exist.
	Expected []string
	// Clean means that the last shutdown was orderly, so that no record may be incomplete.
	Clean bool
	// Forever reports whether a stream keeps every message, from the first one of its description on. nil: no stream does.
	Forever func(stream string) bool
	// Gapless reports whether a stream loses messages only at its beginning. nil: only those that keep every message.
	Gapless func(stream string) bool
	// Also lists subjects that a stream's messages may have in addition to the described ones. nil: none.
	Also func(stream string) []string
	// Closed reports whether a stream with the subjects of its description takes no more messages. Its blocks that Check leaves are
	// never read. nil: no stream is closed.
	Closed func(stream string, subjects []string) bool
	// Continued names the stream that continues an expected one. While that stream is not closed, the other one may be missing. nil: none does.
	Continued func(stream string) string
	// AtOnce is the total size of blocks up to which Check reads them all. Above it, the blocks of gapless streams that the server
	// takes from its index are left to Report.CheckRest. 0: none is left.
	AtOnce int64
	// Budget bounds the time for reading records. Of the remaining, oldest blocks only the names are read, except the last block of
	// each stream and the first of one that keeps every message. 0: no bound.
	Budget time.Duration
	// Progress, if not nil, is called after each block with the bytes read so far and the bytes of all blocks.
	Progress func(done, total int64)
}

// Tail is an unacknowledged end of a stream's last file.
type Tail struct {
	File   string
	Offset int64 // end of the last complete record
	Bytes  int64
}

// Stream is the result for one stream.
type Stream struct {
	Name        string
	First, Last uint64 // sequences; both 0 if the stream is empty
	Torn        *Tail
}

// Report is the result of Check.
type Report struct {
	Streams []Stream
	Skipped int // blocks whose records were not read, because Options.Budget was used up

	checker    *checker
	plans      []*plan
	unfinished []string // folders of streams
	deleted    []string // likewise
	rest       []left
	indexes    []newIndex
}

// newIndex is an index to write on behalf of the server.
type newIndex struct {
	file string
	data []byte
}

// Check reads the streams below folder, which is the server's StoreDir. Errors about the content wrap ErrDamaged. Others come
// from the operating system or from ctx.
func Check(ctx context.Context, folder string, opts Options) (*Report, error) {
	opts.setDefaults()
	c := &checker{
		ctx: ctx, opts: opts, report: &Report{},
		described: map[string]description{}, undescribed: map[string]error{}, firsts: map[string]uint64{},
	}
	c.report.checker = c
	if opts.Budget > 0 {
		c.deadline = time.Now().Add(opts.Budget)
	}
	dirs, err := streamFolders(folder)
	if err != nil {
		return nil, err
	}
	plans := make([]*plan, 0, len(dirs))
	for _, dir := range dirs {
		p, err := c.plan(dir)
		if err != nil {
			return nil, err
		}
		if p != nil {
			plans = append(plans, p)
		}
	}
	for _, dir := range c.report.deleted {
		if name := filepath.Base(dir); !c.isContinued(name) {
			return nil, c.undescribed[name]
		}
	}
	for _, name := range opts.Expected {
		if !c.isThere(name) {
			if err := c.undescribed[name]; err != nil {
				return nil, err
			}
			return nil, damageError(filepath.Join(folder, "jetstream"), 0, "the journal %s is missing", name)
		}
	}
	c.report.plans = plans
	for _, p := range plans {
		s, err := c.stream(p)
		if err != nil {
			return nil, err
		}
		c.report.Streams = append(c.report.Streams, s)
	}
	return c.report, nil
}

// RemoveUnfinished removes the folders of streams that the server was creating when the process was killed, and returns them. They
// have no messages. The server leaves such a folder alone, and is unhealthy as long as it exists.
func (r *Report) RemoveUnfinished() ([]string, error) {
	for _, dir := range r.unfinished {
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	return r.unfinished, nil
}

// KeepDeleted moves the folders of streams that the server was deleting when the process was killed below folder, and returns where
// they are. By what is left, a stream whose description was lost looks the same, so they are for the caller to delete, once the
// messages are known to be elsewhere. The server would ignore such a folder until a stream of its name is created.
func (r *Report) KeepDeleted(folder string) ([]string, error) {
	var kept []string
	for _, dir := range r.deleted {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return kept, err
		}
		to, err := os.MkdirTemp(folder, filepath.Base(dir)+"-*")
		if err == nil {
			err = os.Rename(dir, filepath.Join(to, filepath.Base(dir)))
		}
		if err != nil {
			return kept, fmt.Errorf("keep %s: %w", dir, err)
		}
		kept = append(kept, to)
	}
	return kept, nil
}

func (o *Options) setDefaults() {
	never := func(string) bool { return false }
	if o.Forever == nil {
		o.Forever = never
	}
	if o.Gapless == nil {
		o.Gapless = never
	}
	if o.Also == nil {
		o.Also = func(string) []string { return nil }
	}
	if o.Closed == nil {
		o.Closed = func(string, []string) bool { return false }
	}
	if o.Continued == nil {
		o.Continued = func(string) string { return "" }
	}
}

// isThere reports whether an expected stream exists, or is continued.
func (c *checker) isThere(name string) bool {
	_, ok := c.described[name]
	return ok || c.isContinued(name)
}

func (c *checker) isContinued(name string) bool {
	next, ok := c.described[c.opts.Continued(name)]
	return ok && !next.closed
}

// streamFolders returns the folder of each stream, except those marked as deleted by the server.
func streamFolders(folder string) ([]string, error) {
	names, err := fs.Glob(os.DirFS(folder), "jetstream/*/streams/*")
	if err != nil {
		return nil, fmt.Errorf("look for streams: %w", err)
	}
	var dirs []string
	for _, name := range names {
		if dir := filepath.Join(folder, filepath.FromSlash(name)); !strings.HasPrefix(filepath.Base(dir), ".") {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

func damageError(file string, offset int64, format string, args ...any) error {
	return fmt.Errorf("%w: %s at byte %d: %s. Nothing was changed; restore the data folder from a backup, with `quire restore`: "+
		"the journal server would start on these files, and silently drop the part that it can't read",
		ErrDamaged, file, offset, fmt.Sprintf(format, args...))
}

func (p *plan) indexFile() string { return filepath.Join(p.dir, messagesFolder, indexFile) }

// plan lists the blocks of a stream.
type plan struct {
	name   string
	dir    string
	blocks []blockFile // in order
}

type checker struct {
	ctx         context.Context
	opts        Options
	report      *Report
	described   map[string]description // by stream
	undescribed map[string]error       // what is wrong with the descriptions of streams that have no plan
	firsts      map[string]uint64      // first messages of the streams that keep every message
	deadline    time.Time
	done        int64
	total       int64
	buf         []byte
}

// plan lists the blocks of a stream and checks its description. It is nil without a valid description if the process was killed while
// the server created the stream, which has no messages, or deleted it: the server removes the description first, and then renames the
// folder. A new generation may have one record by then, of a deleted message without a
// subject: it tells where the generation begins.
func (c *checker) plan(dir string) (*plan, error) {
	name := filepath.Base(dir)
	blocks, err := listBlocks(dir)
	if err != nil {
		return nil, err
	}
	var size int64
	for _, b := range blocks {
		size += b.Size
	}
	described, err := checkMeta(dir, name)
	switch {
	case err != nil && size <= headerBytes+checksumBytes:
		c.undescribed[name] = err
		c.report.unfinished = append(c.report.unfinished, dir)
		return nil, nil
	case err != nil && !exists(filepath.Join(dir, "meta.inf")) && exists(filepath.Join(dir, "meta.sum")):
		c.undescribed[name] = err
		c.report.deleted = append(c.report.deleted, dir)
		return nil, nil
	case err != nil:
		return nil, err
	}
	described.closed = c.opts.Closed(name, described.Subjects)
	if described.Subjects != nil {
		described.Subjects = append(described.Subjects, c.opts.Also(name)...)
	}
	c.described[name] = described
	c.total += size
	return &plan{name: name, dir: dir, blocks: blocks}, nil
}

// exists is false only if the file is known not to exist.
func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

// description is the part of a stream's configuration that Check uses.
type description struct {
	Subjects []string `json:"subjects"`  // of its messages; nil if some are given by a pattern
	First    uint64   `json:"first_seq"` // of its first message; 0: 1

	closed bool
}

// checkMeta verifies the checksum of the stream's description.
func checkMeta(dir, name string) (described description, err error) {
	file := filepath.Join(dir, "meta.inf")
	meta, err := os.ReadFile(file)
	if err != nil {
		return described, damageError(file, 0, "the description of journal %s can't be read: %v", name, err)
	}
	want, err := os.ReadFile(filepath.Join(dir, "meta.sum"))
	switch {
	case err != nil:
		return described, damageError(file, 0, "the checksum of the description can't be read: %v", err)
	case hex.EncodeToString(checksum(nameHash(name), meta)) != string(want):
		return described, damageError(file, 0, "the description of journal %s does not match its checksum", name)
	case json.Unmarshal(meta, &described) != nil:
		return described, damageError(file, 0, "the description of journal %s is not valid JSON", name)
	case slices.ContainsFunc(described.Subjects, func(s string) bool { return strings.ContainsAny(s, "*>") }):
		described.Subjects = nil
	}
	return described, nil
}

// stream reads the blocks, newest first, and then compares them with each other.
func (c *checker) stream(p *plan) (Stream, error) {
	s := Stream{Name: p.name}
	known := readIndex(p)
	spans := make([]span, len(p.blocks))
	leave := c.leave(p, known)
	if err := c.blocks(p, spans, leave, len(p.blocks), known); err != nil {
		return s, err
	}
	if leave > 0 && !c.opts.Clean {
		if renewed, ok := known.extend(p.blocks, spans); ok {
			c.report.indexes = append(c.report.indexes, newIndex{p.indexFile(), renewed.encode(p.name)})
		} else { // the server will read all
			if err := c.blocks(p, spans, 0, leave, known); err != nil {
				return s, err
			}
			leave = 0
		}
	}
	for i, b := range p.blocks[:leave] {
		x := known.blocks[i]
		spans[i] = span{first: x.first, last: x.last, top: x.last}
		if !c.described[p.name].closed {
			c.report.rest = append(c.report.rest, left{p.name, b, spans[i]})
		}
	}
	return s, c.join(&s, p, spans, known.last)
}

// leave returns how many of the oldest blocks are left to CheckRest.
func (c *checker) leave(p *plan, known index) int {
	last := len(known.blocks) - 1
	switch {
	case c.opts.AtOnce == 0 || c.total <= c.opts.AtOnce || !known.whole || !c.gapless(p.name):
		return 0
	case c.opts.Clean && known.isLast(p.blocks):
		return last
	case !c.opts.Clean && len(p.blocks) > last && known.describes(p.blocks, last):
		return last
	}
	return 0
}

// blocks reads the blocks in [from, to), newest first.
func (c *checker) blocks(p *plan, spans []span, from, to int, known index) error {
	begin := -1 // index of the block that must begin with the first message
	if c.opts.Forever(p.name) {
		begin = slices.IndexFunc(p.blocks, func(b blockFile) bool { return b.Size > 0 })
	}
	for i, b := range slices.Backward(p.blocks[from:to]) {
		i += from
		if err := c.ctx.Err(); err != nil {
			return err
		}
		last := i == len(p.blocks)-1
		if !c.deadline.IsZero() && time.Now().After(c.deadline) && !last && i != begin {
			spans[i].unread = true
			c.report.Skipped++
			continue
		}
		sp, err := c.block(p.name, b, last, known.endOf(b))
		if err != nil {
			return err
		}
		spans[i] = sp
		c.done += b.Size
		if c.opts.Progress != nil {
			c.opts.Progress(c.done, c.total)
		}
	}
	return nil
}

// join checks that the blocks of a stream are contiguous, and sets the result.
func (c *checker) join(s *Stream, p *plan, spans []span, indexed uint64) error {
	unread, skipped := false, false
	var top uint64
	for i, sp := range spans {
		if sp.torn != nil {
			s.Torn = sp.torn
		}
		if sp.unread {
			unread, skipped = true, true
			continue
		}
		top = max(top, sp.top)
		if sp.first == 0 {
			continue
		}
		if c.gapless(p.name) && s.Last > 0 && !unread && sp.first != s.Last+1 {
			return damageError(p.blocks[i].Path, 0, "journal %s goes from sequence %d to %d", p.name, s.Last, sp.first)
		}
		if s.First == 0 && !skipped {
			s.First = sp.first
		}
		s.Last, unread = sp.last, false
	}
	forever := c.opts.Forever(p.name)
	if first := c.described[p.name].First; forever && first > 0 {
		top = max(top, first-1) // of one that continues another one, without a message
	}
	// The number of the first block is meaningless: after a kill before the first message, the server begins another block at
	// its next start.
	if forever && (s.First > 0 || !skipped && top > 0) {
		first := s.First
		if first == 0 {
			first = top + 1 // it has no message left
		}
		if err := c.begins(p, spans, first); err != nil {
			return err
		}
	}
	// A fully purged journal may have no record left that names the last sequence.
	if top < indexed && (forever || top > 0) {
		return damageError(p.dir, 0, "journal %s ends at sequence %d, but had %d", p.name, s.Last, indexed)
	}
	return nil
}

// begins checks that a stream has lost none of its messages, from the first one of its description on.
func (c *checker) begins(p *plan, spans []span, first uint64) error {
	for i, sp := range spans {
		if sp.deleted >= first {
			return damageError(p.blocks[i].Path, sp.deletedAt, "message %d of journal %s was deleted", sp.deleted, p.name)
		}
	}
	c.firsts[p.name] = first
	if want := max(c.described[p.name].First, 1); first != want {
		return damageError(p.dir, 0, "journal %s does not begin with its first message, %d, but with %d", p.name, want, first)
	}
	return nil
}

func (c *checker) gapless(name string) bool { return c.opts.Gapless(name) || c.opts.Forever(name) }
