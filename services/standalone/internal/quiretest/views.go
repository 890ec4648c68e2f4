package quiretest

import (
	"context"
	"errors"
	"sync"

	"quire.dev/pkg/views"
)

// Views makes read models fail or hang. The zero value lets them work.
type Views struct {
	mu        sync.Mutex
	condition condition
	changed   chan struct{} // closed with the next change; nil while nobody waits
}

type condition int

const (
	works condition = iota
	fails
	hangs
)

// Of is a read model in the condition of v.
func (v *Views) Of(s views.Store) views.Store { return &faulty{Store: s, of: v} }

// Work lets calls go on, also those that hang.
func (v *Views) Work() { v.set(works) }

// Fail has calls fail at once.
func (v *Views) Fail() { v.set(fails) }

// Hang has calls wait until they may go on or are given up.
func (v *Views) Hang() { v.set(hangs) }

func (v *Views) set(c condition) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.condition = c
	if v.changed != nil {
		close(v.changed)
		v.changed = nil
	}
}

var errViews = errors.New("the read model fails for a test")

// gate lets a call through or fails it, once the condition says which.
func (v *Views) gate(ctx context.Context) error {
	for {
		c, changed := v.now()
		switch c {
		case works:
			return nil
		case fails:
			return views.Unavailable("test", errViews)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (v *Views) now() (condition, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.changed == nil {
		v.changed = make(chan struct{})
	}
	return v.condition, v.changed
}

// faulty is a read model with a gate before each call.
type faulty struct {
	views.Store
	of *Views
}

func (f *faulty) Load(ctx context.Context, collection string, ids []string, parts views.Parts) ([]views.Doc, error) {
	if err := f.of.gate(ctx); err != nil {
		return nil, err
	}
	return f.Store.Load(ctx, collection, ids, parts)
}

func (f *faulty) List(ctx context.Context, collection string, q views.Query) ([]views.Doc, error) {
	if err := f.of.gate(ctx); err != nil {
		return nil, err
	}
	return f.Store.List(ctx, collection, q)
}

func (f *faulty) Commit(ctx context.Context, b views.Batch) error {
	if err := f.of.gate(ctx); err != nil {
		return err
	}
	return f.Store.Commit(ctx, b)
}

func (f *faulty) Insert(ctx context.Context, collection string, d views.Doc) error {
	if err := f.of.gate(ctx); err != nil {
		return err
	}
	return f.Store.Insert(ctx, collection, d)
}
