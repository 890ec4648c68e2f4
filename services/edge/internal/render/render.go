// Package render makes HTML of texts that strangers wrote: highlighted source, Markdown, tables of separated values and
// differences of two versions. It needs nothing but the text, so that any program could use it.
//
// Whatever it returns as HTML has elements and attributes of a short list, no script, no style, and no address that a
// browser loads by itself. Size, time and the number of texts at work are bounded: a text beyond a bound is shown plainly,
// and the result says so.
package render

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"runtime"
	"time"

	"github.com/maypok86/otter/v2"
)

// Config bounds a Renderer. Each field has a default.
type Config struct {
	// Command starts a process that calls Serve. The Renderer runs the libraries in such processes: one that hangs is killed,
	// and one that takes too much memory ends, and the caller never notices more than a plain text. Empty: the libraries run in
	// this process, where nothing but their own loops ends them. That is for texts of our own, and for tests.
	Command []string
	Bytes   int64        // that all renders together may allocate in those processes; DefaultBytes
	Logger  *slog.Logger // is told of processes that failed; nil: silent

	Concurrent int           // texts that are worked on at a time; half of the processors, 4 at most, each with jobBytes at least
	Wait       time.Duration // for a turn; 250 ms
	Deadline   time.Duration // of the work on one text; 1 s
	CacheBytes int           // of results; 32 MiB
}

// DefaultBytes is the default of Config.Bytes.
const DefaultBytes = 64 << 20

// jobBytes is what the largest texts within the bounds need, TestTheLargestTextsFitIntoAProcess.
const jobBytes = 64 << 20

func (cfg *Config) setDefaults() {
	cfg.Bytes = cmp.Or(cfg.Bytes, DefaultBytes)
	maxRunners := min(4, max(1, runtime.GOMAXPROCS(0)/2))
	if len(cfg.Command) > 0 {
		maxRunners = min(maxRunners, max(1, int(cfg.Bytes/jobBytes)))
	}
	cfg.Concurrent = cmp.Or(cfg.Concurrent, maxRunners)
	cfg.Wait = cmp.Or(cfg.Wait, 250*time.Millisecond)
	cfg.Deadline = cmp.Or(cfg.Deadline, time.Second)
	cfg.CacheBytes = cmp.Or(cfg.CacheBytes, 32<<20)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
}

// gaveUpFor is how long a text that took too long is not tried again.
const gaveUpFor = time.Minute

// Renderer renders texts. It is safe for concurrent use.
type Renderer struct {
	cfg     Config
	runners chan runner // those that are free
	cache   *otter.Cache[cacheKey, *result]
	seed    maphash.Seed
	forgets bool // results are not kept in cache

	languages *Languages
}

// New makes a Renderer.
func New(cfg Config) *Renderer {
	cfg.setDefaults()
	r := &Renderer{cfg: cfg, runners: make(chan runner, cfg.Concurrent), seed: maphash.MakeSeed(), languages: newLanguages()}
	for range cfg.Concurrent {
		if len(cfg.Command) > 0 {
			r.runners <- &process{command: cfg.Command, bytes: cfg.Bytes / int64(cfg.Concurrent), deadline: cfg.Deadline, log: cfg.Logger}
		} else {
			r.runners <- newWorker(r.languages)
		}
	}
	r.cache = otter.Must(&otter.Options[cacheKey, *result]{
		MaximumWeight: uint64(cfg.CacheBytes),
		Weigher:       func(_ cacheKey, found *result) uint32 { return uint32(found.Bytes) + cacheEntryBytes },
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[cacheKey, *result]) time.Duration {
			if e.Value.GaveUp {
				return gaveUpFor
			}
			return time.Hour
		}),
	})
	return r
}

// Close ends the processes of the Renderer, once they are free. It is called once, and nothing is rendered after it.
func (r *Renderer) Close() {
	for range r.cfg.Concurrent {
		(<-r.runners).close()
	}
}

// Uncached is a Renderer with the same processes that keeps no text and no result once it has returned it. It is for texts
// that must not outlive their reading.
func (r *Renderer) Uncached() *Renderer {
	out := *r
	out.forgets = true
	return &out
}

// Languages are those that the Renderer knows.
func (r *Renderer) Languages() *Languages { return r.languages }

const cacheEntryBytes = 256

// cacheKey names a result by what it was made of. Two hashes make a collision as unlikely as a fault of the memory, and
// the seed keeps anybody from looking for one.
type cacheKey struct {
	kind         byte
	first, other uint64
	bytes        int
}

// runner does one job at a time, to its deadline. It belongs to whoever took it out of Renderer.runners.
type runner interface {
	run(j *job, deadline time.Duration) *result
	close()
}

func (r *Renderer) key(j *job) cacheKey {
	k := cacheKey{kind: j.Kind}
	var first, other maphash.Hash
	first.SetSeed(r.seed)
	other.SetSeed(r.seed)
	other.WriteByte(j.Kind) // a different start, so that the hashes are independent
	for _, part := range [...]string{j.Lexer, j.Language, j.Text, j.After} {
		first.WriteString(part)
		first.WriteByte(0xff) // which UTF-8 doesn't have
		other.WriteString(part)
		other.WriteByte(0xfe)
		k.bytes += len(part)
	}
	k.first, k.other = first.Sum64(), other.Sum64()
	return k
}

// once returns the cached result of a job, or that of a free runner. It returns nil where none becomes free in time or the
// job is given up. A job is done to its end even if ctx ends.
func (r *Renderer) once(ctx context.Context, j *job) *result {
	key := r.key(j)
	if found, ok := r.cache.GetIfPresent(key); ok {
		return found.whole()
	}
	runner := r.take(ctx)
	if runner == nil {
		return nil
	}
	if found, ok := r.cache.GetIfPresent(key); ok { // somebody else's turn was the same text's
		r.runners <- runner
		return found.whole()
	}
	done := make(chan *result, 1)
	go func() {
		found := runner.run(j, r.cfg.Deadline)
		if !r.forgets || found.GaveUp { // the key of a text says nothing about it
			r.cache.Set(key, found)
		}
		r.runners <- runner
		done <- found
	}()
	late := time.NewTimer(2 * r.cfg.Deadline)
	defer late.Stop()
	select {
	case found := <-done:
		return found.whole()
	case <-late.C:
	case <-ctx.Done():
	}
	return nil
}

func (r *Renderer) take(ctx context.Context) runner {
	select {
	case free := <-r.runners:
		return free
	default:
	}
	wait := time.NewTimer(r.cfg.Wait)
	defer wait.Stop()
	select {
	case free := <-r.runners:
		return free
	case <-wait.C:
	case <-ctx.Done():
	}
	return nil
}
