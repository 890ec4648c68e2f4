// Package terminal speaks to the person at a terminal: colours, widths, tables, bars and questions. It writes none of them
// where the output is no terminal.
package terminal

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// defaultWidth is the number of columns where the terminal does not tell it.
const defaultWidth = 80

// Terminal is the standard input, output and error of a program. It is used by one goroutine, but for Bar.
type Terminal struct {
	In  *os.File
	Out *os.File
	Err *os.File

	colour bool // the user has not forbidden it
	env    []string
}

// New is the terminal of a program with this environment, in the form of os.Environ.
func New(in, out, err *os.File, environ []string) *Terminal {
	t := &Terminal{In: in, Out: out, Err: err, env: environ}
	t.colour = t.Env("NO_COLOR") == "" && t.Env("TERM") != "dumb"
	return t
}

// Env is a variable of the environment; empty where it is unset.
func (t *Terminal) Env(name string) string {
	// The last one counts, as it does for os/exec.
	for _, variable := range slices.Backward(t.env) {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// Environ is the whole environment, for programs that are started.
func (t *Terminal) Environ() []string { return slices.Clone(t.env) }

// IsTerminal tells whether a file is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Interactive tells whether a person can be asked: they see the question, and can type the answer.
func (t *Terminal) Interactive() bool { return IsTerminal(t.In) && IsTerminal(t.Err) }

// Width is the number of columns of a file, at least 1; 80 for one that is no terminal.
func Width(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 1 {
		return defaultWidth
	}
	return width
}

// Colour is an attribute of text, as the number of an ANSI escape sequence.
type Colour string

// The colours that every terminal has, in the shades that its user has chosen.
const (
	Bold   Colour = "1"
	Dim    Colour = "2"
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
)

// Paint colours a text for a file, unless that is no terminal or NO_COLOR is set (https://no-color.org).
func (t *Terminal) Paint(f *os.File, c Colour, text string) string {
	if !t.colour || text == "" || !IsTerminal(f) {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Ask shows a question and returns the line that is typed, without its end. Its error is ctx's where ctx ends first, and
// io.EOF where the input ends.
func (t *Terminal) Ask(ctx context.Context, question string) (string, error) {
	if _, err := io.WriteString(t.Err, question); err != nil {
		return "", err
	}
	line, err := Await(ctx, t.readLine)
	if err != nil {
		_, _ = io.WriteString(t.Err, "\n") // the answer has not ended the line
		return "", err
	}
	return strings.TrimSpace(line), nil
}

// ErrInterrupted: the person has typed Ctrl-C, or Ctrl-D, in place of a secret.
var ErrInterrupted = errors.New("interrupted")

// AskSecret is Ask for an answer that is not shown while it is typed. The terminal shows typed text again afterwards, also
// where ctx ends.
func (t *Terminal) AskSecret(ctx context.Context, question string) (string, error) {
	fd := int(t.In.Fd())
	// Before the question is shown: who answers at once must not be seen either.
	before, err := term.MakeRaw(fd)
	if err != nil {
		return "", err
	}
	secret, err := Await(ctx, func() (string, error) {
		person := struct {
			io.Reader
			io.Writer
		}{t.In, t.Err}
		return term.NewTerminal(person, "").ReadPassword(question)
	})
	err = errors.Join(err, term.Restore(fd, before))
	if err != nil {
		_, _ = io.WriteString(t.Err, "\n") // the answer has not ended the line
	}
	if errors.Is(err, io.EOF) {
		err = ErrInterrupted // in this mode Ctrl-C is no signal, but the end of the input
	}
	return strings.TrimSpace(secret), err
}

// readLine reads byte by byte, so that nothing behind the line is taken from other readers.
func (t *Terminal) readLine() (string, error) {
	var line []byte
	var one [1]byte
	for {
		n, err := t.In.Read(one[:])
		switch {
		case n == 1 && one[0] == '\n':
			return string(line), nil
		case n == 1:
			line = append(line, one[0])
		case errors.Is(err, io.EOF) && len(line) > 0:
			return string(line), nil
		case err != nil:
			return "", err
		}
	}
}

// Await runs a read that nothing can interrupt, and does not wait for it once ctx has ended. The read is left behind then,
// which is right for a program that is about to end.
func Await[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		if ctx.Err() != nil {
			return r.value, ctx.Err()
		}
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
