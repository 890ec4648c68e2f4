package users

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
)

const (
	seenEvery     = time.Hour // precision of OpenSession.seen_ms
	prefixBytes   = 12        // of a session's hash, which identify it to its account
	maxSessions   = 100       // in a list
	maxPages      = 10        // of views.MaxList sessions to choose from
	endedFor      = 24 * time.Hour
	describeBytes = 64 // of a session's agent and network

	endSeq = math.MaxInt32 // Seq of a session's deletion: above every document's
)

func (u *Users) openSession(ctx context.Context, s *event.OpenSession) (*event.UserAnswer, error) {
	if len(s.SessionHash) == 0 || len(s.SessionHash) > 64 || s.Account == 0 {
		return nil, &rpc.Error{Code: "malformed", Message: "a session needs a hash and an account"}
	}
	user, err := u.byAccount(ctx, event.AccountID(s.Account))
	if err != nil || user == nil {
		return found(user), err
	}
	s.Agent, s.Network = cut(s.Agent), cut(s.Network)
	s.CreatedMs = u.clock().UnixMilli()
	s.SeenMs = s.CreatedMs
	doc, err := sessionDoc(s)
	if err != nil {
		return nil, err
	}
	err = u.store.Insert(ctx, sessions, doc)
	if errors.Is(err, views.ErrExists) {
		// The ids behind hashes are random, so an equal hash means a repeated request.
		return u.checkSession(ctx, s.SessionHash, u.clock().UnixMilli())
	}
	return found(user), err
}

func (u *Users) checkSession(ctx context.Context, hash []byte, now int64) (*event.UserAnswer, error) {
	if len(hash) == 0 || len(hash) > 64 {
		return found(nil), nil
	}
	s, seq, err := u.session(ctx, hash)
	if err != nil || s == nil || s.ExpiresMs <= now {
		return found(nil), err
	}
	user, err := u.byAccount(ctx, event.AccountID(s.Account))
	if user != nil && user.Epoch != s.Epoch {
		user = nil
	}
	if user != nil && now-s.SeenMs >= seenEvery.Milliseconds() {
		u.see(ctx, s, seq, now)
	}
	return found(user), err
}

func (u *Users) closeSession(ctx context.Context, hash []byte) (*event.UserAnswer, error) {
	if len(hash) == 0 || len(hash) > 64 {
		return found(nil), nil
	}
	err := u.store.Commit(ctx, views.Batch{Deletes: []views.Delete{endOf(hash)}})
	return &event.UserAnswer{Status: event.UserStatus_USER_OK}, err
}

// session returns a session, or nil, and the Seq of its document.
func (u *Users) session(ctx context.Context, hash []byte) (s *event.OpenSession, seq uint64, err error) {
	docs, err := u.store.Load(ctx, sessions, []string{hex.EncodeToString(hash)}, views.Heads)
	if err != nil || len(docs) == 0 {
		return nil, 0, err
	}
	s = &event.OpenSession{}
	return s, docs[0].Seq, event.Decode(docs[0].Head, s)
}

// see records that a session was used. A session ended or changed concurrently stays so. Failing to record it must not fail the
// call.
func (u *Users) see(ctx context.Context, s *event.OpenSession, seq uint64, now int64) {
	s.SeenMs = now
	doc, err := sessionDoc(s)
	doc.Seq = seq
	if err == nil {
		err = u.store.Commit(ctx, views.Batch{Puts: []views.Put{{Collection: sessions, Doc: doc}}})
	}
	if err != nil {
		u.log.Debug("the use of a session could not be recorded", "error", err)
	}
}

// listSessions answers with the valid sessions of an account.
func (u *Users) listSessions(ctx context.Context, id event.AccountID) (*event.UserAnswer, error) {
	valid, err := u.validSessions(ctx, id)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(valid, func(a, b *event.OpenSession) int {
		return cmp.Or(cmp.Compare(b.SeenMs, a.SeenMs), cmp.Compare(b.ExpiresMs, a.ExpiresMs))
	})
	return &event.UserAnswer{Status: event.UserStatus_USER_OK, Sessions: valid[:min(len(valid), maxSessions)]}, nil
}

// endSession ends one session of an account. The answer is USER_NOT_FOUND if none has such a hash prefix, and USER_EXISTS if
// the same change has already ended it.
func (u *Users) endSession(ctx context.Context, r *event.EndSession) (*event.UserAnswer, error) {
	if len(r.GetPrefix()) != prefixBytes || len(r.Change) > 64 {
		return found(nil), nil
	}
	id := event.AccountID(r.Account)
	query := ofAccount(id, 1)
	query.AfterID = hex.EncodeToString(r.Prefix)
	page, _, err := u.sessionPage(ctx, id, query)
	if err != nil {
		return nil, err
	}
	if len(page) == 0 || !bytes.HasPrefix(page[0].SessionHash, r.Prefix) {
		return u.endedBefore(ctx, r.Change)
	}
	batch := views.Batch{Deletes: []views.Delete{endOf(page[0].SessionHash)}}
	if len(r.Change) > 0 {
		// Without an account it is nobody's session.
		batch.Puts = append(batch.Puts, views.Put{Collection: sessions, Doc: views.Doc{
			ID: endID(r.Change), Keys: views.Keys{{Name: "expires", Value: views.Int(u.clock().Add(endedFor).UnixMilli())}},
		}})
	}
	return &event.UserAnswer{Status: event.UserStatus_USER_OK}, u.store.Commit(ctx, batch)
}

func (u *Users) endedBefore(ctx context.Context, change []byte) (*event.UserAnswer, error) {
	if len(change) == 0 {
		return found(nil), nil
	}
	docs, err := u.store.Load(ctx, sessions, []string{endID(change)}, views.Heads)
	if err != nil || len(docs) == 0 || docs[0].Keys.Get("expires").Int64() <= u.clock().UnixMilli() {
		return found(nil), err
	}
	return &event.UserAnswer{Status: event.UserStatus_USER_EXISTS}, nil
}

// endID is the id of the record that a call has ended a session. No session has such an id.
func endID(change []byte) string { return "ended/" + hex.EncodeToString(change) }

func ofAccount(id event.AccountID, limit int) views.Query {
	return views.Query{Index: byAccount, Equal: []views.Value{views.String(id.String())}, Limit: limit}
}

// validSessions returns the unexpired sessions of the user's epoch. Above 10,000 some are omitted.
func (u *Users) validSessions(ctx context.Context, id event.AccountID) (valid []*event.OpenSession, err error) {
	query := ofAccount(id, views.MaxList)
	for range maxPages {
		page, last, err := u.sessionPage(ctx, id, query)
		if err != nil {
			return nil, err
		}
		if valid = append(valid, page...); last == "" {
			break
		}
		query.AfterID = last
	}
	return valid, nil
}

// sessionPage reads a page of sessions, and returns the valid ones. last is the id after which there may be more.
func (u *Users) sessionPage(ctx context.Context, id event.AccountID, query views.Query) (valid []*event.OpenSession, last string, err error) {
	user, err := u.byAccount(ctx, id)
	if err != nil || user == nil {
		return nil, "", err
	}
	docs, err := u.store.List(ctx, sessions, query)
	if err != nil {
		return nil, "", err
	}
	now := u.clock().UnixMilli()
	for _, d := range docs {
		s := &event.OpenSession{}
		if err := event.Decode(d.Head, s); err != nil {
			return nil, "", err
		}
		if s.Account == user.Account && s.Epoch == user.Epoch && s.ExpiresMs > now {
			valid = append(valid, s)
		}
	}
	if len(docs) == query.Limit {
		last = docs[len(docs)-1].ID
	}
	return valid, last, nil
}

// kept moves a session to the user's new epoch, or returns nil.
func (u *Users) kept(ctx context.Context, hash []byte, user *event.User, before uint64) (*views.Put, error) {
	if len(hash) == 0 {
		return nil, nil
	}
	s, seq, err := u.session(ctx, hash)
	if err != nil || s == nil {
		return nil, err
	}
	if s.Account != user.Account || s.Epoch != before {
		return nil, nil
	}
	s.Epoch = user.Epoch
	doc, err := sessionDoc(s)
	if err != nil {
		return nil, err
	}
	doc.Seq = seq + 1 // see can't undo it
	return &views.Put{Collection: sessions, Doc: doc}, nil
}

func sessionDoc(s *event.OpenSession) (views.Doc, error) {
	head, err := event.Encode(s)
	return views.Doc{
		ID: hex.EncodeToString(s.SessionHash), Head: head, Keys: views.Keys{
			{Name: "expires", Value: views.Int(s.ExpiresMs)}, {Name: "account", Value: views.String(event.AccountID(s.Account).String())},
		},
	}, err
}

// endOf deletes a session, whatever the Seq of its document. A hash is never reused.
func endOf(hash []byte) views.Delete {
	return views.Delete{Collection: sessions, ID: hex.EncodeToString(hash), Seq: endSeq}
}

func cut(s string) string { return s[:min(len(s), describeBytes)] }
