package document

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/views"
)

// names of the collections and indexes of one domain.
type names struct {
	documents string // by document id; head and, as body, the inline content
	versions  string // by versionID: earlier versions, likewise
	outcomes  string // by idempotency id in hex
	states    string // by stream: event.DomainState
	redo      string // half-written commits of an earlier version; see completeEarlier
}

func namesOf(d event.Domain) names {
	n := string(d)
	return names{documents: n, versions: n + "_versions", outcomes: n + "_outcomes", states: n + "_states", redo: n + "_redo"}
}

const (
	keyPartition = "partition"
	keyAccount   = "account" // of documents with an owner
	keyCreated   = "created"
	keyExpires   = "expires" // of documents that expire
	keyDecided   = "decided"

	indexAccount = "account"
	indexExpiry  = "expiry"
	indexDecided = "decided"
)

// Collections returns the collections that a domain's engine needs in its read model.
func Collections(d event.Domain) []views.Collection {
	n := namesOf(d)
	return []views.Collection{
		{Name: n.documents, Indexes: []views.Index{
			{Name: indexAccount, Keys: []string{keyPartition, keyAccount, keyCreated}},
			{Name: indexExpiry, Keys: []string{keyPartition, keyExpires}},
		}},
		{Name: n.versions},
		{Name: n.outcomes, Indexes: []views.Index{{Name: indexDecided, Keys: []string{keyPartition, keyDecided}}}},
		{Name: n.states},
		{Name: n.redo},
		installation.Collection(),
	}
}

// versionID is the id of an earlier version. A document's own id has no slash.
func versionID(item string, version uint64) string {
	return item + "/" + strconv.FormatUint(version, 10)
}

func isVersionID(id string) bool { return strings.IndexByte(id, '/') >= 0 }

// put encodes a document, or an earlier version of one.
func (n names) put(partition int, id string, d *event.Document, sequence uint64) (views.Put, error) {
	head, err := event.Encode(fold.Head(d))
	if err != nil {
		return views.Put{}, err
	}
	p := views.Put{Collection: n.documents, Doc: views.Doc{ID: id, Seq: sequence, Head: head, Body: d.GetContent().GetInline()}}
	if isVersionID(id) {
		p.Collection = n.versions
		return p, nil
	}
	p.Doc.Keys = map[string]views.Value{keyPartition: views.Int(int64(partition))}
	if d.Owner != 0 {
		p.Doc.Keys[keyAccount] = accountValue(d.Owner)
		p.Doc.Keys[keyCreated] = views.Int(d.ListPosition())
	}
	if d.ExpiresMs != 0 {
		p.Doc.Keys[keyExpires] = views.Int(d.ExpiresMs)
	}
	return p, nil
}

func accountValue(account uint64) views.Value { return views.String(event.AccountID(account).String()) }

// readDocument is the inverse of put. The document refers to d's body.
func readDocument(d views.Doc) (*event.Document, error) {
	head := &event.Document{}
	if err := event.Decode(d.Head, head); err != nil {
		return nil, fmt.Errorf("document %s: %w", d.ID, err)
	}
	return fold.Whole(head, d.Body), nil
}

func (n names) putOutcome(partition int, id event.IdempotencyID, o *event.Outcome, sequence uint64) (views.Put, error) {
	head, err := event.Encode(o)
	if err != nil {
		return views.Put{}, err
	}
	return views.Put{Collection: n.outcomes, Doc: views.Doc{ID: outcomeID(id), Seq: sequence, Head: head, Keys: map[string]views.Value{
		keyPartition: views.Int(int64(partition)), keyDecided: views.Int(o.DecidedMs),
	}}}, nil
}

func outcomeID(id event.IdempotencyID) string { return hex.EncodeToString(id[:]) }

func (n names) putState(stream string, state *event.DomainState) (views.Put, error) {
	head, err := event.Encode(state)
	if err != nil {
		return views.Put{}, err
	}
	return views.Put{Collection: n.states, Doc: views.Doc{ID: stream, Seq: state.Sequence, Head: head}}, nil
}

func readOutcome(d views.Doc) (event.IdempotencyID, *event.Outcome, error) {
	var id event.IdempotencyID
	if n, err := hex.Decode(id[:], []byte(d.ID)); err != nil || n != len(id) {
		return id, nil, fmt.Errorf("outcome %q is not under an idempotency id: %w", d.ID, event.ErrBadID)
	}
	o := &event.Outcome{}
	if err := event.Decode(d.Head, o); err != nil {
		return id, nil, fmt.Errorf("outcome %s: %w", d.ID, err)
	}
	return id, o, nil
}
