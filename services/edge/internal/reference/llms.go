package reference

import (
	"fmt"
	"regexp"
	"strings"
)

// Texts are the texts for language models by their paths: an index in the form of llms.txt, and everything in one text.
func (s *Site) Texts() map[string]string {
	return map[string]string{"/llms.txt": s.absolute(s.shortText()), "/llms-full.txt": s.absolute(s.fullText())}
}

// absolute turns the relative links of a text into absolute ones.
func (s *Site) absolute(text string) string {
	return regexp.MustCompile(`\]\(([^)\s]+)\)`).ReplaceAllStringFunc(text, func(link string) string {
		target := guideLink(link[2 : len(link)-1])
		if strings.HasPrefix(target, "/") {
			target = s.base + target
		}
		return "](" + target + ")"
	})
}

func (s *Site) shortText() string {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n\n> %s\n\n", s.document.Title, firstParagraph(s.document.Description))
	fmt.Fprintf(&out, "Server: %s. An API key is sent as `x-api-key`. All documentation in one text: %s/llms-full.txt\n", s.base, s.base)
	out.WriteString("\n## Guides\n\n")
	for _, g := range s.guides {
		fmt.Fprintf(&out, "- [%s](%s%s%s): %s\n", g.Title, s.base, guidesPath, g.Name, g.Summary)
	}
	out.WriteString("\n## Reference\n\n")
	fmt.Fprintf(&out, "- [OpenAPI document](%s/docs/openapi.yaml): every endpoint, field, limit and example\n", s.base)
	fmt.Fprintf(&out, "- [Errors](%s%s): every code with its cause and fix\n", s.base, errorsPath)
	for _, tag := range s.document.Tags {
		fmt.Fprintf(&out, "- [%s](%s%s%s): %s\n", heading1(tag.Name), s.base, apiPath, tag.Slug, firstParagraph(tag.Description))
	}
	out.WriteString("\n## Operations\n\n")
	for _, tag := range s.document.Tags {
		for i := range tag.Operations {
			op := &tag.Operations[i]
			fmt.Fprintf(&out, "- [%s %s](%s%s%s#%s): %s\n", op.Method, op.Path, s.base, apiPath, tag.Slug, op.ID, op.Summary)
		}
	}
	return out.String()
}

func (s *Site) fullText() string {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n\n%s\n", s.document.Title, strings.TrimSpace(s.document.Description))
	for _, g := range s.guides {
		out.WriteString("\n" + strings.TrimSpace(g.Source) + "\n")
	}
	for _, tag := range s.document.Tags {
		fmt.Fprintf(&out, "\n# Reference: %s\n", tag.Name)
		for i := range tag.Operations {
			writeOperation(&out, s.base, &tag.Operations[i])
		}
	}
	fmt.Fprintf(&out, "\n# Errors\n\n%s\n", s.errorsIntro)
	for _, f := range s.failures {
		fmt.Fprintf(&out, "\n## %s (%d)\n\nCause: %s\n\nFix: %s\n", f.Code, f.Status, f.Cause, f.Fix)
	}
	return out.String()
}

func writeOperation(out *strings.Builder, base string, op *Operation) {
	fmt.Fprintf(out, "\n## %s\n\n%s %s (%s)\n\n%s\n", op.Summary, op.Method, op.Path, op.ID, strings.TrimSpace(op.Description))
	if len(op.Parameters) > 0 {
		out.WriteString("\nParameters:\n\n")
	}
	for i := range op.Parameters {
		p := &op.Parameters[i]
		writeField(out, "", p.Name+" ("+p.In+")", &p.Schema, p.Required, p.Description)
	}
	if op.Body != nil {
		for i := range op.Body.Media {
			m := &op.Body.Media[i]
			fmt.Fprintf(out, "\nBody %s:\n\n", m.Type)
			writeFields(out, "", &m.Schema)
		}
	}
	fmt.Fprintf(out, "\n```bash\n%s\n```\n", SnippetsOf(base, op)[0].Text)
	for i := range op.Answers {
		a := &op.Answers[i]
		if !a.Success() {
			continue
		}
		fmt.Fprintf(out, "\nResponse %s: %s\n", a.Status, strings.TrimSpace(a.Description))
		for j := range a.Media {
			if m := &a.Media[j]; len(m.Examples) > 0 {
				fmt.Fprintf(out, "\n```\n%s\n```\n", strings.TrimSpace(m.Examples[0].Text))
			}
		}
	}
}

func writeFields(out *strings.Builder, indent string, s *Schema) {
	for i := range s.Fields {
		f := &s.Fields[i]
		writeField(out, indent, f.Name, &f.Schema, f.Required, f.Schema.Description)
		writeFields(out, indent+"  ", &f.Schema)
	}
}

func writeField(out *strings.Builder, indent, name string, s *Schema, required bool, description string) {
	facts := s.Type
	if required {
		facts += ", required"
	}
	for _, l := range s.limits() {
		facts += ", " + l
	}
	if len(s.Values) > 0 {
		facts += ", one of " + strings.Join(s.Values, " ")
	}
	if s.Default != "" {
		facts += ", default " + s.Default
	}
	fmt.Fprintf(out, "%s- `%s`: %s. %s\n", indent, name, facts, strings.Join(strings.Fields(description), " "))
}

func firstParagraph(text string) string {
	paragraph, _, _ := strings.Cut(strings.TrimSpace(text), "\n\n")
	return strings.Join(strings.Fields(paragraph), " ")
}
