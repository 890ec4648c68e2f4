// Package config reads settings from environment variables and reports everything that is wrong with them at once.
//
//	settings := config.New(os.Environ())
//	listen := settings.Address("QUIRE_LISTEN", "127.0.0.1:8080")
//	partitions := settings.Int("QUIRE_PARTITIONS", 1, config.Range[int]{Min: 1, Max: 256})
//	if err := settings.Err(); err != nil { … }
package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Prefix begins the name of every setting. A variable that begins so and that nobody reads is taken for a typo.
const Prefix = "QUIRE_"

// Reader reads settings. Its getters return the default where a setting is unset or empty, and something usable where
// it is wrong; Err then says so. A Reader is used by one goroutine.
type Reader struct {
	values map[string]string
	known  map[string]bool
	faults []error
}

// New returns a Reader of variables in the form of os.Environ, "NAME=value".
func New(environ []string) *Reader {
	r := &Reader{values: make(map[string]string, len(environ)), known: make(map[string]bool)}
	for _, variable := range environ {
		if name, value, ok := strings.Cut(variable, "="); ok {
			r.values[name] = value
		}
	}
	return r
}

// Known names settings that this process does not read but others that share its environment do.
func (r *Reader) Known(names ...string) {
	for _, name := range names {
		r.known[name] = true
	}
}

// Reject adds a fault that the caller found, such as two settings that exclude each other. Its allowed says what
// would be right: "only with QUIRE_DEV=1".
func (r *Reader) Reject(name, allowed string) { r.fault(name, allowed) }

// Err returns all faults in one error, and nil where there are none. It is called after the last getter, since what
// was not read until then is unknown.
func (r *Reader) Err() error {
	faults := slices.Concat(r.faults, r.unknown())
	switch len(faults) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("a setting is wrong: %w", faults[0])
	}
	return fmt.Errorf("%d settings are wrong:\n%w", len(faults), errors.Join(faults...))
}

// lookup gives the value of a setting. Empty is unset: Compose files and manifests pass empty variables on.
func (r *Reader) lookup(name string) (string, bool) {
	r.known[name] = true
	value := strings.TrimSpace(r.values[name])
	return value, value != ""
}

func (r *Reader) fault(name, allowed string) {
	value := r.values[name]
	switch {
	case value == "":
		r.faults = append(r.faults, fmt.Errorf("%s is not set: it must be %s", name, allowed))
	case IsSecretName(name):
		r.faults = append(r.faults, fmt.Errorf("%s (not shown): it must be %s", name, allowed))
	case !strings.Contains(value, "://"):
		// It may be a URL without its scheme, which Redact does not know.
		r.faults = append(r.faults, fmt.Errorf("%s=%q: it must be %s", name, hideUser(value), allowed))
	default:
		r.faults = append(r.faults, fmt.Errorf("%s=%q: it must be %s", name, Redact(value), allowed))
	}
}

func (r *Reader) unknown() []error {
	var names []string
	for name := range r.values {
		if strings.HasPrefix(name, Prefix) && !r.known[name] && !r.isServiceLink(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	faults := make([]error, 0, len(names))
	for _, name := range names {
		if near := r.nearest(name); near != "" {
			faults = append(faults, fmt.Errorf("%s is no setting: did you mean %s?", name, near))
		} else {
			faults = append(faults, fmt.Errorf("%s is no setting", name))
		}
	}
	return faults
}

// isServiceLink says whether Kubernetes made the variable: for a service "quire-edge" it sets QUIRE_EDGE_SERVICE_HOST,
// QUIRE_EDGE_PORT and more in every pod that does not forbid it.
func (r *Reader) isServiceLink(name string) bool {
	for _, infix := range []string{"_SERVICE_", "_PORT"} {
		// A service's own name may hold the infix too, so each place is tried.
		for at := range len(name) {
			if strings.HasPrefix(name[at:], infix) && r.values[name[:at]+"_SERVICE_HOST"] != "" {
				return true
			}
		}
	}
	return false
}

// nearest gives the known setting that name may be a typo of.
func (r *Reader) nearest(name string) string {
	best, distance := "", 1+(len(name)-len(Prefix))/3
	for candidate := range r.known {
		d := editDistance(name, candidate)
		if d < distance || d == distance && best != "" && candidate < best {
			best, distance = candidate, d
		}
	}
	return best
}

// editDistance counts the bytes to insert, delete or replace to make b of a (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
