package render

import "strings"

// bom is the byte order mark that some programs write before a text in UTF-8. It is no part of what the text says.
const bom = "\uFEFF"

// withoutBOM is a text as views show it. Raw contents and downloads keep the mark.
func withoutBOM(text string) string { return strings.TrimPrefix(text, bom) }
