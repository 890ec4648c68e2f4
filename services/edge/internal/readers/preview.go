package readers

import (
	"bytes"
	"cmp"
	"net/http"
	"strings"
	"unicode/utf8"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/contents"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/kind"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/render"
)

// previewTextBytes is the maximum size of a text file to preview. A larger one can only be downloaded.
const previewTextBytes = render.HighlightBytes

const (
	typePDF = "application/pdf"
	typeSVG = "image/svg+xml"
)

// showFile shows a file's details, with a preview of an image, a PDF or a text. The links to the bytes of a private file, which
// its owner sees, are signed.
func (s *Readers) showFile(c *endpoint.Call) error {
	account, err := s.SessionAccount(c.Ctx)
	if err != nil {
		return err
	}
	doc, err := s.visible(c, event.File, &event.Read{Item: c.Param("id"), Requester: uint64(account)})
	if err != nil {
		return err
	}
	path := "/f/" + doc.Id
	shown := &pages.File{Document: doc, URL: s.URL(path), Raw: s.ContentURL(path + "/raw")}
	private := event.Visibility(doc.Visibility) == event.Private
	if private {
		shown.Raw = s.ContentURL(s.developer.DownloadLink(doc.Id))
	}
	if shown.Own, err = s.ownPart(c, kind.Files(), doc, uint64(account)); err != nil {
		return err
	}
	size := doc.GetContent().GetSizeBytes()
	begin, err := s.beginning(doc)
	if err != nil {
		return err
	}
	switch preview := previewType(doc.ContentType, begin); {
	case preview == typePDF && private:
		shown.Notice = "Only public and unlisted PDFs are shown here."
	case preview == typePDF:
		shown.Frame = s.ContentURL(path + "/view")
		shown.Embeds = []string{s.contentOrigin()}
	case preview != "":
		shown.Image = shown.Raw
		if s.ContentURL("") != "" {
			shown.Embeds = []string{s.contentOrigin()}
		}
	case isText(begin) && size <= previewTextBytes:
		return s.showTextFile(c, shown)
	case isText(begin):
		shown.Notice = "Too large to show here."
	}
	return s.pages.File(c.Ctx, shown)
}

// contentOrigin is the origin of raw content for a policy.
func (s *Readers) contentOrigin() string {
	return cmp.Or(s.ContentURL(""), "'self'")
}

func (s *Readers) beginning(doc *event.Document) ([]byte, error) {
	begin, err := s.contents.LoadBeginning(s.ctx, doc.GetContent(), min(developer.SniffBytes, doc.GetContent().Length()))
	return begin, contents.DeletedSince(err)
}

// showTextFile shows a text file, in the language of its name and content.
func (s *Readers) showTextFile(c *endpoint.Call, shown *pages.File) error {
	content := shown.Document.GetContent()
	size := content.Length()
	if err := s.http.Reserve(c.Ctx, size); err != nil {
		return err
	}
	text, err := s.contents.LoadBeginning(s.ctx, content, size)
	if err != nil {
		return contents.DeletedSince(err)
	}
	return s.Rendered(len(text), func() error {
		if len(text) > 0 && isText(text) && utf8.Valid(text) {
			shown.Lines = s.Renderer(shown.Document).Text(s.ctx, string(text), s.developer.DetectLanguage(shown.Document.Title, text))
		}
		return s.pages.File(c.Ctx, shown)
	})
}

// previewType is the type of a file that a page may show as an image or in a frame; "" for others. The declared type and the
// bytes must agree.
func previewType(named string, begin []byte) string {
	named, _, _ = strings.Cut(strings.ToLower(named), ";")
	named = strings.TrimSpace(named)
	switch named {
	case "image/png", "image/jpeg", "image/gif", "image/webp", typePDF:
		if http.DetectContentType(begin) == named {
			return named
		}
	case "image/avif":
		if len(begin) >= 12 && string(begin[4:8]) == "ftyp" && (string(begin[8:12]) == "avif" || string(begin[8:12]) == "avis") {
			return named
		}
	case typeSVG:
		if isText(begin) && bytes.Contains(bytes.ToLower(begin), []byte("<svg")) {
			return named
		}
	}
	return ""
}

// isText reports whether the beginning of a file is UTF-8 text, without the control characters by which browsers know bytes from text
// (https://mimesniff.spec.whatwg.org/#binary-data-byte).
func isText(begin []byte) bool {
	return len(begin) > 0 && !bytes.ContainsFunc(begin, isBinary) && utf8.Valid(begin[:contents.WholeRunes(begin)])
}

func isBinary(r rune) bool {
	return r < ' ' && !strings.ContainsRune("\t\n\f\r\x1b", r)
}

// viewFile answers with a PDF for the frame on its page. Other files can only be downloaded.
func (s *Readers) viewFile(c *endpoint.Call) error {
	conditions, err := headers.ReadConditions(c.Ctx)
	if err != nil {
		return err
	}
	doc, err := s.visible(c, event.File, &event.Read{Item: c.Param("id")})
	if err != nil {
		return err
	}
	begin, err := s.beginning(doc)
	if err != nil {
		return err
	}
	if previewType(doc.ContentType, begin) != typePDF {
		return endpoint.NotFound()
	}
	pages.SetRobots(c.Ctx, doc)
	if err := s.developer.SendFile(c, doc, conditions); err != nil {
		return err
	}
	pages.ProtectFrame(c.Ctx, doc, s.PublicURL())
	return nil
}
