// Package users keeps email addresses, password hashes and sessions. They are only in the read model, never in a journal, which
// is permanent.
package users

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
)

const (
	users     = "billing_users"
	sessions  = "billing_sessions"
	byAccount = "by_account"
	byExpiry  = "by_expiry"

	byDeletion = "by_deletion"

	// changes is the stream whose checkpoint moves with each change of a user, so that concurrent changes conflict.
	changes = "billing_users"

	sweepEvery = time.Minute
	sweepPage  = 500
	maxUsers   = 200 // per page
	maxTries   = 20  // of a change, with concurrent ones

	keptChanges = 32 // ids of password and address changes by which a repeated call is recognized
)

// Collections returns the collections of users and sessions.
func Collections() []views.Collection {
	return []views.Collection{
		{Name: users, Indexes: []views.Index{
			{Name: byAccount, Keys: []string{"account"}},
			{Name: byExpiry, Keys: []string{"expires"}}, // of reserved addresses
			{Name: byDeletion, Keys: []string{"deletes"}},
		}},
		{Name: sessions, Indexes: []views.Index{
			{Name: byExpiry, Keys: []string{"expires"}},
			{Name: byAccount, Keys: []string{"account"}},
		}},
		{Name: exports, Indexes: []views.Index{{Name: byDue, Keys: []string{"due"}}}},
		{Name: payments},
		{Name: registrations, Indexes: []views.Index{{Name: byExpiry, Keys: []string{"expires"}}}},
		{Name: missing, Indexes: []views.Index{{Name: byPartition, Keys: []string{"partition"}}}},
	}
}

// Users answers event.UserRequest. Safe for concurrent use, with any number of instances on one store.
type Users struct {
	store views.Store
	clock func() time.Time // with the development offset
	log   *slog.Logger

	registerLimit int // users per source and day

	missing atomic.Bool // users of accounts are missing: see NoteMissing
}

// New returns Users over a store opened with Collections.
func New(store views.Store, clock func() time.Time, registerLimit int, log *slog.Logger) *Users {
	return &Users{store: store, clock: clock, log: log, registerLimit: registerLimit}
}

// Answer answers one request. Its errors are *rpc.Error or the store's.
func (u *Users) Answer(ctx context.Context, request *event.UserRequest) (*event.UserAnswer, error) {
	switch action := request.Action.(type) {
	case *event.UserRequest_Register:
		return u.register(ctx, action.Register)
	case *event.UserRequest_Find:
		user, err := u.find(ctx, action.Find)
		answer := found(user)
		answer.UsersMissing = action.Find.GetEmail() != "" && u.missing.Load()
		return answer, err
	case *event.UserRequest_OpenSession:
		return u.openSession(ctx, action.OpenSession)
	case *event.UserRequest_CheckSession:
		now := request.NowMs
		if now == 0 {
			now = u.clock().UnixMilli()
		}
		return u.checkSession(ctx, action.CheckSession.SessionHash, now)
	case *event.UserRequest_CloseSession:
		return u.closeSession(ctx, action.CloseSession.SessionHash)
	case *event.UserRequest_SetPassword:
		return u.setPassword(ctx, action.SetPassword)
	case *event.UserRequest_EndSessions:
		return u.change(ctx, event.AccountID(action.EndSessions.GetAccount()), nil, nil)
	case *event.UserRequest_SetEmail:
		return u.setEmail(ctx, action.SetEmail)
	case *event.UserRequest_StartExport:
		return u.startExport(ctx, action.StartExport)
	case *event.UserRequest_FindExport:
		return u.findExport(ctx, event.AccountID(action.FindExport.GetAccount()))
	case *event.UserRequest_ClaimExport:
		return u.claimExport(ctx, action.ClaimExport)
	case *event.UserRequest_SaveExport:
		return u.saveExport(ctx, action.SaveExport)
	case *event.UserRequest_ClaimPayments:
		return u.claimPayments(ctx, action.ClaimPayments)
	case *event.UserRequest_SetDeletion:
		return u.setDeletion(ctx, action.SetDeletion)
	case *event.UserRequest_ListSessions:
		return u.listSessions(ctx, event.AccountID(action.ListSessions.GetAccount()))
	case *event.UserRequest_EndSession:
		return u.endSession(ctx, action.EndSession)
	case *event.UserRequest_List:
		return u.list(ctx, action.List)
	}
	return nil, &rpc.Error{Code: "malformed", Message: "request without an action"}
}

func found(user *event.User) *event.UserAnswer {
	if user == nil {
		return &event.UserAnswer{Status: event.UserStatus_USER_NOT_FOUND}
	}
	return &event.UserAnswer{Status: event.UserStatus_USER_OK, User: user}
}

// register adds a user, unless the source is over its limit for today. If the address belongs to another account, it answers
// USER_EXISTS and that user. If it belongs to the same account, an earlier answer was lost and is repeated.
func (u *Users) register(ctx context.Context, r *event.RegisterUser) (*event.UserAnswer, error) {
	id := event.EmailID(r.Email)
	if id == "" || len(r.Email) > event.MaxEmailBytes || r.Account == 0 {
		return nil, &rpc.Error{Code: "malformed", Message: "a user needs an email address and an account"}
	}
	user := &event.User{
		Account: r.Account, Email: strings.TrimSpace(r.Email), PasswordHash: r.PasswordHash, CreatedMs: u.clock().UnixMilli(),
	}
	doc, err := userDoc(user)
	if err != nil {
		return nil, err
	}
	existing, err := u.byEmail(ctx, id)
	if err != nil {
		return nil, err
	}
	if existing == nil {
		if u.missing.Load() {
			return addressUnknown(), nil
		}
		if r.Source != 0 {
			if answer, err := u.limited(ctx, r.Source, r.OtherSources); err != nil || answer != nil {
				return answer, err
			}
		}
		err = u.store.Insert(ctx, users, doc)
		if !errors.Is(err, views.ErrExists) {
			return found(user), err
		}
		if existing, err = u.byEmail(ctx, id); err != nil {
			return nil, err
		}
		if existing == nil {
			return u.registerAgain(ctx, user, doc)
		}
	}
	answer := found(existing)
	if existing == nil || existing.Account != r.Account {
		answer.Status = event.UserStatus_USER_EXISTS
	}
	return answer, nil
}

// registerAgain adds a user whose address another one has given up recently. The store requires a document newer than the
// deleted one.
func (u *Users) registerAgain(ctx context.Context, user *event.User, doc views.Doc) (*event.UserAnswer, error) {
	at, err := u.store.Checkpoint(ctx, changes)
	if err != nil {
		return nil, err
	}
	doc.Seq = at
	if err := u.store.Insert(ctx, users, doc); errors.Is(err, views.ErrExists) {
		return nil, &rpc.Error{Code: rpc.CodeBusy, Message: "another user takes the same address at the same time"}
	} else if err != nil {
		return nil, err
	}
	return found(user), nil
}

// byEmail returns the user of an address, or the account that it is reserved for.
func (u *Users) byEmail(ctx context.Context, id string) (*event.User, error) {
	docs, err := u.store.Load(ctx, users, []string{id}, views.Heads)
	return decodeUser(docs, err)
}

func (u *Users) byAccount(ctx context.Context, id event.AccountID) (*event.User, error) {
	user, _, err := u.record(ctx, id)
	return user, err
}

// record returns the user of an account, and the Seq of the document. A change keeps the Seq, unless the document's id changes.
func (u *Users) record(ctx context.Context, id event.AccountID) (user *event.User, seq uint64, err error) {
	docs, err := u.store.List(ctx, users, views.Query{Index: byAccount, Equal: []views.Value{views.String(id.String())}, Limit: 1})
	if user, err = decodeUser(docs, err); user != nil {
		seq = docs[0].Seq
	}
	return user, seq, err
}

// Email returns the email address of an account's user, "" without one.
func (u *Users) Email(ctx context.Context, id event.AccountID) (string, error) {
	user, _, err := u.record(ctx, id)
	return user.GetEmail(), err
}

func decodeUser(docs []views.Doc, err error) (*event.User, error) {
	if err != nil || len(docs) == 0 {
		return nil, err
	}
	user := &event.User{}
	if err := event.Decode(docs[0].Head, user); err != nil {
		return nil, err
	}
	return user, nil
}

func (u *Users) find(ctx context.Context, r *event.FindUser) (*event.User, error) {
	switch id := event.EmailID(r.Email); {
	case id != "" && len(r.Email) <= event.MaxEmailBytes:
		user, err := u.byEmail(ctx, id)
		if user.GetReserved() {
			user = nil
		}
		return user, err
	case r.Email == "" && r.Account != 0:
		return u.byAccount(ctx, event.AccountID(r.Account))
	}
	return nil, nil
}

// setPassword replaces the password of a user. See change for the sessions.
func (u *Users) setPassword(ctx context.Context, r *event.SetPassword) (*event.UserAnswer, error) {
	if r.PasswordHash == "" || len(r.KeepSession) > 64 {
		return nil, &rpc.Error{Code: "malformed", Message: "a new password needs a hash"}
	}
	return u.change(ctx, event.AccountID(r.Account), r.KeepSession, func(user *event.User) bool {
		if r.IfHash != "" && r.IfHash != user.PasswordHash {
			return false
		}
		if len(user.PasswordChange) > 0 {
			earlier := append(user.EarlierPasswordChanges, user.PasswordChange)
			user.EarlierPasswordChanges = earlier[max(0, len(earlier)-keptChanges):]
		}
		user.PasswordHash, user.PasswordMs, user.PasswordChange = r.PasswordHash, u.clock().UnixMilli(), r.Change
		return true
	})
}

// change ends all sessions of a user but one, and applies set to the user in the same step. If set returns false, nothing
// changes and the answer is USER_CHANGED. A session opened with an earlier password meanwhile is not valid.
func (u *Users) change(ctx context.Context, id event.AccountID, keep []byte, set func(*event.User) bool) (*event.UserAnswer, error) {
	return u.update(ctx, id, update{ends: true, keep: keep, set: set})
}

// update is a change of a user.
type update struct {
	ends bool   // all sessions, except the one with the hash keep
	keep []byte // nil: none
	set  func(*event.User) bool
}

func (u *Users) update(ctx context.Context, id event.AccountID, change update) (*event.UserAnswer, error) {
	keep, set := change.keep, change.set
	for range maxTries {
		at, err := u.store.Checkpoint(ctx, changes)
		if err != nil {
			return nil, err
		}
		user, seq, err := u.record(ctx, id)
		if err != nil || user == nil {
			return found(nil), err
		}
		before := user.Epoch
		if change.ends {
			user.Epoch = newEpoch()
		}
		if set != nil && !set(user) {
			return &event.UserAnswer{Status: event.UserStatus_USER_CHANGED}, nil
		}
		put, err := userDoc(user)
		if err != nil {
			return nil, err
		}
		put.Seq = seq
		batch := views.Batch{Stream: changes, From: at, To: at + 1, Puts: []views.Put{{Collection: users, Doc: put}}}
		if kept, err := u.kept(ctx, keep, user, before); err != nil {
			return nil, err
		} else if kept != nil {
			batch.Puts = append(batch.Puts, *kept)
		}
		if err = u.store.Commit(ctx, batch); !errors.Is(err, views.ErrConflict) {
			return found(user), err
		}
	}
	return nil, errBusy
}

var errBusy error = &rpc.Error{Code: rpc.CodeBusy, Message: "other users change at the same time"}

// newEpoch is random, so that an epoch is never reused, not even if changes restarts from 0.
func newEpoch() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:]) | 1
}

func userDoc(user *event.User) (views.Doc, error) {
	head, err := event.Encode(user)
	keys := views.Keys{{Name: "account", Value: views.String(event.AccountID(user.Account).String())}}
	if due := deletionDue(user); due != 0 {
		keys = append(keys, views.Key{Name: "deletes", Value: views.Int(due)})
	}
	return views.Doc{ID: event.EmailID(user.Email), Head: head, Keys: keys}, err
}

// list answers with a page of users, without their password hashes.
func (u *Users) list(ctx context.Context, r *event.ListUsers) (*event.UserAnswer, error) {
	limit := min(max(int(r.GetLimit()), 1), maxUsers)
	query := views.Query{Index: byAccount, Limit: limit + 1}
	if r.GetAfterAccount() != 0 {
		// No id is larger, and an account has one user.
		query.After, query.AfterID = []views.Value{views.String(event.AccountID(r.AfterAccount).String())}, lastID
	}
	docs, err := u.store.List(ctx, users, query)
	if err != nil {
		return nil, err
	}
	answer := &event.UserAnswer{Status: event.UserStatus_USER_OK, More: len(docs) > limit}
	for _, d := range docs[:min(len(docs), limit)] {
		user, err := decodeUser([]views.Doc{d}, nil)
		if err != nil {
			return nil, err
		}
		user.PasswordHash, user.PasswordChange, user.EarlierPasswordChanges = "", nil, nil
		answer.Users = append(answer.Users, user)
	}
	return answer, nil
}

// lastID sorts after the id of every address.
const lastID = "\U0010ffff"

// Run removes expired sessions every minute, and follows what instances note as missing, until ctx ends.
func (u *Users) Run(ctx context.Context) error {
	var following sync.WaitGroup
	following.Go(func() { u.followMissing(ctx) })
	defer following.Wait()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := u.Sweep(ctx); err != nil && ctx.Err() == nil {
			u.log.Warn("expired sessions could not be deleted yet", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Sweep removes expired sessions, registrations of previous days, and reserved addresses that were not used.
func (u *Users) Sweep(ctx context.Context) error {
	return errors.Join(u.sweep(ctx, sessions), u.sweep(ctx, registrations), u.sweep(ctx, users))
}

func (u *Users) sweep(ctx context.Context, collection string) error {
	now := u.clock().UnixMilli()
	for {
		docs, err := u.store.List(ctx, collection, views.Query{Index: byExpiry, Limit: sweepPage})
		if err != nil {
			return fmt.Errorf("list %s: %w", collection, err)
		}
		var b views.Batch
		for _, d := range docs {
			if d.Keys.Get("expires").Int64() <= now {
				b.Deletes = append(b.Deletes, views.Delete{Collection: collection, ID: d.ID, Seq: d.Seq})
			}
		}
		if len(b.Deletes) == 0 {
			return nil
		}
		if err := u.store.Commit(ctx, b); err != nil {
			return fmt.Errorf("delete from %s: %w", collection, err)
		}
		if len(b.Deletes) < sweepPage {
			return nil
		}
	}
}
