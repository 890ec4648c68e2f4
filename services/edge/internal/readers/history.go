package readers

import (
	"net/url"
	"strconv"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/contents"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/render"
)

// OwnText reads a text, or a version of it, for its owner. For others there is no history: 404.
func (s *Readers) OwnText(c *endpoint.Call, k *kind.Kind, read *event.Read) (*event.Document, error) {
	if read.Requester == 0 {
		return nil, endpoint.NotFound()
	}
	doc, err := s.visible(c, k.Domain, read)
	if err == nil && !developer.Owns(doc, read.Requester) {
		err = endpoint.NotFound()
	}
	return doc, err
}

// showVersions shows the versions of a text to its owner, newest first.
func (s *Readers) showVersions(c *endpoint.Call, k *kind.Kind) error {
	account, err := s.SessionAccount(c.Ctx)
	if err != nil {
		return err
	}
	read := &event.Read{Item: c.Param("ref"), Requester: uint64(account), ListVersions: endpoint.DefaultPage}
	if below := c.Query("below"); below != "" {
		if read.BelowVersion, err = strconv.ParseUint(below, 10, 63); err != nil {
			return endpoint.NotFound()
		}
	}
	if account == 0 || !event.ValidItemID(read.Item) {
		return endpoint.NotFound()
	}
	found, err := s.developer.FoundVersions(s.bus.StartRead(k.Domain, read, &c.Timing))
	if fault.KindOf(err) == fault.NotOwner {
		return endpoint.NotFound()
	}
	if err != nil {
		return err
	}
	page := k.Page + read.Item
	shown := &pages.Versions{Page: page, List: found.Versions, Newest: read.BelowVersion == 0}
	if found.More {
		shown.Earlier = page + "/versions?below=" + strconv.FormatUint(found.Versions[len(found.Versions)-1].Version, 10)
	}
	return s.pages.Versions(c.Ctx, shown)
}

// comparing has the parameters of a page of changes.
type comparing struct {
	item     string
	account  uint64
	from, to uint64 // versions; 0: from is the predecessor of to, to is the current one
	split    bool
}

func (s *Readers) comparing(c *endpoint.Call) (*comparing, error) {
	account, err := s.SessionAccount(c.Ctx)
	if err != nil {
		return nil, err
	}
	v := &comparing{item: c.Param("ref"), account: uint64(account), split: c.Query("view") == viewSplit}
	for name, number := range map[string]*uint64{"from": &v.from, "to": &v.to} {
		if text := c.Query(name); text != "" {
			if *number, err = strconv.ParseUint(text, 10, 63); err != nil {
				return nil, httperr.InvalidField(name, "must be a version number")
			}
		}
	}
	return v, nil
}

// Views of changes: ?view=<view>.
const (
	viewUnified = "unified"
	viewSplit   = "split"
)

// address is the path and query of the changes in a view.
func (v *comparing) address(k *kind.Kind, view string) string {
	q := url.Values{"from": {strconv.FormatUint(v.from, 10)}, "to": {strconv.FormatUint(v.to, 10)}, "view": {view}}
	return k.Page + v.item + "/diff?" + q.Encode()
}

// compared reads the two versions, and fills in missing version numbers.
func (s *Readers) compared(c *endpoint.Call, k *kind.Kind) (v *comparing, from, to *event.Document, err error) {
	if v, err = s.comparing(c); err != nil {
		return nil, nil, nil, err
	}
	if to, err = s.OwnText(c, k, &event.Read{Item: v.item, Requester: v.account, Version: v.to}); err != nil {
		return nil, nil, nil, err
	}
	v.to = to.Version
	if v.from == 0 {
		v.from = max(1, v.to-1)
	}
	from, err = s.OwnText(c, k, &event.Read{Item: v.item, Requester: v.account, Version: v.from})
	return v, from, to, err
}

// showDiff shows the changes between two versions to the text's owner.
func (s *Readers) showDiff(c *endpoint.Call, k *kind.Kind) error {
	v, from, to, err := s.compared(c, k)
	if err != nil {
		return err
	}
	if len(to.PasswordHash) > 0 {
		return s.pages.Ask(c.Ctx, pages.Ask{Document: to, Action: v.address(k, v.view())})
	}
	tabs := []pages.Link{
		{Name: "Unified", Path: v.address(k, viewUnified), Current: !v.split},
		{Name: "Split", Path: v.address(k, viewSplit), Current: v.split},
	}
	return s.compare(c, k, v, from, to, tabs)
}

func (v *comparing) view() string {
	if v.split {
		return viewSplit
	}
	return viewUnified
}

// revealDiff is showDiff for a text with a password.
func (s *Readers) revealDiff(c *endpoint.Call, k *kind.Kind) error {
	password, err := ParseReveal(c.Form)
	if err != nil {
		return err
	}
	v, from, to, err := s.compared(c, k)
	if err != nil {
		return err
	}
	if err := s.AdmitPassword(c, to, password); err != nil {
		if fault.KindOf(err) == fault.WrongPassword && pages.WantsHTML(c.Ctx) {
			return s.pages.Ask(c.Ctx, pages.Ask{Document: to, Action: v.address(k, v.view()), Wrong: true})
		}
		return err
	}
	return s.compare(c, k, v, from, to, nil)
}

// compare shows the changes. Texts that are too large are only named.
func (s *Readers) compare(c *endpoint.Call, k *kind.Kind, v *comparing, from, to *event.Document, tabs []pages.Link) error {
	shown := &pages.Changes{Page: k.Page + v.item, From: from, To: to, Split: v.split, Tabs: tabs}
	sizes := max(from.GetContent().GetSizeBytes(), to.GetContent().GetSizeBytes())
	if sizes > render.DiffBytes {
		shown.TooLarge = true
		return s.pages.Changes(c.Ctx, shown)
	}
	if err := s.http.Reserve(c.Ctx, int64(2*sizes)); err != nil {
		return err
	}
	before, err := s.WholeContent(from.GetContent())
	if err != nil {
		return err
	}
	after, err := s.WholeContent(to.GetContent())
	if err != nil {
		return err
	}
	return s.Rendered(int(2*sizes), func() error {
		if shown.TooLarge = !render.Diffable(before) || !render.Diffable(after); !shown.TooLarge {
			shown.Diff = s.Renderer(from, to).Diff(s.ctx, before, after, to.Language, v.split)
		}
		return s.pages.Changes(c.Ctx, shown)
	})
}

func (s *Readers) WholeContent(content *event.Content) (string, error) {
	text, err := s.contents.Load(s.ctx, content)
	return string(text), contents.DeletedSince(err)
}
