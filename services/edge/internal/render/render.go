// Package render renders untrusted text to HTML: highlighted source, Markdown, CSV tables and diffs. It knows nothing of
// Quire.
//
// The HTML uses a short list of elements and attributes, without scripts, styles or URLs that a browser loads by itself.
// Size, time and concurrency are bounded: a text beyond a bound is shown as plain text, and the result says so.
package render

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"runtime"
	"time"

	"github.com/maypok86/otter/v2"

	"quire.dev/pkg/num"
)

// Config bounds a Renderer. Each field has a default.
type Config struct {
	// Command starts a process that calls Serve. The Renderer runs the libraries in such processes: one that hangs is killed,
	// and one that takes too much memory ends, and the caller never notices more than a plain text. Empty: the libraries run in
	// this process, where nothing but their own loops ends them. That is for texts of our own, and for tests.
	Command []string
	Bytes   int64        // that all renders together may allocate in those processes; DefaultBytes
	Logger  *slog.Logger // logs failed processes; nil discards

	Concurrent int           // concurrent texts, each with jobBytes at least; half of the processors, at most 4
	Wait       time.Duration // for a turn; 250 ms
	Deadline   time.Duration // per text; 1 s
	CacheBytes int           // of results; 32 MiB
}

// DefaultBytes is the default of Config.Bytes.
const DefaultBytes = 64 << 20

// jobBytes is what the largest texts within the bounds need: see TestTheLargestTextsFitIntoAProcess.
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

// gaveUpFor is the time until a text that took too long is tried again.
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

// New returns a Renderer.
func New(cfg Config) *Renderer {
	cfg.setDefaults()
	r := &Renderer{cfg: cfg, runners: make(chan runner, cfg.Concurrent), seed: maphash.MakeSeed(), languages: newLanguages()}
	for range cfg.Concurrent {
		if len(cfg.Command) > 0 {
			r.runners <- &process{command: cfg.Command, bytes: cfg.Bytes / int64(cfg.Concurrent), deadline: cfg.Deadline, log: cfg.Logger}
		} else {
			r.runners <- newWorker(r.languages, cfg.Deadline)
		}
	}
	r.cache = otter.Must(&otter.Options[cacheKey, *result]{
		MaximumWeight: num.Uint64(cfg.CacheBytes),
		Weigher:       func(_ cacheKey, found *result) uint32 { return num.Uint32(found.Bytes) + cacheEntryBytes },
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[cacheKey, *result]) time.Duration {
			if e.Value.GaveUp {
				return gaveUpFor
			}
			return time.Hour
		}),
	})
	return r
}

// Close ends the processes once they are free. Call it once; nothing is rendered afterwards.
func (r *Renderer) Close() {
	for range r.cfg.Concurrent {
		(<-r.runners).close()
	}
}

// Uncached is a Renderer with the same processes and no cache, for texts that must not be kept after they are read.
func (r *Renderer) Uncached() *Renderer {
	out := *r
	out.forgets = true
	return &out
}

// Languages are the languages that the Renderer knows.
func (r *Renderer) Languages() *Languages { return r.languages }

const cacheEntryBytes = 256

// cacheKey identifies a result by its input. Two hashes make an accidental collision as unlikely as a memory fault, and the
// seed prevents deliberate ones.
type cacheKey struct {
	kind         byte
	first, other uint64
	bytes        int
}

// runner does one job at a time, until its deadline. It belongs to the goroutine that took it from Renderer.runners.
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
		first.WriteByte(0xff) // invalid in UTF-8
		other.WriteString(part)
		other.WriteByte(0xfe)
		k.bytes += len(part)
	}
	k.first, k.other = first.Sum64(), other.Sum64()
	return k
}

// once returns the cached result of a job, or runs it on a free runner. It returns nil if no runner becomes free in time or
// the job is abandoned. A started job is finished even if ctx ends.
func (r *Renderer) once(ctx context.Context, j *job) *result {
	key := r.key(j)
	if found, ok := r.cache.GetIfPresent(key); ok {
		return found.whole()
	}
	runner := r.take(ctx)
	if runner == nil {
		return nil
	}
	if found, ok := r.cache.GetIfPresent(key); ok { // another caller rendered the same text meanwhile
		r.runners <- runner
		return found.whole()
	}
	done := make(chan *result, 1)
	go func() {
		found := runner.run(j, r.cfg.Deadline)
		if !r.forgets || found.GaveUp { // the key reveals nothing about the text
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
