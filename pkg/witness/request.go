package witness

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	f_log "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	// maxBody bounds requests and responses. All proof lines need 3 KB, and the 16 signatures that notes may have at least
	// (https://c2sp.org/signed-note) 54 KB if they are of ML-DSA-44. Those of Ed25519 have 200 bytes each.
	maxBody = 64 << 10
	// maxProof: "The client MUST NOT send more than 63 consistency proof lines."
	maxProof = 63
	// maxSize bounds the sizes of trees: above it package tlog never terminates, since it doubles 1 until that is no longer less.
	maxSize = 1 << 62
)

// request is the body of a POST to add-checkpoint.
type request struct {
	old        int64
	proof      tlog.TreeProof
	checkpoint checkpoint
	note       []byte // the checkpoint with its signatures, which nobody has verified
}

// checkpoint is the text of a checkpoint. See https://c2sp.org/tlog-checkpoint.
type checkpoint struct {
	text   string
	origin string
	tree   tlog.Tree
}

// parseRequest parses "a sequence of an old size line, zero or more consistency proof lines, and an empty line, followed by a
// checkpoint". It verifies neither the proof nor signatures.
func parseRequest(body []byte) (request, error) {
	head, signed, found := bytes.Cut(body, []byte("\n\n"))
	if !found {
		return request{}, errors.New("no empty line before the checkpoint")
	}
	lines := strings.SplitN(string(head), "\n", maxProof+2)
	if len(lines) > maxProof+1 {
		return request{}, fmt.Errorf("more than %d proof lines", maxProof)
	}
	r := request{note: signed}
	size, found := strings.CutPrefix(lines[0], "old ")
	if !found {
		return request{}, errors.New(`the first line is not "old " and a size`)
	}
	var err error
	if r.old, err = parseSize(size); err != nil {
		return request{}, fmt.Errorf("old size: %w", err)
	}
	for i, line := range lines[1:] {
		hash, err := tlog.ParseHash(line)
		if err != nil || hash.String() != line {
			return request{}, fmt.Errorf("proof line %d is not the base64 of a hash", i+1)
		}
		r.proof = append(r.proof, hash)
	}
	r.checkpoint, err = parseNote(signed)
	return r, err
}

// formatRequest is the inverse of parseRequest.
func formatRequest(old int64, proof []tlog.Hash, signed []byte) []byte {
	body := fmt.Appendf(nil, "old %d\n", old)
	for _, hash := range proof {
		body = append(append(body, hash.String()...), '\n')
	}
	return append(append(body, '\n'), signed...)
}

// parseSize parses "an ASCII decimal with no leading zeroes (unless the size is zero)".
func parseSize(text string) (int64, error) {
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 0 || size > maxSize || strconv.FormatInt(size, 10) != text {
		return 0, fmt.Errorf("not a decimal number from 0 to %d", int64(maxSize))
	}
	return size, nil
}

// parseNote parses a checkpoint without verifying its signatures.
func parseNote(signed []byte) (checkpoint, error) {
	_, err := note.Open(signed, nil)
	var unverified *note.UnverifiedNoteError
	if !errors.As(err, &unverified) {
		return checkpoint{}, fmt.Errorf("checkpoint: %w", err)
	}
	return parseCheckpoint(unverified.Note.Text)
}

// parseCheckpoint parses the text of a note.
func parseCheckpoint(text string) (checkpoint, error) {
	var c f_log.Checkpoint
	extensions, err := c.Unmarshal([]byte(text))
	if err != nil {
		return checkpoint{}, fmt.Errorf("checkpoint: %w", err)
	}
	switch {
	// A size or root in another spelling: Unmarshal accepts leading zeroes and bits after the end of the base64.
	case !strings.HasPrefix(text, string(c.Marshal())):
		return checkpoint{}, errors.New("checkpoint: its size or root is not in canonical form")
	case len(c.Hash) != tlog.HashSize:
		return checkpoint{}, fmt.Errorf("checkpoint: its root has %d bytes, want %d", len(c.Hash), tlog.HashSize)
	case c.Size > maxSize:
		return checkpoint{}, fmt.Errorf("checkpoint: its size is above %d", int64(maxSize))
	// "Extension lines, if any, MUST be non-empty."
	case bytes.HasPrefix(extensions, []byte("\n")) || bytes.Contains(extensions, []byte("\n\n")):
		return checkpoint{}, errors.New("checkpoint: it has an empty line")
	}
	return checkpoint{text: text, origin: c.Origin, tree: tlog.Tree{N: int64(c.Size), Hash: tlog.Hash(c.Hash)}}, nil
}
