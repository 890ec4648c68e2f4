package webhooks

import (
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/views"
)

func TestAddressesOfWebhooks(t *testing.T) {
	long := "https://example.com/" + strings.Repeat("x", maxURLBytes-len("https://example.com/"))
	for _, url := range []string{
		"https://example.com", "https://example.com/hooks?a=b", "https://example.com:8443/", "https://8.8.8.8/", "https://[2606:4700::1111]/", long,
	} {
		if reason := checkURL(url, false); reason != "" {
			t.Errorf("%.60s must %s", url, reason)
		}
	}
	for _, url := range []string{
		"", "example.com", "http://example.com", "ftp://example.com", "https://", "https://user:pass@example.com", "https://example.com/#x",
		"https://example.com:0", "https://example.com:65536", "https://example.com:", "https://exam ple.com", "https://example.com/\n", "https://localhost",
		"https://intranet/", "https://printer.local", "https://db.internal", "https://x.localhost.", long + "x",
		// By IANA's registries: private, loopback, link-local and metadata, shared, this network, documentation, benchmarks, multicast, reserved.
		"https://10.1.2.3", "https://172.16.0.1", "https://192.168.1.1", "https://127.0.0.1", "https://169.254.169.254", "https://100.64.0.1", "https://0.0.0.0",
		"https://192.0.2.1", "https://198.18.0.1", "https://224.0.0.1", "https://240.0.0.1", "https://255.255.255.255",
		// And by IPv6: loopback, unspecified, unique local, link-local, mapped, NAT64, 6to4, Teredo, documentation, multicast.
		"https://[::1]", "https://[::]", "https://[fd00:ec2::254]", "https://[fe80::1]", "https://[::ffff:10.0.0.1]", "https://[::ffff:127.0.0.1]",
		"https://[64:ff9b::a00:1]", "https://[2002:a00:1::]", "https://[2001:0:a00::1]", "https://[2001:db8::1]", "https://[ff02::1]",
		"https://[::127.0.0.1]", "https://[::ffff:7f00:1]", "https://[64:ff9b:1::a00:1]", "https://[64:ff9b::127.0.0.1]", "https://[fe80::1%25eth0]",
		// In other notations.
		"https://2130706433", "https://0x7f000001", "https://0x7f.0.0.1", "https://0177.0.0.1", "https://127.1", "https://10.1", "https://example.127", "https://example.0x", "https://a.0xffffffffffffffffff", "https://a..example.com", "https://.example.com", "https://example.com..", "https://" + strings.Repeat("a", 64) + ".example.com", "https://127.0.0.1.", "https://127.0.0.%EF%BC%91", "https://a.%E2%93%9Bocalhost",
	} {
		if checkURL(url, false) == "" {
			t.Errorf("%q is taken", url)
		}
	}
	for _, url := range []string{"http://127.0.0.1:8080/hooks", "http://localhost", "https://10.0.0.1"} {
		if reason := checkURL(url, true); reason != "" {
			t.Errorf("where private addresses are allowed, %s must %s", url, reason)
		}
	}
}

func TestALocalAddressIsRefusedWithTheWayToListen(t *testing.T) {
	for url, hinted := range map[string]bool{
		"http://localhost:3000/hooks": true, "https://localhost": true, "http://127.0.0.1:8080": true, "https://192.168.1.1": true, "http://[::1]:3000": true,
		"http://example.com": false, "ftp://localhost": false, "https://example.com:0": false,
	} {
		if reason := checkURL(url, false); reason == "" || strings.Contains(reason, "quire listen --forward-to") != hinted {
			t.Errorf("%s must %s", url, reason)
		}
	}
}

// TestTheDialerRefusesTheSameAddresses: a name's addresses are known only when dialing.
func TestTheDialerRefusesTheSameAddresses(t *testing.T) {
	for address, network := range map[string]string{
		"10.0.0.1:443": "tcp4", "127.0.0.1:443": "tcp4", "169.254.169.254:80": "tcp4", "100.64.0.1:443": "tcp4",
		"[::127.0.0.1]:443": "tcp6", "[64:ff9b:1::a00:1]:443": "tcp6", "[2001:0:a00::1]:443": "tcp6",
		"[::1]:443": "tcp6", "[::ffff:10.0.0.1]:443": "tcp6", "[64:ff9b::a00:1]:443": "tcp6", "[2002:a00:1::]:443": "tcp6", "[fd00::1]:443": "tcp6",
	} {
		if dialPublic(network, address, nil) == nil {
			t.Errorf("%s is dialled", address)
		}
	}
	if err := dialPublic("tcp4", "8.8.8.8:8443", nil); err != nil {
		t.Error(err)
	}
}

func TestACreationIsAnsweredAgainForADay(t *testing.T) {
	b := newBench(t)
	create := func(change string) *event.WebhookAnswer {
		return b.ask(0, &event.WebhookRequest{Action: &event.WebhookRequest_Create{Create: &event.CreateAddress{Url: "https://example.com", Change: []byte(change)}}})
	}
	first, again, other := create("one"), create("one"), create("two")
	if again.Secret != first.Secret || again.Addresses[0].Webhook != first.Addresses[0].Webhook || !again.Replayed || first.Replayed {
		t.Errorf("%v, then %v", first, again)
	}
	if other.Secret == first.Secret || other.Addresses[0].Webhook == first.Addresses[0].Webhook || len(first.Addresses[0].Secrets) != 0 {
		t.Errorf("%v, then %v", first, other)
	}
	b.pass(replayed)
	if later := create("one"); later.Replayed || later.Addresses[0].Webhook == first.Addresses[0].Webhook {
		t.Errorf("a day later: %v", later)
	}
	refused, err := b.Answer(t.Context(), &event.WebhookRequest{Account: uint64(alice), Action: &event.WebhookRequest_Create{Create: &event.CreateAddress{Url: "ftp://x"}}})
	if err != nil || refused.Status != event.WebhookStatus_WEBHOOK_BAD_URL || refused.Reason == "" {
		t.Errorf("%v, %v", refused, err)
	}
}

// TestSecretsAreEncryptedAgainWithANewMaster: the master secret is rotated, and the previous one retired later.
func TestSecretsAreEncryptedAgainWithANewMaster(t *testing.T) {
	b := newBench(t)
	r := newReceiver(t, nil)
	hook, secret := b.hook(r.URL)
	docs, err := b.views.Load(t.Context(), addresses, []string{addressID(alice, hook)}, views.Full)
	if err != nil || len(docs) != 1 || strings.Contains(string(docs[0].Head), secret) || strings.Contains(string(docs[0].Head), secret[len(secretPrefix):]) {
		t.Fatalf("the secret is in the read model: %v, %v", docs, err)
	}
	first, second := []byte("the first master secret"), []byte("the second master secret")
	b.Store = b.storeWith(Config{Partitions: 4, Secrets: [][]byte{second, first}, AllowPrivate: true})
	stop := b.send("one")
	b.Store = b.storeWith(Config{Partitions: 4, Secrets: [][]byte{second}, AllowPrivate: true})
	eventually.True(t, "the secret is encrypted again", func() bool {
		a, err := b.load(t.Context(), alice, hook)
		return err == nil && b.sealer.present(a.Secrets[0].Sealed)
	})
	stop()
	b.send("two")
	b.tell(hook)
	b.until(hook, "it is delivered", delivered)
	if err := verify(secret, r.got()[0]); err != nil {
		t.Error(err)
	}
	// A secret that no master opens can only be replaced.
	b.Store = b.storeWith(Config{Partitions: 4, Secrets: [][]byte{[]byte("an unrelated master")}, AllowPrivate: true})
	if _, err := b.sealer.open(docs[0].Head, addressID(alice, hook)); err == nil {
		t.Error("opened")
	}
	b.ask(hook, &event.WebhookRequest{Action: &event.WebhookRequest_Rotate{Rotate: &event.RotateSecret{}}})
}

func TestNothingIsMadeWithoutAMaster(t *testing.T) {
	b := newBench(t)
	b.Store = b.storeWith(Config{Partitions: 4})
	if a, err := b.Answer(t.Context(), &event.WebhookRequest{
		Account: uint64(alice), Action: &event.WebhookRequest_Create{Create: &event.CreateAddress{Url: "https://example.com"}},
	}); err == nil {
		t.Errorf("%v", a)
	}
}

// TestAnAddressWithoutAWebhookIsSwept: a creation was interrupted before its command, or a deletion after it.
func TestAnAddressWithoutAWebhookIsSwept(t *testing.T) {
	b := newBench(t)
	kept, _ := b.hook("https://example.com")
	lost, _ := b.hook("https://example.com")
	b.tell(kept, lost)
	partition := event.AccountPartition(alice, 4)
	sweep := func(partition int) {
		t.Helper()
		err := Sweep(t.Context(), b.views, partition, b.clock(), func(account event.AccountID, webhook uint64) bool {
			return account == alice && webhook == kept
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	count := func() int {
		return len(b.ask(0, &event.WebhookRequest{Action: &event.WebhookRequest_Find{Find: &event.FindAddresses{}}}).Addresses)
	}
	if sweep(partition); count() != 2 {
		t.Error("an address was swept that is being created")
	}
	b.pass(abandoned + time.Second)
	if sweep((partition + 1) % 4); count() != 2 {
		t.Error("an address of another partition was swept")
	}
	if sweep(partition); count() != 1 {
		t.Errorf("%d addresses are left", count())
	}
	for id, want := range map[uint64]int{kept: 1, lost: 0} {
		list := b.ask(id, &event.WebhookRequest{Action: &event.WebhookRequest_Deliveries{Deliveries: &event.ListDeliveries{}}}).Deliveries
		if len(list) != want {
			t.Errorf("%d deliveries, want %d", len(list), want)
		}
	}
}

func TestAnAccountThatIsErasedLeavesNothing(t *testing.T) {
	b := newBench(t)
	const bob = event.AccountID(0xB0B)
	first, _ := b.hook("https://example.com/one")
	second, _ := b.hook("https://example.com/two")
	b.tell(first, second)
	b.ask(second, &event.WebhookRequest{Action: &event.WebhookRequest_Delete{Delete: &event.DeleteAddress{}}})
	b.tell(first, second) // it was decided before, and is projected after the deletion
	kept, err := b.Answer(t.Context(), &event.WebhookRequest{Account: uint64(bob), Action: &event.WebhookRequest_Create{Create: &event.CreateAddress{Url: "https://example.com"}}})
	if err != nil {
		t.Fatal(err)
	}
	b.project(99, &event.Alert{Id: "evt_99", Position: "99", Account: uint64(bob), Webhooks: []uint64{kept.Addresses[0].Webhook}, TimeMs: b.now()})
	for range 2 {
		if err := Erase(t.Context(), b.views, alice); err != nil {
			t.Fatal(err)
		}
	}
	for collection, index := range map[string]string{addresses: byAccount, alerts: byAccount, deliveries: byWebhook} {
		docs, err := b.views.List(t.Context(), collection, views.Query{Index: index, Limit: 10})
		if err != nil || len(docs) != 1 || !strings.HasPrefix(docs[0].ID, bob.String()) {
			t.Errorf("%s has %v, %v", collection, docs, err)
		}
	}
}
