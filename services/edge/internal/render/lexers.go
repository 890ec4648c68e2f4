package render

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
)

// matchTimeout bounds one match of one rule: 50 ms of the default deadline. chroma's default is 250 ms. The regexp clock ticks every
// 100 ms.
func matchTimeout(deadline time.Duration) time.Duration { return deadline / 20 }

// lexerSet holds chroma's lexers with the deadline of one worker in their rules: chroma can't stop a lexer within a token,
// and some rules can loop without producing one. It is not safe for concurrent use.
type lexerSet struct {
	registry *chroma.LexerRegistry
}

func newLexerSet(check func(), match time.Duration) *lexerSet {
	set := &lexerSet{registry: chroma.NewLexerRegistry()}
	for _, lexer := range lexers.GlobalLexerRegistry.Lexers {
		if original := regexLexer(lexer); original != nil {
			set.registry.Register(guardLexer(*lexer.Config(), original, check, match))
		}
	}
	return set
}

// regexLexer unwraps a lexer to the regexp lexer that does its work. It is nil for a lexer that hides its parts; siblingOf
// has replacements for these.
func regexLexer(lexer chroma.Lexer) *chroma.RegexLexer {
	if l, ok := lexer.(*chroma.RegexLexer); ok {
		return l
	}
	v := reflect.Indirect(reflect.ValueOf(lexer))
	if v.Kind() != reflect.Struct {
		return nil
	}
	inner := v.FieldByName("Lexer")
	if !inner.IsValid() || !inner.CanInterface() {
		return nil
	}
	l, _ := inner.Interface().(*chroma.RegexLexer)
	return l
}

// siblingOf maps each lexer that can't be stopped to the nearest one that can.
func siblingOf(name string) string {
	switch name {
	case "Common Lisp", "EmacsLisp":
		return "Scheme"
	case "ERB", "PHTML", "Svelte":
		return "HTML"
	case "Go HTML Template":
		return "Go Text Template"
	case "YAML+Jinja":
		return "YAML"
	}
	return name
}

// guardLexer copies a lexer, calls check at each match of its rules, and bounds a match.
func guardLexer(config chroma.Config, original *chroma.RegexLexer, check func(), match time.Duration) chroma.Lexer {
	config.Filenames = slices.Clip(config.Filenames) // chroma appends to it
	return chroma.MustNewLexer(&config, func() chroma.Rules {
		rules := original.MustRules().Clone()
		for state := range rules {
			for i := range rules[state] {
				rule := &rules[state][i]
				if _, replaced := rule.Mutator.(chroma.LexerMutator); replaced && rule.Type == nil && rule.Pattern == "" {
					continue // an include
				}
				rule.Type = guardedEmitter(rule.Type, check)
			}
		}
		rules["root"] = slices.Insert(rules["root"], 0, chroma.Rule{Mutator: &shortTimeouts{match}})
		return rules
	})
}

func guardedEmitter(emit chroma.Emitter, check func()) chroma.Emitter {
	return chroma.EmitterFunc(func(groups []string, state *chroma.LexerState) chroma.Iterator {
		check()
		if emit == nil {
			return chroma.Literator()
		}
		return emit.Emit(groups, state)
	})
}

// shortTimeouts sets the time-out of all rules when a lexer is compiled, and takes its own rule out.
type shortTimeouts struct{ match time.Duration }

// Mutate is never reached.
func (*shortTimeouts) Mutate(*chroma.LexerState) error { return nil }

// MutateLexer implements chroma.LexerMutator.
func (s *shortTimeouts) MutateLexer(rules chroma.CompiledRules, state string, rule int) error {
	for _, list := range rules {
		for _, r := range list {
			if r.Regexp != nil {
				r.Regexp.MatchTimeout = s.match
			}
		}
	}
	rules[state] = slices.Delete(slices.Clone(rules[state]), rule, rule+1)
	return nil
}

// piece is a part of a line with one class, "" for none.
type piece struct {
	class, text string
	named       bool // characters shown with their code points
}

// tokens splits a text into lines of pieces, which together with the line ends make up the content. It panics with gaveUp at
// the deadline, whose clock starts once the lexer is compiled.
func (w *worker) tokens(lexer, content string, deadline time.Duration) ([][]piece, error) {
	tokens, err := w.lex(lexer, content)
	if err != nil {
		return nil, err
	}
	w.start(deadline)
	return splitTokens(tokens, content, w.check)
}

// lex compiles a lexer and starts a text. The lexer runs as its tokens are read.
func (w *worker) lex(lexer, content string) (chroma.Iterator, error) {
	if w.lexers == nil {
		w.lexers = newLexerSet(w.check, matchTimeout(w.limit))
	}
	l := w.lexers.registry.Get(lexer)
	if l == nil {
		return nil, fmt.Errorf("there is no lexer %q", lexer)
	}
	tokens, err := l.Tokenise(&chroma.TokeniseOptions{State: "root"}, content)
	if err != nil {
		return nil, fmt.Errorf("compile lexer %s: %w", lexer, err)
	}
	return tokens, nil
}

// errLost reports a lexer that lost or changed part of the text.
var errLost = errors.New("the lexer did not keep the text")

func splitTokens(tokens chroma.Iterator, content string, check func()) ([][]piece, error) {
	content = strings.TrimSuffix(content, "\n")
	lines := make([][]piece, 1, 1+strings.Count(content, "\n"))
	rest := content
	for t := tokens(); t != chroma.EOF; t = tokens() {
		check()
		value := t.Value
		if len(value) > len(rest) { // the line end that was cut off or added by the lexer
			if value[:len(rest)] != rest || strings.Trim(value[len(rest):], "\n") != "" {
				return nil, errLost
			}
			value = rest
		} else if rest[:len(value)] != value {
			return nil, errLost
		}
		rest = rest[len(value):]
		class := classOf(t.Type)
		for {
			part, after, more := strings.Cut(value, "\n")
			lines[len(lines)-1] = addPiece(lines[len(lines)-1], class, part)
			if !more {
				break
			}
			lines = append(lines, nil)
			value = after
		}
	}
	if rest != "" {
		return nil, errLost
	}
	return lines, nil
}

// addPiece appends to a line, extending its last piece if that has the same class.
func addPiece(line []piece, class, text string) []piece {
	if text == "" {
		return line
	}
	if n := len(line); n > 0 && line[n-1].class == class {
		line[n-1].text += text
		return line
	}
	return append(line, piece{class: class, text: text})
}

func appendPieces(to []byte, line []piece) []byte {
	for _, p := range line {
		appendText := appendVisible
		if p.named {
			appendText = appendCodePoints
		}
		if p.class == "" {
			to = appendText(to, p.text)
			continue
		}
		to = append(append(append(to, `<span class="`...), p.class...), `">`...)
		to = append(appendText(to, p.text), "</span>"...)
	}
	return to
}

// classOf is the CSS class of a token type, "" for types that look like plain text.
func classOf(t chroma.TokenType) string {
	switch t {
	case chroma.KeywordType, chroma.NameClass, chroma.NameException, chroma.NameNamespace:
		return "ht"
	case chroma.KeywordConstant, chroma.NameConstant, chroma.NameEntity, chroma.LiteralDate:
		return "hn"
	case chroma.NameFunction, chroma.NameFunctionMagic:
		return "hf"
	case chroma.NameBuiltin, chroma.NameBuiltinPseudo:
		return "hb"
	case chroma.NameTag, chroma.OperatorWord, chroma.OperatorReserved:
		return "hk"
	case chroma.NameAttribute, chroma.NameProperty:
		return "ha"
	case chroma.NameDecorator, chroma.NameLabel:
		return "hp"
	case chroma.NameVariable, chroma.NameVariableClass, chroma.NameVariableGlobal, chroma.NameVariableInstance, chroma.NameVariableMagic:
		return "hv"
	case chroma.StringEscape, chroma.StringInterpol, chroma.StringRegex:
		return "he"
	case chroma.GenericDeleted, chroma.GenericError, chroma.GenericTraceback:
		return "gd"
	case chroma.GenericInserted:
		return "gi"
	case chroma.GenericHeading, chroma.GenericSubheading, chroma.GenericStrong:
		return "gs"
	case chroma.GenericEmph:
		return "ge"
	case chroma.GenericPrompt:
		return "hc"
	}
	switch {
	case t.InCategory(chroma.Keyword):
		return "hk"
	case t.InSubCategory(chroma.String):
		return "hs"
	case t.InSubCategory(chroma.Number):
		return "hn"
	case t.InSubCategory(chroma.CommentPreproc):
		return "hp"
	case t.InCategory(chroma.Comment):
		return "hc"
	}
	return ""
}
