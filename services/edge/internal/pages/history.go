package pages

import (
	"cmp"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/render"
)

// Versions is a page that lists the versions of a text, for its owner.
type Versions struct {
	Page    string            // path of the text's page
	List    []*event.Document // newest first, without their contents
	Newest  bool              // List begins with the current version
	Earlier string            // path of the next page; empty on the last
}

// Heading is the title of the newest version in the list.
func (v *Versions) Heading() string { return titleOf(v.List[0]) }

// First reports whether the version has no earlier one.
func (v *Versions) First(doc *event.Document) bool { return doc.Version <= 1 }

// Before is the number of the previous version.
func (v *Versions) Before(doc *event.Document) uint64 { return doc.Version - 1 }

func titleOf(doc *event.Document) string { return cmp.Or(strings.TrimSpace(doc.Title), "Untitled") }

// Versions shows the list of versions.
func (p *Pages) Versions(c *fiber.Ctx, v *Versions) error {
	return p.Render(c, &Page{
		Template: "versions", Title: "Versions of " + render.VisibleText(v.Heading()), Wide: true,
		Styles: []string{"document", "history"}, Scripts: []string{"times.js"}, Data: v,
	})
}

// Changes is a page that compares two versions of a text, for its owner.
type Changes struct {
	Page     string // path of the text's page
	From, To *event.Document
	Diff     *render.Diff // nil if a version is TooLarge or the comparison timed out
	TooLarge bool
	Split    bool   // the versions are side by side
	Tabs     []Link // the views; none in the response to a form
}

// Heading is the title of the later version.
func (v *Changes) Heading() string { return titleOf(v.To) }

// Lines is the maximum length of a version to compare.
func (v *Changes) Lines() int { return render.MaxLines }

// Size is the maximum size of a version to compare, in bytes.
func (v *Changes) Size() uint64 { return render.DiffBytes }

// Changes shows the comparison.
func (p *Pages) Changes(c *fiber.Ctx, v *Changes) error {
	return p.Render(c, &Page{
		Template: "changes", Title: "Changes to " + render.VisibleText(v.Heading()), Wide: true,
		Styles: []string{"document", "history"}, Scripts: []string{"times.js"}, Data: v,
	})
}
