package httperr

import (
	"strings"
	"unicode/utf8"
)

// suggest returns the known name that a client most likely meant, as "did you mean `content`?". It is empty if none is close.
func suggest(name string, known []string) string {
	if len(name) > 2*maxSuggested {
		return ""
	}
	wanted := strings.ToLower(name)
	best, least := "", maxEdits(wanted)+1
	for _, k := range known {
		if edits := editDistance(wanted, strings.ToLower(k)); edits < least {
			best, least = k, edits
		}
	}
	if best == "" {
		best = withPrefix(wanted, known)
	}
	if best == "" {
		return ""
	}
	return "did you mean `" + best + "`?"
}

const (
	maxSuggested = 32 // bytes of the longest suggested name
	minPrefix    = 3  // bytes of an abbreviation
)

// maxEdits is the largest number of typos in a name for which a suggestion makes sense.
func maxEdits(name string) int { return min(utf8.RuneCountInString(name)/3, 3) }

// withPrefix returns the first known name that is a prefix of name or has it as one, or "".
func withPrefix(name string, known []string) string {
	for _, k := range known {
		lower := strings.ToLower(k)
		if min(len(name), len(k)) >= minPrefix && (strings.HasPrefix(lower, name) || strings.HasPrefix(name, lower)) {
			return k
		}
	}
	return ""
}

// editDistance is the optimal string alignment distance: the number of letters to insert, delete, replace or swap with their
// neighbour to turn a into b.
func editDistance(a, b string) int {
	from, to := []rune(a), []rune(b)
	before, last := make([]int, len(to)+1), make([]int, len(to)+1)
	for j := range last {
		last[j] = j
	}
	for i := range from {
		row := make([]int, len(to)+1)
		row[0] = i + 1
		for j := range to {
			replaced := last[j]
			if from[i] != to[j] {
				replaced++
			}
			row[j+1] = min(replaced, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && from[i] == to[j-1] && from[i-1] == to[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(to)]
}
