package reference

import (
	"encoding/json"
	"strings"

	"go.yaml.in/yaml/v3"
)

// appendJSON appends a value as JSON, in the document's order. An empty indent puts it on one line.
func appendJSON(out *strings.Builder, n node, indent, prefix string) {
	switch n.Kind {
	case yaml.MappingNode:
		appendList(out, "{", "}", len(n.Content)/2, indent, prefix, func(i int, deeper string) {
			out.WriteString(quote(n.Content[2*i].Value) + ": ")
			appendJSON(out, node{resolve(n.Content[2*i+1]), n.root}, indent, deeper)
		})
	case yaml.SequenceNode:
		if short := flat(n); len(short) <= maxFlat {
			indent = ""
		}
		appendList(out, "[", "]", len(n.Content), indent, prefix, func(i int, deeper string) {
			appendJSON(out, node{resolve(n.Content[i]), n.root}, indent, deeper)
		})
	default:
		switch n.Tag {
		case "!!null":
			out.WriteString("null")
		case "!!bool", "!!int", "!!float":
			out.WriteString(n.Value)
		default: // an unquoted time is a string too
			out.WriteString(quote(n.Value))
		}
	}
}

// maxFlat is the longest list or body that is written on one line, in bytes.
const maxFlat = 60

func flat(n node) string {
	for _, item := range n.items() {
		if item.Kind != yaml.ScalarNode {
			return strings.Repeat(" ", maxFlat+1)
		}
	}
	var out strings.Builder
	appendList(&out, "[", "]", len(n.Content), "", "", func(i int, _ string) {
		appendJSON(&out, node{resolve(n.Content[i]), n.root}, "", "")
	})
	return out.String()
}

func appendList(out *strings.Builder, first, last string, count int, indent, prefix string, item func(int, string)) {
	out.WriteString(first)
	for i := range count {
		if i > 0 {
			out.WriteByte(',')
		}
		switch {
		case indent != "":
			out.WriteString("\n" + prefix + indent)
		case i > 0:
			out.WriteByte(' ')
		}
		item(i, prefix+indent)
	}
	if indent != "" && count > 0 {
		out.WriteString("\n" + prefix)
	}
	out.WriteString(last)
}

func quote(s string) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // strings can always be encoded
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// json is the value as JSON over several lines.
func (n node) json() string {
	if n.Node == nil {
		return ""
	}
	var out strings.Builder
	appendJSON(&out, n, "  ", "")
	return out.String()
}

// inlineJSON is the value as JSON in one line.
func (n node) inlineJSON() string {
	if n.Node == nil {
		return ""
	}
	var out strings.Builder
	appendJSON(&out, n, "", "")
	return out.String()
}
