// Package witness cosigns the checkpoints of transparency logs, so that a log's operator can't show different histories to
// different people: a checkpoint is cosigned only if it continues the one cosigned before.
//
// Server is the witness, as specified by https://c2sp.org/tlog-witness, with Ed25519 cosignatures as specified by
// https://c2sp.org/tlog-cosignature. Its memory is a folder with its key and one file per log. Client asks a witness for the
// cosignature of a checkpoint, and is for the programs that write logs.
//
// A witness never reads a log's entries, and knows of its tree only sizes, roots and consistency proofs. A log that shows a
// second history has to do without the cosignature of each honest witness, so people who require one notice. Nothing protects
// them if the witness loses its memory: then it cosigns whatever it sees first.
package witness

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/mod/sumdb/note"
)

// Errors that Open and ReadKey wrap.
var (
	// ErrInUse: another process runs a witness on the folder.
	ErrInUse = errors.New("folder of the witness is in use")
	// ErrDamaged: a file of the folder is missing or isn't what the witness has written. Starting without it would forget what
	// was cosigned.
	ErrDamaged = errors.New("folder of the witness is damaged")
	// ErrNoKey: there is no witness in the folder.
	ErrNoKey = errors.New("no key of a witness")
)

// Config describes a witness.
type Config struct {
	// Folder is created if it's missing. One process can use it at a time.
	Folder string
	// Logs are the verifier keys of the logs, Ed25519 in the form of https://c2sp.org/signed-note. A log's origin is its key's
	// name. Two keys of one name belong to one log, such as while it changes its key.
	Logs []string
	// Name of the witness in its cosignatures. The first start needs it to create the key; later it is the key's name, and
	// anything but that or "" is refused.
	Name string

	Logger *slog.Logger // nil: silent
}

// verifiers reports all faults of a configuration at once. It returns the keys by origin.
func (c Config) verifiers() (map[string][]note.Verifier, error) {
	var faults []error
	if c.Folder == "" {
		faults = append(faults, errors.New("no folder"))
	}
	if len(c.Logs) == 0 {
		faults = append(faults, errors.New("no log: name the verifier key of one at least"))
	}
	keys := map[string][]note.Verifier{}
	for _, text := range c.Logs {
		v, err := note.NewVerifier(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("log key %q is not an Ed25519 verifier key (name+hash+base64): %w", text, err))
			continue
		}
		if slices.ContainsFunc(keys[v.Name()], func(other note.Verifier) bool { return other.KeyHash() == v.KeyHash() }) {
			faults = append(faults, fmt.Errorf("log key %q is named twice", text))
			continue
		}
		keys[v.Name()] = append(keys[v.Name()], v)
	}
	return keys, errors.Join(faults...)
}

// checkName reports whether a new witness may have the name. Besides what notes allow, a comma would end an entry of
// ParseWitnesses.
func checkName(name string) error {
	if name == "" {
		return errors.New("a new witness needs a name, such as witness.example/w1")
	}
	bad := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '+' || r == ',' || r == unicode.ReplacementChar
	}
	if len(name) > 200 || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("name %q: use up to 200 bytes without spaces, control characters, + and commas, such as witness.example/w1", name)
	}
	return nil
}
