package load

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// shownFindings is how many of one sort are shown.
const shownFindings = 5

// findings are things that are wrong, by sort.
type findings struct {
	mu    sync.Mutex
	sorts map[string]*finding
}

type finding struct {
	count int
	shown []string
}

func (f *findings) note(sort, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sorts == nil {
		f.sorts = map[string]*finding{}
	}
	one := f.sorts[sort]
	if one == nil {
		one = &finding{}
		f.sorts[sort] = one
	}
	if one.count++; len(one.shown) < shownFindings {
		one.shown = append(one.shown, fmt.Sprintf(format, args...))
	}
}

// take is err, and forgets them.
func (f *findings) take() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.errLocked()
	f.sorts = nil
	return err
}

// err is all of them, nil if there are none.
func (f *findings) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errLocked()
}

func (f *findings) errLocked() error {
	var errs []error
	for _, sort := range slices.Sorted(maps.Keys(f.sorts)) {
		one := f.sorts[sort]
		for _, text := range one.shown {
			errs = append(errs, fmt.Errorf("%s: %s", sort, text))
		}
		if more := one.count - len(one.shown); more > 0 {
			errs = append(errs, fmt.Errorf("%s: and %d more", sort, more))
		}
	}
	return errors.Join(errs...)
}
