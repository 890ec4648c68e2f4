package account

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing/internal/bookjson"
)

// The test vectors of docs/journal.md are for programs that fold a journal without this code. A case writes its messages; what they
// fold to is recorded, and never changes once it was released.

var update = flag.Bool("update", false, "write the test vectors of docs/journal.md")

const (
	vectorFolder = "../../../../docs/journal/vectors"
	journalPage  = "../../../../docs/journal.md"
)

// vector is the content of a file. docs/journal.md describes it.
type vector struct {
	Name     string              `json:"name"`
	Rule     string              `json:"rule"`
	Shows    string              `json:"shows"`
	Messages []vectorMessage     `json:"messages"`
	Results  []vectorResult      `json:"results"`
	Accounts []*bookjson.Account `json:"accounts,omitempty"`
	Networks []vectorNetwork     `json:"networks,omitempty"`
	Chain    string              `json:"chain"`
}

type vectorMessage struct {
	Sequence  uint64          `json:"sequence,string"`
	TimeNanos int64           `json:"time,string"`
	Subject   string          `json:"subject"`
	Data      []byte          `json:"data"`
	Event     json.RawMessage `json:"event,omitempty"`
}

type vectorResult struct {
	Sequence    uint64             `json:"sequence,string"`
	TimeMs      int64              `json:"time_ms,string"`
	Rules       uint32             `json:"rules"`
	Undecodable bool               `json:"undecodable,omitempty"`
	Verdicts    json.RawMessage    `json:"verdicts,omitempty"`
	Outcomes    json.RawMessage    `json:"outcomes,omitempty"`
	Ledger      []json.RawMessage  `json:"ledger,omitempty"`
	Closed      []*bookjson.Closed `json:"closed,omitempty"`
	Alerts      []json.RawMessage  `json:"alerts,omitempty"`
	Admin       []json.RawMessage  `json:"admin,omitempty"`
	Usage       []vectorUsage      `json:"usage,omitempty"`
	Refused     []vectorRefused    `json:"refused,omitempty"`
	Recreated   []vectorRecreated  `json:"recreated,omitempty"`
}

type vectorUsage struct {
	Account     string `json:"account"`
	Day         uint32 `json:"day"`
	QuotaKey    uint32 `json:"quota_key"`
	Key         uint32 `json:"key,omitempty"`
	Used        int32  `json:"used,omitempty"`
	Overage     int32  `json:"overage,omitempty"`
	SpentMicros int64  `json:"spent_micros,omitempty,string"`
}

type vectorRefused struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

type vectorRecreated struct {
	Stream    string `json:"stream"`
	Watermark uint64 `json:"watermark,string"`
	Sequence  uint64 `json:"sequence,string"`
}

type vectorNetwork struct {
	Network   string          `json:"network"`
	Allowance json.RawMessage `json:"allowance"`
}

// TestVectors folds the messages of every file and compares the results, and the messages with those that its case writes.
func TestVectors(t *testing.T) {
	names := map[string]bool{}
	for _, c := range vectorCases() {
		names[c.name+".json"] = true
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(vectorFolder, c.name+".json")
			written := c.write(t)
			if *update {
				if err := os.WriteFile(path, written.encode(t), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var recorded vector
			if err := json.Unmarshal(file, &recorded); err != nil {
				t.Fatal(err)
			}
			if len(recorded.Messages) == 0 {
				t.Fatal("no messages")
			}
			again := vector{Name: recorded.Name, Rule: recorded.Rule, Shows: recorded.Shows, Messages: recorded.Messages}
			again.fold(t)
			same(t, "the recorded messages fold to", again.encode(t), file)
			same(t, "the case writes", written.encode(t), file)
		})
	}
	files, err := filepath.Glob(filepath.Join(vectorFolder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !names[filepath.Base(file)] {
			t.Errorf("%s is of no case", file)
		}
	}
}

// TestVectorsAreOfRulesInTheDocument: it links each vector below the heading of its rule.
func TestVectorsAreOfRulesInTheDocument(t *testing.T) {
	data, err := os.ReadFile(journalPage)
	if err != nil {
		t.Fatal(err)
	}
	heading, linked := "", map[string][]string{}
	link := regexp.MustCompile(`\]\(journal/vectors/([a-z-]+)\.json\)`)
	for line := range strings.Lines(string(data)) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(strings.TrimSpace(line), "#"), " "); ok && line[0] == '#' {
			heading = title
		}
		for _, found := range link.FindAllStringSubmatch(line, -1) {
			linked[found[1]] = append(linked[found[1]], heading)
		}
	}
	for _, c := range vectorCases() {
		if !slices.Contains(linked[c.name], c.rule) {
			t.Errorf("%s: the document links it below %q, and not below %q", c.name, linked[c.name], c.rule)
		}
		delete(linked, c.name)
	}
	for name := range linked {
		t.Errorf("the document links %s, which is of no case", name)
	}
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(want, &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%s\n%s\nnot\n%s", what, got, want)
	}
}

// smallFirstBook is small, of the keys that every book has.
func smallFirstBook() *plan.Book { return small(firstBook(3)) }

// vectorCase writes the messages of a vector.
type vectorCase struct {
	name, rule, shows string
	run               func(h *history)
}

func (c vectorCase) write(t *testing.T) *vector {
	t.Helper()
	h := newHistory(t, nil)
	h.uuids, h.rules = true, Rules4 // which most vectors were released with; later ones set their own
	c.run(h)
	v := &vector{Name: c.name, Rule: c.rule, Shows: c.shows}
	for _, m := range h.messages {
		if m.Subject == "" {
			m.Subject = subjectOf(m.Kind)
		}
		of := vectorMessage{Sequence: m.Sequence, TimeNanos: m.TimeNanos, Subject: m.Subject, Data: m.Data}
		of.decode(t)
		v.Messages = append(v.Messages, of)
	}
	v.fold(t)
	return v
}

// decode sets the event to what the data decodes to.
func (m *vectorMessage) decode(t *testing.T) {
	t.Helper()
	if decoded := eventOf(vectorKinds()[m.Subject]); decoded != nil && decoded.UnmarshalVT(m.Data) == nil {
		m.Event = protoJSON(t, decoded)
	}
}

// kinds are the subjects of partition 0.
func vectorKinds() map[string]Kind {
	kinds := map[string]Kind{event.UsageSubject(0): Usage, event.AccountSubject(0): Commands, event.PricesSubject(0): Prices}
	for _, d := range event.Documents() {
		kinds[d.SettleSubject(0)] = SettledBy(d)
	}
	return kinds
}

func subjectOf(k Kind) string {
	for subject, kind := range vectorKinds() {
		if kind == k {
			return subject
		}
	}
	return "billing.0.other"
}

func eventOf(k Kind) event.Message {
	switch k {
	case Unknown:
		return nil
	case Commands:
		return &event.CommandBatch{}
	case Prices:
		return &event.PriceBook{}
	}
	return &event.UsageBatch{}
}

func protoJSON(t *testing.T, m event.Message) json.RawMessage {
	t.Helper()
	data, err := bookjson.Message(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func jsonList[M event.Message](t *testing.T, list []M) []json.RawMessage {
	t.Helper()
	out, err := bookjson.List(list)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fold computes everything from the messages.
func (v *vector) fold(t *testing.T) {
	t.Helper()
	f := New()
	kinds := vectorKinds()
	accounts, networks := map[uint64]bool{}, map[uint64]bool{}
	for _, of := range v.Messages {
		m := Message{Sequence: of.Sequence, TimeNanos: of.TimeNanos, Subject: of.Subject, Kind: kinds[of.Subject], Data: of.Data}
		effects, err := f.Apply(m)
		r := vectorResult{Sequence: m.Sequence, TimeMs: f.time, Rules: f.rules, Undecodable: err != nil}
		if err != nil && !errors.Is(err, ErrUndecodable) {
			t.Fatal(err)
		}
		r.effects(t, effects)
		v.Results = append(v.Results, r)
		for id := range f.principals.accounts {
			accounts[id] = true
		}
		for id := range f.principals.networks {
			networks[id] = true
		}
	}
	for _, id := range sortedIDs(accounts) {
		v.Accounts = append(v.Accounts, accountOf(t, f, event.AccountID(id)))
	}
	for _, id := range sortedIDs(networks) {
		a := f.AllowanceAt(event.AccountID(id), 0)
		v.Networks = append(v.Networks, vectorNetwork{event.AccountID(id).String(), protoJSON(t, a)})
	}
	chain := f.Head().Chain
	v.Chain = hex.EncodeToString(chain[:])
}

func sortedIDs(set map[uint64]bool) (ids []uint64) {
	for id := range set {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func accountOf(t *testing.T, f *Fold, id event.AccountID) *bookjson.Account {
	t.Helper()
	a, err := bookjson.NewAccount(f.Shown(id))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (r *vectorResult) effects(t *testing.T, e Effects) {
	t.Helper()
	for _, a := range e.Answers {
		if a.Kind == Verdicts {
			b := &event.VerdictBatch{}
			decodeAnswer(t, a.Data, b)
			r.Verdicts = protoJSON(t, b)
		} else {
			b := &event.CommandOutcomeBatch{}
			decodeAnswer(t, a.Data, b)
			r.Outcomes = protoJSON(t, b)
		}
	}
	r.Ledger, r.Alerts, r.Admin = jsonList(t, e.Ledger), jsonList(t, e.Alerts), jsonList(t, e.Admin)
	for _, c := range e.Closed {
		closed, err := bookjson.NewClosed(c.Account, c.Statement)
		if err != nil {
			t.Fatal(err)
		}
		r.Closed = append(r.Closed, closed)
	}
	for _, u := range e.Usage {
		r.Usage = append(r.Usage, vectorUsage{u.Account.String(), u.Day, uint32(u.QuotaKey), u.Key, u.Used, u.Overage, u.SpentMicros})
	}
	for _, x := range e.Refused {
		r.Refused = append(r.Refused, vectorRefused{string(x.Reason), x.Count})
	}
	for _, x := range e.Recreated {
		r.Recreated = append(r.Recreated, vectorRecreated(x))
	}
}

func decodeAnswer(t *testing.T, data []byte, m event.Message) {
	t.Helper()
	if err := event.Decode(data, m); err != nil {
		t.Fatal(err)
	}
}

// encode writes a line for each message, result, account and network.
func (v *vector) encode(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	put := func(value any) {
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		if err := e.Encode(value); err != nil {
			t.Fatal(err)
		}
		out.Truncate(out.Len() - 1)
	}
	out.WriteString("{\n")
	for _, field := range []struct{ name, value string }{{"name", v.Name}, {"rule", v.Rule}, {"shows", v.Shows}} {
		out.WriteString("  \"" + field.name + "\": ")
		put(field.value)
		out.WriteString(",\n")
	}
	list := func(name string, n int, item func(int) any) {
		if n == 0 {
			return
		}
		out.WriteString("  \"" + name + "\": [\n")
		for i := range n {
			out.WriteString("    ")
			put(item(i))
			if i < n-1 {
				out.WriteString(",")
			}
			out.WriteString("\n")
		}
		out.WriteString("  ],\n")
	}
	list("messages", len(v.Messages), func(i int) any { return v.Messages[i] })
	list("results", len(v.Results), func(i int) any { return v.Results[i] })
	list("accounts", len(v.Accounts), func(i int) any { return v.Accounts[i] })
	list("networks", len(v.Networks), func(i int) any { return v.Networks[i] })
	out.WriteString("  \"chain\": \"" + v.Chain + "\"\n}\n")
	return out.Bytes()
}
