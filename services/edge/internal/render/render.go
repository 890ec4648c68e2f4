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
	"runtime"
	"time"

	"github.com/maypok86/otter/v2"
)

// Config bounds a Renderer. Each field has a default.
type Config struct {
	Concurrent int           // texts that are worked on at a time; half of the processors, 4 at most
	Wait       time.Duration // for a turn; 250 ms
	Deadline   time.Duration // of the work on one text; 1 s
	CacheBytes int           // of results; 32 MiB
}

func (cfg *Config) setDefaults() {
	cfg.Concurrent = cmp.Or(cfg.Concurrent, min(4, max(1, runtime.GOMAXPROCS(0)/2)))
	cfg.Wait = cmp.Or(cfg.Wait, 250*time.Millisecond)
	cfg.Deadline = cmp.Or(cfg.Deadline, time.Second)
	cfg.CacheBytes = cmp.Or(cfg.CacheBytes, 32<<20)
}

// gaveUpFor is how long a text that took too long is not tried again.
const gaveUpFor = time.Minute

// Renderer renders texts. It is safe for concurrent use.
type Renderer struct {
	cfg     Config
	workers chan *worker // those that are free
	cache   *otter.Cache[cacheKey, *cached]
	seed    maphash.Seed
	forgets bool // results are not kept in cache

	languages *Languages
}

// New makes a Renderer.
func New(cfg Config) *Renderer {
	cfg.setDefaults()
	r := &Renderer{cfg: cfg, workers: make(chan *worker, cfg.Concurrent), seed: maphash.MakeSeed(), languages: newLanguages()}
	for range cfg.Concurrent {
		r.workers <- &worker{languages: r.languages}
	}
	r.cache = otter.Must(&otter.Options[cacheKey, *cached]{
		MaximumWeight: uint64(cfg.CacheBytes),
		Weigher:       func(_ cacheKey, c *cached) uint32 { return uint32(c.bytes) + cacheEntryBytes },
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[cacheKey, *cached]) time.Duration {
			if e.Value.gaveUp {
				return gaveUpFor
			}
			return time.Hour
		}),
	})
	return r
}

// Uncached is a Renderer with the same workers that keeps no text and no result once it has returned it. It is for texts
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

// cached is a result and its size. Exactly one of the fields is set, unless the work was given up.
type cached struct {
	lines    []string
	document *Document
	diff     *Diff
	bytes    int
	gaveUp   bool
}

func (r *Renderer) key(kind byte, parts ...string) cacheKey {
	k := cacheKey{kind: kind}
	var first, other maphash.Hash
	first.SetSeed(r.seed)
	other.SetSeed(r.seed)
	other.WriteByte(kind) // a different start, so that the hashes are independent
	for _, part := range parts {
		first.WriteString(part)
		first.WriteByte(0xff) // which UTF-8 doesn't have
		other.WriteString(part)
		other.WriteByte(0xfe)
		k.bytes += len(part)
	}
	k.first, k.other = first.Sum64(), other.Sum64()
	return k
}

// worker does the work on one text at a time. It belongs to whoever took it out of Renderer.workers.
type worker struct {
	languages *Languages
	lexers    *lexerSet // made when first needed
	deadline  time.Time
}

// gaveUp is the panic that ends work at its deadline. It leaves the libraries that have no other way out.
type gaveUp struct{}

// check panics with gaveUp once the deadline is over.
func (w *worker) check() {
	if time.Now().After(w.deadline) {
		panic(gaveUp{})
	}
}

// start begins the time of a piece of work.
func (w *worker) start(d time.Duration) { w.deadline = time.Now().Add(d) }

// once returns the cached result of key, or that of work, which a free worker runs. It returns nil where no worker becomes
// free in time or the work takes longer than the deadline allows. Work that does not look at the deadline often enough is
// left alone, and keeps its worker until it ends.
func (r *Renderer) once(ctx context.Context, key cacheKey, work func(*worker) *cached) *cached {
	if c, ok := r.cache.GetIfPresent(key); ok {
		return c.whole()
	}
	w := r.take(ctx)
	if w == nil {
		return nil
	}
	if c, ok := r.cache.GetIfPresent(key); ok { // somebody else's turn was the same text's
		r.workers <- w
		return c.whole()
	}
	done := make(chan *cached, 1)
	go func() {
		c := attempt(w, r.cfg.Deadline, work)
		if !r.forgets || c.gaveUp { // the key of a text says nothing about it
			r.cache.Set(key, c)
		}
		r.workers <- w
		done <- c
	}()
	late := time.NewTimer(2 * r.cfg.Deadline)
	defer late.Stop()
	select {
	case c := <-done:
		return c.whole()
	case <-late.C:
	case <-ctx.Done():
	}
	return nil
}

func (c *cached) whole() *cached {
	if c.gaveUp {
		return nil
	}
	return c
}

func (r *Renderer) take(ctx context.Context) *worker {
	select {
	case w := <-r.workers:
		return w
	default:
	}
	wait := time.NewTimer(r.cfg.Wait)
	defer wait.Stop()
	select {
	case w := <-r.workers:
		return w
	case <-wait.C:
	case <-ctx.Done():
	}
	return nil
}

// attempt is work, or a result that was given up where it panics: at its deadline, or because a library meets a text that
// it was not made for. Neither is worth more than a plain page.
func attempt(w *worker, deadline time.Duration, work func(*worker) *cached) (c *cached) {
	defer func() {
		if recover() != nil || c == nil {
			c = &cached{gaveUp: true}
		}
	}()
	w.start(deadline)
	return work(w)
}
