package render

import (
	"html/template"
	"time"
)

// Kinds of jobs.
const (
	jobText     = 't'
	jobMarkdown = 'm'
	jobTable    = 'c'
	jobUnified  = 'u'
	jobSplit    = 's'
)

// job is the work on one text, or two, in a form that can be sent to another process.
type job struct {
	Kind        byte
	Lexer       string // of jobText
	Language    string // of a diff
	Text, After string // After is the second text of a diff
}

// result is the result of a job. Fields of other kinds of jobs are zero.
type result struct {
	Lines    []string
	Document *Document
	Table    *Table
	Diff     *Diff
	Bytes    int  // of the fields above, about
	GaveUp   bool // the job was abandoned
}

func (r *result) whole() *result {
	if r.GaveUp {
		return nil
	}
	return r
}

// worker runs jobs in this process. It is not safe for concurrent use.
type worker struct {
	languages *Languages
	limit     time.Duration // Config.Deadline, of which parts of a job have a share
	lexers    *lexerSet     // made when first needed
	deadline  time.Time
	started   func() // is called when the time of the job begins
	nodes     int    // of Markdown, so far
	cells     int    // of tables in Markdown, so far
}

func newWorker(l *Languages, limit time.Duration) *worker {
	return &worker{languages: l, limit: limit, started: func() {}}
}

// gaveUp is the panic value that ends work at a bound, since the libraries have no other way to stop.
type gaveUp struct{}

// check panics with gaveUp after the deadline.
func (w *worker) check() {
	if time.Now().After(w.deadline) {
		panic(gaveUp{})
	}
}

// count counts a node of Markdown. It panics with gaveUp beyond their bound.
func (w *worker) count() {
	if w.nodes++; w.nodes > markdownNodes {
		panic(gaveUp{})
	}
}

// start starts the clock of a piece of work.
func (w *worker) start(d time.Duration) { w.deadline = time.Now().Add(d) }

// run implements runner. It gives up if the work panics, at a bound or because of a bug in a library: the page is then
// plain.
func (w *worker) run(j *job, deadline time.Duration) (out *result) {
	defer func() {
		if recover() != nil || out == nil {
			out = &result{GaveUp: true}
		}
	}()
	if j.Kind == jobText {
		return w.text(j, deadline)
	}
	w.start(deadline)
	w.started()
	w.nodes, w.cells = 0, 0
	switch j.Kind {
	case jobMarkdown:
		html := w.markdown([]byte(j.Text))
		if len(html) > maxHTMLBytes {
			return nil
		}
		return &result{Document: &Document{HTML: template.HTML(html)}, Bytes: len(html)} //nolint:gosec // from an escaping renderer
	case jobTable:
		if table := w.table(j.Text); table != nil {
			return &result{Table: table, Bytes: len(table.HTML)}
		}
		return &result{}
	case jobUnified, jobSplit:
		diff := w.diff(j)
		return &result{Diff: diff, Bytes: len(diff.HTML)}
	}
	return nil
}

func (w *worker) close() {}

// text is the result of a jobText. Its clock starts once the lexer is compiled.
func (w *worker) text(j *job, deadline time.Duration) *result {
	tokens, err := w.lex(j.Lexer, j.Text)
	if err != nil {
		return nil
	}
	w.start(deadline)
	w.started()
	lines, err := splitTokens(tokens, j.Text, w.check)
	if err != nil {
		return nil
	}
	out := &result{Lines: joinLines(lines, appendPieces)}
	for _, line := range out.Lines {
		out.Bytes += len(line) + 16
	}
	return out
}
