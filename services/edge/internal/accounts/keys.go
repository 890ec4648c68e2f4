package accounts

import (
	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
)

// NewKey derives the key that this call creates, or that the first call with its Idempotency-Key created. Billing assigns its
// version.
func (s *Accounts) NewKey(c *endpoint.Call, account event.AccountID) apikey.Key {
	return s.secret.NewKey(account, keyCommand(c))
}

// keyCommand is the id of a command that creates a key.
func keyCommand(c *endpoint.Call) []byte {
	if len(c.Idem) > 0 {
		return c.Idem
	}
	id := c.ID()
	return id[:]
}

// MadeKey returns the key that a command created, with its version. For a replayed command it finds the original key, even if
// the edge that answered first signs with another secret.
func (s *Accounts) MadeKey(c *endpoint.Call, key apikey.Key, o *event.CommandOutcome) (apikey.Key, error) {
	key.Version = o.KeyVersion
	if !o.Replayed {
		return key, nil
	}
	keys := s.secret.NewKeys(key.Account, keyCommand(c))
	if len(keys) == 1 {
		return key, nil
	}
	for _, other := range keys {
		other.Number, other.Version = key.Number, o.KeyVersion
		current, err := s.CurrentKey(other)
		if err != nil {
			return key, err
		}
		if current {
			return other, nil
		}
	}
	return key, nil // replaced since: neither is valid any more
}

// CurrentKey reports whether the key is a current one of its account.
func (s *Accounts) CurrentKey(key apikey.Key) (bool, error) {
	a, err := s.bus.Query(s.ctx, key.Account, &event.Query{Query: &event.Query_Usage{Usage: endpoint.KeyCheck(key)}})
	if err != nil {
		return false, err
	}
	return a.Status == event.QueryStatus_QUERY_OK || a.Status == event.QueryStatus_QUERY_KEY_SCOPE, nil
}

// Rotation is what billing stores of a key.
func (s *Accounts) Rotation(key apikey.Key) *event.RotateKey {
	return &event.RotateKey{Fingerprint: key.Fingerprint(), Prefix: apikey.Prefix(s.secret.Format(key))}
}
