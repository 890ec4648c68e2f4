package render

import (
	"slices"
	"testing"
)

// Occupy takes a runner away until the function that it returns is called.
func Occupy(r *Renderer) (release func()) {
	taken := <-r.runners
	return func() { r.runners <- taken }
}

// Patterns is the number of patterns that a name which nobody knows is compared with.
func Patterns(l *Languages) int { return len(l.patterns) }

// MaxLanguageBytes bounds the name of a language.
const MaxLanguageBytes = maxLanguageBytes

// JobBytes is what a process has at least.
const JobBytes = jobBytes

// All has the name of each language that can be highlighted.
func (l *Languages) All() []string {
	var out []string
	for _, config := range l.called {
		if l.lexer(config.Name) != "" && !slices.Contains(out, config.Name) {
			out = append(out, config.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Kill kills the process of a Renderer with one, as the kernel does when the machine has no memory left.
func Kill(t *testing.T, r *Renderer) {
	t.Helper()
	taken := <-r.runners
	p := taken.(*process)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if state, err := p.cmd.Process.Wait(); err != nil {
		t.Fatal(state, err)
	}
	r.runners <- taken
}
