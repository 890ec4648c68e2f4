package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"quire.dev/cli/internal/terminal"
	"quire.dev/client"
)

// chargeJSON is the cost of a metered call. docs/guides/command-line.md lists the fields of all JSON: they stay stable, and more may be
// added.
type chargeJSON struct {
	RequestID    string          `json:"requestId"`
	Remaining    int64           `json:"remaining"`
	ChargeSource string          `json:"chargeSource"`
	Cost         client.Credits  `json:"cost"`
	Balance      *client.Credits `json:"balance"` // null unless credits paid
}

func chargeOf(m client.Meta) chargeJSON {
	out := chargeJSON{RequestID: m.RequestID, Remaining: m.Remaining, ChargeSource: string(m.ChargeSource), Cost: m.Cost}
	if m.ChargeSource == client.ChargedToCredits {
		out.Balance = &m.Balance
	}
	return out
}

// textJSON is a paste or quick paste: the fields of the API, with null for a paste that never expires.
type textJSON struct {
	Kind kind `json:"kind"`
	client.PasteHead
	Tags      []string   `json:"tags"`
	ExpiresAt *time.Time `json:"expiresAt"`
}

func textOf(k kind, p client.PasteHead) textJSON {
	tags := p.Tags
	if tags == nil {
		tags = []string{}
	}
	return textJSON{Kind: k, PasteHead: p, Tags: tags, ExpiresAt: orNull(p.ExpiresAt)}
}

// fileJSON is a file.
type fileJSON struct {
	Kind        kind       `json:"kind"`
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Size        int64      `json:"size"`
	ContentType string     `json:"contentType"`
	SHA256      string     `json:"sha256"`
	Visibility  string     `json:"visibility"`
	CreatedAt   time.Time  `json:"createdAt"`
	ExpiresAt   *time.Time `json:"expiresAt"`
	URL         string     `json:"url"`
}

func fileOf(f client.FileHead) fileJSON {
	return fileJSON{
		Kind: kindFile, ID: f.ID, Name: f.Name, Size: f.Size, ContentType: f.ContentType, SHA256: f.SHA256,
		Visibility: string(f.Visibility), CreatedAt: f.CreatedAt, ExpiresAt: orNull(f.ExpiresAt), URL: f.URL,
	}
}

// printJSON prints an object in a line of standard output.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.term.Out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// print prints a line on standard output.
func (a *app) print(line string) error {
	if _, err := fmt.Fprintln(a.term.Out, line); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// charge describes the cost of a call and the remaining quota.
func charge(m client.Meta) string {
	switch {
	case m.Replayed:
		return "Replayed at no cost."
	case m.ChargeSource == client.ChargedToCredits:
		return fmt.Sprintf("It cost %s credits; %s left.", m.Cost, m.Balance)
	case m.Remaining < 0:
		return ""
	}
	return fmt.Sprintf("%s left.", count(int(m.Remaining), "free request"))
}

// sentences joins the non-empty ones.
func sentences(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), " ")
}

// expiry describes a document's expiry; empty if it never expires.
func expiry(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return "It expires at " + clock(at) + "."
}

// size formats a number of bytes.
func size(n int) string { return terminal.Size(int64(n)) }
