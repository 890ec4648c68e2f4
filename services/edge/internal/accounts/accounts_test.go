package accounts

import (
	"bytes"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/limit"
)

func TestAnAddressThatIsTooLongIsRefused(t *testing.T) {
	long := input.Value{Kind: input.String, Text: []byte("a@" + strings.Repeat("b.", 127) + "c")}
	if _, err := EmailField("email", long); fault.KindOf(err) != fault.InvalidField {
		t.Errorf("an address of %d bytes: %v", len(long.Text), err)
	}
}

func TestPasswordLengthsAreInCharacters(t *testing.T) {
	for password, taken := range map[string]bool{
		"1234567": false, "12345678": true, "пароль12": true, "пароль1": false,
		strings.Repeat("ю", 128): true, strings.Repeat("ю", 129): false, "": false,
	} {
		_, err := AccountPasswordField(AccountPasswordMin)("password", input.Value{Kind: input.String, Text: []byte(password)})
		if (err == nil) != taken {
			t.Errorf("%q: %v", password, err)
		}
	}
	if _, err := AccountPasswordField(AccountPasswordMin)("password", input.Value{Kind: input.Number, Text: []byte("12345678")}); err == nil {
		t.Error("a number was taken for a password")
	}
}

func TestAmountsAreReadByTheirDigits(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1_000_000, "-1.000001": -1_000_001, "0.1": 100_000, "1000000000": int64(maxGrant), "-1000000000.000000": -int64(maxGrant), "0.000001": 1,
	} {
		for _, k := range []input.Kind{input.String, input.Number} {
			if got, err := AmountField("amount", input.Value{Kind: k, Text: []byte(text)}); err != nil || got != want {
				t.Errorf("%s: %d, %v; want %d", text, got, err, want)
			}
		}
	}
	for _, text := range []string{
		"", "0", "-0", "0.0000001", "1e3", "1E-6", "NaN", "Infinity", "0x10", "1,5", " 1", "1000000000.000001", "-1000000001", "99999999999999999999999999",
	} {
		if got, err := AmountField("amount", input.Value{Kind: input.String, Text: []byte(text)}); fault.KindOf(err) != fault.InvalidField {
			t.Errorf("%q was read as %d, %v", text, got, err)
		}
	}
	if _, err := AmountField("amount", input.Value{Kind: input.Bool, Text: []byte("true")}); fault.KindOf(err) != fault.InvalidField {
		t.Errorf("true: %v", err)
	}
	if plan.Unlimited != -1 || maxGrant > math.MaxInt64/2 {
		t.Error("amounts could overflow")
	}
}

func TestPeriods(t *testing.T) {
	if start, err := ParsePeriod("2026-11"); err != nil || !start.Equal(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%v, %v", start, err)
	}
	for _, bad := range []string{"", "2026", "2026-13", "2026-00", "2026-1", "26-11", "2026-11-01", "2026/11", "２０２６-11", " 2026-11"} {
		if _, err := ParsePeriod(bad); fault.KindOf(err) != fault.InvalidField {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestRegistrationsUnderOneIdempotencyKey: they must be in one partition, whose fold remembers the key, and no two emails may
// share an account.
func TestRegistrationsUnderOneIdempotencyKey(t *testing.T) {
	secret, err := apikey.NewSecret([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	s := &Accounts{secret: secret}
	rapid.Check(t, func(t *rapid.T) {
		s.partitions = rapid.IntRange(1, 64).Draw(t, "partitions")
		idem := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "idempotency id")
		one := rapid.StringMatching(`[a-z]{1,8}@[a-z]{1,8}`).Draw(t, "email")
		proposals := func(email string) []event.AccountID { return slices.Collect(s.accountsFor(idem, email)) }
		first, again, other := proposals(one), proposals(strings.ToUpper(one)), proposals("x"+one)
		every := slices.Concat(first, other)
		if !slices.Equal(first, again) || len(first) != mostProposals || len(slices.Compact(slices.Sorted(slices.Values(every)))) != len(every) {
			t.Errorf("%v, again %v, for another email %v", first, again, other)
		}
		want := event.Partition(idem, s.partitions)
		for _, id := range every {
			if got := event.AccountPartition(id, s.partitions); got != want {
				t.Errorf("account %v in partition %d, want %d", id, got, want)
			}
		}
	})
	one, err1 := s.ProposeAccount(nil, "a@b")
	if other, err2 := s.ProposeAccount(nil, "a@b"); err1 != nil || err2 != nil || one == other {
		t.Errorf("without a key two registrations propose %v and %v, %v, %v", one, other, err1, err2)
	}
}

// TestAPeerWithoutAnAddressIsASource: connections through a Unix socket have none.
func TestAPeerWithoutAnAddressIsASource(t *testing.T) {
	for source, want := range map[netip.Addr][]byte{
		{}: {}, netip.MustParseAddr("192.0.2.7"): {192, 0, 2}, netip.MustParseAddr("2001:db8:7:8::"): {0x20, 1, 0x0d, 0xb8, 0, 7},
	} {
		if got := neighbourhoodBytes(source); !bytes.Equal(got, want) {
			t.Errorf("%v: %v", source, got)
		}
		if got := limit.Source(source); (len(got) == 0) != !source.IsValid() {
			t.Errorf("network of %v: %v", source, got)
		}
	}
}

// TestANullBesideTheExpiryOfANewKeyDoesNotEndIt: whatever the order of the fields.
func TestANullBesideTheExpiryOfANewKeyDoesNotEndIt(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, body := range []string{
		`{"name":"ci","expiresAt":"2027-02-01T00:00:00Z","expiresIn":null}`, `{"name":"ci","expiresIn":null,"expiresAt":"2027-02-01T00:00:00Z"}`,
		`{"name":"ci","expiresIn":"1h","expiresAt":null}`, `{"name":"ci","expiresAt":null,"expiresIn":"1h"}`,
	} {
		if r, err := ReadKeyRules(input.JSON([]byte(body)), now, true); err != nil || r.GetExpiresMs() == 0 && r.GetExpiresInMs() == 0 {
			t.Errorf("%s is read as %v, %v", body, r, err)
		}
	}
}

// TestAKeyMayBeForPaymentsOnly: its scope is read and shown, but has no limit and no usage.
func TestAKeyMayBeForPaymentsOnly(t *testing.T) {
	checkout := input.Text(plan.ScopeCheckout.String())
	scopes, err := keyScopesField("scopes", input.Value{Kind: input.Array, Items: []input.Value{checkout, input.Text("pastes.get"), checkout}})
	if err != nil || !slices.Equal(scopes.QuotaKeys, []uint32{uint32(plan.PastesGet), uint32(plan.ScopeCheckout)}) {
		t.Errorf("%v, %v", scopes, err)
	}
	if view := viewAPIKey(&event.ApiKey{Scopes: scopes.QuotaKeys}, time.Now()); !slices.Equal(view.Scopes, []string{"pastes.get", "payments.checkout"}) {
		t.Errorf("shown as %v", view.Scopes)
	}
	if _, err := keyScopesField("scopes", input.Value{Kind: input.Array, Items: []input.Value{input.Text("payments.other")}}); err == nil {
		t.Error("an unknown scope is taken")
	}
	if _, err := QuotaKeyField("quotaKey", checkout); err == nil {
		t.Error("the scope is taken for a quota key")
	}
}
