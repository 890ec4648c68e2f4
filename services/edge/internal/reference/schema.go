package reference

import (
	"fmt"
	"slices"
	"strings"
)

// Schema describes a value.
type Schema struct {
	Name        string // of the component; "" for an inline schema
	Type        string // in words, such as "string or null"
	Description string
	Limits      []string // in words, such as "1 to 200 characters"
	Values      []string // the values known today, as JSON
	Default     string   // as JSON; "" for none
	Example     string   // as JSON; "" for none
	Fields      []Field  // of an object
	Items       *Schema  // of a list
	Others      *Schema  // of an object with arbitrary names
	Variants    []Schema // of which one applies
}

// Field is a property of an object.
type Field struct {
	Name     string
	Required bool
	Schema   Schema
}

// maxDepth bounds the nesting of a schema, which may be recursive.
const maxDepth = 12

// schemaOf reads a schema.
func schemaOf(n node) Schema { return readSchema(n, 0) }

func readSchema(n node, depth int) Schema {
	var s Schema
	if n.ref() != "" {
		s.Name = n.refName()
		s.merge(readSchema(n.follow(), depth))
		if text := n.child("description").text(); text != "" {
			s.Description = text
		}
		return s
	}
	if depth > maxDepth {
		return s
	}
	types := n.child("type").texts()
	for _, kind := range []string{"allOf", "oneOf", "anyOf"} {
		for _, part := range n.child(kind).items() {
			sub := readSchema(part, depth+1)
			switch {
			case kind == "allOf":
				s.merge(sub)
			case sub.Type == "null":
				s.Type = orNull(s.Type) // of one variant or null remains the variant
			default:
				s.Variants = append(s.Variants, sub)
			}
		}
	}
	s.takeOnlyVariant()
	s.read(n, types, depth)
	return s
}

// takeOnlyVariant replaces a choice that has one variant by that variant.
func (s *Schema) takeOnlyVariant() {
	if len(s.Variants) != 1 {
		return
	}
	only, nullable := s.Variants[0], s.Type != ""
	s.Variants = nil
	s.merge(only)
	if nullable {
		s.Type = orNull(only.Type)
	}
}

// merge adds what another schema says.
func (s *Schema) merge(o Schema) {
	s.Name = firstOf(s.Name, o.Name)
	s.Type = firstOf(o.Type, s.Type)
	s.Description = firstOf(o.Description, s.Description)
	s.Default, s.Example = firstOf(o.Default, s.Default), firstOf(o.Example, s.Example)
	s.Limits, s.Fields, s.Variants = append(s.Limits, o.Limits...), append(s.Fields, o.Fields...), append(s.Variants, o.Variants...)
	if len(o.Values) > 0 {
		s.Values = o.Values
	}
	if o.Items != nil {
		s.Items = o.Items
	}
	if o.Others != nil {
		s.Others = o.Others
	}
}

// read takes the schema's own keywords, without the keywords of its parts.
func (s *Schema) read(n node, types []string, depth int) {
	s.Description = firstOf(n.child("description").text(), s.Description)
	if d := n.child("default"); d.Node != nil {
		s.Default = d.inlineJSON()
	}
	s.Example = firstOf(exampleOf(n), s.Example)
	for _, values := range []string{"enum", "x-extensible-enum"} { // the second may grow
		for _, value := range n.child(values).items() {
			s.Values = append(s.Values, value.inlineJSON())
		}
	}
	if c := n.child("const"); c.Node != nil {
		s.Values = []string{c.inlineJSON()}
	}
	if items := n.child("items"); items.exists() {
		item := readSchema(items, depth+1)
		s.Items = &item
	}
	if others := n.child("additionalProperties"); others.child("type").exists() || others.ref() != "" || others.child("oneOf").exists() {
		other := readSchema(others, depth+1)
		s.Others = &other
	}
	required := n.child("required").texts()
	n.child("properties").entries(func(name string, value node) {
		s.Fields = append(s.Fields, Field{Name: name, Required: slices.Contains(required, name), Schema: readSchema(value, depth+1)})
	})
	s.Limits = append(s.Limits, limitsOf(n)...)
	s.name(n, types)
}

// name puts the type into words.
func (s *Schema) name(n node, types []string) {
	var words []string
	for _, t := range types {
		switch {
		case t == "array" && s.Items != nil:
			words = append(words, "list of "+plural(s.Items.Type))
		case t == "string":
			words = append(words, stringOf(n))
		default:
			words = append(words, t)
		}
	}
	if len(words) == 0 && s.Type == "" {
		for _, v := range s.Variants {
			if v.Type != "" && !slices.Contains(words, v.Type) {
				words = append(words, v.Type)
			}
		}
	}
	if len(words) > 0 {
		s.Type = strings.Join(words, " or ")
	}
	if n.child("nullable").isTrue() {
		s.Type = orNull(s.Type)
	}
}

func orNull(kind string) string {
	switch {
	case kind == "":
		return "null"
	case kind == "null" || strings.HasSuffix(kind, " or null"):
		return kind
	}
	return kind + " or null"
}

func plural(kind string) string {
	switch {
	case kind == "":
		return "values"
	case strings.Contains(kind, " or ") || strings.HasSuffix(kind, "s"):
		return kind
	}
	return kind + "s"
}

// stringOf is the kind of a string.
func stringOf(n node) string {
	if n.child("contentEncoding").exists() || n.child("contentMediaType").text() == "application/octet-stream" {
		return "bytes"
	}
	switch n.child("format").text() {
	case "date-time":
		return "time"
	case "date":
		return "day"
	case "binary":
		return "bytes"
	case "uri", "uri-reference", "url":
		return "URL"
	}
	return "string"
}

// limitsOf puts the limits of a schema into words.
func limitsOf(n node) []string {
	var out []string
	for _, l := range []struct{ least, most, unit string }{
		{"minLength", "maxLength", "character"},
		{"minItems", "maxItems", "item"},
		{"minimum", "maximum", ""},
		{"exclusiveMinimum", "exclusiveMaximum", ""},
		{"minProperties", "maxProperties", "field"},
	} {
		if text := between(n.child(l.least).text(), n.child(l.most).text(), l.unit); text != "" {
			if strings.HasPrefix(l.least, "exclusive") {
				text += ", exclusive"
			}
			out = append(out, text)
		}
	}
	if n.child("uniqueItems").isTrue() {
		out = append(out, "unique items")
	}
	if pattern := n.child("pattern").text(); pattern != "" {
		out = append(out, "matches `"+pattern+"`")
	}
	return out
}

func between(least, most, unit string) string {
	least, most = groupDigits(least), groupDigits(most)
	of := func(n string) string {
		switch {
		case unit == "":
			return n
		case n == "1":
			return n + " " + unit
		}
		return n + " " + unit + "s"
	}
	switch {
	case least == "" && most == "":
		return ""
	case most == "":
		return "at least " + of(least)
	case least == "" || least == "0" && unit != "":
		return "at most " + of(most)
	case least == most:
		return of(least)
	}
	return fmt.Sprintf("%s to %s", least, of(most))
}

// groupDigits puts commas between the thousands of a whole number; other texts stay unchanged.
func groupDigits(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	if strings.Trim(digits, "0123456789") != "" {
		return sign + digits
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}

// exampleOf is the example of a schema or parameter as JSON.
func exampleOf(n node) string {
	if e := n.child("example"); e.Node != nil {
		return e.inlineJSON()
	}
	if list := n.child("examples").items(); len(list) > 0 {
		return list[0].inlineJSON()
	}
	return ""
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
