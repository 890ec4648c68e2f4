// Package streamcheck reads the files of stored JetStream streams and tells whether they are whole.
//
// The journal server repairs what it finds when it starts: it cuts a block file at the first record
// that does not fit and goes on, and it leaves out a stream whose description it can't read. For a
// journal that money is counted by, that is silent loss. So the files are read before the server
// starts, and nothing is written. One thing only is in order: an incomplete record at the very end
// of the last block. It is what a killed process was writing, and was never acknowledged.
//
// The layout is that of nats-server 2.15 (server/filestore.go): <folder>/jetstream/<account>/streams/
// <stream>/{meta.inf,meta.sum,msgs/<n>.blk,msgs/index.db}.
package streamcheck

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/minio/highwayhash"
)

// ErrDamaged is wrapped by every error that says that stored messages are missing or changed.
var ErrDamaged = errors.New("journal is damaged")

// Options say what is expected.
type Options struct {
	// Expected streams must exist.
	Expected []string
	// Clean: the last stop was an orderly one, so that nothing may be torn.
	Clean bool
	// Forever tells streams that keep every message from the first.
	Forever func(stream string) bool
	// Gapless tells streams that lose messages at their beginning only.
	Gapless func(stream string) bool
	// Budget bounds the time spent on reading records; blocks left over, the oldest ones, are only
	// looked for. 0: no bound.
	Budget time.Duration
	// Progress, if set, is called after each block with the bytes read and the bytes there are.
	Progress func(done, total int64)
}

// Tail is an unacknowledged end of a stream's last file.
type Tail struct {
	File   string
	Offset int64 // where the last whole record ends
	Bytes  int64
}

// Stream is what was found of one.
type Stream struct {
	Name        string
	First, Last uint64 // sequences; both 0: empty
	Torn        *Tail
}

// Report is the result of Check.
type Report struct {
	Streams []Stream
	Skipped int // blocks whose records were not read for want of time
}

// Check reads the streams below folder, the server's StoreDir. Errors wrap ErrDamaged, or are the
// operating system's or ctx's.
func Check(ctx context.Context, folder string, opts Options) (*Report, error) {
	c := &checker{ctx: ctx, opts: opts, report: &Report{}}
	if opts.Budget > 0 {
		c.deadline = time.Now().Add(opts.Budget)
	}
	dirs, err := filepath.Glob(filepath.Join(folder, "jetstream", "*", "streams", "*"))
	if err != nil {
		return nil, fmt.Errorf("look for streams: %w", err)
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
	for _, name := range opts.Expected {
		if !slices.ContainsFunc(plans, func(p *plan) bool { return p.name == name }) {
			return nil, damaged(filepath.Join(folder, "jetstream"), 0, "the journal %s is gone", name)
		}
	}
	for _, p := range plans {
		s, err := c.stream(p)
		if err != nil {
			return nil, err
		}
		c.report.Streams = append(c.report.Streams, s)
	}
	return c.report, nil
}

func damaged(file string, offset int64, format string, args ...any) error {
	return fmt.Errorf("%w: %s at byte %d: %s. Nothing was changed; stop here and restore the data folder from a backup, "+
		"since starting the journal on these files would silently drop what can't be read",
		ErrDamaged, file, offset, fmt.Sprintf(format, args...))
}

// plan is what is to be read of one stream.
type plan struct {
	name   string
	dir    string
	blocks []block // by index
}

type block struct {
	index uint32
	file  string
	size  int64
}

type checker struct {
	ctx      context.Context
	opts     Options
	report   *Report
	deadline time.Time
	done     int64
	total    int64
	buf      []byte
}

// plan lists a stream's blocks and checks its description. nil: nothing was ever stored in it.
func (c *checker) plan(dir string) (*plan, error) {
	name := filepath.Base(dir)
	if strings.HasPrefix(name, ".") {
		return nil, nil // marked as deleted
	}
	p := &plan{name: name, dir: dir}
	messages, err := messageFolder(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(messages)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read stream %s: %w", name, err)
	}
	for _, e := range entries {
		number, isBlock := strings.CutSuffix(e.Name(), ".blk")
		index, err := strconv.ParseUint(number, 10, 32)
		if !isBlock || err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("read stream %s: %w", name, err)
		}
		p.blocks = append(p.blocks, block{index: uint32(index), file: filepath.Join(messages, e.Name()), size: info.Size()})
		c.total += info.Size()
	}
	slices.SortFunc(p.blocks, func(a, b block) int { return int(a.index) - int(b.index) })
	if err := checkMeta(dir, name); err != nil {
		if !slices.Contains(c.opts.Expected, name) && !slices.ContainsFunc(p.blocks, func(b block) bool { return b.size > 0 }) {
			return nil, nil // killed while the stream was made
		}
		return nil, err
	}
	return p, nil
}

// messageFolder is where the blocks are: a purge moves them by way of a second folder.
func messageFolder(dir string) (string, error) {
	fresh := filepath.Join(dir, "__new_msgs__")
	found, err := filepath.Glob(filepath.Join(fresh, "*.blk"))
	if err != nil {
		return "", fmt.Errorf("look for blocks: %w", err)
	}
	if len(found) > 0 {
		return fresh, nil
	}
	return filepath.Join(dir, "msgs"), nil
}

// checkMeta holds the stream's description to its checksum.
func checkMeta(dir, name string) error {
	file := filepath.Join(dir, "meta.inf")
	meta, err := os.ReadFile(file)
	if err != nil {
		return damaged(file, 0, "the description of journal %s can't be read: %v", name, err)
	}
	want, err := os.ReadFile(filepath.Join(dir, "meta.sum"))
	if err != nil {
		return damaged(file, 0, "the checksum of its description can't be read: %v", err)
	}
	if hex.EncodeToString(sum(newHash(name), meta)) != string(want) {
		return damaged(file, 0, "the description of journal %s does not match its checksum", name)
	}
	var config struct{ Compression string }
	if err := json.Unmarshal(meta, &config); err != nil {
		return damaged(file, 0, "the description of journal %s is no JSON: %v", name, err)
	}
	return nil
}

// stream reads the blocks, newest first, and then holds them to each other.
func (c *checker) stream(p *plan) (Stream, error) {
	s := Stream{Name: p.name}
	indexed, known := indexedLast(p)
	spans := make([]span, len(p.blocks))
	for i := len(p.blocks) - 1; i >= 0; i-- {
		if err := c.ctx.Err(); err != nil {
			return s, err
		}
		b := p.blocks[i]
		if !c.deadline.IsZero() && time.Now().After(c.deadline) && i < len(p.blocks)-1 {
			spans[i].unread = true
			c.report.Skipped++
			continue
		}
		sp, err := c.block(p.name, b, i == len(p.blocks)-1)
		if err != nil {
			return s, err
		}
		spans[i] = sp
		c.done += b.size
		if c.opts.Progress != nil {
			c.opts.Progress(c.done, c.total)
		}
	}
	return s, c.join(&s, p, spans, indexed, known)
}

// join puts the blocks' spans together.
func (c *checker) join(s *Stream, p *plan, spans []span, indexed uint64, known bool) error {
	unread := false
	var top uint64
	for i, sp := range spans {
		b := p.blocks[i]
		if sp.torn != nil {
			s.Torn = sp.torn
		}
		if sp.unread {
			unread = true
			continue
		}
		top = max(top, sp.top)
		if sp.first == 0 {
			continue
		}
		if c.gapless(p.name) && s.Last > 0 && !unread && sp.first != s.Last+1 {
			return damaged(b.file, 0, "journal %s goes from sequence %d to %d", p.name, s.Last, sp.first)
		}
		if s.First == 0 && !unread {
			s.First = sp.first
		}
		s.Last, unread = sp.last, false
	}
	forever := c.opts.Forever != nil && c.opts.Forever(p.name)
	if forever {
		if len(p.blocks) > 0 && p.blocks[0].index != 1 || s.First > 1 {
			return damaged(p.dir, 0, "journal %s does not begin with its first message", p.name)
		}
	}
	// A journal that was purged to its end may have no record left to say where that was.
	if known && top < indexed && (forever || top > 0) {
		return damaged(p.dir, 0, "journal %s ends at sequence %d, and had %d", p.name, s.Last, indexed)
	}
	return nil
}

func (c *checker) gapless(name string) bool {
	return c.opts.Gapless != nil && c.opts.Gapless(name) || c.opts.Forever != nil && c.opts.Forever(name)
}

// indexedLast reads the last sequence out of index.db, which the server writes when it stops and now
// and then. It is only a cache, so one that can't be read says nothing.
func indexedLast(p *plan) (uint64, bool) {
	data, err := os.ReadFile(filepath.Join(p.dir, "msgs", "index.db"))
	if err != nil || len(data) < 32 {
		return 0, false
	}
	body, want := data[:len(data)-checksumBytes], data[len(data)-checksumBytes:]
	if !bytes.Equal(sum(newHash(p.name), body), want) || body[0] != 11 {
		return 0, false
	}
	body = body[2:]
	for field := range 5 { // messages, bytes, first sequence, first time, last sequence
		v, n := binary.Uvarint(body)
		if n <= 0 {
			return 0, false
		}
		if field == 4 {
			return v, true
		}
		body = body[n:]
	}
	return 0, false
}

func newHash(name string) *highwayhash.Digest64 {
	key := sha256.Sum256([]byte(name))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic(err) // a key of 32 bytes is always taken
	}
	return h
}
