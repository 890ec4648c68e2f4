package console

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/render"
)

// ContentPage is the number of items on a page. The page stays light even with the longest titles and tags.
const ContentPage = 40

const (
	listedTitleChars = 80 // of a title in a list
	listedTags       = 3
)

// Kind is a kind of content in the console.
type Kind struct {
	*kind.Kind
	Heading string
	Path    string // of its list
	Size    string // maximum of an item, as shown
}

// Pastes are the console's pastes.
func Pastes() *Kind { return &Kind{kind.Pastes(), "Pastes", PastesPath, "4 MB"} }

// QuickPastes are the console's quick pastes.
func QuickPastes() *Kind { return &Kind{kind.QuickPastes(), "Quick pastes", QuickPath, "256 KB"} }

// Files are the console's files.
func Files() *Kind { return &Kind{kind.Files(), "Files", FilesPath, "50 MB"} }

// Tabs lead to the lists of the three kinds.
func (k *Kind) Tabs() (out []pages.Link) {
	for _, tab := range []*Kind{Pastes(), QuickPastes(), Files()} {
		out = append(out, pages.Link{Name: tab.Heading, Path: tab.Path, Current: tab.Path == k.Path})
	}
	return out
}

// Of is the path of an item's page in the console.
func (k *Kind) Of(id string) string { return k.Path + "/" + id }

// Named is an item's title, or "Untitled".
func Named(doc *event.Document) string {
	return render.VisibleText(cmp.Or(strings.TrimSpace(doc.GetTitle()), "Untitled"))
}

func named(doc *event.Document) string {
	title := []rune(Named(doc))
	if len(title) > listedTitleChars {
		return string(title[:listedTitleChars]) + "…"
	}
	return string(title)
}

func visibility(doc *event.Document) string { return event.Visibility(doc.GetVisibility()).String() }

func sum(doc *event.Document) string { return hex.EncodeToString(doc.GetContent().GetSha256()) }

// Contents is a list of an account's items.
type Contents struct {
	Holder Holder
	Kind   *Kind
	List   []*event.Document
	Filter *Form
	sent   bool   // the upload form was refused
	Next   string // cursor of the next page; empty on the last one
	Later  bool   // this is not the first page
	Upload *Form  // nil unless the items are files
	Meter  *Meter // of an upload
	Done   string
}

// Contents shows a list. status is fiber.StatusOK, or the error status of a refused form.
func (c *Console) Contents(ctx *fiber.Ctx, status int, l *Contents) error {
	p := page{template: "contents", title: l.Kind.Heading, section: PastesPath, done: l.Done, status: status, data: l, script: "content.js"}
	p.fetches, l.sent = l.Upload != nil, status != fiber.StatusOK
	return c.render(ctx, p)
}

// Open reports whether the list offers to upload a file. A refused form is shown again in any case.
func (l *Contents) Open() bool { return l.sent || !l.Meter.Blocked() }

// Filtered reports whether a filter is set.
func (l *Contents) Filtered() bool {
	for name, value := range l.Filter.Values {
		if value != "" && name != "order" {
			return true
		}
	}
	return false
}

// address is the list's address with its filters, which the ones in with override.
func (l *Contents) address(with map[string]string) string {
	q := url.Values{}
	for name, value := range l.Filter.Values {
		if value != "" && (name != "order" || value != "desc") {
			q.Set(name, value)
		}
	}
	for name, value := range with {
		q.Set(name, value)
	}
	if len(q) == 0 {
		return l.Kind.Path
	}
	return l.Kind.Path + "?" + q.Encode()
}

// NextPage is the address of the next page.
func (l *Contents) NextPage() string { return l.address(map[string]string{"cursor": l.Next}) }

// FirstPage is the address of the first page.
func (l *Contents) FirstPage() string { return l.address(nil) }

// Tagged is the address of the list of items with a tag.
func (l *Contents) Tagged(tag string) string {
	return l.Kind.Path + "?" + url.Values{"tag": {tag}}.Encode()
}

// Tags are the tags that fit a row.
func (l *Contents) Tags(doc *event.Document) []string {
	return doc.Tags[:min(len(doc.Tags), listedTags)]
}

// MoreTags is the number of tags that Tags leaves out.
func (l *Contents) MoreTags(doc *event.Document) int { return max(0, len(doc.Tags)-listedTags) }

// Filter is the search form of a list. Its fields are the query parameters of the API's lists.
func Filter(k *Kind) *Form {
	f := &Form{ID: "filter", Action: k.Path, Values: map[string]string{}, fields: []Field{
		{Name: "q", Label: "Title", Type: "search", Most: 255, Subject: "The title"},
		{Name: "tag", Label: "Tag", Type: "text", Most: 32, Subject: "The tag"},
		{Name: "language", Label: "Language", Type: "text", Most: 50, Subject: "The language"},
		{Name: "visibility", Label: "Visibility", Type: "select", Options: append([][2]string{{"", "All"}}, visibilities()...), Subject: "The visibility"},
		{Name: "order", Label: "Order", Type: "select", Options: [][2]string{{"desc", "Newest first"}, {"asc", "Oldest first"}}, Subject: "The order"},
	}}
	if !k.Text {
		f.fields[0].Label, f.fields = "Name", append(f.fields[:1], f.fields[3:]...)
	}
	return f
}

func visibilities() [][2]string {
	return [][2]string{{"unlisted", "Unlisted: anyone with the link"}, {"public", "Public"}, {"private", "Private: only you"}}
}

func expiries() [][2]string {
	return [][2]string{{"never", "Never"}, {"10m", "In 10 minutes"}, {"1h", "In 1 hour"}, {"1d", "In 1 day"}, {"7d", "In 7 days"}, {"30d", "In 30 days"}, {"1y", "In a year"}}
}

// KeyField holds the id of the API key that the form's request counts toward.
const KeyField = "key"

func chargedField() Field {
	return Field{Name: KeyField, Label: "API key", Hint: "The request counts toward this key.", Subject: "The key"}
}

// Choice is what a form can do, and what it costs.
type Choice struct {
	Kind   *Kind
	Label  string // of the button
	Action string // path the form is posted to
	Meter  *Meter
}

// OneText is a paste or quick paste with the form to create or edit it.
type OneText struct {
	Holder     Holder
	Home       []Choice // of the landing page, which offers both kinds; empty on the console's pages
	sent       bool     // the form was refused
	Kind       *Kind
	Document   *event.Document // nil for a new one
	Form       *Form
	Meter      *Meter
	Locked     bool // its content needs a password
	Wrong      bool // the password was wrong
	Uneditable bool // a form would alter its content
	Conflict   *Conflict
	Gone       bool  // it was deleted during the edit: the form creates a new one
	MaxBytes   int64 // of the text
	Done       string
}

// Conflict is a version that was saved during an edit.
type Conflict struct {
	Newer    *event.Document
	Diff     *render.Diff // from the newer version to the edit; nil if it can't be shown
	Compared bool
}

// OneText shows the form. status is fiber.StatusOK, or the error status of a refused form.
func (c *Console) OneText(ctx *fiber.Ctx, status int, o *OneText) error {
	o.sent = status != fiber.StatusOK
	title := "New " + o.Kind.One
	if o.Document != nil {
		title = Named(o.Document)
	}
	return c.render(ctx, page{
		template: "one-text", title: title, section: PastesPath, done: o.Done, status: status, data: o,
		styles: []string{"history"}, editor: true,
	})
}

// HomeForm renders the form of the landing page. It has the fields of the console's form for a new text.
func (c *Console) HomeForm(o *OneText) (template.HTML, error) {
	var out bytes.Buffer
	if err := c.templates.ExecuteTemplate(&out, "home-form", o); err != nil {
		return "", fmt.Errorf("render the landing page's form: %w", err)
	}
	return template.HTML(out.String()), nil //nolint:gosec // a template made it
}

// Choices is what the form can do now, best first. Without any there is no form. A refused form is shown again in any case.
func (o *OneText) Choices() []Choice {
	all := o.Home
	if len(all) == 0 {
		label := "Save"
		if o.Document == nil {
			label = "Create " + o.Kind.One
		}
		all = []Choice{{o.Kind, label, o.Form.Action, o.Meter}}
	}
	if o.sent {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(choice Choice) bool { return choice.Meter.Blocked() })
}

// Languages are the form's choices.
func (o *OneText) Languages() any { return pages.Languages(o.Form.Values["language"]) }

// Editor is the form's field for the text.
func (o *OneText) Editor() *pages.Editor {
	e := o.Form.editor()
	e.MaxBytes, e.Account, e.Fresh = o.MaxBytes, o.Form.Account, !o.sent
	return e
}

func (f *Form) editor() *pages.Editor {
	field := f.Field("content")
	return &pages.Editor{
		ID: field.ID, Value: field.Value, Rows: 18, DescribedBy: field.DescribedBy(), Invalid: field.Problem != nil, Focus: field.Focus,
	}
}

// Form fields that the API does not have.
const (
	VersionField        = "version" // that the edit is based on
	SumField            = "sum"     // of the content that the edit is based on
	RemovePasswordField = "removePassword"
)

// textFields are the fields of a text.
func textFields() []Field {
	return []Field{
		{Name: "content", Label: "Text", Subject: "The text"},
		{Name: "title", Label: "Title", Type: "text", Most: 200, Subject: "The title"},
		{Name: "language", Label: "Language", Subject: "The language"},
		{Name: "visibility", Label: "Visibility", Type: "select", Options: visibilities(), Subject: "The visibility"},
		{Name: "expiresIn", Label: "Expires", Type: "select", Options: expiries(), Subject: "The expiry"},
		{Name: "tags", Label: "Tags", Type: "text", Hint: "Up to 10, separated by commas.", Subject: "The tags"},
		{Name: "password", Label: "Password", Type: "password", Autocomplete: "new-password", Most: 128, Subject: "The password"},
		{Name: "burnAfterRead", Label: "Delete after someone else has read it"},
		chargedField(),
		{Name: VersionField},
		{Name: SumField},
		{Name: RemovePasswordField, Label: "Remove the password"},
	}
}

// CreateText is the form for a new text.
func CreateText(k *Kind, account, once string) *Form {
	return &Form{
		ID: "text", Action: k.Path, Account: account, Once: once, fields: textFields(),
		Values: map[string]string{"language": kind.AutoLanguage, "visibility": "unlisted", "expiresIn": "never"},
	}
}

// UpdateText is the form to edit a text.
func UpdateText(k *Kind, account, once string, doc *event.Document) *Form {
	f := &Form{ID: "text", Action: k.Of(doc.Id), Account: account, Once: once, fields: textFields(), Values: map[string]string{
		"title": doc.Title, "language": doc.Language, "visibility": visibility(doc), "expiresIn": KeepExpiry,
		"tags": strings.Join(doc.Tags, ", "), VersionField: strconv.FormatUint(doc.Version, 10),
	}}
	if doc.BurnAfterRead {
		f.Values["burnAfterRead"] = "on"
	}
	for i := range f.fields {
		switch f.fields[i].Name {
		case "expiresIn":
			f.fields[i].Options = append([][2]string{{KeepExpiry, "Keep current"}}, f.fields[i].Options...)
		case "password":
			f.fields[i].Label = "New password"
		}
	}
	return f
}

// KeptText keeps a form that was sent without a session, so that no input is lost. ref is the id of the text; empty for a new
// one.
func KeptText(k *Kind, ref string) *Form {
	f := &Form{ID: "kept", Action: k.Path, fields: textFields()}
	if ref != "" {
		f.Action = k.Of(ref)
	}
	return f
}

// Sent are the submitted fields that the page repeats as hidden ones.
func (f *Form) Sent() (out []Field) {
	for _, name := range f.Names() {
		if _, sent := f.Values[name]; sent && name != "content" && name != "title" && name != "password" {
			out = append(out, f.Field(name))
		}
	}
	return out
}

// Had reports whether the field was submitted.
func (f *Form) Had(name string) bool {
	_, sent := f.Values[name]
	return sent
}

// KeptText shows the kept form and asks the user to sign in.
func (c *Console) KeptText(ctx *fiber.Ctx, status int, k *Kind, f *Form) error {
	return c.render(ctx, page{
		template: "kept-text", title: "Sign in to send it", status: status, editor: true,
		data: struct {
			Kind   *Kind
			Form   *Form
			Editor *pages.Editor
		}{k, f, f.editor()},
	})
}

// UploadFile is the form for a file.
func UploadFile(account, once string) *Form {
	return &Form{
		ID: "upload", Action: FilesPath, Account: account, Once: once,
		Values: map[string]string{"visibility": "unlisted", "expiresIn": "never"},
		fields: []Field{
			{Name: "visibility", Label: "Visibility", Type: "select", Options: visibilities(), Subject: "The visibility"},
			{Name: "expiresIn", Label: "Expires", Type: "select", Options: expiries(), Subject: "The expiry"},
			chargedField(),
			{Name: "file", Label: "File", Hint: "50 MB at most.", Subject: "The file", Covers: "name"},
		},
	}
}

// AccessPath is the path below a text's to which AccessOfText is posted.
const AccessPath = "/access"

// AccessOfText is the form for the visibility and expiry of a text.
func AccessOfText(k *Kind, account, once string, doc *event.Document) *Form {
	return &Form{
		ID: "access", Action: k.Of(doc.Id) + AccessPath, Account: account, Once: once,
		Values: map[string]string{"visibility": visibility(doc), "expiresIn": KeepExpiry},
		fields: []Field{
			{Name: "visibility", Label: "Visibility", Type: "select", Options: visibilities(), Subject: "The visibility"},
			{Name: "expiresIn", Label: "Expires", Type: "select", Options: append([][2]string{{KeepExpiry, "Keep current"}}, expiries()...), Subject: "The expiry"},
			chargedField(),
		},
	}
}

// Own is a document on its page, as its owner manages it.
type Own struct {
	Kind     *Kind
	Document *event.Document
	Access   *Form  // nil for a file, which can't be changed
	Meter    *Meter // of Access
}

// Open reports whether the account can save Access.
func (o *Own) Open() bool { return !o.Meter.Blocked() }

// Own renders the links and forms to change the document.
func (c *Console) Own(o *Own) (template.HTML, error) {
	var out bytes.Buffer
	if err := c.templates.ExecuteTemplate(&out, "own", o); err != nil {
		return "", fmt.Errorf("render what the owner of a document sees: %w", err)
	}
	return template.HTML(out.String()), nil //nolint:gosec // a template made it
}

// Removal is the confirmation page before a deletion.
type Removal struct {
	Holder Holder
	Kind   *Kind
	List   []*event.Document
	Form   *Form
	Meter  *Meter
	sent   bool // the form was refused
}

// Open reports whether the page offers to delete the items. A refused form is shown again in any case.
func (d *Removal) Open() bool { return d.sent || !d.Meter.Blocked() }

// RefsField holds the ids of the items to delete, separated by commas.
const RefsField = "refs"

// DeleteContent is the form to delete items.
func DeleteContent(k *Kind, account, once string, refs []string) *Form {
	return &Form{
		ID: "delete", Action: k.Path + "/delete", Account: account, Once: once,
		Values: map[string]string{RefsField: strings.Join(refs, ",")},
		fields: []Field{{Name: RefsField}, chargedField()},
	}
}

// Removal asks to confirm a deletion. status is fiber.StatusOK, or the error status of a refused form.
func (c *Console) Removal(ctx *fiber.Ctx, status int, d *Removal) error {
	d.sent = status != fiber.StatusOK
	return c.render(ctx, page{template: "removal", title: "Delete " + d.Kind.Name, section: PastesPath, status: status, data: d})
}

// ChargedField is the field for the API key that the request counts toward.
func (l *Contents) ChargedField() Field { return l.Upload.Field(KeyField) }

// ChargedField is the field for the API key that the request counts toward.
func (o *OneText) ChargedField() Field { return o.Form.Field(KeyField) }

// ChargedField is the field for the API key that the request counts toward.
func (d *Removal) ChargedField() Field { return d.Form.Field(KeyField) }
