package document

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/document/sweep"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/views"
)

// names are the collections and indexes of one domain.
type names struct {
	documents string // by document id; head and, as body, the inline content
	versions  string // by versionID: earlier versions, in the same form
	outcomes  string // by idempotency id in hex
	states    string // by stream: event.DomainState
}

func namesOf(d event.Domain) names {
	n := string(d)
	return names{documents: n, versions: n + "_versions", outcomes: n + "_outcomes", states: n + "_states"}
}

const (
	keyPartition = "partition"
	keyAccount   = "account" // of documents with an owner
	keyCreated   = "created"
	keyExpires   = "expires" // of documents that expire
	keyDecided   = "decided"

	indexAccount = "account"
)

// byExpiry is the index of the documents that expire.
func (n names) byExpiry() sweep.ByTime {
	return sweep.ByTime{Collection: n.documents, Index: views.Index{Name: "expiry", Keys: []string{keyPartition, keyExpires}}}
}

// byDecision is the index of outcomes by the time of their decision.
func (n names) byDecision() sweep.ByTime {
	return sweep.ByTime{Collection: n.outcomes, Index: views.Index{Name: "decided", Keys: []string{keyPartition, keyDecided}}}
}

// Collections returns the read model's collections for a domain's engine.
func Collections(d event.Domain) []views.Collection {
	n := namesOf(d)
	return []views.Collection{
		{Name: n.documents, Indexes: []views.Index{
			{Name: indexAccount, Keys: []string{keyPartition, keyAccount, keyCreated}},
			n.byExpiry().Index,
		}},
		{Name: n.versions},
		{Name: n.outcomes, Indexes: []views.Index{n.byDecision().Index}},
		{Name: n.states},
		installation.Collection(),
	}
}

// versionID is the id of an earlier version. A document's own id has no slash.
func versionID(item string, version uint64) string {
	return item + "/" + strconv.FormatUint(version, 10)
}

func isVersionID(id string) bool { return strings.IndexByte(id, '/') >= 0 }

// encoder builds the puts of one commit. Heads share buffers and keys one list, since a commit has thousands of both.
type encoder struct {
	names     names
	partition views.Value
	heads     []byte
	keys      []views.Key
	accounts  map[uint64]views.Value
	space     fold.Space // for one head
}

const (
	headBytes = 160 // of most documents
	maxKeys   = 4   // per document
)

// newEncoder returns the encoder of a commit of about as many puts.
func newEncoder(n names, partition, puts int) *encoder {
	return &encoder{
		names: n, partition: views.Int(int64(partition)),
		heads: make([]byte, 0, headBytes*puts), keys: make([]views.Key, 0, maxKeys*puts), accounts: map[uint64]views.Value{},
	}
}

// record is a message encoded as a head.
type record interface {
	SizeVT() int
	MarshalToSizedBufferVT(data []byte) (int, error)
}

// encode is event.Encode into the commit's buffer.
func (e *encoder) encode(r record) ([]byte, error) {
	from, size := len(e.heads), r.SizeVT()
	if size > cap(e.heads)-from { // earlier puts keep the old buffer
		e.heads, from = make([]byte, 0, max(size, cap(e.heads))), 0
	}
	to := from + size
	e.heads = e.heads[:to]
	head := e.heads[from:to:to]
	if _, err := r.MarshalToSizedBufferVT(head); err != nil {
		return nil, fmt.Errorf("encode %T: %w", r, err)
	}
	return head, nil
}

// put encodes a document, or an earlier version of one.
func (e *encoder) put(id string, d *event.Document, sequence uint64) (views.Put, error) {
	head, err := e.encode(e.space.Head(d))
	if err != nil {
		return views.Put{}, err
	}
	p := views.Put{Collection: e.names.documents, Doc: views.Doc{ID: id, Seq: sequence, Head: head, Body: d.GetContent().GetInline()}}
	if isVersionID(id) {
		p.Collection = e.names.versions
	} else {
		p.Doc.Keys = e.keysOf(d)
	}
	return p, nil
}

func (e *encoder) keysOf(d *event.Document) views.Keys {
	from := len(e.keys)
	e.keys = append(e.keys, views.Key{Name: keyPartition, Value: e.partition})
	if d.Owner != 0 {
		e.keys = append(e.keys, views.Key{Name: keyAccount, Value: e.accountValue(d.Owner)}, views.Key{Name: keyCreated, Value: views.Int(d.ListPosition())})
	}
	if d.ExpiresMs != 0 {
		e.keys = append(e.keys, views.Key{Name: keyExpires, Value: views.Int(d.ExpiresMs)})
	}
	return e.keys[from:len(e.keys):len(e.keys)]
}

// accountValue is cached for an account, which often owns many documents of a commit.
func (e *encoder) accountValue(account uint64) views.Value {
	v, ok := e.accounts[account]
	if !ok {
		v = accountValue(account)
		e.accounts[account] = v
	}
	return v
}

func accountValue(account uint64) views.Value { return views.String(event.AccountID(account).String()) }

// readDocument is the inverse of encoder.put. The document aliases d's body.
func readDocument(d views.Doc) (*event.Document, error) {
	head := &event.Document{}
	if err := event.Decode(d.Head, head); err != nil {
		return nil, fmt.Errorf("document %s: %w", d.ID, err)
	}
	return fold.Whole(head, d.Body), nil
}

func (e *encoder) putOutcome(id event.IdempotencyID, o *event.Outcome, sequence uint64) (views.Put, error) {
	head, err := e.encode(o)
	if err != nil {
		return views.Put{}, err
	}
	return views.Put{Collection: e.names.outcomes, Doc: views.Doc{ID: outcomeID(id), Seq: sequence, Head: head, Keys: views.Keys{
		{Name: keyPartition, Value: e.partition}, {Name: keyDecided, Value: views.Int(o.DecidedMs)},
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
