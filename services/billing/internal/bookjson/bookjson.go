// Package bookjson writes ledger entries, statements and accounts as docs/journal.md has them in JSON, in its test vectors and in
// exported books. The fold does not: only this package knows ProtoJSON.
package bookjson

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/event"
)

// Closed is the statement of a closed month.
type Closed struct {
	Account   string          `json:"account"`
	Statement json.RawMessage `json:"statement"`
}

// Account is the state of an account.
type Account struct {
	Account    string            `json:"account"`
	Usage      json.RawMessage   `json:"usage"`
	Plan       json.RawMessage   `json:"plan,omitempty"`
	Statements []json.RawMessage `json:"statements"`
}

// Line is a line of exported books. One field is set.
type Line struct {
	Ledger  json.RawMessage `json:"ledger,omitempty"`
	Closed  *Closed         `json:"closed,omitempty"`
	Account *Account        `json:"account,omitempty"`
}

// Message is a message as compact ProtoJSON, with the names of its fields as declared.
func Message(m event.Message) (json.RawMessage, error) {
	reflected, ok := m.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no Protobuf message", m)
	}
	data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(reflected)
	if err != nil {
		return nil, fmt.Errorf("write %T as JSON: %w", m, err)
	}
	var compact bytes.Buffer // the package adds spaces at random
	if err := json.Compact(&compact, data); err != nil {
		return nil, fmt.Errorf("write %T as JSON: %w", m, err)
	}
	return compact.Bytes(), nil
}

// Text is Message with the members of each object in the order of their names: the same bytes from any program.
func Text(m event.Message) ([]byte, error) {
	data, err := Message(m)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("read %T as JSON: %w", m, err)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("write %T as JSON: %w", m, err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// List is Message of each.
func List[M event.Message](list []M) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for _, m := range list {
		data, err := Message(m)
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

// NewClosed returns the statement of an account's closed month.
func NewClosed(id event.AccountID, s *event.StatementAnswer) (*Closed, error) {
	data, err := Message(s)
	return &Closed{Account: id.String(), Statement: data}, err
}

// NewAccount returns the state of an account. plan is nil if it has neither a subscription nor a rule for top-ups.
func NewAccount(usage *event.UsageAnswer, plan *event.PlanAnswer, statements []*event.StatementAnswer) (*Account, error) {
	a := &Account{Account: event.AccountID(usage.Account).String()}
	var err error
	if a.Usage, err = Message(usage); err != nil {
		return nil, err
	}
	if plan != nil {
		if a.Plan, err = Message(plan); err != nil {
			return nil, err
		}
	}
	a.Statements, err = List(statements)
	return a, err
}
