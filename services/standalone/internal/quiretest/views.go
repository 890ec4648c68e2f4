package quiretest

import (
	"context"
	"errors"
	"sync/atomic"

	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
)

// Views makes read models fail or hang. With the zero value they work. Safe for concurrent use.
type Views struct {
	condition atomic.Int32
	changes   wait.Changes
}

const (
	works int32 = iota
	fails
	hangs
)

// Wrap returns the read model under the control of v.
func (v *Views) Wrap(s views.Store) views.Store { return &faulty{Store: s, views: v} }

// Work lets all calls continue, including hanging ones.
func (v *Views) Work() { v.set(works) }

// Fail makes calls fail immediately.
func (v *Views) Fail() { v.set(fails) }

// Hang makes calls wait for another condition or for the end of their context.
func (v *Views) Hang() { v.set(hangs) }

func (v *Views) set(condition int32) {
	v.condition.Store(condition)
	v.changes.Notify()
}

var errViews = errors.New("the read model fails for a test")

// await returns once calls do not hang, with an error if they fail.
func (v *Views) await(ctx context.Context) error {
	if err := v.changes.Until(ctx, func() bool { return v.condition.Load() != hangs }); err != nil {
		return err
	}
	if v.condition.Load() == fails {
		return views.Unavailable("test", errViews)
	}
	return nil
}

// faulty is a read model whose calls first await v.
type faulty struct {
	views.Store
	views *Views
}

func (f *faulty) Load(ctx context.Context, collection string, ids []string, parts views.Parts) ([]views.Doc, error) {
	if err := f.views.await(ctx); err != nil {
		return nil, err
	}
	return f.Store.Load(ctx, collection, ids, parts)
}

func (f *faulty) List(ctx context.Context, collection string, q views.Query) ([]views.Doc, error) {
	if err := f.views.await(ctx); err != nil {
		return nil, err
	}
	return f.Store.List(ctx, collection, q)
}

func (f *faulty) Commit(ctx context.Context, b views.Batch) error {
	if err := f.views.await(ctx); err != nil {
		return err
	}
	return f.Store.Commit(ctx, b)
}

func (f *faulty) Insert(ctx context.Context, collection string, d views.Doc) error {
	if err := f.views.await(ctx); err != nil {
		return err
	}
	return f.Store.Insert(ctx, collection, d)
}
