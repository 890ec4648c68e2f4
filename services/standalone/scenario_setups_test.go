package standalone

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// roundTrip uses each service once, and audits.
func roundTrip(t *testing.T, i *instance) {
	t.Helper()
	a, other := i.account(t, "pro"), i.account(t, "pro")
	var ids []string
	for n := range 12 { // enough to meet every partition
		id := a.quick(t, object{"title": fmt.Sprint(n)})
		ids = append(ids, id)
		a.do(t, "PUT", "/api/dev/paste-lite/update/"+id, object{"content": fmt.Sprint("changed ", n)}).ok(t, http.StatusOK)
		if got := text(t, other.do(t, "GET", "/api/dev/paste-lite/get/"+id, nil).ok(t, http.StatusOK), "paste", "content"); got != fmt.Sprint("changed ", n) {
			t.Errorf("content %q", got)
		}
	}
	paste := a.paste(t, object{"content": strings.Repeat("large ", 20_000)})
	a.do(t, "GET", "/api/dev/pastes/get/"+paste, nil).ok(t, http.StatusOK)
	file := a.upload(t, "f", []byte("bytes"))
	a.do(t, "GET", "/api/dev/files/get/"+file, nil).ok(t, http.StatusOK)
	body := a.do(t, "GET", "/api/dev/paste-lite/list?limit=5", nil).ok(t, http.StatusOK)
	listed := len(at(t, body, "pastes").([]any))
	for body["hasMore"] == true {
		body = a.do(t, "GET", "/api/dev/paste-lite/list?limit=5&cursor="+text(t, body, "nextCursor"), nil).ok(t, http.StatusOK)
		listed += len(at(t, body, "pastes").([]any))
	}
	if listed != len(ids) {
		t.Errorf("%d of %d are listed", listed, len(ids))
	}
	retry := request{body: object{"content": "x"}, header: map[string]string{"Idempotency-Key": "k"}}
	first, again := a.with(t, "POST", "/api/dev/paste-lite/create", retry), a.with(t, "POST", "/api/dev/paste-lite/create", retry)
	if string(first.body) != string(again.body) {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	if used := a.used(t, "pasteLite.create"); used != int64(len(ids))+1 {
		t.Errorf("%d creations are counted", used)
	}
	i.audit(t)
}

func TestSeveralPartitions(t *testing.T) {
	t.Parallel()
	i := start(t, withConfig(func(c *Config) { c.Partitions = 3 }))
	roundTrip(t, i)
	i.restart(t)
	roundTrip(t, i)
	if got := len(at(t, i.audit(t), "partitions").([]any)); got != 3 {
		t.Errorf("%d partitions were audited", got)
	}
	// Another number would look for keys in other partitions.
	if err := i.stop(); err != nil {
		t.Fatal(err)
	}
	i.cfg.Partitions = 2
	if err := i.boot(); err == nil || !strings.Contains(err.Error(), "partitions") {
		t.Errorf("another number of partitions: %v", err)
	}
	i.cfg.Partitions = 3
	if err := i.boot(); err != nil {
		t.Fatal(err)
	}
}

func TestAJournalServerElsewhere(t *testing.T) {
	t.Parallel()
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), SyncAlways: true, NoSigs: true, NoLog: true, MaxPayload: 8 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("no journal server")
	}
	i := start(t, withConfig(func(c *Config) { c.NATSURL = ns.ClientURL() }))
	roundTrip(t, i)
	i.restart(t)
	roundTrip(t, i)
}

func TestAJournalServerThatDoesNotAnswerStopsTheStartWithAClearError(t *testing.T) {
	t.Parallel()
	i := prepare(t.TempDir(), withConfig(func(c *Config) { c.NATSURL = "nats://127.0.0.1:1" }))
	err := i.boot()
	if err == nil {
		_ = i.stop()
		t.Fatal("it started without a journal")
	}
	if !strings.Contains(err.Error(), "journal") {
		t.Errorf("got %v", err)
	}
}

// TestAStartThatIsCutShortLeavesNothingOpen cancels while quire starts, and starts again.
func TestAStartThatIsCutShortLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	i := prepare(t.TempDir())
	for _, after := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond} {
		q, err := New(i.cfg, i.deps)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), after)
		if err := q.Run(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("cut short after %s: %v", after, err)
		}
		cancel()
	}
	if err := i.boot(); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, i)
	if err := i.stop(); err != nil {
		t.Error(err)
	}
}
