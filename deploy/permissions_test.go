package deploy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/deploy/natsconf"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/members"
)

func TestCommittedFilesAreTheGeneratedOnes(t *testing.T) {
	if read(t, "nats/users.conf") != natsconf.Write(natsconf.Config{Partitions: partitions}) {
		t.Error("nats/users.conf is out of date: run make -C deploy users")
	}
	copies := map[string]string{}
	for _, name := range []string{
		"nats/nats.conf", "nats/users.conf", "mongodb/start.sh", "mongodb/init.sh", "mongodb/init.js", "postgres/init.sh",
		"minio/init.sh", "minio/billing.json", "minio/edge.json", "minio/paste.json", "minio/lite.json", "minio/file.json", "minio/archive.json",
	} {
		copies[name] = "../k8s/components/" + name
	}
	dashboards, err := filepath.Glob("grafana/*.json")
	if err != nil || len(dashboards) == 0 {
		t.Fatalf("dashboards: %v, %v", dashboards, err)
	}
	for _, name := range dashboards {
		copies[name] = "../k8s/components/monitoring/" + name
	}
	for name, copied := range copies {
		if read(t, name) != read(t, copied) {
			t.Errorf("%s differs from the original in deploy: run make -C deploy copies", copied)
		}
	}
	copied, err := filepath.Glob("../k8s/components/monitoring/grafana/*")
	if err != nil || len(copied) != len(dashboards) {
		t.Errorf("%d copies of %d dashboards: %v", len(copied), len(dashboards), err)
	}
}

func TestCommittedPartitionsAreThoseOfTheManifests(t *testing.T) {
	if want := fmt.Sprintf("QUIRE_PARTITIONS=%d\n", partitions); !strings.Contains(read(t, "../k8s/base/settings.env"), want) {
		t.Errorf("k8s/base/settings.env does not say %q", want)
	}
	if want := fmt.Sprintf("QUIRE_PARTITIONS: %d\n", partitions); !strings.Contains(read(t, "compose.yaml"), want) {
		t.Errorf("compose.yaml does not say %q", want)
	}
}

// owners makes the journals as the provisioning job does, and connects each service.
func owners(t *testing.T, w *world) map[string]*client {
	t.Helper()
	owner := map[string]*client{}
	for _, service := range natsconf.Services() {
		owner[service] = w.connect(t, service, service)
	}
	job := w.connect(t, natsconf.Provision, natsconf.Provision)
	for range 2 { // the second time everything is there
		if err := installation.Provision(t.Context(), job.Conn, installation.Config{Partitions: partitions, Replicas: 1, Members: true}); err != nil {
			t.Fatalf("provision: %v", err)
		}
	}
	if refused := job.settled(t); len(refused) > 0 {
		t.Errorf("the provisioning job was refused: %s", refused)
	}
	return owner
}

// TestServicesDoTheirWork: no service is refused a subject that it needs. The edge is tried as each of its users.
func TestServicesDoTheirWork(t *testing.T) {
	w := start(t)
	owner := owners(t, w)
	for _, user := range natsconf.Users("edge") {
		t.Run(user, func(t *testing.T) {
			edge := w.connect(t, "edge", user)
			for _, subject := range []string{"billing.0.usage", "billing.0.account", "paste.0.request", "lite.0.request", "file.0.request"} {
				m, err := edge.Request(subject, []byte("batch"), patience)
				if err != nil || !strings.Contains(string(m.Data), `"seq"`) {
					t.Errorf("append to %s: %v", subject, err)
				}
			}
		})
	}
	// The edge's requests are answered by the services that they are for.
	for subject, service := range map[string]string{
		"billing.0.query": "billing", event.UserSubject: "billing", event.WebhookSubject: "billing",
		event.InstancesSubject: "billing", event.ReplicaSubject(0, "instance"): "billing",
		"paste.0.read": "paste", "lite.0.read": "lite", "file.0.read": "file",
		"paste.0.list": "paste", "lite.0.list": "lite", "file.0.list": "file",
		event.Paste.InstancesSubject(): "paste", event.Lite.InstancesSubject(): "lite", event.File.InstancesSubject(): "file",
	} {
		server := owner[service]
		if _, err := server.QueueSubscribe(subject, "q", func(m *nats.Msg) { _ = m.Respond([]byte("answer")) }); err != nil {
			t.Fatal(err)
		}
		if err := server.Flush(); err != nil {
			t.Fatal(err)
		}
		if m, err := owner["edge"].Request(subject, nil, patience); err != nil || string(m.Data) != "answer" {
			t.Errorf("ask %s: %v", subject, err)
		}
	}
	// Billing has the documents of an account deleted that is erased.
	for _, domain := range event.Documents() {
		subject, server := domain.EraseSubject(0), owner[string(domain)]
		if _, err := server.QueueSubscribe(subject, "q", func(m *nats.Msg) { _ = m.Respond([]byte("answer")) }); err != nil {
			t.Fatal(err)
		}
		if err := server.Flush(); err != nil {
			t.Fatal(err)
		}
		if m, err := owner["billing"].Request(subject, nil, patience); err != nil || string(m.Data) != "answer" {
			t.Errorf("ask %s: %v", subject, err)
		}
	}
	// Answers to batches go to the edge's own subjects.
	answers, err := owner["edge"].SubscribeSync("edge.source1.0.>")
	if err != nil {
		t.Fatal(err)
	}
	announced, err := owner["edge"].SubscribeSync("billing.announce")
	if err != nil {
		t.Fatal(err)
	}
	if err := owner["edge"].Flush(); err != nil {
		t.Fatal(err)
	}
	for subject, service := range map[string]string{
		"edge.source1.0.verdict": "billing", "edge.source1.0.command": "billing", "edge.source1.0.outcome.paste": "paste",
		"edge.source1.0.outcome.lite": "lite", "edge.source1.0.outcome.file": "file",
	} {
		if err := owner[service].Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		if m, err := answers.NextMsg(patience); err != nil || m.Subject != subject {
			t.Errorf("answer on %s: %v", subject, err)
		}
	}
	// Billing instances ask each other which prices and rules they know.
	if m, err := owner["billing"].Request(event.InstancesSubject, nil, patience); err != nil || string(m.Data) != "answer" {
		t.Errorf("billing asks its instances: %v", err)
	}
	// Billing compares what it has settled with the ends of the documents' journals.
	for _, domain := range event.Documents() {
		if _, err := journal.Open(owner["billing"].Conn, domain.Stream(0)).State(t.Context()); err != nil {
			t.Errorf("billing asks for the end of %s: %v", domain.Stream(0), err)
		}
	}
	// The edges tell each other of calls that billing does not count.
	told, err := owner["edge"].SubscribeSync(event.SourcesSubject)
	if err != nil {
		t.Fatal(err)
	}
	if err := owner["edge"].Publish(event.SourcesSubject, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := told.NextMsg(patience); err != nil {
		t.Errorf("an edge tells another: %v", err)
	}
	if err := owner["billing"].Publish("billing.announce", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := announced.NextMsg(patience); err != nil {
		t.Errorf("announcement: %v", err)
	}
	if _, err := owner["billing"].Request(event.PricesSubject(0), []byte("prices"), patience); err != nil {
		t.Fatalf("billing publishes prices: %v", err)
	}
	for _, domain := range []string{"paste", "lite", "file"} {
		if _, err := owner[domain].Request("billing.0.settle."+domain, []byte("settlement"), patience); err != nil {
			t.Errorf("%s settles: %v", domain, err)
		}
		if err := journal.Open(owner[domain].Conn, strings.ToUpper(domain)+"_0").Purge(t.Context(), 1); err != nil {
			t.Errorf("%s purges its journal: %v", domain, err)
		}
	}
	// The archive reads what the others have published.
	replay(t, owner["archive"], "BILLING_0")
	for service, c := range owner {
		if service != "edge" && service != "archive" {
			follow(t, c, strings.ToUpper(service)+"_0")
			share(t, c, service)
		}
		if refused := c.settled(t); len(refused) > 0 {
			t.Errorf("%s was refused: %s", service, refused)
		}
	}
}

// errEnough ends a Follow.
var errEnough = errors.New("enough")

// follow reads a journal in every way that pkg/journal has.
func follow(t *testing.T, c *client, stream string) {
	t.Helper()
	j := journal.Open(c.Conn, stream)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	state, err := j.State(ctx)
	if err != nil {
		t.Fatalf("state of %s: %v", stream, err)
	}
	if _, err := c.Request(subjectOf(stream), []byte("one more"), patience); err != nil {
		t.Fatalf("append to %s: %v", stream, err)
	}
	err = j.Follow(ctx, state.Last, func(context.Context, journal.Message) error { return errEnough }, journal.FollowOptions{})
	if !errors.Is(err, errEnough) {
		t.Errorf("follow %s: %v", stream, err)
	}
	m, err := j.Get(ctx, state.Last+1)
	if err != nil {
		t.Errorf("read from %s: %v", stream, err)
	}
	if _, err := j.SeekTime(ctx, m.Time); err != nil {
		t.Errorf("search %s: %v", stream, err)
	}
}

// replay reads a journal up to its end.
func replay(t *testing.T, c *client, stream string) (copied []journal.Message) {
	t.Helper()
	j := journal.Open(c.Conn, stream)
	metadata, err := j.Metadata(t.Context())
	if err == nil {
		_, err = journal.Partitions(metadata)
	}
	if err != nil {
		t.Fatal(err)
	}
	last, err := j.LastSequence(t.Context())
	if err == nil {
		err = j.Replay(t.Context(), 0, last, func(m journal.Message) error {
			m.Data = bytes.Clone(m.Data)
			copied = append(copied, m)
			return nil
		}, nil)
	}
	if err != nil || len(copied) == 0 {
		t.Fatalf("%d messages of %s were read: %v", len(copied), stream, err)
	}
	if _, err := j.Get(t.Context(), last); err != nil {
		t.Errorf("read the last message of %s: %v", stream, err)
	}
	return copied
}

// share joins the members of a service, gets all partitions, and leaves.
func share(t *testing.T, c *client, service string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m := members.New(c.Conn, members.Config{Service: service, Partitions: partitions})
	err := m.Host(ctx, func(context.Context) error {
		select {
		case assigned := <-m.Assigned():
			if len(assigned) != partitions {
				t.Errorf("%s is alone and has partitions %v", service, assigned)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		t.Errorf("%s as a member: %v", service, err)
	}
}

// subjectOf returns a subject that the owner of a journal publishes to.
func subjectOf(stream string) string {
	if stream == event.Billing.Stream(0) {
		return event.UsageSubject(0)
	}
	return strings.ToLower(strings.TrimSuffix(stream, "_0")) + ".0.request"
}

// TestServicesStayOutOfEachOthersSubjects tries what each service must not do. Above all, the edge must not read
// billing's journal.
func TestServicesStayOutOfEachOthersSubjects(t *testing.T) {
	w := start(t)
	owner := owners(t, w)
	everybody := natsconf.Services()
	streams := map[string]string{"billing": "BILLING_0", "paste": "PASTE_0", "lite": "LITE_0", "file": "FILE_0"}
	for _, service := range everybody {
		publish := []string{
			"billing.announce", "billing.0.prices", "billing.0.account", "edge.source1.0.verdict", "edge.source1.0.command",
			"billing.0.usage", "billing.0.settle.paste", "billing.0.settle.lite", "billing.0.settle.file",
			"$JS.API.DIRECT.GET.BILLING_0.billing.0.account", "$JS.API.DIRECT.GET.BILLING_0.billing.0.usage", "$JS.API.DIRECT.GET.LITE_0.lite.0.request",
			"paste.0.request", "lite.0.request", "file.0.request", "edge.source1.0.outcome.paste", "edge.source1.0.outcome.lite",
			"edge.source1.0.outcome.file", event.UserSubject, event.WebhookSubject, "billing.0.query", "paste.0.read", "_INBOX.x", "$SYS.REQ.SERVER.PING",
			"$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.CREATE.OTHER", "$JS.API.INFO",
			"$JS.API.STREAM.DELETE.KV_QUIRE_MEMBERS", "$JS.API.STREAM.CREATE.KV_QUIRE_MEMBERS", "$JS.API.STREAM.UPDATE.KV_QUIRE_MEMBERS",
			"$JS.API.CONSUMER.CREATE.KV_QUIRE_MEMBERS", "$JS.API.CONSUMER.DURABLE.CREATE.BILLING_0.x", "$JS.API.CONSUMER.CREATE.BILLING_0",
			event.SourcesSubject,
		}
		subscribe := []string{
			">", "billing.>", "billing.0.usage", "billing.*.usage", "paste.0.request", "lite.0.request",
			"file.0.request", "$SYS.>", "_INBOX.>", "$JS.API.>", "$JS.EVENT.>", "edge.>",
		}
		for _, other := range everybody {
			if other != service {
				subscribe = append(subscribe, natsconf.InboxPrefix(other)+".>")
			}
		}
		if service != "edge" {
			subscribe = append(subscribe, event.SourcesSubject)
		}
		for of, stream := range streams {
			publish = append(publish, "$JS.API.STREAM.CREATE."+stream, "$JS.API.STREAM.UPDATE."+stream, "$JS.API.STREAM.DELETE."+stream, "$JS.API.STREAM.MSG.DELETE."+stream,
				"$JS.API.DIRECT.GET."+stream, "$JS.API.STREAM.SNAPSHOT."+stream, "$JS.API.STREAM.RESTORE."+stream)
			publish = append(publish, "$JS.FC."+stream+".x.y") // no consumer of a journal pushes
			if of != service {
				publish = append(publish, "$KV.QUIRE_MEMBERS."+of+".x",
					"$JS.API.CONSUMER.CREATE.KV_QUIRE_MEMBERS.x.$KV.QUIRE_MEMBERS."+of+".*", "$JS.API.STREAM.INFO."+stream, "$JS.API.STREAM.MSG.GET."+stream,
					"$JS.API.STREAM.PURGE."+stream, "$JS.API.CONSUMER.CREATE."+stream+".x",
					"$JS.API.CONSUMER.CREATE."+stream+".x.billing.0.usage", "$JS.API.CONSUMER.MSG.NEXT."+stream+".x")
			}
		}
		if service == "billing" {
			publish = append(publish, "$JS.API.STREAM.PURGE.BILLING_0") // the audit trail
		}
		publish = without(publish, allowed(service))
		c := owner[service]
		for _, subject := range publish {
			if err := c.Publish(subject, []byte("{}")); err != nil {
				t.Fatal(err)
			}
			mustRefuse(t, c, service, "publish", subject)
		}
		for _, subject := range subscribe {
			sub, err := c.SubscribeSync(subject)
			if err != nil {
				t.Fatal(err)
			}
			mustRefuse(t, c, service, "subscribe", subject)
			_ = sub.Unsubscribe()
		}
	}
	if _, err := journal.Open(owner["billing"].Conn, "BILLING_0").State(t.Context()); err != nil {
		t.Errorf("the journal did not survive: %v", err)
	}
}

// allowed lists the subjects above that belong to a service's own work.
func allowed(service string) []string {
	return map[string][]string{
		"edge": {
			"billing.0.usage", "billing.0.account", "paste.0.request", "lite.0.request", "file.0.request", event.UserSubject,
			event.WebhookSubject, "billing.0.query", "paste.0.read", event.SourcesSubject,
		},
		"billing": {
			"billing.announce", "billing.0.query", "billing.0.prices", "billing.0.usage", "billing.0.account", "edge.source1.0.verdict", "edge.source1.0.command",
			"$JS.API.STREAM.INFO.PASTE_0", "$JS.API.STREAM.INFO.LITE_0", "$JS.API.STREAM.INFO.FILE_0", // where they end
		},
		"paste": {"billing.0.settle.paste", "paste.0.request", "edge.source1.0.outcome.paste"},
		"lite":  {"billing.0.settle.lite", "lite.0.request", "edge.source1.0.outcome.lite"},
		"file":  {"billing.0.settle.file", "file.0.request", "edge.source1.0.outcome.file"},
		"archive": {
			"$JS.API.STREAM.INFO.BILLING_0", "$JS.API.STREAM.MSG.GET.BILLING_0", "$JS.API.CONSUMER.CREATE.BILLING_0.x",
			"$JS.API.CONSUMER.CREATE.BILLING_0.x.billing.0.usage", "$JS.API.CONSUMER.MSG.NEXT.BILLING_0.x",
		},
	}[service]
}

func without(subjects, drop []string) []string {
	kept := subjects[:0]
	for _, s := range subjects {
		keep := true
		for _, d := range drop {
			keep = keep && s != d
		}
		if keep {
			kept = append(kept, s)
		}
	}
	return kept
}

func mustRefuse(t *testing.T, c *client, service, verb, subject string) {
	t.Helper()
	refused := strings.Join(c.settled(t), "\n")
	if !strings.Contains(refused, `"`+subject+`"`) {
		t.Errorf("%s may %s %s", service, verb, subject)
	}
}

// TestOperatorBacksUpAndWritesNothing: the only user that may copy a journal may not add to it.
func TestOperatorBacksUpAndWritesNothing(t *testing.T) {
	w := start(t)
	owner := owners(t, w)
	if _, err := owner["edge"].Request("billing.0.usage", []byte("batch"), patience); err != nil {
		t.Fatal(err)
	}
	c := w.connect(t, natsconf.Operator, natsconf.Operator)
	chunks := c.NewInbox()
	sub, err := c.SubscribeSync(chunks)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Request("$JS.API.STREAM.SNAPSHOT.BILLING_0", []byte(`{"deliver_subject":"`+chunks+`"}`), patience)
	if err != nil || strings.Contains(string(answer.Data), `"error"`) {
		t.Fatalf("back up: %s, %v", answer.Data, err)
	}
	chunk, err := sub.NextMsg(patience)
	if err != nil || len(chunk.Data) == 0 {
		t.Fatalf("first chunk of the backup: %v", err)
	}
	// With this message a client asks for the next chunk.
	if err := c.Publish("$JS.SNAPSHOT.ACK.BILLING_0.token", nil); err != nil {
		t.Fatal(err)
	}
	if refused := c.settled(t); len(refused) > 0 {
		t.Errorf("the operator was refused: %s", refused)
	}
	for _, subject := range []string{
		"billing.0.usage", "billing.0.account", "paste.0.request", "$JS.API.STREAM.DELETE.BILLING_0", "$JS.API.STREAM.CREATE.OTHER",
		"$JS.API.CONSUMER.CREATE.BILLING_0.x", "$JS.API.CONSUMER.DELETE.BILLING_0.x", "$JS.API.CONSUMER.MSG.NEXT.BILLING_0.x", "$JS.API.STREAM.PURGE.PASTE_0", "$JS.API.STREAM.UPDATE.BILLING_0", "$JS.API.STREAM.MSG.DELETE.BILLING_0",
	} {
		if err := c.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, c, natsconf.Operator, "publish", subject)
	}
}

// TestABackUpReadsAndARestoreWrites with the deployed users: the first may change nothing, and the second read nothing.
func TestABackUpReadsAndARestoreWrites(t *testing.T) {
	w := start(t)
	owner := owners(t, w)
	if _, err := owner["edge"].Request("billing.0.usage", []byte("batch"), patience); err != nil {
		t.Fatal(err)
	}
	c := w.connect(t, natsconf.Backup, natsconf.Backup)
	copied := replay(t, c, "BILLING_0")
	if refused := c.settled(t); len(refused) > 0 {
		t.Errorf("the backup was refused: %s", refused)
	}
	for _, subject := range []string{
		"billing.0.usage", "billing.0.account", "paste.0.request", "$JS.API.STREAM.DELETE.BILLING_0", "$JS.API.STREAM.CREATE.OTHER",
		"$JS.API.STREAM.PURGE.PASTE_0", "$JS.API.STREAM.UPDATE.BILLING_0", "$JS.API.STREAM.MSG.DELETE.BILLING_0", "$JS.API.STREAM.RESTORE.BILLING_0",
	} {
		if err := c.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, c, natsconf.Backup, "publish", subject)
	}

	empty := start(t)
	r := empty.connect(t, natsconf.Operator, natsconf.Operator)
	next := func() (m journal.Message, ok bool, err error) {
		if len(copied) > 0 {
			m, ok, copied = copied[0], true, copied[1:]
		}
		return m, ok, nil
	}
	if err := journal.Restore(t.Context(), r.Conn, installation.Stream(event.Billing, 0), 16, time.Now(), 0, next); err != nil {
		t.Fatal(err)
	}
	if refused := r.settled(t); len(refused) > 0 {
		t.Errorf("the restore was refused: %s", refused)
	}
}

// TestGenerationsWithTheDeployedUsers: one closes them, another deletes them and may do nothing else, and all read on.
func TestGenerationsWithTheDeployedUsers(t *testing.T) {
	w := start(t)
	owner := owners(t, w)
	append := func() {
		t.Helper()
		if m, err := owner["edge"].Request("billing.0.usage", []byte("batch"), patience); err != nil || !strings.Contains(string(m.Data), `"seq"`) {
			t.Fatalf("append: %v", err)
		}
	}
	append()
	job, deleting := w.connect(t, natsconf.Provision, natsconf.Provision), w.connect(t, natsconf.Retention, natsconf.Retention)
	stream := installation.Stream(event.Billing, 0)
	for closed := range 3 {
		if err := journal.Advance(t.Context(), job.Conn, stream, partitions); err != nil {
			t.Fatal(err)
		}
		append()
		list, err := journal.Generations(t.Context(), owner["archive"].Conn, stream)
		if err != nil || len(list) != 2 || list[0].Number != closed {
			t.Fatalf("%+v, %v", list, err)
		}
		for _, reader := range []*client{owner["billing"], owner["archive"], w.connect(t, natsconf.Backup, natsconf.Backup)} {
			var count uint64
			err := journal.Open(reader.Conn, stream.Name).Replay(t.Context(), list[0].First-1, list[1].Last, func(journal.Message) error {
				count++
				return nil
			}, nil)
			if err != nil || count != list[1].Last+1-list[0].First {
				t.Errorf("%d messages were read: %v", count, err)
			}
			if refused := reader.settled(t); len(refused) > 0 {
				t.Errorf("a reader was refused: %s", refused)
			}
		}
		if err := journal.DeleteGeneration(t.Context(), owner["archive"].Conn, deleting.Conn, list[0]); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*client{job, deleting} {
		if refused := c.settled(t); len(refused) > 0 {
			t.Errorf("refused: %s", refused)
		}
	}
	// As on several servers, where a consumer shows that all of them know.
	if m, err := job.Request("$JS.API.CONSUMER.CREATE.BILLING_0.x.billing.0.closed", []byte(`{"stream_name":"BILLING_0","config":{"name":"x","filter_subject":"billing.0.closed"}}`), patience); err != nil || !strings.Contains(string(m.Data), "stream not found") {
		t.Errorf("%v, %v", m, err) // generation 3 has the other name
	}
	for _, subject := range []string{
		"billing.0.usage", "billing.0.closed", "$JS.API.STREAM.DELETE.PASTE_0", "$JS.API.STREAM.DELETE.KV_QUIRE_MEMBERS", "$JS.API.STREAM.INFO.BILLING_0",
		"$JS.API.STREAM.PURGE.PASTE_0", "$JS.API.STREAM.UPDATE.BILLING_0", "$JS.API.STREAM.MSG.GET.BILLING_0", "$JS.API.CONSUMER.CREATE.BILLING_0.x",
	} {
		if err := deleting.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, deleting, natsconf.Retention, "publish", subject)
	}
}

// TestTheJobNeitherReadsNorWritesAMessage: what makes the journals can't look into them.
func TestTheJobNeitherReadsNorWritesAMessage(t *testing.T) {
	w := start(t)
	owners(t, w)
	c := w.connect(t, natsconf.Provision, natsconf.Provision)
	for _, subject := range []string{
		"billing.0.usage", "billing.0.account", "billing.0.prices", "paste.0.request", "edge.source1.0.verdict", "$JS.API.STREAM.DELETE.BILLING_0",
		"$JS.API.STREAM.PURGE.PASTE_0", "$JS.API.STREAM.MSG.GET.BILLING_0", "$JS.API.STREAM.MSG.DELETE.BILLING_0",
		"$JS.API.CONSUMER.CREATE.BILLING_0.x", "$JS.API.CONSUMER.CREATE.BILLING_0.x.billing.0.usage", "$JS.API.CONSUMER.CREATE.BILLING_0.x.>",
		"$JS.API.CONSUMER.CREATE.BILLING_0_ODD.x.billing.1.closed", "$JS.API.STREAM.CREATE.OTHER", "$JS.API.STREAM.SNAPSHOT.BILLING_0", "$KV.QUIRE_MEMBERS.paste.x",
	} {
		if err := c.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, c, natsconf.Provision, "publish", subject)
	}
}

func TestWrongPasswordAndPlainTextAreRefused(t *testing.T) {
	w := start(t)
	for name, url := range map[string]string{
		"wrong password": strings.Replace(w.url, "://", "://edge:guess@", 1),
		"no user":        w.url,
	} {
		t.Run(name, func(t *testing.T) {
			nc, err := nats.Connect(url, nats.RootCAs(caFile(t, w)), nats.NoReconnect())
			if err == nil {
				nc.Close()
				t.Fatal("connected")
			}
			if !errors.Is(err, nats.ErrAuthorization) {
				t.Errorf("refused for another reason: %v", err)
			}
		})
	}
}

func caFile(t *testing.T, w *world) string {
	t.Helper()
	path := t.TempDir() + "/ca.crt"
	if err := os.WriteFile(path, w.authority, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServicesUseTheirOwnInboxes: the services must connect with the inbox prefixes that their permissions name.
func TestServicesUseTheirOwnInboxes(t *testing.T) {
	for path, want := range map[string]string{
		"../pkg/host/host.go":   `rpc.Connect(p.NATSURL, p.Program.String(), `,
		"../pkg/rpc/connect.go": fmt.Sprintf("nats.CustomInboxPrefix(%q+service)", natsconf.InboxPrefix("")),
	} {
		if !strings.Contains(read(t, path), want) {
			t.Errorf("%s does not say %s", path, want)
		}
	}
}
