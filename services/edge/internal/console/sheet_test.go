package console

import (
	"bytes"
	"flag"
	"html/template"
	"os"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// The sheet of components, of which new pages are made. e2e/browser/sheet.test.mjs shows it with the style sheets of the pages.
const sheetPath = "../../../../e2e/sheet.html"

var updateSheet = flag.Bool("update", false, "write "+sheetPath)

// sheet are the components, from the templates that the pages use where they have one.
const sheet = `{{define "sheet"}}<h1>Components</h1>
<section class="part"><h2>Buttons and links</h2>
<p><button type="button">Button</button> <a class="button" href="#x">Link as button</a> <button class="quiet" type="button">Quiet</button> <button class="quiet small" type="button">Small</button> <button class="bad" type="button">Dangerous</button> <button type="button" disabled>Disabled</button> <button class="quiet small" type="button" aria-pressed="true">Pressed</button> <a href="#x">Link</a> <button class="linked" type="button">Button as link</button> <button type="button" data-focus>Focused</button></p>
{{template "choice" (links "Choice" .View.Measures)}}
<nav class="tabs" aria-label="Tabs"><a href="#x" aria-current="page">Current tab</a><a href="#y">Tab</a></nav></section>
<section class="part"><h2>Fields</h2><form class="rules">{{range .Fields}}{{template "field" (.Field "name")}}{{template "field" (.Field "expiresIn")}}{{end}}
<div class="field"><label for="sheet-text">Text</label><textarea id="sheet-text" rows="3">one line
` + "שלום עולם" + `</textarea></div>
<p><label class="check"><input type="checkbox" checked> Checked</label> <label class="check"><input type="checkbox"> Unchecked</label> <label class="check"><input type="radio" name="r" checked> This</label> <label class="check"><input type="radio" name="r"> That</label> <label class="check"><input type="checkbox" disabled> Disabled</label></p>
<fieldset><legend>Group</legend><p>Fields that belong together.</p></fieldset></form></section>
<section class="part"><h2>Notices and empty states</h2><p class="notice">Neutral.</p><p class="notice good">Paste created.</p><p class="notice warn">You have signed out. <a href="#x">Sign in</a></p><p class="notice bad">This account was suspended.</p>
<p>{{.View.Nothing}} Requests with your API key appear here in real time: <a href="#x">your first call</a>.</p>
<p class="soft">Less important text, and <code>code</code>, <kbd>g</kbd> then <kbd>k</kbd>.</p><p><span class="status">All systems operational</span> · <span class="status down">Readiness: not ready</span></p>
<details><summary>Folded away</summary><p>Unfolded.</p></details><progress max="100" value="40" aria-label="Progress"></progress></section>
<section class="part"><h2>Cards</h2>{{template "usage" .}}</section>
<section class="part"><h2>Tables</h2>{{template "key-table" .Keys}}{{template "entries" .Entries}}
<dl class="sums"><dt>Opening balance</dt><dd><b>1,000.000000</b></dd><dt>Pending, for requests in flight</dt><dd>-0.005000</dd></dl></section>
<section class="part"><h2>Code</h2><pre tabindex="0">curl -T main.go https://quire.example</pre><ul class="lines-to-copy"><li><code>ls | curl -F 'f=&lt;-' https://quire.example</code><button class="quiet small" type="button">Copy</button></li></ul></section>{{end}}`

// TestTheSheetOfComponentsIsThatOfTheTemplates; with -update it is written.
func TestTheSheetOfComponentsIsThatOfTheTemplates(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	_, u, days := month()
	u.Usage[2].Used, u.Usage[2].Overage, u.Usage[2].SpentMicros, u.Usage[3].Used, u.Usage[3].Limit = 300, 0, 0, 0, 0
	for _, k := range u.Usage[4:] {
		k.Used = 0
	}
	u.BalanceMicros = 100_000_000
	for i, d := range days.Days { // quieter weekends
		for n, use := range d.Usage {
			use.Used = int64((n%4 + 1) * (i*7%11 + 3))
			if i%7 > 4 {
				use.Used /= 4
			}
		}
		d.Usage = d.Usage[:4]
	}
	plain, wrong := CreateKey("AAAAAAAAAAA", "once"), CreateKey("AAAAAAAAAAA", "once")
	plain.ID, wrong.ID = "plain", "wrong"
	plain.Values, wrong.Values = map[string]string{"name": "ci"}, map[string]string{"name": "ci"}
	wrong.Refuse("name", Problem{Message: "name is already taken.", Suggestion: "Try ci-2."})
	keys := []Key{
		{ApiKey: &event.ApiKey{Name: "default", Prefix: "qk_AAAAA", CreatedMs: 1, LastUsedMs: now.UnixMilli(), LastAddress: "2001:db8::1f", Usage: u.Usage}, ID: "default", Status: "active", Now: now.UnixMilli()},
		{ApiKey: &event.ApiKey{Number: 1, Name: "ci", Prefix: "qk_BBBBB", CreatedMs: 1, Scopes: []uint32{uint32(plan.LiteCreate)}}, ID: "k1", Status: "capped", Now: now.UnixMilli()},
	}
	entries := []Entry{
		{LedgerEntry: &event.LedgerEntry{TimeMs: now.UnixMilli(), Type: event.LedgerType_LEDGER_CHARGE, QuotaKey: uint32(plan.FilesUpload), AmountMicros: -5000, BalanceMicros: 99_995_000}, RequestID: "01a1fff9-83d3-743f-9a6d-5290a1beb664"},
		{LedgerEntry: &event.LedgerEntry{TimeMs: now.UnixMilli(), Type: event.LedgerType_LEDGER_GRANT, AmountMicros: 100_000_000, BalanceMicros: 100_000_000, Reason: "a start"}},
	}
	data := struct {
		*Overview
		Fields  []*Form
		Keys    []Key
		Entries []Entry
	}{&Overview{Usage: u, Days: days, Recent: days, Now: now, View: DefaultView()}, []*Form{plain, wrong}, keys, entries}
	parsed := template.Must(template.Must(New(pages.New()).templates.Clone()).Parse(sheet))
	var out bytes.Buffer
	if err := parsed.ExecuteTemplate(&out, "sheet", data); err != nil {
		t.Fatal(err)
	}
	if *updateSheet {
		if err := os.WriteFile(sheetPath, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(sheetPath)
	if err != nil || !bytes.Equal(kept, out.Bytes()) {
		t.Errorf("%s is not what the templates make (%v): run this test with -update, and look at its pictures", sheetPath, err)
	}
}
