package endpoint

import (
	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// KeyCheck is a query for the usage of a key's account, which requires a current key without scopes.
func KeyCheck(key apikey.Key) *event.UsageQuery {
	return &event.UsageQuery{CheckKey: true, Key: key.Number, KeyVersion: key.Version, KeyFingerprint: key.Fingerprint()}
}

// Query asks billing about the account. It also fails for a NOT_FOUND.
func (s *Base) Query(account event.AccountID, q *event.Query) (*event.QueryAnswer, error) {
	return queried(s.bus.Query(s.ctx, account, q))
}

// Look is Query for what the account's calls have changed: it waits until those answered before are settled.
func (s *Base) Look(account event.AccountID, q *event.Query) (*event.QueryAnswer, error) {
	return queried(s.bus.Look(s.ctx, account, q))
}

func queried(a *event.QueryAnswer, err error) (*event.QueryAnswer, error) {
	if err != nil {
		return nil, err
	}
	switch a.Status {
	case event.QueryStatus_QUERY_OK:
		return a, nil
	case event.QueryStatus_QUERY_NOT_FOUND:
		return nil, NotFound()
	case event.QueryStatus_QUERY_INVALID_CURSOR:
		return nil, InvalidCursor()
	}
	return nil, Unavailable(ErrQueryAnswer)
}

// CheckHolder has billing confirm that an API key is a current one of the account and has no scopes. A session needs no
// check. Every endpoint for sessions and keys without scopes starts with it, or with CallerUsage.
func (s *Base) CheckHolder(c *Call) error { return s.CheckKey(c, Unmetered) }

// CheckKey has billing confirm that an API key is a current one of the account, and that its scopes, if any, include the
// quota key. A session needs no check.
func (s *Base) CheckKey(c *Call, scope plan.QuotaKey) error {
	if c.Who.Key.Version == 0 {
		return nil
	}
	_, err := s.UsageForKey(c, scope)
	return err
}

// Usage returns the account's usage in the current month.
func (s *Base) Usage(account event.AccountID) (*event.UsageAnswer, error) {
	return s.UsageOf(nil, account, &event.UsageQuery{})
}

// CallerUsage is the LookAtUsage of the caller. An API key that is not a current one of the account is 401, one with scopes is
// 403.
func (s *Base) CallerUsage(c *Call) (*event.UsageAnswer, error) {
	return s.LookAtUsage(c, callerQuery(c, Unmetered))
}

// UsageForKey is the usage of the caller's account, for a key whose scopes, if any, include the quota key. Errors are as of
// CallerUsage.
func (s *Base) UsageForKey(c *Call, scope plan.QuotaKey) (*event.UsageAnswer, error) {
	return s.UsageOf(c, c.Who.Account, callerQuery(c, scope))
}

func callerQuery(c *Call, scope plan.QuotaKey) *event.UsageQuery {
	if c.Who.Key.Version == 0 {
		return &event.UsageQuery{}
	}
	q := KeyCheck(c.Who.Key)
	q.KeyFingerprint = c.Who.keyFingerprint()
	q.Scope = uint32(scope)
	return q
}

// LookAtUsage is UsageOf the caller's account, once its calls answered before are settled.
func (s *Base) LookAtUsage(c *Call, q *event.UsageQuery) (*event.UsageAnswer, error) {
	a, err := s.bus.Look(s.ctx, c.Who.Account, &event.Query{Query: &event.Query_Usage{Usage: q}})
	return s.usageIn(c, q, a, err)
}

// UsageOf asks billing for an account as q says. c may be nil where q checks no key.
func (s *Base) UsageOf(c *Call, account event.AccountID, q *event.UsageQuery) (*event.UsageAnswer, error) {
	a, err := s.bus.Query(s.ctx, account, &event.Query{Query: &event.Query_Usage{Usage: q}})
	return s.usageIn(c, q, a, err)
}

// usageIn returns the usage in the answer to q.
func (s *Base) usageIn(c *Call, q *event.UsageQuery, a *event.QueryAnswer, err error) (*event.UsageAnswer, error) {
	switch {
	case err != nil:
		return nil, err
	case q.CheckKey && (a.Status == event.QueryStatus_QUERY_INVALID_KEY || a.Status == event.QueryStatus_QUERY_NOT_FOUND):
		return nil, s.badKey(c.Ctx)
	case a.Status == event.QueryStatus_QUERY_ACCOUNT_SUSPENDED:
		return nil, accountSuspended()
	case a.Status == event.QueryStatus_QUERY_KEY_SCOPE:
		return nil, keyScope(plan.QuotaKey(q.Scope))
	case a.Status == event.QueryStatus_QUERY_NOT_FOUND:
		return nil, NotFound()
	case a.Status != event.QueryStatus_QUERY_OK || a.GetUsage() == nil:
		return nil, Unavailable(ErrQueryAnswer)
	}
	return a.GetUsage(), nil
}
