package render

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// DetectBytes is how much of a text its language is detected from.
const DetectBytes = 8 << 10

// languageOfContent is the language of a text by its beginning; "" if nothing speaks for one, as in prose. Its cost is linear:
// no pattern matches more than a line, and each line is compared with the few clues of its first character.
func languageOfContent(text string) string {
	head, whole := text, true
	if len(text) > DetectBytes {
		end := DetectBytes
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		head, whole = text[:end], false
	}
	head = strings.TrimSpace(withoutCR(withoutBOM(head)))
	if head == "" {
		return ""
	}
	lines := strings.Split(head, "\n")
	for _, form := range []func() string{
		func() string { return ofFirstLine(lines[0]) },
		func() string { return ofModeline(lines) },
		func() string { return ofJSON(head, whole) },
		func() string { return ofValues(lines, whole) },
		func() string { return ofClues(lines) },
		func() string { return ofSettings(lines) },
	} {
		if language := form(); language != "" {
			return language
		}
	}
	return ""
}

// ofFirstLine is the language that the first line declares.
func ofFirstLine(line string) string {
	if script, ok := strings.CutPrefix(line, "#!"); ok {
		return ofShebang(script)
	}
	lower := strings.ToLower(line)
	for _, is := range []struct{ prefix, language string }{
		{"<?php", "php"},
		{"<!doctype html", "html"},
		{"<html", "html"},
		{"<?xml", "xml"},
		{"<svg ", "xml"},
		{"<!doctype plist", "xml"},
		{"%yaml", "yaml"},
		{"\\documentclass", "latex"},
		{"\\begin{document}", "latex"},
		{"diff --git ", "diff"},
		{"syntax = \"proto", "protobuf"},
		{"-----begin ", "plaintext"},
		{"pragma solidity ", "solidity"},
	} {
		if strings.HasPrefix(lower, is.prefix) {
			return is.language
		}
	}
	return ""
}

// ofShebang returns the language of a shebang's interpreter: "/usr/bin/env -S python3.12 -u".
func ofShebang(line string) string {
	for i, word := range strings.Fields(line) {
		word = word[strings.LastIndexByte(word, '/')+1:]
		if word == "env" || strings.HasPrefix(word, "-") || strings.Contains(word, "=") && i > 0 {
			continue
		}
		switch strings.TrimRight(word, "0123456789.") {
		case "sh", "bash", "dash", "zsh", "ksh", "ash":
			return "bash"
		case "python", "pypy", "uv":
			return "python"
		case "node", "nodejs", "bun":
			return "javascript"
		case "deno", "ts-node", "tsx":
			return "typescript"
		case "Rscript":
			return "r"
		case "pwsh":
			return "powershell"
		case "php", "perl", "ruby", "lua", "fish", "awk", "make", "tclsh", "groovy", "julia", "elixir", "swift", "ocaml", "nix", "scala":
			return strings.Replace(strings.TrimRight(word, "0123456789."), "tclsh", "tcl", 1)
		}
		return ""
	}
	return ""
}

// ofModeline returns the language of an editor's modeline in one of the first lines: "vim: ft=go", "-*- mode: go -*-".
func ofModeline(lines []string) string {
	for _, line := range lines[:min(len(lines), 5)] {
		_, told, ok := strings.Cut(line, "-*-")
		if ok {
			told, _, ok = strings.Cut(told, "-*-")
			if _, mode, named := strings.Cut(strings.ToLower(told), "mode:"); named {
				told = mode
			} else if strings.Contains(told, ":") {
				continue // other variables
			}
		} else if _, told, ok = strings.Cut(line, "vim:"); ok {
			_, told, ok = strings.Cut(strings.ReplaceAll(told, "filetype=", "ft="), "ft=")
		}
		if name := strings.ToLower(firstWord(strings.TrimSpace(told))); ok && name != "" {
			if usual := map[string]string{"sh": "bash", "shell-script": "bash", "cperl": "perl", "js": "javascript", "conf": "", "text": "plaintext"}; usual[name] != "" {
				return usual[name]
			}
			return name
		}
	}
	return ""
}

// firstWord is the part of s before a character that no language has in its name.
func firstWord(s string) string {
	if end := strings.IndexAny(s, " \t;:,*/"); end >= 0 {
		return s[:end]
	}
	return s
}

// ofJSON recognizes a JSON object or array, or several, one after another as in NDJSON. A beginning of one must be valid as far
// as it goes.
func ofJSON(head string, whole bool) string {
	if head[0] != '{' && head[0] != '[' {
		return ""
	}
	d := json.NewDecoder(strings.NewReader(head))
	depth := 0
	for {
		token, err := d.Token()
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && depth == 0, !whole && d.InputOffset() > DetectBytes/2:
			return "json"
		default:
			return ""
		}
	}
}

// ofValues recognizes comma or tab-separated values: three lines or more with the same number of separators.
func ofValues(lines []string, whole bool) string {
	if !whole {
		lines = lines[:len(lines)-1] // it may be cut
	}
	if len(lines) < 3 {
		return ""
	}
	for _, form := range []struct {
		language, separator string
		least               int
	}{{"tsv", "\t", 1}, {"csv", ",", 2}} {
		columns := strings.Count(lines[0], form.separator)
		if columns < form.least || slices.ContainsFunc(strings.Split(lines[0], form.separator), notHeading) {
			continue
		}
		if !slices.ContainsFunc(lines, func(line string) bool { return separators(line, form.separator[0]) != columns }) {
			return form.language
		}
	}
	return ""
}

// notHeading reports whether a cell can't be the heading of a column.
func notHeading(cell string) bool {
	return cell == "" || len(cell) > 40 || cell[0] == ' ' || strings.ContainsAny(cell, "{}()=;<>")
}

// separators counts the separators outside of quotes.
func separators(line string, separator byte) (n int) {
	quoted := false
	for i := range len(line) {
		switch line[i] {
		case '"':
			quoted = !quoted
		case separator:
			if !quoted {
				n++
			}
		}
	}
	return n
}

const (
	enoughPoints = 4 // for a language
	oftenCounted = 3 // how often a clue counts
)

// ofClues adds up the clues in the lines. One language must lead.
func ofClues(lines []string) string {
	byFirst := cluesByFirst()
	points, seen := make(map[string]int), make(map[*clue]int)
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		for _, c := range byFirst[line[0]] {
			if seen[c] < oftenCounted && c.in(line) {
				seen[c]++
				points[c.language] += c.points
			}
		}
	}
	// What speaks for a language speaks for its extensions too, once something speaks for these.
	for _, family := range [][2]string{{"c++", "c"}, {"objective-c", "c"}, {"typescript", "javascript"}, {"svelte", "html"}} {
		if points[family[0]] > 0 {
			points[family[0]] += points[family[1]]
		}
	}
	best, second := "", 0
	for language, n := range points {
		switch {
		case best == "" || n > points[best]:
			best, second = language, points[best]
		case n > second:
			second = n
		}
	}
	if points[best] < enoughPoints || points[best] == second {
		return ""
	}
	return best
}

// ofSettings recognizes YAML, TOML and INI, which have no words of their own: nearly all lines must be settings.
func ofSettings(lines []string) string {
	var keys, nested, pairs, strong, sections, others int
	for _, line := range lines {
		trimmed := strings.TrimSpace(line)
		key, value, colon := strings.Cut(trimmed, ":")
		name, set, equals := strings.Cut(trimmed, "=")
		switch {
		case trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';':
		case trimmed[0] == '[' && trimmed[len(trimmed)-1] == ']':
			sections++
		case trimmed == "---" || strings.HasPrefix(trimmed, "- "):
			nested++
		case colon && isKey(key) && (value == "" || value[0] == ' '):
			if keys++; line != trimmed || value == "" {
				nested++
			}
		case equals && isKey(strings.TrimSpace(name)):
			pairs++
			if set = strings.TrimSpace(set); set != "" && strings.ContainsRune(`"'[{`, rune(set[0])) || set == "true" || set == "false" {
				strong++
			}
		default:
			others++
		}
	}
	switch {
	case others > (keys+nested+pairs)/10:
		return ""
	case keys >= 2 && nested >= 2 && pairs == 0:
		return "yaml"
	case sections > 0 && pairs >= 2 && keys == 0 && strong*2 >= pairs:
		return "toml"
	case sections > 0 && pairs >= 2 && keys == 0:
		return "ini"
	}
	return ""
}

// isKey reports whether s is the name of a setting, such as "api.version" or "QUIRE_DATA".
func isKey(s string) bool {
	if s == "" || len(s) > 60 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.', c == '/', c == '"':
		default:
			return false
		}
	}
	return true
}
