package webhooks

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
)

const (
	// changes is the stream whose checkpoint moves with each change of an address, so that no concurrent change is lost.
	changes  = "billing_webhooks"
	maxTries = 20

	// overlap is how long the previous secret also signs after a rotation.
	overlap = 24 * time.Hour
	// maxSecrets is how many secrets of a webhook sign at a time. A newer one replaces the oldest.
	maxSecrets = 5
	// replayed is how long a creation or rotation is replayed under its idempotency id, as commands are.
	replayed = 24 * time.Hour

	maxPage      = 100
	maxAlertID   = 64 // bytes of a requested id
	secretPrefix = "whsec_"
)

// Store answers event.WebhookRequest. Safe for concurrent use, with any number of instances on one read model.
type Store struct {
	store        views.Store
	clock        func() time.Time
	partitions   int
	allowPrivate bool
	sealer       *sealer
}

// Config configures the storage and delivery of webhooks.
type Config struct {
	Partitions   int
	Secrets      [][]byte // master secrets: the first encrypts, all decrypt; without one no webhook can be created
	AllowPrivate bool     // allows addresses in private networks and http
}

// NewStore returns a Store over a read model opened with Collections. clock includes the development offset.
func NewStore(store views.Store, clock func() time.Time, cfg Config) (*Store, error) {
	s, err := newSealer(cfg.Secrets)
	return &Store{store: store, clock: clock, partitions: cfg.Partitions, allowPrivate: cfg.AllowPrivate, sealer: s}, err
}

// Answer answers one request. Its errors are *rpc.Error, from the sealer of secrets, or from the read model.
func (s *Store) Answer(ctx context.Context, r *event.WebhookRequest) (*event.WebhookAnswer, error) {
	account := event.AccountID(r.Account)
	if account == 0 {
		return nil, &rpc.Error{Code: "malformed", Message: "a webhook needs an account"}
	}
	switch action := r.Action.(type) {
	case *event.WebhookRequest_Create:
		return s.create(ctx, account, action.Create)
	case *event.WebhookRequest_Set:
		return s.set(ctx, account, r.Webhook, action.Set)
	case *event.WebhookRequest_Delete:
		return s.remove(ctx, account, r.Webhook)
	case *event.WebhookRequest_Rotate:
		return s.rotate(ctx, account, r.Webhook, action.Rotate.GetChange())
	case *event.WebhookRequest_Find:
		return s.find(ctx, account, r.Webhook)
	case *event.WebhookRequest_Deliveries:
		return s.deliveries(ctx, account, r.Webhook, action.Deliveries)
	case *event.WebhookRequest_Replay:
		return s.replay(ctx, account, r.Webhook, action.Replay)
	}
	return nil, &rpc.Error{Code: "malformed", Message: "request about webhooks without an action"}
}

func refusal(status event.WebhookStatus) *event.WebhookAnswer {
	return &event.WebhookAnswer{Status: status}
}

// create stores an address with a new secret. The command that creates the webhook in the journal follows; an address without
// one is swept. A repeated creation returns the same secret.
func (s *Store) create(ctx context.Context, account event.AccountID, r *event.CreateAddress) (*event.WebhookAnswer, error) {
	if reason := checkURL(r.GetUrl(), s.allowPrivate); reason != "" {
		return &event.WebhookAnswer{Status: event.WebhookStatus_WEBHOOK_BAD_URL, Reason: reason}, nil
	}
	for try := range uint32(maxTries) {
		a := &event.WebhookAddress{
			Account: uint64(account), Webhook: newID(account, r.GetChange(), try), Url: r.GetUrl(), Change: r.GetChange(), CreatedMs: s.now(),
		}
		text, err := s.addSecret(a, nil)
		if err != nil {
			return nil, err
		}
		doc, err := s.addressDoc(a)
		if err != nil {
			return nil, err
		}
		err = s.store.Insert(ctx, addresses, doc)
		if err == nil {
			return &event.WebhookAnswer{Status: event.WebhookStatus_WEBHOOK_OK, Addresses: shown(a), Secret: text}, nil
		}
		if !errors.Is(err, views.ErrExists) {
			return nil, err
		}
		before, err := s.load(ctx, account, a.Webhook)
		if err != nil {
			return nil, err
		}
		if before == nil || len(r.GetChange()) == 0 || !bytes.Equal(before.Change, r.GetChange()) || before.CreatedMs+replayed.Milliseconds() <= s.now() {
			continue
		}
		first := before.Secrets[len(before.Secrets)-1]
		secret, err := s.sealer.open(first.Sealed, addressID(account, before.Webhook))
		if err != nil {
			return nil, err
		}
		return &event.WebhookAnswer{Status: event.WebhookStatus_WEBHOOK_OK, Addresses: shown(before), Secret: secretText(secret), Replayed: true}, nil
	}
	return nil, &rpc.Error{Code: rpc.CodeBusy, Message: "no free id for a webhook"}
}

// newID returns the id of a new webhook, a function of the idempotency id if there is one.
func newID(account event.AccountID, change []byte, try uint32) uint64 {
	var b [8]byte
	if len(change) == 0 {
		rand.Read(b[:])
	} else {
		sum := sha256.Sum256(binary.BigEndian.AppendUint32(append(account.Bytes(), change...), try))
		copy(b[:], sum[:])
	}
	return max(binary.BigEndian.Uint64(b[:]), 1)
}

// addSecret makes a new secret the current one. The previous secret also signs until overlap has passed.
func (s *Store) addSecret(a *event.WebhookAddress, change []byte) (text string, err error) {
	secret := make([]byte, secretBytes)
	rand.Read(secret)
	sealed, err := s.sealer.seal(secret, addressID(event.AccountID(a.Account), a.Webhook))
	if err != nil {
		return "", err
	}
	now := s.now()
	list := []*event.WebhookSecret{{Sealed: sealed, Change: change, CreatedMs: now}}
	for _, old := range a.Secrets {
		if old.UntilMs == 0 {
			old.UntilMs = now + overlap.Milliseconds()
		}
		if old.UntilMs > now && len(list) < maxSecrets {
			list = append(list, old)
		}
	}
	a.Secrets = list
	return secretText(secret), nil
}

func secretText(secret []byte) string {
	return secretPrefix + base64.StdEncoding.EncodeToString(secret)
}

// shown is the public part of an address.
func shown(a *event.WebhookAddress) []*event.WebhookAddress {
	return []*event.WebhookAddress{{Account: a.Account, Webhook: a.Webhook, Url: a.Url, CreatedMs: a.CreatedMs}}
}

func (s *Store) now() int64 { return s.clock().UnixMilli() }

func (s *Store) addressDoc(a *event.WebhookAddress) (views.Doc, error) {
	head, err := event.Encode(a)
	account := event.AccountID(a.Account)
	return views.Doc{ID: addressID(account, a.Webhook), Head: head, Keys: views.Keys{
		{Name: "account", Value: views.String(account.String())},
		{Name: "partition", Value: views.Int(int64(event.AccountPartition(account, s.partitions)))},
	}}, err
}

func (s *Store) load(ctx context.Context, account event.AccountID, webhook uint64) (*event.WebhookAddress, error) {
	docs, err := s.store.Load(ctx, addresses, []string{addressID(account, webhook)}, views.Heads)
	if err != nil || len(docs) == 0 {
		return nil, err
	}
	return decodeAddress(docs[0])
}

func decodeAddress(doc views.Doc) (*event.WebhookAddress, error) {
	a := &event.WebhookAddress{}
	return a, event.Decode(doc.Head, a)
}

// change applies edit to an address, again after concurrent changes. It returns nil if the webhook does not exist.
func (s *Store) change(ctx context.Context, account event.AccountID, webhook uint64, edit func(*event.WebhookAddress) error) (*event.WebhookAddress, error) {
	for range maxTries {
		at, err := s.store.Checkpoint(ctx, changes)
		if err != nil {
			return nil, err
		}
		a, err := s.load(ctx, account, webhook)
		if err != nil || a == nil {
			return nil, err
		}
		if err := edit(a); err != nil {
			return nil, err
		}
		doc, err := s.addressDoc(a)
		if err != nil {
			return nil, err
		}
		err = s.store.Commit(ctx, views.Batch{Stream: changes, From: at, To: at + 1, Puts: []views.Put{{Collection: addresses, Doc: doc}}})
		if !errors.Is(err, views.ErrConflict) {
			return a, err
		}
	}
	return nil, &rpc.Error{Code: rpc.CodeBusy, Message: "too many webhooks are changed at the same time; try again"}
}

func (s *Store) set(ctx context.Context, account event.AccountID, webhook uint64, r *event.SetAddress) (*event.WebhookAnswer, error) {
	if reason := checkURL(r.GetUrl(), s.allowPrivate); reason != "" {
		return &event.WebhookAnswer{Status: event.WebhookStatus_WEBHOOK_BAD_URL, Reason: reason}, nil
	}
	if r.GetCheck() {
		return s.find(ctx, account, webhook)
	}
	a, err := s.change(ctx, account, webhook, func(a *event.WebhookAddress) error {
		a.Url = r.GetUrl()
		return nil
	})
	if err != nil {
		return nil, err
	}
	if a == nil {
		return refusal(event.WebhookStatus_WEBHOOK_NOT_FOUND), nil
	}
	return &event.WebhookAnswer{Status: event.WebhookStatus_WEBHOOK_OK, Addresses: shown(a)}, nil
}

// errReplayed ends a repeated change.
var errReplayed = errors.New("this change was made before")

func (s *Store) rotate(ctx context.Context, account event.AccountID, webhook uint64, change []byte) (*event.WebhookAnswer, error) {
	var text string
	var before *event.WebhookSecret
	a, err := s.change(ctx, account, webhook, func(a *event.WebhookAddress) (err error) {
		for i, made := range a.Secrets {
			if len(change) == 0 || !bytes.Equal(made.Change, change) || made.CreatedMs+replayed.Milliseconds() <= s.now() {
				continue
			}
			secret, err := s.sealer.open(made.Sealed, addressID(account, webhook))
			if err != nil {
				return err
			}
			text = secretText(secret)
			if i+1 < len(a.Secrets) {
				before = a.Secrets[i+1]
			}
			return errReplayed
		}
		if text, err = s.addSecret(a, change); err == nil && len(a.Secrets) > 1 {
			before = a.Secrets[1]
		}
		return err
	})
	again := errors.Is(err, errReplayed)
	if err != nil && !again {
		return nil, err
	}
	if a == nil && !again {
		return refusal(event.WebhookStatus_WEBHOOK_NOT_FOUND), nil
	}
	return &event.WebhookAnswer{Status: event.WebhookStatus_WEBHOOK_OK, Secret: text, PreviousUntilMs: before.GetUntilMs(), Replayed: again}, nil
}

// find returns one address, or all of an account.
func (s *Store) find(ctx context.Context, account event.AccountID, webhook uint64) (*event.WebhookAnswer, error) {
	answer := refusal(event.WebhookStatus_WEBHOOK_OK)
	if webhook != 0 {
		a, err := s.load(ctx, account, webhook)
		if err != nil {
			return nil, err
		}
		if a == nil {
			return refusal(event.WebhookStatus_WEBHOOK_NOT_FOUND), nil
		}
		answer.Addresses = shown(a)
		return answer, nil
	}
	docs, err := s.store.List(ctx, addresses, views.Query{Index: byAccount, Equal: []views.Value{views.String(account.String())}, Limit: views.MaxList})
	if err != nil {
		return nil, err
	}
	for _, doc := range docs {
		a, err := decodeAddress(doc)
		if err != nil {
			return nil, err
		}
		answer.Addresses = append(answer.Addresses, shown(a)...)
	}
	return answer, nil
}

// remove deletes an address, and all of its past and pending deliveries. Its webhook has already left the journal.
func (s *Store) remove(ctx context.Context, account event.AccountID, webhook uint64) (*event.WebhookAnswer, error) {
	return refusal(event.WebhookStatus_WEBHOOK_OK), s.deleteAll(ctx, addressID(account, webhook))
}

func (s *Store) deleteAll(ctx context.Context, at string) error {
	b := views.Batch{Deletes: []views.Delete{{Collection: addresses, ID: at}}}
	for {
		docs, err := s.store.List(ctx, deliveries, views.Query{Index: byWebhook, Equal: []views.Value{views.String(at)}, Limit: sweepPage})
		if err != nil {
			return fmt.Errorf("list deliveries: %w", err)
		}
		for _, doc := range docs {
			b.Deletes = append(b.Deletes, views.Delete{Collection: deliveries, ID: doc.ID, Seq: doc.Seq + 1})
		}
		if err := s.store.Commit(ctx, b); err != nil {
			return fmt.Errorf("delete a webhook: %w", err)
		}
		if len(docs) < sweepPage {
			return nil
		}
		b.Deletes = nil
	}
}

// Ref names a webhook.
type Ref struct {
	Account event.AccountID
	Webhook uint64
}

// ID is the id of the webhook's address in the store.
func (r Ref) ID() string { return addressID(r.Account, r.Webhook) }

// Missing returns the webhooks among list that have no address.
func Missing(ctx context.Context, store views.Store, list []Ref) (without []Ref, err error) {
	for part := range slices.Chunk(list, sweepPage) {
		ids := make([]string, len(part))
		for i, w := range part {
			ids[i] = w.ID()
		}
		docs, err := store.Load(ctx, addresses, ids, views.Heads)
		if err != nil {
			return nil, fmt.Errorf("look for addresses of webhooks: %w", err)
		}
		there := map[string]bool{}
		for _, doc := range docs {
			there[doc.ID] = true
		}
		for i, w := range part {
			if !there[ids[i]] {
				without = append(without, w)
			}
		}
	}
	return without, nil
}

// Erase deletes everything about an account's webhooks: addresses, secrets, deliveries and events.
func Erase(ctx context.Context, store views.Store, account event.AccountID) error {
	s := &Store{store: store}
	of := func(collection string) ([]views.Doc, error) {
		docs, err := store.List(ctx, collection, views.Query{Index: byAccount, Equal: []views.Value{views.String(account.String())}, Limit: sweepPage})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", collection, err)
		}
		return docs, nil
	}
	for {
		docs, err := of(addresses)
		if err != nil {
			return err
		}
		for _, doc := range docs {
			if err := s.deleteAll(ctx, doc.ID); err != nil {
				return err
			}
		}
		if len(docs) < sweepPage {
			break
		}
	}
	for {
		docs, err := of(alerts)
		if err != nil || len(docs) == 0 {
			return err
		}
		var b views.Batch
		for _, doc := range docs {
			a := &event.Alert{}
			if err := event.Decode(doc.Head, a); err != nil {
				return err
			}
			for _, webhook := range targets(a) { // one may have been deleted before its delivery was stored
				b.Deletes = append(b.Deletes, views.Delete{Collection: deliveries, ID: deliveryID(account, webhook, a.Id), Seq: doc.Seq + 1})
			}
			b.Deletes = append(b.Deletes, views.Delete{Collection: alerts, ID: doc.ID, Seq: doc.Seq})
		}
		if err := store.Commit(ctx, b); err != nil {
			return fmt.Errorf("delete the events of an account: %w", err)
		}
	}
}

// sealAgain re-encrypts secrets with the current key, so that other keys can be retired.
func (s *Store) sealAgain(ctx context.Context) error {
	index := views.Index{Name: byAccount, Keys: []string{"account"}}
	return views.Each(ctx, s.store, addresses, index, views.Query{Limit: sweepPage}, func(doc views.Doc) error {
		a, err := decodeAddress(doc)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(a.Secrets, func(w *event.WebhookSecret) bool { return !s.sealer.present(w.Sealed) }) {
			return nil
		}
		if _, err := s.change(ctx, event.AccountID(a.Account), a.Webhook, s.reseal); err != nil {
			return fmt.Errorf("encrypt the secrets of a webhook: %w", err)
		}
		return nil
	})
}

// reseal leaves a secret unchanged if no key opens it.
func (s *Store) reseal(a *event.WebhookAddress) error {
	at := addressID(event.AccountID(a.Account), a.Webhook)
	for _, w := range a.Secrets {
		secret, err := s.sealer.open(w.Sealed, at)
		if err != nil {
			continue
		}
		if w.Sealed, err = s.sealer.seal(secret, at); err != nil {
			return err
		}
	}
	return nil
}

// abandoned is the age after which an address is deleted if its webhook is not in the journal: its creation has failed, or its
// deletion was interrupted.
const abandoned = time.Hour
