package web

import (
	"bytes"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/pages"
)

// createFromTerminal makes a quick paste of what curl sends, and answers with the address of its page:
// docs/api.md, From a terminal.
func (s *Server) createFromTerminal(c *endpoint.Call) error {
	k := quickKind()
	n := s.newCreation(c, k)
	if err := n.openFromTerminal(); err != nil {
		return err
	}
	done, err := s.create(n)
	if err != nil {
		return err
	}
	address := s.URL(k.page + done.outcome.Item)
	c.Set(fiber.HeaderLocation, address)
	c.Set(endpoint.HeaderQuotaRemaining, fmt.Sprint(done.remaining))
	if c.Who.Anonymous {
		c.Set(endpoint.HeaderManageToken, s.manageToken(k.domain, done))
	}
	return sendLines(c.Ctx, fiber.StatusCreated, address+"\n")
}

// sendLines answers with text for a terminal.
func sendLines(c *fiber.Ctx, status int, text string) error {
	c.Set(fiber.HeaderContentType, fiber.MIMETextPlainCharsetUTF8)
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Status(status)
	c.Response().SetBodyString(text)
	return nil
}

// openFromTerminal checks the header and the query of a new quick paste: the bytes of the body, or of a part of the form that
// curl -F sends. The query has the fields. Without a title or a language the name of the file gives them.
func (n *creation) openFromTerminal() error {
	c := n.call
	if err := n.draft.setQuery(c, &n.rules); err != nil {
		return err
	}
	media, charset, params := httpin.MediaType(c.Ctx)
	switch {
	case media == fiber.MIMEMultipartForm && c.Row.Method == fiber.MethodPost:
		return n.openTerminalForm(params["boundary"])
	case media == fiber.MIMEMultipartForm: // the bytes of its envelope are not what anybody means to keep
		return httpin.UnsupportedMediaType("Send a form with POST, or the bytes alone with PUT.")
	case !httpin.UTF8(charset):
		return n.s.notText()
	}
	name, err := nameOfPath(c.Path())
	n.receiveText(func(t *textWriting) error {
		body, err := t.readBody()
		if err != nil {
			return err
		}
		t.hash, t.draft.text = endpoint.BodyHash(t.call.Ctx, body), body
		return t.finishFromTerminal(name)
	})
	return err
}

// finishFromTerminal checks the content of a draft, and names it.
func (t *textWriting) finishFromTerminal(name string) error {
	d := &t.draft
	switch {
	case !utf8.Valid(d.text):
		return t.s.notText()
	case len(d.text) == 0:
		d.text = nil // which check refuses
	default:
		if err := checkContent(d.text, t.rules.content); err != nil {
			return err
		}
	}
	if err := t.s.nameDraft(d, name); err != nil {
		return err
	}
	return d.check(&t.rules)
}

// notText is the answer to content that is no text. Files may be of any kind.
func (s *Server) notText() error {
	return httpin.UnsupportedMediaType("The content is not UTF-8 text. Files of any kind are taken, with an API key, by " +
		s.URL("/api/dev/files/upload") + ".")
}

// nameOfPath is the name that a path of one segment stands for.
func nameOfPath(path string) (string, error) {
	name, err := url.PathUnescape(strings.TrimPrefix(path, "/"))
	if err != nil || !utf8.ValidString(name) {
		return "", httpin.InvalidField("name", "must be UTF-8, with % as %25")
	}
	return name, nil
}

// nameDraft gives the draft the title and language of a file's name, where the client gave none. curl calls what it reads
// from a pipe "-". A name that can't be a title is refused also where there is another title.
func (s *Server) nameDraft(d *draft, name string) error {
	if name == "" || name == "-" {
		return nil
	}
	title, err := httpin.LineField("name", httpin.Value{Kind: httpin.Query, Text: []byte(name)}, titleChars)
	if err != nil {
		return err
	}
	if d.Title == nil {
		d.Title = &title
	}
	if d.Language == nil {
		d.Language = new(s.languageOf(title[strings.LastIndexByte(title, '/')+1:]))
	}
	return nil
}

// openTerminalForm is the body with a form. Its hash does not depend on how the form is written: curl draws the text between the
// parts anew each time.
func (n *creation) openTerminalForm(boundary string) error {
	if err := httpin.CheckBoundary(boundary); err != nil {
		return err
	}
	n.bodyBytes = n.rules.content.Bytes + multipartOverhead
	n.read = func(t *textWriting) error {
		body, err := t.readBody()
		if err != nil {
			return err
		}
		form, err := httpin.NewForm(bytes.NewReader(body), boundary)
		if err != nil {
			return err
		}
		name, hash, err := readTerminalForm(t.call, &t.rules, &t.draft, form)
		if err != nil {
			return err
		}
		t.hash = hash
		return t.finishFromTerminal(name)
	}
	return nil
}

// readTerminalForm takes the content of the first part that is a file or is named f. Other parts are fields of the paste
// where they have the name of one, and are ignored otherwise.
func readTerminalForm(c *endpoint.Call, r *draftRules, d *draft, form *httpin.Form) (name string, hash uint64, err error) {
	said := [][]byte{nil, nil, endpoint.CanonicalQuery(c.Ctx)} // content, name, query, fields
	found := false
	var given []string // fields
	for {
		part, field, file, err := form.Next()
		if httpin.FormEnded(err) {
			if !found {
				return "", 0, httpin.Malformed("No part of the form is a file or is named f: send curl -F 'f=<-' or curl -F f=@name.")
			}
			said[0], said[1] = d.text, []byte(name)
			return name, event.BodyHash(said...), nil
		}
		if err != nil {
			return "", 0, formFailure(err)
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return "", 0, formFailure(err)
		}
		switch {
		case !found && (file != "" || field == "f"):
			found, d.text, name = true, text, file
		case file == "":
			if slices.Contains(given, field) && field != "tags" {
				return "", 0, givenOnce(field)
			}
			taken, err := d.setPart(c, r, field, text)
			if err != nil {
				return "", 0, err
			}
			if taken {
				given = append(given, field)
				said = append(said, []byte(field), text)
			}
		}
	}
}

// setPart takes a field that is a part of a form. It is false for a part that is no field.
func (d *draft) setPart(c *endpoint.Call, r *draftRules, name string, text []byte) (taken bool, err error) {
	if !slices.Contains(draftFields()[1:], name) { // the content is another part
		return false, nil
	}
	if c.Context().QueryArgs().Has(name) {
		return true, givenOnce(name)
	}
	if len(text) > partFieldBytes || !utf8.Valid(text) {
		return true, httpin.InvalidField(name, "must be short text in UTF-8")
	}
	return true, d.set(r, name, httpin.Value{Kind: httpin.Query, Text: text})
}

func givenOnce(field string) error { return httpin.InvalidField(field, "must be given once") }

// home is the landing page, and for a terminal what it can do here.
func (s *Server) home(c *endpoint.Call) error {
	c.Vary(fiber.HeaderAccept)
	if pages.WantsHTML(c.Ctx) {
		return s.landing(c)
	}
	return sendLines(c.Ctx, fiber.StatusOK, usageText(s.URL(""), s.Allowance(c)))
}

// usageText has at most 24 lines, the height of a terminal.
func usageText(address string, a *event.AllowanceAnswer) string {
	allowance := "  How many pastes you may make without an API key is not known at the moment.\n"
	switch {
	case a == nil:
	case a.Limit == 0:
		allowance = "  Pastes are made with an API key only.\n"
	default:
		allowance = fmt.Sprintf("  Without an API key: %d in any %s, each kept for 30 days at most.\n  You have %d left.",
			a.Limit, pages.Duration(time.Duration(a.WindowMs)*time.Millisecond), a.Remaining)
		if a.ResetSeconds > 0 {
			allowance += fmt.Sprintf(" There is one more in %s.", pages.Duration(time.Duration(a.ResetSeconds)*time.Second))
		}
		allowance += "\n"
	}
	return "Quire keeps text and gives you the address of a page that shows it.\n\n" +
		"  ls | curl -F 'f=<-' " + address + "\n" +
		"  curl -F f=@notes.txt " + address + "\n" +
		"  curl -T main.go " + address + "\n" +
		"  curl --data-binary @notes.txt " + address + "\n\n" +
		"The answer is the address; /raw behind it is the text alone. A file's name gives\n" +
		"its title and language. Other fields of a paste are in the query:\n\n" +
		"  ls | curl -F 'f=<-' '" + address + "?expiresIn=1h&burnAfterRead=true'\n\n" +
		"Limits:\n" +
		"  256 KiB of UTF-8 text in each paste.\n" +
		allowance +
		"  With one (curl -H 'x-api-key: <key>') it is what your plan has.\n\n" +
		"curl -i shows X-Manage-Token: it changes or deletes a paste made without a key.\n" +
		"Reference: " + address + "/docs\n" +
		"Accounts and API keys: " + address + "/console\n"
}
