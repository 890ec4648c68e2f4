package host

import (
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write docs/settings.md")

const root = "../.."

func TestThePageOfSettingsIsThatOfTheTable(t *testing.T) {
	path := filepath.Join(root, "docs/settings.md")
	if *update {
		if err := os.WriteFile(path, []byte(page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, path) != page() {
		t.Error("docs/settings.md differs from the table: go test ./pkg/host -update")
	}
}

func TestTheTerminalShowsEverySettingWithItsDefault(t *testing.T) {
	var out strings.Builder
	if err := ShowSettings(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nQUIRE_LISTEN (edge, quire)\n  Address of the API. Port 0 stands for any free port.\n" +
			"  an address such as \"127.0.0.1:8080\" or \":8080\"\n  default: 127.0.0.1:8080\n",
		"\nQUIRE_SECRET (edge, billing, quire; secret)\n", "default: edge: must be set; billing, quire: none\n", "default: all but quire: 16; quire: 1\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
	for _, row := range new(Settings).table() {
		if !strings.Contains(out.String(), "\n"+row.name+" (") {
			t.Errorf("%s is not shown", row.name)
		}
	}
}

// stores are the settings required by each separate service.
var stores = []string{"QUIRE_NATS_URL=nats://n:4222", "QUIRE_MONGO_URL=mongodb://a,b/?replicaSet=r", "QUIRE_S3_URL=https://k:s@h/b"}

func with(variables ...string) []string { return append(slices.Clone(stores), variables...) }

const checkpointKey = "QUIRE_CHECKPOINT_KEY=0123456789abcdef0123456789abcdef"

func TestEachProgramRefusesWrongSettingsAllAtOnce(t *testing.T) {
	const secret = "QUIRE_SECRET=0123456789abcdef"
	for name, c := range map[string]struct {
		program Program
		environ []string
		faults  []string // names; none: it is taken
	}{
		"quire needs nothing":       {Quire, nil, nil},
		"an edge needs its stores":  {Edge, nil, []string{"QUIRE_NATS_URL", "QUIRE_S3_URL", "QUIRE_SECRET"}},
		"billing needs its stores":  {Billing, nil, []string{"QUIRE_NATS_URL", "QUIRE_POSTGRES_URL", "QUIRE_S3_URL"}},
		"archive needs its stores":  {Archive, nil, []string{"QUIRE_CHECKPOINT_KEY", "QUIRE_NATS_URL", "QUIRE_S3_URL"}},
		"archive needs a long key":  {Archive, with(checkpointKey[:len(checkpointKey)-1]), []string{"QUIRE_CHECKPOINT_KEY"}},
		"archive with its stores":   {Archive, with(checkpointKey), nil},
		"paste needs its stores":    {Paste, nil, []string{"QUIRE_NATS_URL", "QUIRE_POSTGRES_URL", "QUIRE_S3_URL"}},
		"lite needs its stores":     {Lite, nil, []string{"QUIRE_NATS_URL", "QUIRE_POSTGRES_URL", "QUIRE_S3_URL"}},
		"file needs its stores":     {File, nil, []string{"QUIRE_NATS_URL", "QUIRE_POSTGRES_URL", "QUIRE_S3_URL"}},
		"PostgreSQL":                {Billing, append(slices.Delete(with(), 1, 2), "QUIRE_POSTGRES_URL=postgres://u:p@a,b/quire"), nil},
		"two read models":           {Paste, with("QUIRE_POSTGRES_URL=postgresql://h/quire"), []string{"QUIRE_MONGO_URL"}},
		"two for one process":       {Quire, with("QUIRE_POSTGRES_URL=postgresql://h/quire"), []string{"QUIRE_MONGO_URL"}},
		"two for an edge":           {Edge, with(secret, "QUIRE_POSTGRES_URL=postgresql://h/quire"), nil},
		"a bad one is none missing": {Lite, append(slices.Delete(with(), 1, 2), "QUIRE_POSTGRES_URL=postgres:h"), []string{"QUIRE_POSTGRES_URL"}},
		"an edge has what it needs": {Edge, with(secret), nil},
		"billing has":               {Billing, with(), nil},
		"paste has":                 {Paste, with(), nil},
		"a typo":                    {Paste, with("QUIRE_PARTITION=4"), []string{"QUIRE_PARTITION is not a setting: did you mean QUIRE_PARTITIONS?"}},
		"several":                   {File, with("QUIRE_PARTITIONS=0", "QUIRE_CONTENT_RETENTION=x"), []string{"QUIRE_PARTITIONS", "QUIRE_CONTENT_RETENTION"}},
		"those of the edge":         {Paste, with("QUIRE_SECRET=0123456789", "QUIRE_LISTEN=:80", "QUIRE_MAX_CONNS=x"), nil},
		"those of billing":          {Edge, with(secret, "QUIRE_SNAPSHOT_MESSAGES=0", "QUIRE_BILLING_PARTITIONS=7"), nil},
		"all for one process":       {Quire, []string{"QUIRE_MAX_CONNS=x", "QUIRE_CACHE_BYTES=x", "QUIRE_STOP_GRACE=x"}, nil},
		"the job needs NATS alone":  {Provision, []string{"QUIRE_MONGO_URL=x", "QUIRE_CLOCK_OFFSET=x", "QUIRE_REPLICAS=6"}, []string{"QUIRE_NATS_URL", "QUIRE_REPLICAS"}},
		"the job has what it needs": {Provision, []string{"QUIRE_NATS_URL=nats://n:4222", "QUIRE_PARTITIONS=4"}, nil},
		"copies are for the job":    {Billing, with("QUIRE_REPLICAS=x"), nil},
		"another partition":         {Billing, with("QUIRE_PARTITIONS=4", "QUIRE_BILLING_PARTITIONS=3-4"), []string{"QUIRE_BILLING_PARTITIONS"}},
		"numbers out of range": {Edge, with(secret, "QUIRE_MAX_CONNS=15", "QUIRE_MAX_CONNS_PER_SOURCE=0", "QUIRE_STOP_GRACE=0s"), []string{
			"QUIRE_MAX_CONNS", "QUIRE_MAX_CONNS_PER_SOURCE", "QUIRE_STOP_GRACE",
		}},
		"all of quire": {
			Quire, []string{
				"QUIRE_LISTEN=nowhere", "QUIRE_PUBLIC_URL=ftp://x", "QUIRE_ANON_LIMIT=-1", "QUIRE_TRUSTED_PROXIES=10.0.0.0/99",
				"QUIRE_PARTITIONS=0", "QUIRE_NATS_URL=http://x", "QUIRE_MONGO_URL=nats://x", "QUIRE_S3_URL=s3://x",
				"QUIRE_CONTENT_RETENTION=1m", "QUIRE_DEV=maybe", "QUIRE_CLOCK_OFFSET=tomorrow", "QUIRE_SECRET=short",
				"QUIRE_ADMIN_TOKEN=short", "QUIRE_DATTA=x",
			}, []string{
				"QUIRE_LISTEN", "QUIRE_PUBLIC_URL", "QUIRE_ANON_LIMIT", "QUIRE_TRUSTED_PROXIES", "QUIRE_PARTITIONS", "QUIRE_NATS_URL",
				"QUIRE_MONGO_URL", "QUIRE_S3_URL", "QUIRE_CONTENT_RETENTION", "QUIRE_DEV", "QUIRE_CLOCK_OFFSET", "QUIRE_SECRET",
				"QUIRE_ADMIN_TOKEN", "QUIRE_DATTA",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadSettings(c.program, c.environ)
			if len(c.faults) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("they are taken")
			}
			for _, fault := range c.faults {
				if !strings.Contains(err.Error(), fault) {
					t.Errorf("%s is not in: %v", fault, err)
				}
			}
			first, _, _ := strings.Cut(err.Error(), "\n")
			if many := fmt.Sprintf("%d invalid settings:", len(c.faults)); len(c.faults) > 1 && first != many {
				t.Errorf("%q, want %q", first, many)
			}
			if strings.Contains(err.Error(), "short") {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}

func TestSettingsThatAreUnsetHaveTheirDefaults(t *testing.T) {
	quire, err := ReadSettings(Quire, nil)
	if err != nil {
		t.Fatal(err)
	}
	if quire.Listen != "127.0.0.1:8080" || quire.OpsListen != "" || quire.Data != "./data" || quire.AnonymousLimit != 10 ||
		quire.Partitions != 1 || quire.ContentRetention != 7*24*time.Hour || quire.ClockOffset != 0 || len(quire.TrustedProxies) != 0 ||
		quire.LogLevel != slog.LevelWarn || quire.LogFormat != "text" || quire.CacheBytes != 0 ||
		quire.CheckpointInterval != time.Minute {
		t.Errorf("%+v", quire)
	}
	if job, err := ReadSettings(Provision, stores[:1]); err != nil || job.Replicas != 3 || job.Partitions != 16 || quire.Replicas != 1 {
		t.Errorf("%+v, %v", job, err)
	}
	// Each service has a separate database: its user may not touch another's.
	for program, database := range map[Program]string{Billing: "quire_billing", Paste: "quire_paste", Lite: "quire_lite", File: "quire_file"} {
		s, err := ReadSettings(program, with())
		if err != nil || s.MongoDatabase != database || s.PostgresSchema != database || s.Partitions != 16 || s.OpsListen != ":9090" || s.LogFormat != "json" {
			t.Errorf("%s: %+v, %v", program, s, err)
		}
	}
	s, err := ReadSettings(File, with("QUIRE_MONGO_DATABASE=mine", "QUIRE_POSTGRES_SCHEMA=too", "QUIRE_PARTITIONS=4"))
	if err != nil || s.MongoDatabase != "mine" || s.PostgresSchema != "too" || s.Partitions != 4 || s.ContentRetention != 7*24*time.Hour || s.CacheBytes != 64<<20 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestEachProgramTakesAClockOffsetInDevelopmentOnly(t *testing.T) {
	for _, program := range everything.programs() {
		environ := with("QUIRE_SECRET=0123456789abcdef", checkpointKey, "QUIRE_CLOCK_OFFSET=48h")
		if _, err := ReadSettings(program, environ); err == nil || !strings.Contains(err.Error(), "QUIRE_DEV=1") {
			t.Errorf("%s: %v", program, err)
		}
		s, err := ReadSettings(program, append(environ, "QUIRE_DEV=1"))
		if err != nil || s.ClockOffset != 48*time.Hour {
			t.Errorf("%s: %v, %v", program, s.ClockOffset, err)
		}
	}
}

// TestEveryNameIsASetting looks at everything that is written: code, manifests, documents.
func TestEveryNameIsASetting(t *testing.T) {
	known := map[string]bool{
		"QUIRE_MEMBERS": true, // the bucket of package members
		// Of tests.
		"QUIRE_TEST_LOG": true, "QUIRE_TEST_SQLITE_CHILD": true, "QUIRE_TEST_POSTGRES_CHILD": true,
	}
	for _, name := range clientVariables() {
		known[name] = true
	}
	for _, row := range new(Settings).table() {
		if known[row.name] {
			t.Errorf("%s is in the table twice", row.name)
		}
		known[row.name] = true
	}
	name := regexp.MustCompile(`\bQUIRE_[A-Z0-9_]+\b|\bKV_QUIRE_[A-Z]+\b`)
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if entry.Name() == "bin" || entry.Name() == "data" || entry.Name() == "node_modules" || path != root && strings.HasPrefix(entry.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		case strings.HasSuffix(path, "_test.go") || !entry.Type().IsRegular():
			return nil
		}
		files++
		for _, found := range name.FindAllString(read(t, path), -1) {
			if found = strings.TrimPrefix(found, "KV_"); !known[found] && !strings.HasPrefix(found, "QUIRE_EDGE_") { // Kubernetes' own
				t.Errorf("%s: %s is not in the table", path, found)
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files were read: %v", files, err)
	}
}

// TestProgramsReadTheSettingsThatTheTableSays looks for the fields of Settings in the sources of each program. One that a
// program used and the table did not say would be zero.
func TestProgramsReadTheSettingsThatTheTableSays(t *testing.T) {
	var s Settings
	fields := map[any]string{} // by address
	value := reflect.ValueOf(&s).Elem()
	for i := range value.NumField() {
		fields[value.Field(i).Addr().Interface()] = value.Type().Field(i).Name
	}
	shared := sources(t, "pkg/host/host.go", "pkg/host/settings.go")
	documents := configure(t, "pkg/document/document.go")
	own := map[Program]string{
		Edge:    sources(t, "services/edge/cmd/edge/*.go") + configure(t, "services/edge/edge.go"),
		Billing: sources(t, "services/billing/cmd/billing/*.go") + configure(t, "services/billing/billing.go"),
		Archive: sources(t, "services/archive/cmd/archive/*.go") + configure(t, "services/archive/archive.go"),
		Paste:   documents, Lite: documents, File: documents,
		Quire:     sources(t, "services/standalone/*.go", "services/standalone/cmd/quire/*.go"),
		Provision: sources(t, "pkg/host/provision.go"),
	}
	// Quire configures all services. What it does not read is zero there, and has the service's default.
	through := map[Program]string{Quire: own[Edge] + own[Billing] + own[Archive] + documents}
	for _, row := range s.table() {
		field := fields[row.value.Into]
		delete(fields, row.value.Into)
		if field == "" || row.meaning == "" || row.readers == 0 || row.needed&^row.readers != 0 {
			t.Errorf("%s has a hole: %+v", row.name, row)
		}
		use := regexp.MustCompile(`\b(p|s|cfg)\.` + field + `\b( = )?`)
		for _, program := range (everything | Provision).programs() {
			// An assignment, which use ends with a blank, is no reading.
			uses := func(text string) bool {
				return slices.ContainsFunc(use.FindAllString(text, -1), func(found string) bool { return !strings.HasSuffix(found, " ") })
			}
			if reads := row.readers&program != 0; reads && !uses(own[program]+through[program]+shared) || !reads && uses(own[program]) {
				t.Errorf("%s reads %s otherwise than the table says", program, row.name)
			}
			if _, ok := row.except[program]; ok && program&row.readers == 0 {
				t.Errorf("%s has a default of %s and does not read it", program, row.name)
			}
		}
	}
	if len(fields) > 0 {
		t.Errorf("no setting is for %v", slices.Sorted(maps.Values(fields)))
	}
}

// configure is the function that makes a service's configuration of the settings.
func configure(t *testing.T, path string) string {
	t.Helper()
	text := regexp.MustCompile(`(?ms)^func Configure\(.*?^}`).FindString(sources(t, path))
	if text == "" {
		t.Fatalf("%s has no Configure", path)
	}
	return text
}

func sources(t *testing.T, patterns ...string) (text string) {
	t.Helper()
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, path := range paths {
			if !strings.HasSuffix(path, "_test.go") {
				text += read(t, path)
			}
		}
	}
	return text
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
