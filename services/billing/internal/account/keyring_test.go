package account

import (
	"slices"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

const (
	scopeRefused = event.Decision_KEY_SCOPE
	keyExhausted = event.Decision_KEY_QUOTA_EXHAUSTED
	capReached   = event.Decision_SPENDING_CAP_REACHED
)

func createKey(id uint64, fingerprint uint64, rules *event.KeyRules) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_CreateKey{CreateKey: &event.CreateKey{
		Fingerprint: fingerprint, Prefix: "qk_further", Rules: rules,
	}}}
}

func updateKey(id uint64, number uint32, rules *event.KeyRules) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_UpdateKey{UpdateKey: &event.UpdateKey{Key: number, Rules: rules}}}
}

func replaceKey(id uint64, number uint32, fingerprint uint64, overlap time.Duration) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_ReplaceKey{ReplaceKey: &event.ReplaceKey{
		Key: number, Fingerprint: fingerprint, Prefix: "qk_replaced", OverlapMs: overlap.Milliseconds(),
	}}}
}

func revokeKey(id uint64, number uint32) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_RevokeKey{RevokeKey: &event.RevokeKey{Key: number}}}
}

func setCap(id uint64, period event.CapPeriod, amount uint64) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_SetSpendingCap{SetSpendingCap: &event.SetSpendingCap{
		Cap: &event.SpendingCap{Period: period, AmountMicros: amount},
	}}}
}

func scopesOf(keys ...plan.QuotaKey) *event.KeyScopes {
	s := &event.KeyScopes{}
	for _, key := range keys {
		s.QuotaKeys = append(s.QuotaKeys, uint32(key))
	}
	return s
}

func quotasOf(key plan.QuotaKey, limit uint32) *event.KeyQuotas {
	return &event.KeyQuotas{Limits: []*event.KeyQuota{{QuotaKey: uint32(key), Limit: limit}}}
}

// does expects a command to succeed.
func (h *history) does(c *event.Command) *event.CommandOutcome {
	h.t.Helper()
	o := h.command(c)
	if o.Status != event.CommandStatus_COMMAND_OK {
		h.t.Fatalf("%v: %v", c, o)
	}
	return o
}

// refuses expects a command to be refused.
func (h *history) refuses(c *event.Command, status event.CommandStatus) {
	h.t.Helper()
	if o := h.command(c); o.Status != status {
		h.t.Fatalf("%v: %v, want %v", c, o, status)
	}
}

// sent is an admission with a key.
func (h *history) sent(id uint64, key plan.QuotaKey, number, version uint32, fingerprint uint64) *event.Admission {
	a := h.admission(id, key)
	a.Key, a.KeyVersion, a.KeyFingerprint = number, version, fingerprint
	return a
}

func (h *history) keys(id uint64) *event.UsageAnswer {
	u := h.fold.UsageAt(event.AccountID(id), h.now)
	h.fold.Describe(u, &event.UsageQuery{Keys: true}, h.now)
	return u
}

func TestAnAccountHasSeveralKeys(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Max)
	k1 := h.does(createKey(alice, 11, &event.KeyRules{Scopes: scopesOf(plan.LiteCreate)})).Key
	if k1.Number != 1 || k1.Version != 1 || k1.Name != "default 2" || k1.LastUsedMs != 0 {
		t.Fatalf("made %v", k1)
	}
	h.want(h.sent(alice, plan.LiteCreate, 1, 1, 11), admitted)
	h.want(h.sent(alice, plan.LiteCreate, 0, 1, 1), admitted)
	for _, wrong := range []*event.Admission{
		h.sent(alice, plan.LiteCreate, 1, 1, 12), h.sent(alice, plan.LiteCreate, 2, 1, 11),
		h.sent(alice, plan.LiteCreate, 0, 1, 11), h.sent(alice, plan.LiteCreate, 1, 1, 1), h.sent(alice, plan.LiteCreate, 1, 2, 11),
	} {
		h.want(wrong, invalid)
	}
	before := h.usedBy(alice, plan.LiteGet).Used
	if v := h.want(h.sent(alice, plan.LiteGet, 1, 1, 11), scopeRefused); !v.Final {
		t.Errorf("refused with %v", v)
	}
	if h.usedBy(alice, plan.LiteGet).Used != before {
		t.Error("a refusal was counted")
	}
	list := h.keys(alice).Keys
	if len(list) != 2 || list[0].Number != 0 || list[1].LastUsedMs != h.now || list[1].Usage[0].Used != 1 || list[0].Usage[0].Used != 1 {
		t.Fatalf("keys %v", list)
	}
	h.does(revokeKey(alice, 1))
	if len(h.changed) != 1 {
		t.Error("edges are not told of a revoked key")
	}
	h.want(h.sent(alice, plan.LiteCreate, 1, 1, 11), invalid)
	h.want(h.sent(alice, plan.LiteCreate, 0, 1, 1), admitted)
	h.refuses(updateKey(alice, 1, &event.KeyRules{Name: new("late")}), event.CommandStatus_COMMAND_KEY_NOT_FOUND)
	h.does(revokeKey(alice, 1))
}

func TestAnAccountHasTwentyKeys(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Max)
	for n := range uint64(MaxKeys - 1) {
		h.does(createKey(alice, 100+n, &event.KeyRules{}))
	}
	h.refuses(createKey(alice, 99, &event.KeyRules{}), event.CommandStatus_COMMAND_TOO_MANY_KEYS)
	h.does(replaceKey(alice, 1, 200, time.Hour)) // full, a key can still be replaced
	h.does(revokeKey(alice, 2))
	h.does(createKey(alice, 99, &event.KeyRules{}))
	for n := range uint64(60) { // ended ones are forgotten in the end
		number := h.keys(alice).Keys[len(h.keys(alice).Keys)-1].Number
		h.does(revokeKey(alice, number))
		h.does(createKey(alice, 300+n, &event.KeyRules{}))
	}
	if n := len(h.keys(alice).Keys); n != MaxKeys+1+maxEndedKeys {
		t.Errorf("%d keys are remembered", n)
	}
	for range MaxKeys - 1 { // one exists already
		list := h.keys(alice).Keys
		h.does(replaceKey(alice, list[len(list)-1].Number, 500+uint64(len(list)), time.Hour))
	}
	last := h.keys(alice).Keys
	h.refuses(replaceKey(alice, last[len(last)-1].Number, 600, time.Hour), event.CommandStatus_COMMAND_TOO_MANY_KEYS)
	h.does(replaceKey(alice, last[len(last)-1].Number, 600, 0))
}

// TestTheDefaultKeyHasItsPlace: it may be created or regenerated at any time, and an account never has more than twenty keys.
func TestTheDefaultKeyHasItsPlace(t *testing.T) {
	h := historyOf(t)
	h.does(&event.Command{Account: alice, Action: &event.Command_Create{Create: &event.CreateAccount{Tier: uint32(plan.Max)}}})
	h.account(bob, plan.Max)
	h.does(revokeKey(bob, 0))
	for _, id := range []uint64{alice, bob} {
		for n := range uint64(MaxKeys - 1) {
			h.does(createKey(id, 100+n, &event.KeyRules{}))
		}
		h.refuses(createKey(id, 99, &event.KeyRules{}), event.CommandStatus_COMMAND_TOO_MANY_KEYS)
		h.does(&event.Command{Account: id, Action: &event.Command_RotateKey{RotateKey: &event.RotateKey{Fingerprint: 5}}})
		live := 0
		for _, k := range h.keys(id).Keys {
			if k.RevokedMs == 0 {
				live++
			}
		}
		if live != MaxKeys {
			t.Errorf("%x has %d live keys", id, live)
		}
	}
}

func TestAReplacedKeyEndsOnTheMillisecond(t *testing.T) {
	for name, number := range map[string]uint32{"default": 0, "further": 1} {
		t.Run(name, func(t *testing.T) {
			h := historyOf(t)
			h.account(alice, plan.Max)
			h.does(createKey(alice, 11, &event.KeyRules{}))
			old := h.sent(alice, plan.LiteGet, 0, 1, 1)
			made := func() *event.Admission { return h.sent(alice, plan.LiteGet, 0, 2, 12) }
			if number == 1 {
				old = h.sent(alice, plan.LiteGet, 1, 1, 11)
				made = func() *event.Admission { return h.sent(alice, plan.LiteGet, 2, 1, 12) }
			}
			again := func() *event.Admission {
				a := h.sent(alice, plan.LiteGet, old.Key, old.KeyVersion, old.KeyFingerprint)
				return a
			}
			o := h.does(replaceKey(alice, number, 12, time.Hour))
			if o.OldKeyExpiresMs != h.now+time.Hour.Milliseconds() {
				t.Fatalf("replaced: %v", o)
			}
			h.refuses(replaceKey(alice, map[uint32]uint32{0: 2, 1: 1}[number], 13, time.Hour), event.CommandStatus_COMMAND_KEY_NOT_FOUND)
			h.want(again(), admitted)
			h.want(made(), admitted)
			h.now = o.OldKeyExpiresMs - 1
			h.want(again(), admitted)
			q := &event.UsageQuery{CheckKey: true, Key: old.Key, KeyVersion: old.KeyVersion, KeyFingerprint: old.KeyFingerprint}
			if s := h.fold.Key(event.AccountID(alice), q, h.now); s != event.QueryStatus_QUERY_OK {
				t.Errorf("a query before the end: %v", s)
			}
			if s := h.fold.Key(event.AccountID(alice), q, h.now+1); s != event.QueryStatus_QUERY_INVALID_KEY {
				t.Errorf("a query at the end: %v", s)
			}
			h.now++
			v := h.want(again(), invalid)
			if want := map[uint32]uint32{0: 2, 1: 1}[number]; v.CurrentKeyVersion != want {
				t.Errorf("versions from %d on are current, want %d", v.CurrentKeyVersion, want)
			}
			h.want(made(), admitted)
		})
	}
}

// TestAnOverlapTellsEdgesOfTheOldestVersion: an edge refuses lower versions of the default key by itself.
func TestAnOverlapTellsEdgesOfTheOldestVersion(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Max)
	h.does(replaceKey(alice, 0, 2, time.Hour))
	h.does(replaceKey(alice, 0, 3, 2*time.Hour))
	wrong := h.sent(alice, plan.LiteGet, 0, 9, 9)
	if v := h.want(wrong, invalid); v.CurrentKeyVersion != 1 {
		t.Errorf("versions from %d on are current, want 1", v.CurrentKeyVersion)
	}
	h.wait(time.Hour)
	if v := h.want(h.sent(alice, plan.LiteGet, 0, 1, 1), invalid); v.CurrentKeyVersion != 2 {
		t.Errorf("versions from %d on are current, want 2", v.CurrentKeyVersion)
	}
	h.want(h.sent(alice, plan.LiteGet, 0, 2, 2), admitted)
	h.does(&event.Command{Account: alice, Action: &event.Command_RotateKey{RotateKey: &event.RotateKey{Fingerprint: 4}}})
	for version := range uint32(3) {
		h.want(h.sent(alice, plan.LiteGet, 0, version+1, uint64(version)+1), invalid)
	}
	h.want(h.sent(alice, plan.LiteGet, 0, 4, 4), admitted)
}

func TestAReplacedKeyDoesNotOutliveItsExpiry(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Max)
	hour := time.Hour.Milliseconds()
	h.does(createKey(alice, 11, &event.KeyRules{ExpiresInMs: new(hour)}))
	h.wait(50 * time.Minute)
	o := h.does(replaceKey(alice, 1, 12, 7*24*time.Hour))
	if o.OldKeyExpiresMs != h.now+10*time.Minute.Milliseconds() || o.Key.ExpiresMs != h.now+hour {
		t.Fatalf("replaced: %v", o)
	}
	h.refuses(replaceKey(alice, 2, 13, 7*24*time.Hour+time.Millisecond), event.CommandStatus_COMMAND_INVALID)
	h.wait(10 * time.Minute)
	h.want(h.sent(alice, plan.LiteGet, 1, 1, 11), invalid)
	h.wait(50*time.Minute - time.Millisecond)
	h.want(h.sent(alice, plan.LiteGet, 2, 1, 12), admitted)
	h.wait(time.Millisecond)
	h.want(h.sent(alice, plan.LiteGet, 2, 1, 12), invalid)
}

// TestASuccessorContinuesLimits: replacing a key resets neither its quota nor its cap.
func TestASuccessorContinuesLimits(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Max)
	h.does(createKey(alice, 11, &event.KeyRules{Quotas: quotasOf(plan.LiteGet, 2)}))
	h.want(h.sent(alice, plan.LiteGet, 1, 1, 11), admitted)
	h.does(replaceKey(alice, 1, 12, time.Hour))
	second := h.sent(alice, plan.LiteGet, 2, 1, 12)
	h.want(second, admitted)
	if v := h.want(h.sent(alice, plan.LiteGet, 1, 1, 11), keyExhausted); !v.Held || v.KeyLimit != 2 {
		t.Errorf("refused with %v", v)
	}
	h.wait(3 * time.Minute).tick()
	if v := h.want(h.sent(alice, plan.LiteGet, 2, 1, 12), keyExhausted); v.Held || v.RetryAfterSeconds == 0 {
		t.Errorf("refused with %v", v)
	}
	h.want(h.sent(alice, plan.LiteGet, 0, 1, 1), admitted)
	h.does(updateKey(alice, 2, &event.KeyRules{Quotas: quotasOf(plan.LiteGet, 3)}))
	third := h.sent(alice, plan.LiteGet, 2, 1, 12)
	h.want(third, admitted)
	h.voided(third)
	h.want(h.sent(alice, plan.LiteGet, 2, 1, 12), admitted)
	h.now = at("2026-11-01T00:00:00Z")
	h.want(h.sent(alice, plan.LiteGet, 2, 1, 12), admitted)
}

// TestAKeysLimitOfNothingDoesNotEndByWaiting: as with a tier without the endpoint.
func TestAKeysLimitOfNothingDoesNotEndByWaiting(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Max)
	for limit, seconds := range []uint32{0, secondsUntil(at("2026-11-01T00:00:00Z"), h.now)} {
		h.does(updateKey(alice, 0, &event.KeyRules{Quotas: quotasOf(plan.LiteGet, uint32(limit))}))
		for range limit {
			h.use(alice, plan.LiteGet, 1)
		}
		v := h.want(h.admission(alice, plan.LiteGet), keyExhausted)
		if v.RetryAfterSeconds != seconds || !v.Final {
			t.Errorf("a limit of %d is refused with %v", limit, v)
		}
	}
}

// TestLiveKeysHaveUniqueNames: a taken name is refused, a missing one chosen, and an ended key frees its name. A key and its
// successor share theirs.
func TestLiveKeysHaveUniqueNames(t *testing.T) {
	const taken = event.CommandStatus_COMMAND_KEY_NAME_TAKEN
	h := historyOf(t)
	h.account(alice, plan.Max)
	fingerprint := uint64(10)
	create := func(name string) *event.Command {
		fingerprint++
		rules := &event.KeyRules{}
		if name != "" {
			rules.Name = &name
		}
		return createKey(alice, fingerprint, rules)
	}
	named := func(number uint32, name string) *event.Command {
		return updateKey(alice, number, &event.KeyRules{Name: &name})
	}
	chosen := func(want string) uint32 {
		t.Helper()
		k := h.does(create("")).Key
		if k.Name != want {
			t.Fatalf("the key is named %q, want %q", k.Name, want)
		}
		return k.Number
	}
	h.refuses(create("default"), taken)
	second := chosen("default 2")
	chosen("default 3")
	h.refuses(create("default 2"), taken)
	h.refuses(named(second, "default"), taken)
	h.does(named(second, "default 2")) // its own
	h.does(named(second, "Default"))
	chosen("default 2")
	h.does(named(0, "main"))
	h.refuses(create("main"), taken)
	h.does(create("default"))

	build := h.does(create("build")).Key.Number
	h.does(replaceKey(alice, build, 90, time.Hour))
	h.refuses(create("build"), taken)
	successor := h.keys(alice).Keys[len(h.keys(alice).Keys)-1]
	h.does(revokeKey(alice, successor.Number))
	h.refuses(create("build"), taken) // the replaced key is still valid
	h.wait(time.Hour).tick()
	h.does(create("build"))

	h.does(createKey(alice, 91, &event.KeyRules{Name: new("short"), ExpiresInMs: new(int64(60_000))}))
	h.refuses(create("short"), taken)
	h.wait(time.Minute).tick()
	h.does(create("short"))
	h.does(revokeKey(alice, 0))
	h.refuses(create("main"), taken) // regeneration revives the default key
	h.sound()
}

// TestKeysNamedAlikeUnderTheFirstRulesStay: only what is named from then on must differ.
func TestKeysNamedAlikeUnderTheFirstRulesStay(t *testing.T) {
	h := newHistory(t, nil)
	h.rules = Rules1
	h.prices(smallBook())
	h.account(alice, plan.Max)
	h.refuses(createKey(alice, 11, &event.KeyRules{}), event.CommandStatus_COMMAND_INVALID)
	for n := range uint64(2) {
		h.does(createKey(alice, 11+n, &event.KeyRules{Name: new("default")}))
	}
	h.rules = Rules2
	h.prices(smallBook())
	h.refuses(createKey(alice, 13, &event.KeyRules{Name: new("default")}), event.CommandStatus_COMMAND_KEY_NAME_TAKEN)
	h.does(updateKey(alice, 1, &event.KeyRules{Name: new("default"), Scopes: scopesOf(plan.LiteGet)}))
	h.does(updateKey(alice, 1, &event.KeyRules{Name: new("reader")}))
	h.refuses(updateKey(alice, 1, &event.KeyRules{Name: new("default")}), event.CommandStatus_COMMAND_KEY_NAME_TAKEN)
	h.does(createKey(alice, 13, &event.KeyRules{}))
	h.sound()
}

// TestAKeyForPaymentsOnly: its scope is no quota key.
func TestAKeyForPaymentsOnly(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	key := h.does(createKey(alice, 11, &event.KeyRules{Name: new("pays"), Scopes: scopesOf(plan.ScopeCheckout)})).Key
	if !slices.Equal(key.Scopes, []uint32{uint32(plan.ScopeCheckout)}) {
		t.Fatalf("%v", key)
	}
	for _, k := range plan.QuotaKeys() {
		h.want(h.sent(alice, k, 1, 1, 11), event.Decision_KEY_SCOPE)
	}
	asks := func(number uint32, fingerprint uint64, scope plan.QuotaKey) event.QueryStatus {
		return h.fold.Key(event.AccountID(alice), &event.UsageQuery{Key: number, KeyVersion: 1, KeyFingerprint: fingerprint, Scope: uint32(scope)}, h.now)
	}
	h.does(createKey(alice, 12, &event.KeyRules{Name: new("reads"), Scopes: scopesOf(plan.LiteGet)}))
	for _, c := range []struct {
		number      uint32
		fingerprint uint64
		scope       plan.QuotaKey
		want        event.QueryStatus
	}{
		{1, 11, plan.ScopeCheckout, event.QueryStatus_QUERY_OK},
		{1, 11, plan.LiteGet, event.QueryStatus_QUERY_KEY_SCOPE},
		{1, 11, 0, event.QueryStatus_QUERY_KEY_SCOPE},
		{2, 12, plan.ScopeCheckout, event.QueryStatus_QUERY_KEY_SCOPE},
		{2, 12, 62, event.QueryStatus_QUERY_KEY_SCOPE},
		{0, 1, plan.ScopeCheckout, event.QueryStatus_QUERY_OK},
	} {
		if got := asks(c.number, c.fingerprint, c.scope); got != c.want {
			t.Errorf("key %d for %v: %v", c.number, c.scope, got)
		}
	}
	h.refuses(createKey(alice, 13, &event.KeyRules{Name: new("x"), Scopes: scopesOf(62)}), badCommand)
	h.refuses(createKey(alice, 13, &event.KeyRules{Name: new("x"), Quotas: quotasOf(plan.ScopeCheckout, 1)}), badCommand)
}
