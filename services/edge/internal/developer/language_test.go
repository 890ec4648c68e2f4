package developer

import (
	"errors"
	"testing"

	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/render"
)

func TestAutoIsTheDetectedLanguage(t *testing.T) {
	s := &API{render: render.New(render.Config{})}
	program := []byte("package main\n\nfunc main() {\n}\n")
	auto := kind.AutoLanguage
	for _, test := range []struct {
		name, file     string
		language       *string
		title          *string
		content        []byte
		want           string
		refused, unset bool
	}{
		{name: "by the title", language: &auto, title: new("a.py"), content: program, want: "python"},
		{name: "by the file before the title", language: &auto, file: "a.rb", title: new("a.py"), content: program, want: "ruby"},
		{name: "by the content", language: &auto, title: new("My program"), content: program, want: "go"},
		{name: "unknown", language: &auto, content: []byte("hello"), want: "plaintext"},
		{name: "a language that is given", language: new("c"), title: new("a.py"), content: program, want: "c"},
		{name: "one that only looks like it", language: new("Auto"), title: new("a.py"), content: program, want: "Auto"},
		{name: "none is given", title: new("a.py"), content: program, unset: true},
		{name: "an update without content", language: &auto, title: new("a.py"), refused: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := &draft{text: test.content}
			d.Language, d.Title = test.language, test.title
			err := s.resolveLanguage(d, test.file)
			e, ok := errors.AsType[*httperr.Error](err)
			switch {
			case test.refused && (!ok || e.Field != "language"), !test.refused && err != nil:
				t.Fatal(err)
			case test.refused:
			case test.unset && d.Language != nil, !test.unset && *d.Language != test.want:
				t.Errorf("%v", d.Language)
			}
		})
	}
}

// TestNoLanguageIsDetectedUnlessItIsAskedFor holds what a create costs.
func TestNoLanguageIsDetectedUnlessItIsAskedFor(t *testing.T) {
	s := &API{} // that can't detect
	for _, language := range []*string{nil, new("go")} {
		d := &draft{text: []byte("x")}
		d.Language, d.Title = language, new("a.py")
		if n := testing.AllocsPerRun(10, func() {
			if err := s.resolveLanguage(d, ""); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
