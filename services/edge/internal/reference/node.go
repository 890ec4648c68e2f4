package reference

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// node is a YAML node. The zero node is missing: it has no text, entries or items. Mappings keep their written order.
type node struct {
	*yaml.Node
	root *yaml.Node
}

// parse reads a YAML document.
func parse(source []byte) (node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(source, &doc); err != nil {
		return node{}, err
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return node{}, fmt.Errorf("the document is not a mapping")
	}
	return node{doc.Content[0], doc.Content[0]}, nil
}

func (n node) exists() bool { return n.Node != nil && n.Tag != "!!null" }

// get is the entry of a mapping, with references resolved.
func (n node) get(path ...string) node {
	for _, key := range path {
		n = n.child(key).follow()
	}
	return n
}

// child is the entry of a mapping, with references unresolved.
func (n node) child(key string) node {
	if n.Node != nil && n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return node{resolve(n.Content[i+1]), n.root}
			}
		}
	}
	return node{root: n.root}
}

func resolve(y *yaml.Node) *yaml.Node {
	if y.Kind == yaml.AliasNode {
		return y.Alias
	}
	return y
}

// maxReferences bounds a chain of references, which may be cyclic.
const maxReferences = 16

// follow resolves a reference within the document.
func (n node) follow() node {
	for range maxReferences {
		ref := n.ref()
		if ref == "" {
			return n
		}
		target := node{n.root, n.root}
		for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			target = target.child(strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~"))
		}
		n = target
	}
	return node{root: n.root}
}

// ref is the mapping's reference, "" if it is none.
func (n node) ref() string { return n.child("$ref").text() }

// refName is the last segment of the mapping's reference.
func (n node) refName() string {
	ref := n.ref()
	return ref[strings.LastIndex(ref, "/")+1:]
}

func (n node) text() string {
	if n.Node == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

func (n node) isTrue() bool { return n.text() == "true" }

// entries calls f with each entry of a mapping, without resolving references.
func (n node) entries(f func(key string, value node)) {
	if n.Node == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		f(n.Content[i].Value, node{resolve(n.Content[i+1]), n.root})
	}
}

// items are the items of a sequence, without resolving references.
func (n node) items() []node {
	if n.Node == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	out := make([]node, 0, len(n.Content))
	for _, item := range n.Content {
		out = append(out, node{resolve(item), n.root})
	}
	return out
}

// texts are the strings of a sequence, or of a scalar.
func (n node) texts() []string {
	if text := n.text(); text != "" {
		return []string{text}
	}
	var out []string
	for _, item := range n.items() {
		if item.Node.Tag == "!!null" {
			out = append(out, "null")
		} else {
			out = append(out, item.text())
		}
	}
	return out
}
