package reference

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// entry is a search result.
type entry struct {
	Kind  string // operation, field, error, guide
	Title string
	Where string // what it belongs to
	URL   string
	Text  string
}

const (
	maxQueryRunes = 100
	maxResults    = 40
)

// results are the results on one page, best first.
type results struct {
	Title, URL string // of the page
	Entries    []entry
}

// byPage groups entries by the page that has them. The page of the best entry is first. An entry about a page itself is not
// repeated below its title.
func (s *Site) byPage(found []entry) []results {
	var out []results
	for _, e := range found {
		path, part, _ := strings.Cut(e.URL, "#")
		at := slices.IndexFunc(out, func(r results) bool { return r.URL == path })
		if at < 0 {
			at = len(out)
			out = append(out, results{Title: s.Page(path).Title, URL: path})
		}
		if part != "" {
			out[at].Entries = append(out[at].Entries, e)
		}
	}
	return out
}

// find returns the entries that contain every word of the query, best first.
func find(entries []entry, query string) []entry {
	if utf8.RuneCountInString(query) > maxQueryRunes {
		query = string([]rune(query)[:maxQueryRunes])
	}
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return nil
	}
	type scored struct {
		entry
		score int
	}
	var found []scored
	for _, e := range entries {
		if score := e.score(words); score > 0 {
			found = append(found, scored{e, score})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	out := make([]entry, 0, min(len(found), maxResults))
	seen := make(map[[2]string]bool) // an operation's query, body and response may share a field
	for _, f := range found {
		key := [2]string{f.Title, f.Where}
		if f.Kind == "field" && seen[key] {
			continue
		}
		seen[key] = true
		if out = append(out, f.entry); len(out) == maxResults {
			break
		}
	}
	return out
}

// score is 0 if a word is missing. An exact title counts most, a word in the text least.
func (e *entry) score(words []string) int {
	title, where, text := strings.ToLower(e.Title), strings.ToLower(e.Where), strings.ToLower(e.Text)
	total := 0
	for _, w := range words {
		switch {
		case title == w:
			total += 40
		case strings.HasPrefix(title, w):
			total += 20
		case strings.Contains(title, w):
			total += 12
		case strings.Contains(where, w):
			total += 5
		case strings.Contains(text, w):
			total += 2
		default:
			return 0
		}
	}
	if title == strings.Join(words, " ") {
		total += 40
	}
	switch e.Kind {
	case "operation":
		total += 3
	case "error", "guide":
		total += 2
	}
	return total
}
