package render

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
)

// Languages finds a language by one of its names, or by the name of a file. chroma's own search tries all of its patterns
// for a name that it does not know, with a dozen ends each; here they are sorted once. It is safe for concurrent use.
type Languages struct {
	called   map[string]*chroma.Config // by name and alias, in lower case
	files    map[string]*chroma.Config // by full file name: "Makefile"
	ends     map[string]*chroma.Config // by file name suffix: ".go"
	longest  int                       // of suffixes, in bytes
	patterns []pattern                 // all other patterns: "Dockerfile.*"
}

type pattern struct {
	glob   string
	config *chroma.Config
}

// maxLanguageBytes bounds the name of a language, and of a file whose language is looked up.
const maxLanguageBytes = 1 << 10

func newLanguages() *Languages {
	l := &Languages{
		called: make(map[string]*chroma.Config), files: make(map[string]*chroma.Config), ends: make(map[string]*chroma.Config),
	}
	for _, lexer := range lexers.GlobalLexerRegistry.Lexers {
		config := lexer.Config()
		for _, alias := range config.Aliases {
			l.called[strings.ToLower(alias)] = config
		}
		for _, glob := range config.Filenames {
			end, isEnd := strings.CutPrefix(glob, "*")
			switch {
			case strings.ContainsAny(end, "*?["):
				l.patterns = append(l.patterns, pattern{glob, config})
			case isEnd:
				l.ends[end] = better(l.ends[end], config)
			default:
				l.files[glob] = better(l.files[glob], config)
			}
		}
	}
	for _, lexer := range lexers.GlobalLexerRegistry.Lexers {
		l.called[strings.ToLower(lexer.Config().Name)] = lexer.Config()
	}
	l.called["tsv"] = tsv()
	l.ends[".tsv"] = tsv()
	for end, language := range usualEnds() {
		l.ends[end] = l.called[language]
	}
	for name, language := range usualFiles() {
		l.files[name] = l.called[language]
	}
	for end := range l.ends {
		l.longest = max(l.longest, len(end))
	}
	return l
}

// usualEnds are the languages of file name suffixes that chroma does not know, or that several of its languages claim without
// a rank. Those of rivals depend on the content too.
func usualEnds() map[string]string {
	return map[string]string{
		".fs": "fsharp", ".m": "objective-c", ".pp": "puppet", ".sql": "sql", ".xslt": "xml", ".v": "verilog",
		".ndjson": "json", ".jsonl": "json", ".geojson": "json", ".webmanifest": "json", ".ipynb": "json", ".har": "json",
		".plist": "xml", ".csproj": "xml", ".xaml": "xml", ".gradle": "groovy", ".mdx": "markdown",
		".gql": "graphql", ".less": "css", ".podspec": "ruby", ".cnf": "ini", ".log": "plaintext", ".pem": "plaintext", ".srt": "plaintext",
	}
}

// usualFiles are likewise the languages of whole file names.
func usualFiles() map[string]string {
	return map[string]string{
		"go.mod": "go", "go.work": "go", "go.sum": "plaintext", "Cargo.lock": "toml", "Jenkinsfile": "groovy", "Containerfile": "docker",
		"Podfile": "ruby", "Brewfile": "ruby", "Procfile": "yaml", "LICENSE": "plaintext", ".npmrc": "ini", ".prettierrc": "json", ".profile": "bash", ".gitconfig": "ini", ".gitmodules": "ini", ".editorconfig": "ini",
	}
}

// rivals are the languages that a content may give a file whose suffix usually means another.
func rivals(end string) []string {
	switch end {
	case ".v":
		return []string{"coq"}
	case ".h":
		return []string{"c++", "objective-c"}
	case ".m":
		return []string{"matlab"}
	case ".pl":
		return []string{"prolog"}
	case ".ts":
		return []string{"xml"} // translations of Qt
	}
	return nil
}

// tsv is a language without a lexer: tab-separated values are shown as a table.
func tsv() *chroma.Config {
	return &chroma.Config{Name: "TSV", Aliases: []string{"tsv"}, Filenames: []string{"*.tsv"}}
}

// better is the lexer with the higher priority, or the first in the alphabet, so that the choice is deterministic.
func better(a, b *chroma.Config) *chroma.Config {
	switch {
	case a == nil || priority(b) > priority(a):
		return b
	case priority(b) == priority(a) && strings.ToLower(b.Name) < strings.ToLower(a.Name):
		return b
	}
	return a
}

func priority(config *chroma.Config) float32 {
	if config.Priority == 0 {
		return 1 // chroma's default
	}
	return config.Priority
}

// find looks up a language by name, alias, file name or suffix; nil if unknown.
func (l *Languages) find(language string) *chroma.Config {
	if language == "" || len(language) > maxLanguageBytes {
		return nil
	}
	if config := l.called[strings.ToLower(language)]; config != nil {
		return config
	}
	if config := l.ofFile(language); config != nil {
		return config
	}
	return l.ofFile("." + language)
}

func (l *Languages) ofFile(name string) *chroma.Config {
	if len(name) > maxLanguageBytes {
		return nil
	}
	if config := l.files[name]; config != nil {
		return config
	}
	for i := max(0, len(name)-l.longest); i < len(name); i++ { // longest suffix first
		if name[i] != '.' {
			continue
		}
		if config := l.ends[name[i:]]; config != nil {
			return config
		}
		if config := l.ends[strings.ToLower(name[i:])]; config != nil {
			return config
		}
	}
	for _, p := range l.patterns {
		if matched, err := filepath.Match(p.glob, name); err == nil && matched {
			return p.config
		}
	}
	return nil
}

// known is find without plain text.
func (l *Languages) known(language string) *chroma.Config {
	switch strings.ToLower(language) {
	case "plaintext", "text", "txt", "plain", "none":
		return nil
	}
	config := l.find(language)
	if config == nil || config.Name == "plaintext" {
		return nil
	}
	return config
}

// lexer is the name of a language's lexer, "" for plain text and unknown languages.
func (l *Languages) lexer(language string) string {
	config := l.known(language)
	if config == nil || config.Name == tsv().Name {
		return ""
	}
	return siblingOf(config.Name)
}

// Name is the display name of a language, "" for plain text and unknown languages. language is as for Renderer.Text.
func (l *Languages) Name(language string) string {
	config := l.known(language)
	switch {
	case config == nil:
		return ""
	case config.Name == "markdown":
		return "Markdown"
	}
	return config.Name
}

// Detect returns the names of a text's language, in lower case, most usual first; nil if unknown. The name of its file
// decides, and its content if that is empty, unknown or shared by several languages. It reads no more than DetectBytes of the
// content, once.
func (l *Languages) Detect(file, content string) []string {
	config := l.ofFile(file)
	if config == nil {
		config = l.called[languageOfContent(content)]
	} else if others := rivals(strings.ToLower(filepath.Ext(file))); others != nil {
		if found := languageOfContent(content); slices.Contains(others, found) {
			config = l.called[found]
		}
	}
	if config == nil {
		return nil
	}
	return slices.Concat([]string{strings.ToLower(config.Name)}, config.Aliases)
}

// Extension is the usual file extension of a language, without the dot; "" if unknown.
func (l *Languages) Extension(language string) string {
	config := l.find(language)
	if config == nil {
		return ""
	}
	for _, glob := range config.Filenames {
		if end, ok := strings.CutPrefix(glob, "*."); ok && !strings.ContainsAny(end, "*?[") {
			return end
		}
	}
	return ""
}
