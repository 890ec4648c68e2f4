package fold_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
)

// naive is what a person would say of one quick paste: every version ever, in full.
type naive struct {
	exists   bool
	owner    uint64
	token    string
	versions []naiveVersion
	private  bool
	burns    bool
	expires  int64
}

type naiveVersion struct{ title, content string }

// decide says in the contract's order what happens, knowing nothing of how the fold keeps its state.
func (n *naive) decide(r *event.Request, nowMS int64) event.OutcomeStatus {
	there := n.exists && (n.expires == 0 || n.expires > nowMS)
	mine := r.Account != 0 && r.Account == n.owner
	visible := there && (mine || !n.private)
	version := uint64(len(n.versions))
	switch a := r.Action.(type) {
	case *event.Request_Create:
		if n.exists {
			return event.OutcomeStatus_ID_TAKEN
		}
		d := a.Create.Document
		*n = naive{exists: true, owner: d.Owner, token: string(d.ManageTokenHash), burns: d.BurnAfterRead, private: d.Visibility == uint32(event.Private)}
		n.versions = []naiveVersion{{d.Title, string(d.Content.Inline)}}
		if a.Create.ExpiresInMs > 0 {
			n.expires = nowMS + a.Create.ExpiresInMs
		}
	case *event.Request_Burn:
		if !visible {
			return event.OutcomeStatus_NOT_FOUND
		}
		if a.Burn.Version != version {
			return event.OutcomeStatus_VERSION_MISMATCH
		}
		if n.burns && !mine {
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
		next := n.versions[version-1]
		if a.Update.Title != nil {
			next.title = *a.Update.Title
		}
		if a.Update.Content != nil {
			next.content = string(a.Update.Content.Inline)
		}
		if a.Update.ExpiresInMs != nil {
			n.expires = nowMS + *a.Update.ExpiresInMs
		}
		n.versions = append(n.versions, next)
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

// drawRequest makes a request that has a fair chance to do something.
func drawRequest(t *rapid.T, versions int, serial int) *event.Request {
	account := rapid.SampledFrom([]uint64{0, owner, other}).Draw(t, "account")
	token := []byte(rapid.SampledFrom([]string{"token", "wrong"}).Draw(t, "token"))
	var ifMatch []uint64
	if rapid.IntRange(0, 3).Draw(t, "conditional") == 0 {
		ifMatch = []uint64{uint64(rapid.IntRange(max(versions-1, 0), versions).Draw(t, "if match"))}
	}
	r := &event.Request{RequestId: fmt.Appendf(nil, "%016d", serial), Item: theItem, Account: account}
	switch rapid.IntRange(0, 9).Draw(t, "action") {
	case 0, 1, 2:
		d := &event.Document{
			Owner: account, Title: fmt.Sprint("made ", serial), Visibility: uint32(event.Unlisted),
			BurnAfterRead: rapid.Bool().Draw(t, "burns"), Content: &event.Content{Inline: fmt.Appendf(nil, "content %d", serial)},
		}
		if account == 0 {
			d.ManageTokenHash = []byte("token")
		} else if rapid.Bool().Draw(t, "private") {
			d.Visibility = uint32(event.Private)
		}
		r.Action = &event.Request_Create{Create: &event.Create{Document: d, ExpiresInMs: int64(rapid.SampledFrom([]int{0, 0, 40}).Draw(t, "expires in"))}}
	case 3, 4, 5, 6:
		u := &event.Update{IfMatch: ifMatch, ManageTokenHash: token}
		if rapid.Bool().Draw(t, "retitle") {
			u.Title = new(fmt.Sprint("title ", serial))
		}
		if rapid.Bool().Draw(t, "rewrite") {
			u.Content = &event.Content{Inline: fmt.Appendf(nil, "content %d", serial)}
		}
		if rapid.IntRange(0, 5).Draw(t, "expire") == 0 {
			u.ExpiresInMs = new(int64(30))
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
	return r
}

// kept is the fold's surroundings: what an engine keeps between requests.
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
			r := drawRequest(t, len(model.versions), serial)
			key := ""
			if fold.IsKept(r) {
				key = string(r.IdempotencyId)
			}
			var before *event.Document
			if k.state != nil {
				before = proto.Clone(k.state).(*event.Document)
			}
			given := k.state
			c, o := fold.Decide(fold.QuickPastes(), k.state, k.outcomes[string(r.IdempotencyId)], r, fold.Position{Sequence: uint64(serial + 1), NowMS: now})
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
				want := model.decide(r, now)
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
		if d.GetVersion() != uint64(i+1) || d.Title != want.title || string(d.Content.Inline) != want.content {
			t.Fatalf("version %d is %v, want %v", i+1, d, want)
		}
	}
	if model.exists && (k.state.ExpiresMs != model.expires || k.state.Owner != model.owner) {
		t.Fatalf("the document is %v, want %+v", k.state, model)
	}
}
