package fold_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
)

// naive is a quick paste as a person would describe it: every version ever, in full.
type naive struct {
	exists   bool
	owner    uint64
	token    string
	versions []naiveVersion
	created  int64
	expires  int64
}

// naiveVersion has the fields of a draft.
type naiveVersion struct {
	title, content, language, password, tags string
	visibility                               event.Visibility
	burns                                    bool
}

// plain is a new paste with an empty draft.
func plain() naiveVersion { return naiveVersion{language: "plaintext", visibility: event.Unlisted} }

// with is the version after u.
func (v naiveVersion) with(u *event.Update) naiveVersion {
	said := func(to, from *string) {
		if from != nil {
			*to = *from
		}
	}
	said(&v.title, u.Title)
	said(&v.language, u.Language)
	if u.Content != nil {
		v.content = string(u.Content.Inline)
	}
	if u.PasswordHash != nil {
		v.password = string(u.PasswordHash)
	}
	if u.Tags != nil {
		v.tags = strings.Join(u.Tags.Values, ",")
	}
	if u.Visibility != nil {
		v.visibility = event.Visibility(*u.Visibility)
	}
	if u.BurnAfterRead != nil {
		v.burns = *u.BurnAfterRead
	}
	return v
}

// expire sets when the paste is over, by the clock of the fold.
func (n *naive) expire(u *event.Update, nowMS int64) {
	before := n.expires
	defer func() {
		if end := max(n.created+u.MaxLifetimeMs, before); u.MaxLifetimeMs != 0 && (n.expires == 0 || n.expires > end) {
			n.expires = end
		}
	}()
	switch {
	case u.GetExpiresInMs() > 0:
		n.expires = nowMS + *u.ExpiresInMs
	case u.ExpiresMs != nil:
		n.expires = *u.ExpiresMs
	}
}

// decide returns the status that the rules give, in the order of checks (docs/api.md), and applies the
// request. draft is the draft of a creation.
func (n *naive) decide(r *event.Request, draft *event.Update, nowMS int64) event.OutcomeStatus {
	there := n.exists && (n.expires == 0 || n.expires > nowMS)
	mine := r.Account != 0 && r.Account == n.owner
	var now naiveVersion
	version := uint64(len(n.versions))
	if n.exists {
		now = n.versions[version-1]
	}
	visible := there && (mine || now.visibility != event.Private)
	switch a := r.Action.(type) {
	case *event.Request_Create:
		if n.exists {
			return event.OutcomeStatus_ID_TAKEN
		}
		*n = naive{exists: true, owner: r.Account, created: nowMS, versions: []naiveVersion{plain().with(draft)}}
		if r.Account == 0 {
			n.token = "token"
		}
		n.expire(draft, nowMS)
	case *event.Request_Burn:
		if !visible {
			return event.OutcomeStatus_NOT_FOUND
		}
		if a.Burn.Version != version {
			return event.OutcomeStatus_VERSION_MISMATCH
		}
		if now.burns && !mine {
			*n = naive{}
		}
	case *event.Request_Expire:
		if !n.exists || there {
			return event.OutcomeStatus_NOT_FOUND
		}
		*n = naive{}
	case *event.Request_Update:
		if refused := n.refuse(visible, mine, r.Account, string(a.Update.ManageTokenHash), a.Update.IfMatch); refused != event.OutcomeStatus_OK {
			return refused
		}
		n.versions = append(n.versions, now.with(a.Update))
		n.expire(a.Update, nowMS)
	case *event.Request_Delete:
		if refused := n.refuse(visible, mine, r.Account, string(a.Delete.ManageTokenHash), a.Delete.IfMatch); refused != event.OutcomeStatus_OK {
			return refused
		}
		*n = naive{}
	}
	return event.OutcomeStatus_OK
}

func (n *naive) refuse(visible, mine bool, account uint64, token string, ifMatch []uint64) event.OutcomeStatus {
	switch {
	case !visible:
		return event.OutcomeStatus_NOT_FOUND
	case account != 0 && !mine:
		return event.OutcomeStatus_NOT_OWNER
	case account == 0 && (n.owner != 0 || token != n.token):
		return event.OutcomeStatus_INVALID_MANAGE_TOKEN
	case len(ifMatch) > 0 && ifMatch[0] != uint64(len(n.versions)):
		return event.OutcomeStatus_VERSION_MISMATCH
	}
	return event.OutcomeStatus_OK
}

// drawDraft sets some of the fields that a draft has.
func drawDraft(t *rapid.T, keyless bool, serial int, nowMS int64) *event.Update {
	u := &event.Update{}
	say := func(what string) bool { return rapid.IntRange(0, 2).Draw(t, what) == 0 }
	if say("title") {
		u.Title = new(fmt.Sprint("title ", serial))
	}
	if say("language") {
		u.Language = new(rapid.SampledFrom([]string{"plaintext", "go"}).Draw(t, "language is"))
	}
	if say("visibility") {
		to := []event.Visibility{event.Public, event.Unlisted, event.Private}
		if keyless {
			to = to[:2]
		}
		u.Visibility = new(uint32(rapid.SampledFrom(to).Draw(t, "visibility is")))
	}
	if say("burns") {
		u.BurnAfterRead = new(rapid.Bool().Draw(t, "burns is"))
	}
	if say("password") {
		u.PasswordHash = []byte(rapid.SampledFrom([]string{"", "hash"}).Draw(t, "password is"))
	}
	if say("tags") {
		u.Tags = &event.Tags{Values: rapid.SampledFrom([][]string{nil, {"a"}, {"b", "c"}}).Draw(t, "tags are")}
	}
	switch rapid.IntRange(0, 8).Draw(t, "expires") {
	case 0:
		u.ExpiresInMs = new(int64(30))
	case 1:
		u.ExpiresMs = new(nowMS + int64(rapid.IntRange(0, 40).Draw(t, "expires at")))
	case 2:
		u.ExpiresMs = new(int64(0))
	}
	return u
}

// drawRequest makes a request that has a fair chance to be carried out, and the draft of a creation.
func drawRequest(t *rapid.T, versions, serial int, nowMS int64) (r *event.Request, draft *event.Update) {
	account := rapid.SampledFrom([]uint64{0, owner, other}).Draw(t, "account")
	token := []byte(rapid.SampledFrom([]string{"token", "wrong"}).Draw(t, "token"))
	var ifMatch []uint64
	if rapid.IntRange(0, 3).Draw(t, "conditional") == 0 {
		ifMatch = []uint64{uint64(rapid.IntRange(max(versions-1, 0), versions).Draw(t, "if match"))}
	}
	r = &event.Request{RequestId: fmt.Appendf(nil, "%016d", serial), Item: theItem, Account: account}
	content := &event.Content{Inline: fmt.Appendf(nil, "content %d", serial)}
	switch rapid.IntRange(0, 9).Draw(t, "action") {
	case 0, 1, 2:
		made := &event.Document{Id: theItem, Owner: account}
		if account == 0 {
			made.ManageTokenHash = []byte("token")
		}
		draft = drawDraft(t, account == 0, serial, nowMS)
		draft.Content = content
		r.Action = &event.Request_Create{Create: fold.Create(made, draft)}
	case 3, 4, 5, 6:
		u := drawDraft(t, account == 0, serial, nowMS)
		u.IfMatch, u.ManageTokenHash = ifMatch, token
		if account == 0 { // an edge of an earlier version set no limit
			u.MaxLifetimeMs = rapid.SampledFrom([]int64{0, 35}).Draw(t, "longest lifetime")
		}
		if rapid.Bool().Draw(t, "rewrite") {
			u.Content = content
		}
		r.Action = &event.Request_Update{Update: u}
	case 7:
		r.Action = &event.Request_Delete{Delete: &event.Delete{IfMatch: ifMatch, ManageTokenHash: token}}
	case 8:
		r.Action = &event.Request_Burn{Burn: &event.Burn{Version: uint64(rapid.IntRange(max(versions-1, 0), versions).Draw(t, "burned version"))}}
	default:
		r.Action = &event.Request_Expire{Expire: &event.Expire{}}
	}
	if rapid.IntRange(0, 2).Draw(t, "keyed") == 0 {
		r.IdempotencyId = fmt.Appendf(nil, "%016d", rapid.IntRange(0, 3).Draw(t, "key"))
		r.BodyHash = uint64(rapid.IntRange(0, 1).Draw(t, "body"))
	}
	return r, draft
}

// kept plays the engine: the state that it keeps between requests.
type kept struct {
	state    *event.Document
	versions map[uint64]*event.Document
	outcomes map[string]*event.Outcome
}

func (k *kept) apply(t *rapid.T, r *event.Request, c fold.Change, o *event.Outcome) {
	switch {
	case c.Put != nil:
		if c.Version != nil {
			k.versions[c.Version.Version] = c.Version
		}
		k.state = c.Put
	case c.Delete:
		for v := c.FirstVersion; v <= c.LastVersion; v++ {
			if k.versions[v] == nil {
				t.Fatalf("version %d is to be deleted and is not there", v)
			}
			delete(k.versions, v)
		}
		if len(k.versions) > 0 {
			t.Fatalf("versions %v outlive their document", k.versions)
		}
		k.state = nil
	}
	if fold.Keeps(r, o) {
		k.outcomes[string(r.IdempotencyId)] = o
	}
}

// TestFoldAgreesWithTheNaiveModel folds random requests on one document and compares, after each one,
// every version with what the model says.
func TestFoldAgreesWithTheNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := &kept{versions: map[uint64]*event.Document{}, outcomes: map[string]*event.Outcome{}}
		model := &naive{}
		now := int64(1000)
		answered := map[string]*event.Outcome{} // first decision by key
		hashes := map[string]uint64{}
		for serial := range rapid.IntRange(1, 40).Draw(t, "requests") {
			now += int64(rapid.IntRange(0, 20).Draw(t, "time"))
			r, draft := drawRequest(t, len(model.versions), serial, now)
			key := ""
			if fold.IsKept(r) {
				key = string(r.IdempotencyId)
			}
			var before *event.Document
			if k.state != nil {
				before = proto.Clone(k.state).(*event.Document)
			}
			given := k.state
			c, o := decide(fold.QuickPastes(), k.state, k.outcomes[string(r.IdempotencyId)], r, fold.Position{Sequence: uint64(serial + 1), NowMS: now})
			if before != nil && !proto.Equal(before, given) {
				t.Fatalf("the state was changed in place")
			}
			k.apply(t, r, c, o)
			switch first := answered[key]; {
			case key != "" && first != nil && hashes[key] != r.BodyHash:
				if o.Status != event.OutcomeStatus_IDEMPOTENCY_MISMATCH {
					t.Fatalf("another body: %v", o)
				}
			case key != "" && first != nil:
				if !o.Replayed || o.Status != first.Status || o.Version != first.Version || string(o.RequestId) != string(first.RequestId) {
					t.Fatalf("replayed %v, first %v", o, first)
				}
			default:
				want := model.decide(r, draft, now)
				if o.Status != want || o.Replayed {
					t.Fatalf("%T at %d: %v, want %v", r.Action, now, o, want)
				}
				if key != "" {
					answered[key], hashes[key] = o, r.BodyHash
				}
			}
			compare(t, k, model)
		}
	})
}

func compare(t *rapid.T, k *kept, model *naive) {
	if (k.state != nil) != model.exists {
		t.Fatalf("there is %v, want %v", k.state, model.exists)
	}
	for i, want := range model.versions {
		d := k.versions[uint64(i+1)]
		if i == len(model.versions)-1 {
			d = k.state
		}
		got := naiveVersion{
			title: d.GetTitle(), content: string(d.GetContent().GetInline()), language: d.GetLanguage(), password: string(d.GetPasswordHash()),
			tags: strings.Join(d.GetTags(), ","), visibility: event.Visibility(d.GetVisibility()), burns: d.GetBurnAfterRead(),
		}
		if d.GetVersion() != uint64(i+1) || got != want {
			t.Fatalf("version %d is %v, want %v", i+1, d, want)
		}
	}
	if model.exists && (k.state.ExpiresMs != model.expires || k.state.Owner != model.owner) {
		t.Fatalf("the document is %v, want %+v", k.state, model)
	}
}
