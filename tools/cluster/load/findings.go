package load

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// The kinds of findings that are noted in several places.
const (
	strangeAnswer = "answers that should not be"
	wrongCounts   = "wrong counts"
	wrongCharges  = "wrong charges"
	wrongLedger   = "wrong ledger"
	wrongStorage  = "wrong storage"

	wrongStatement = "wrong statement"
)

// shownFindings is how many findings of one kind an error shows.
const shownFindings = 5

// findings are the promises that Quire has broken, by kind. The zero value has none.
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

// take returns all findings as an error, or nil without any, and forgets them.
func (f *findings) take() error {
	f.mu.Lock()
	defer f.mu.Unlock()
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
	f.sorts = nil
	return errors.Join(errs...)
}
