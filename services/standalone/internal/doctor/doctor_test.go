package doctor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/event"
	"quire.dev/pkg/host"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/services/standalone/internal/doctor"
)

// settings are those of a Quire in a folder, with other environment variables beside.
func settings(t *testing.T, folder string, others ...string) host.Settings {
	t.Helper()
	s, err := host.ReadSettings(host.Quire, append([]string{"QUIRE_DATA=" + folder}, others...))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// finding returns the finding of a check whose detail contains a text.
func finding(findings []doctor.Finding, check, detail string) (doctor.Finding, error) {
	for _, f := range findings {
		if f.Check == check && strings.Contains(f.Detail, detail) {
			return f, nil
		}
	}
	return doctor.Finding{}, fmt.Errorf("no finding of %q with %q in %+v", check, detail, findings)
}

func want(t *testing.T, findings []doctor.Finding, check string, result doctor.Result, detail string) {
	t.Helper()
	f, err := finding(findings, check, detail)
	if err == nil && f.Result != result {
		err = fmt.Errorf("%+v, want %s", f, result)
	}
	if err == nil && (f.Advice == "") != (result == doctor.OK) {
		err = fmt.Errorf("%+v: advice is for what is not ok", f)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestBeforeTheFirstStartNothingFails(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	found := doctor.Examine(t.Context(), doctor.Config{Settings: settings(t, folder)})
	want(t, found, "data folder", doctor.OK, "does not exist yet")
	want(t, found, "NATS", doctor.OK, "in this process")
	want(t, found, "read models", doctor.OK, "SQLite")
	want(t, found, "bucket", doctor.OK, "a folder")
	if _, err := finding(found, "room for the data folder", "% full"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the examination has created the folder: %v", err)
	}
}

func TestADataFolderThatOthersReadIsARisk(t *testing.T) {
	for mode, result := range map[os.FileMode]doctor.Result{0o700: doctor.OK, 0o750: doctor.Warn, 0o704: doctor.Warn} {
		folder := t.TempDir()
		if err := os.Chmod(folder, mode); err != nil {
			t.Fatal(err)
		}
		want(t, doctor.Examine(t.Context(), doctor.Config{Settings: settings(t, folder)}), "data folder", result, folder)
	}
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, doctor.Examine(t.Context(), doctor.Config{Settings: settings(t, file)}), "data folder", doctor.Fail, "is no folder")
}

func TestJournalsAreExaminedInTheServer(t *testing.T) {
	s := journaltest.Start(t, journaltest.WithListener(t))
	nc := s.Conn(t)
	examine := func(partitions int, now func() time.Time) []doctor.Finding {
		t.Helper()
		return doctor.Examine(t.Context(), doctor.Config{
			Settings: settings(t, t.TempDir(), "QUIRE_NATS_URL="+s.URL(), fmt.Sprint("QUIRE_PARTITIONS=", partitions)), Now: now,
		})
	}
	found := examine(2, nil)
	want(t, found, "NATS", doctor.OK, "version "+server.VERSION)
	want(t, found, "journals", doctor.OK, "none exists yet")
	want(t, found, "sync of NATS", doctor.Warn, "not examined")

	ensure := func(domain event.Domain) {
		t.Helper()
		if err := journal.Ensure(t.Context(), nc, installation.Streams(domain, 2), 2); err != nil {
			t.Fatal(err)
		}
	}
	ensure(event.Billing)
	want(t, examine(2, nil), "journals", doctor.Fail, "6 streams are missing")
	for _, domain := range event.Documents() {
		ensure(domain)
	}
	found = examine(2, nil)
	want(t, found, "journals", doctor.Warn, "8 streams have one replica")
	want(t, found, "clock of NATS", doctor.OK, "differs")
	if doctor.Failed(found) && !onlyRoom(found) {
		t.Errorf("%+v", found)
	}
	want(t, examine(1, nil), "journal BILLING_0", doctor.Fail, `created for "2", started with "1"`)

	for ahead, result := range map[time.Duration]doctor.Result{3 * time.Second: doctor.Warn, -3 * time.Second: doctor.Warn, time.Minute: doctor.Fail, -time.Minute: doctor.Fail} {
		want(t, examine(2, func() time.Time { return time.Now().Add(ahead) }), "clock of NATS", result, "differs")
	}
}

// TestGenerationsAreExamined: a closed one is as it should be, and one that nobody continues is not.
func TestGenerationsAreExamined(t *testing.T) {
	s := journaltest.Start(t, journaltest.WithListener(t))
	nc := s.Conn(t)
	if err := installation.Provision(t.Context(), nc, installation.Config{Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	stream := installation.Stream(event.Billing, 0)
	examine := func() []doctor.Finding {
		return doctor.Examine(t.Context(), doctor.Config{Settings: settings(t, t.TempDir(), "QUIRE_NATS_URL="+s.URL(), "QUIRE_PARTITIONS=1")})
	}
	if err := journal.Advance(t.Context(), nc, stream, 1); err != nil {
		t.Fatal(err)
	}
	found := examine()
	want(t, found, "journals", doctor.Warn, "5 streams have one replica")
	if doctor.Failed(found) && !onlyRoom(found) {
		t.Errorf("%+v", found)
	}
	list, err := journal.Generations(t.Context(), nc, stream)
	if err == nil {
		err = journal.DeleteGeneration(t.Context(), nc, nc, list[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	open, err := js.Stream(t.Context(), "BILLING_0_ODD")
	if err != nil {
		t.Fatal(err)
	}
	config := open.CachedInfo().Config
	config.Subjects = []string{journal.ClosedSubject(stream.Name)}
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	want(t, examine(), "journal BILLING_0_ODD", doctor.Fail, "is being closed")
}

// onlyRoom reports whether nothing has failed but the room of this machine's disk.
func onlyRoom(findings []doctor.Finding) bool {
	for _, f := range findings {
		if f.Result == doctor.Fail && f.Check != "room for the data folder" {
			return false
		}
	}
	return true
}

func TestUnreachableServersFail(t *testing.T) {
	const nobody = "127.0.0.1:1" // a port that is never served
	for readModels, url := range map[string]string{
		"PostgreSQL": "QUIRE_POSTGRES_URL=postgres://quire:secret-of-postgres@" + nobody + "/quire",
		"MongoDB":    "QUIRE_MONGO_URL=mongodb://quire:secret-of-mongo@" + nobody,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		found := doctor.Examine(ctx, doctor.Config{
			Settings: settings(t, t.TempDir(), "QUIRE_NATS_URL=nats://quire:secret-of-nats@"+nobody, "QUIRE_PUBLIC_URL=https://"+nobody,
				"QUIRE_S3_URL=http://key:secret-of-s3@"+nobody+"/bucket", url),
			NATSMonitors: []string{"http://" + nobody},
		})
		cancel()
		for _, check := range []string{"NATS", "NATS at http://" + nobody, readModels, "bucket", "certificate of the public URL"} {
			want(t, found, check, doctor.Fail, "")
		}
		for _, print := range []func(*bytes.Buffer) error{
			func(b *bytes.Buffer) error { return doctor.Print(b, found) }, func(b *bytes.Buffer) error { return doctor.PrintJSON(b, found) },
		} {
			var out bytes.Buffer
			if err := print(&out); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(out.String(), "secret-of") {
				t.Errorf("a password is shown:\n%s", out.String())
			}
		}
	}
}

// TestTheMonitoringOfAServerTellsWhetherItSyncs, for a server of each kind.
func TestTheMonitoringOfAServerTellsWhetherItSyncs(t *testing.T) {
	nats := journaltest.Start(t, journaltest.WithListener(t))
	for name, c := range map[string]struct {
		change func(*server.Options)
		check  string
		result doctor.Result
	}{
		"every write": {func(*server.Options) {}, "sync of one", doctor.OK},
		"later":       {func(o *server.Options) { o.SyncAlways = false }, "sync of one", doctor.Fail},
		"disabled":    {func(o *server.Options) { o.JetStream = false }, "", doctor.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			options := &server.Options{
				ServerName: "one", Host: "127.0.0.1", Port: server.RANDOM_PORT, HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT,
				JetStream: true, SyncAlways: true, StoreDir: t.TempDir(), JetStreamMaxStore: 1 << 20, NoSigs: true, NoLog: true,
			}
			c.change(options)
			s, err := server.NewServer(options)
			if err != nil {
				t.Fatal(err)
			}
			s.Start()
			defer s.WaitForShutdown()
			defer s.Shutdown()
			if !s.ReadyForConnections(2 * time.Minute) {
				t.Fatal("the server does not start")
			}
			base := "http://" + s.MonitorAddr().String()
			found := doctor.Examine(t.Context(), doctor.Config{Settings: settings(t, t.TempDir(), "QUIRE_NATS_URL="+nats.URL()), NATSMonitors: []string{base}})
			if c.check == "" {
				want(t, found, "NATS at "+base, c.result, "JetStream is disabled")
				return
			}
			want(t, found, c.check, c.result, "")
			want(t, found, "store of one", doctor.OK, "0 % full")
		})
	}
}

func TestACertificateHasToLast(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	end := s.Certificate().NotAfter
	const day = 24 * time.Hour
	for left, result := range map[time.Duration]doctor.Result{
		31 * day: doctor.OK, 30*day + time.Hour: doctor.OK, 30*day - time.Hour: doctor.Warn, 7*day + time.Hour: doctor.Warn, 7*day - time.Hour: doctor.Fail, -day: doctor.Fail,
	} {
		found := doctor.Examine(t.Context(), doctor.Config{
			Settings: settings(t, t.TempDir(), "QUIRE_PUBLIC_URL="+s.URL), Now: func() time.Time { return end.Add(-left) },
		})
		want(t, found, "certificate of the public URL", result, "ends on")
	}
}

func TestFindingsAreJSON(t *testing.T) {
	var out bytes.Buffer
	if err := doctor.PrintJSON(&out, []doctor.Finding{{Check: "a", Result: doctor.Fail, Detail: "b", Advice: "c"}}); err != nil {
		t.Fatal(err)
	}
	var got struct{ Findings []map[string]string }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Findings) != 1 || got.Findings[0]["result"] != "fail" || got.Findings[0]["advice"] != "c" {
		t.Errorf("%s, %v", out.String(), err)
	}
}
