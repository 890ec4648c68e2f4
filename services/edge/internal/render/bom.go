package render

import "strings"

// bom is the byte order mark that some programs write at the start of UTF-8 text. It is not part of the text.
const bom = "\uFEFF"

// withoutBOM strips the mark for views. Raw contents and downloads keep it.
func withoutBOM(text string) string { return strings.TrimPrefix(text, bom) }
