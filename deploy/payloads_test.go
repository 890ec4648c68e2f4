package deploy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/deploy/natsconf"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/rpc"
)

// configOf is the configuration of a stream as the operator sees it.
func configOf(t *testing.T, operator *client, stream string) string {
	t.Helper()
	m, err := operator.Request("$JS.API.STREAM.INFO."+stream, nil, patience)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Config json.RawMessage `json:"config"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil || len(answer.Config) == 0 {
		t.Fatalf("info of %s: %s, %v", stream, m.Data, err)
	}
	return string(answer.Config)
}

// TestNoServiceChangesAStream: what a stream's configuration can do (publish elsewhere, follow other streams, drop what it
// holds) is out of the reach of every service, whatever it sends, also for its own stream and the members' bucket.
func TestNoServiceChangesAStream(t *testing.T) {
	w := start(t)
	owner := owners(t, w)
	operator := w.connect(t, natsconf.Operator, natsconf.Operator)
	streams := []string{"BILLING_0", "PASTE_0", "LITE_0", "FILE_0", "KV_QUIRE_MEMBERS"}
	before := map[string]string{}
	for _, stream := range streams {
		before[stream] = configOf(t, operator, stream)
	}
	changes := map[string]string{
		"republish":            `"republish":{"src":">","dest":"billing.0.account"}`,
		"sources":              `"sources":[{"name":"BILLING_0"}]`,
		"mirror":               `"mirror":{"name":"BILLING_0"}`,
		"limits lowered":       `"max_msgs":1,"max_age":1000000000,"discard":"old"`,
		"subjects of others":   `"subjects":["billing.0.account"]`,
		"deletes are allowed":  `"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":true`,
		"another installation": `"metadata":{"quire-partitions":"1","quire-installation":"mine"}`,
	}
	for service, c := range owner {
		for _, stream := range streams {
			for _, change := range changes {
				config := []byte(fmt.Sprintf(`{"name":%q,"storage":"file","num_replicas":1,%s}`, stream, change))
				for _, verb := range []string{"CREATE", "UPDATE"} {
					if err := c.Publish("$JS.API.STREAM."+verb+"."+stream, config); err != nil {
						t.Fatal(err)
					}
				}
			}
			if refused := len(c.settled(t)); refused != 2*len(changes) {
				t.Errorf("%s was refused %d of %d changes of %s", service, refused, 2*len(changes), stream)
			}
		}
	}
	for _, stream := range streams {
		if after := configOf(t, operator, stream); after != before[stream] {
			t.Errorf("%s has become\n%s\nit was\n%s", stream, after, before[stream])
		}
	}
}

// TestARedirectedJournalAsksNobody: a service may make consumers of its own stream, and NATS lets it name any subject for them to
// deliver to. What comes from there is no request.
func TestARedirectedJournalAsksNobody(t *testing.T) {
	w := start(t)
	owner := owners(t, w)
	billing, lite := owner["billing"], owner["lite"]
	asked := make(chan string, 8)
	server, err := rpc.Serve(billing.Conn, "billing.users", "billing", 1, func(_ context.Context, payload []byte) ([]byte, error) {
		asked <- string(payload)
		return payload, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rpc.Stop(time.Second, server)
	witness, err := billing.SubscribeSync("billing.users")
	if err != nil {
		t.Fatal(err)
	}
	if err := billing.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := lite.Request("lite.0.request", []byte("forged"), patience); err != nil {
		t.Fatal(err)
	}
	consumer := `{"stream_name":"LITE_0","config":{"name":"x","deliver_subject":"billing.users","deliver_policy":"all","ack_policy":"none"}}`
	if _, err := lite.Request("$JS.API.CONSUMER.CREATE.LITE_0.x", []byte(consumer), patience); err != nil {
		t.Fatal(err)
	}
	// NATS delivers it there.
	if m, err := witness.NextMsg(patience); err != nil || string(m.Data) != "forged" || !rpc.Redirected(m) {
		t.Fatalf("%v, %v", m, err)
	}
	// The next request is one of the edge. Messages of one subscription stay in order.
	if m, err := owner["edge"].Request("billing.users", []byte("asked"), patience); err != nil || string(m.Data) != "asked" {
		t.Fatalf("the edge asks: %v", err)
	}
	if got := <-asked; got != "asked" {
		t.Errorf("billing was asked %q by a consumer", got)
	}
	// A client can't take the mark away by making it itself.
	if err := lite.PublishRequest("lite.0.request", "$JS.ACK.LITE_0.x.1.1.1.1.0", nil); err != nil {
		t.Fatal(err)
	}
	if lite.settled(t); lite.LastError() == nil {
		t.Error("a client may publish with the reply subject of a consumer")
	}
}

// TestARedirectedJournalIsNoMessageOfAnother: what a consumer delivers to the subject of a journal is stored there, but keeps the
// subject that its sender could publish to. The folds pass over what does not have their own.
func TestARedirectedJournalIsNoMessageOfAnother(t *testing.T) {
	w := start(t)
	owner := owners(t, w)
	lite := owner["lite"]
	for n, target := range []string{
		"billing.0.account", "billing.0.usage", "billing.0.settle.file", "paste.0.request", "$KV.QUIRE_MEMBERS.paste.x",
	} {
		consumer := fmt.Sprintf(`{"stream_name":"LITE_0","config":{"name":"x%d","deliver_subject":%q,"deliver_policy":"all","ack_policy":"none"}}`, n, target)
		if m, err := lite.Request(fmt.Sprintf("$JS.API.CONSUMER.CREATE.LITE_0.x%d", n), []byte(consumer), patience); err != nil || strings.Contains(string(m.Data), `"error"`) {
			t.Fatalf("make a consumer: %v, %s", err, m.Data)
		}
	}
	if _, err := lite.Request("lite.0.request", []byte("forged"), patience); err != nil {
		t.Fatal(err)
	}
	for service, want := range map[string]uint64{"billing": 3, "paste": 1} {
		stream := strings.ToUpper(service) + "_0"
		j := journal.Open(owner[service].Conn, stream)
		eventually.True(t, "what was delivered is stored in "+stream, func() bool {
			last, err := j.LastSequence(t.Context())
			return err == nil && last == want
		})
		err := j.Replay(t.Context(), 0, want, func(m journal.Message) error {
			if m.Subject != "lite.0.request" {
				t.Errorf("%s has it as %s", stream, m.Subject)
			}
			return nil
		}, nil)
		if err != nil {
			t.Error(err)
		}
	}
	operator := w.connect(t, natsconf.Operator, natsconf.Operator)
	m, err := operator.Request("$JS.API.STREAM.INFO.KV_QUIRE_MEMBERS", []byte(`{"subjects_filter":"$KV.QUIRE_MEMBERS.>"}`), patience)
	if err != nil || strings.Contains(string(m.Data), "$KV.QUIRE_MEMBERS.paste.x") {
		t.Errorf("a member is announced by another service: %s, %v", m.Data, err)
	}
}

// TestTheOperatorMayDoWhatTheDocumentsSay: each command in the pages of docs for a NATS user is one of those below, whose
// requests that user may make. The user logs in with a password.
func TestTheOperatorMayDoWhatTheDocumentsSay(t *testing.T) {
	w := start(t)
	owners(t, w)
	operator := w.connect(t, natsconf.Operator, natsconf.Operator)
	// The requests of the nats command, by its words. Each is about BILLING_0.
	requests := map[string][]string{
		"stream backup":            {"STREAM.INFO.BILLING_0", "STREAM.SNAPSHOT.BILLING_0"},
		"stream restore":           {"STREAM.RESTORE.BILLING_0"},
		"stream ls":                {"STREAM.NAMES", "STREAM.LIST"},
		"stream report":            {"STREAM.NAMES", "STREAM.LIST"},
		"stream info":              {"STREAM.INFO.BILLING_0"},
		"stream cluster step-down": {"STREAM.INFO.BILLING_0", "STREAM.LEADER.STEPDOWN.BILLING_0"},
		"consumer ls":              {"CONSUMER.NAMES.BILLING_0", "CONSUMER.LIST.BILLING_0"},
	}
	seen := map[string]bool{}
	for _, command := range regexp.MustCompile(`nats (--(?:server|user) [^\n`+"`"+`]*|stream [^\n`+"`"+`]*|consumer [^\n`+"`"+`]*)`).FindAllString(pages(t), -1) {
		if strings.Contains(command, "--user sys") {
			continue // of the system account, which may all
		}
		named := strings.Contains(command, "--user operator") && strings.Contains(command, "--password ") &&
			strings.Contains(command, "--inbox-prefix _INBOX_operator")
		if strings.Contains(command, "--user") && !named {
			t.Errorf("without user, password and inbox it can't log in: %s", command)
		}
		known := false
		for words := range requests {
			if strings.Contains(command, words) {
				known, seen[words] = true, true
			}
		}
		if !known {
			t.Errorf("no user was tried with: %s", command)
		}
	}
	for words, list := range requests {
		if !seen[words] {
			t.Errorf("no page of docs says %q any more", words)
		}
		for _, request := range list {
			m, err := operator.Request("$JS.API."+request, []byte(`{"deliver_subject":"`+operator.NewInbox()+`"}`), patience)
			if request == "STREAM.LEADER.STEPDOWN.BILLING_0" && errors.Is(err, nats.ErrTimeout) {
				continue // a server without a cluster takes it and does not answer
			}
			if err != nil {
				t.Errorf("%s: %v", request, err)
			} else if strings.Contains(string(m.Data), "permission") {
				t.Errorf("%s: %s", request, m.Data)
			}
		}
	}
	if refused := operator.settled(t); len(refused) > 0 {
		t.Errorf("the operator was refused: %s", refused)
	}
}

// pages returns the texts of all pages in the folder docs.
func pages(t *testing.T) string {
	t.Helper()
	paths, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, path := range paths {
		all.WriteString(read(t, path))
	}
	return all.String()
}
