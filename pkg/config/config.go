// Package config reads settings from environment variables and reports everything that is wrong with them at once.
//
//	r := config.New(os.Environ())
//	r.Read("QUIRE_LISTEN", "127.0.0.1:8080", config.Address(&listen))
//	r.Read("QUIRE_PARTITIONS", "1", config.Int(&partitions, 1, 256))
//	if err := r.Err(); err != nil { … }
package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Prefix begins the name of every setting. An unknown variable with this prefix is reported as a typo.
const Prefix = "QUIRE_"

// Reader reads settings. Not safe for concurrent use.
type Reader struct {
	values map[string]string
	known  map[string]bool
	faults []error
}

// New returns a Reader of variables in the form of os.Environ, "NAME=value".
func New(environ []string) *Reader {
	return &Reader{values: Variables(environ), known: make(map[string]bool)}
}

// Variables returns the values of variables in the form of os.Environ, by name. The last of several with a name counts.
func Variables(environ []string) map[string]string {
	values := make(map[string]string, len(environ))
	for _, variable := range environ {
		if name, value, ok := strings.Cut(variable, "="); ok {
			values[name] = value
		}
	}
	return values
}

// Read sets a value from a setting, or from the fallback if the setting is unset, empty or invalid; an empty fallback leaves
// the value unchanged. It reports whether the setting is set. Err reports an invalid one. An invalid fallback is a bug and
// panics.
func (r *Reader) Read(name, fallback string, value Value) (set bool) {
	r.Known(name)
	if fallback != "" && !value.set(fallback) {
		panic(fmt.Sprintf("default %q of %s: it must be %s", fallback, name, value.Allowed))
	}
	// Compose files and manifests pass empty variables on.
	text := strings.TrimSpace(r.values[name])
	if text != "" && !value.set(text) {
		r.fault(name, value.Allowed, value.secret)
	}
	return text != ""
}

// Known registers a setting that this program does not read but whose name may be in its environment. Its value is not checked.
func (r *Reader) Known(name string) { r.known[name] = true }

// Reject adds a fault found by the caller, such as two settings that exclude each other. allowed says what would be valid:
// "unset, or QUIRE_DEV=1 beside it".
func (r *Reader) Reject(name, allowed string) { r.fault(name, allowed, false) }

// Err returns all faults as one error, or nil. Call it after all calls of Read and Known: a variable not named until then is
// reported as a typo.
func (r *Reader) Err() error {
	faults := slices.Concat(r.faults, r.unknown())
	switch len(faults) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("invalid setting: %w", faults[0])
	}
	return fmt.Errorf("%d invalid settings:\n%w", len(faults), errors.Join(faults...))
}

func (r *Reader) fault(name, allowed string, secret bool) {
	value := r.values[name]
	text := fmt.Sprintf("%s=%q", name, withoutUser(value))
	switch {
	case value == "":
		text = name + " is not set"
	case secret || IsSecretName(name):
		text = name + " (not shown)"
	}
	r.faults = append(r.faults, fmt.Errorf("%s: it must be %s", text, allowed))
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
			faults = append(faults, fmt.Errorf("%s is not a setting: did you mean %s?", name, near))
		} else {
			faults = append(faults, fmt.Errorf("%s is not a setting", name))
		}
	}
	return faults
}

// isServiceLink reports whether Kubernetes set the variable: for a service "quire-edge" it sets QUIRE_EDGE_SERVICE_HOST,
// QUIRE_EDGE_PORT and more in every pod with service links enabled.
func (r *Reader) isServiceLink(name string) bool {
	for _, infix := range []string{"_SERVICE_", "_PORT"} {
		// A service's own name may contain the infix too, so try every position.
		for at := range len(name) {
			if strings.HasPrefix(name[at:], infix) && r.values[name[:at]+"_SERVICE_HOST"] != "" {
				return true
			}
		}
	}
	return false
}

// nearest returns the known setting that name may be a typo of.
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

// editDistance is the Levenshtein distance between a and b in bytes.
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
