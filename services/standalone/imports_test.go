package standalone_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// listedPackage is the part of the output of `go list -json` that the test needs.
type listedPackage struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// TestImportRules enforces the layers of ARCHITECTURE.md.
func TestImportRules(t *testing.T) {
	packages := listPackages(t)
	if len(packages) < 20 {
		t.Fatalf("only %d packages were listed: the workspace was not seen", len(packages))
	}
	folds := 0
	for _, p := range packages {
		for _, imported := range p.Imports {
			checkImport(t, p.ImportPath, imported)
		}
		for _, imported := range append(p.TestImports, p.XTestImports...) {
			// These tests replace a server under a connection, or make it refuse one, so they run separate ones.
			if (p.ImportPath == pkgModule+"/rpc" || p.ImportPath == pkgModule+"/journal") && within(imported, "github.com/nats-io/nats-server") {
				continue
			}
			// These read what a server has written.
			if p.ImportPath == pkgModule+"/natsfiles" && withinAny(imported, []string{"github.com/nats-io/nats-server", "github.com/nats-io/nats.go/jetstream"}) {
				continue
			}
			// These verify the log that edges serve, as a reader does, and sign checkpoints for the command `quire witness`.
			if (p.ImportPath == serviceModule+"standalone" || p.ImportPath == "quire.dev/tools/cluster") && within(imported, "golang.org/x/mod/sumdb") {
				continue
			}
			// These try the rights of the deployed users of the bucket, by calls that no service makes.
			if p.ImportPath == "quire.dev/tools/cluster" && within(imported, "github.com/minio/minio-go/v7") {
				continue
			}
			checkImport(t, p.ImportPath, imported)
		}
		if isFold(p.ImportPath) {
			folds++
			checkPure(t, p)
		}
	}
	if folds != 2 {
		t.Errorf("%d folds were checked, want billing's and the documents'", folds)
	}
}

func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	var stderr bytes.Buffer
	command := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "work")
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	var packages []listedPackage
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var p listedPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

const (
	pkgModule     = "quire.dev/pkg"
	serviceModule = "quire.dev/services/"
)

// checkImport enforces the rules for one import: a service never imports another, pkg never imports a service, and each driver
// is imported by only one package.
func checkImport(t *testing.T, importer, imported string) {
	t.Helper()
	if within(importer, pkgModule) && strings.HasPrefix(imported, serviceModule) {
		t.Errorf("%s imports %s: pkg is what services share, it can't know them", importer, imported)
	}
	if from, to := service(importer), service(imported); from != "" && to != "" && from != to && from != "standalone" {
		t.Errorf("%s imports %s: services talk over the bus, only standalone puts them into one process", importer, imported)
	}
	for _, alone := range []string{serviceModule + "edge/internal/httpin", serviceModule + "edge/internal/render"} {
		// pkg/num is arithmetic, and could serve any program, too.
		if within(importer, alone) && strings.HasPrefix(imported, "quire.dev/") && !within(imported, alone) && imported != pkgModule+"/num" {
			t.Errorf("%s imports %s: it could serve any program, so it knows nothing of this one", importer, imported)
		}
	}
	if host, _, _ := strings.Cut(imported, "/"); within(importer, "quire.dev/client") && strings.Contains(host, ".") && !within(imported, "quire.dev/client") {
		t.Errorf("%s imports %s: the client is a module without dependencies", importer, imported)
	}
	if within(importer, "quire.dev/cli") && strings.HasPrefix(imported, "quire.dev/") && !withinAny(imported, []string{"quire.dev/cli", "quire.dev/client"}) {
		t.Errorf("%s imports %s: the command line is a program of its own without the server", importer, imported)
	}
	owners := map[string][]string{
		// pkg/journal uses streams, pkg/members key-value buckets; pkg/installation makes both.
		"github.com/nats-io/nats.go/jetstream":  {pkgModule + "/journal", pkgModule + "/members", pkgModule + "/installation", serviceModule + "standalone", "quire.dev/tools/bench"},
		"github.com/nats-io/nats-server":        {pkgModule + "/journal/journaltest", serviceModule + "standalone", "quire.dev/tools/bench"},
		"github.com/minio/highwayhash":          {pkgModule + "/natsfiles"}, // the checksums in the files of NATS
		"go.mongodb.org/mongo-driver":           {pkgModule + "/views/mongo"},
		"github.com/jackc/pgx":                  {pkgModule + "/views/postgres"},
		"modernc.org/sqlite":                    {pkgModule + "/views/sqlite", serviceModule + "standalone"},
		"zombiezen.com/go/sqlite":               {pkgModule + "/views/sqlite"},
		"github.com/minio/minio-go":             {pkgModule + "/blob/s3"},
		"github.com/stripe/stripe-go":           {pkgModule + "/payments/stripe"},
		"github.com/transparency-dev/formats":   {pkgModule + "/witness", pkgModule + "/tilelog"},                                                  // checkpoints and cosignatures
		"golang.org/x/mod/sumdb":                {pkgModule + "/witness", pkgModule + "/tilelog", pkgModule + "/proof", serviceModule + "archive"}, // signed notes and proofs
		"github.com/gofiber/fiber":              {serviceModule + "edge", "quire.dev/tools/bench"},
		"github.com/valyala/fasthttp":           {serviceModule + "edge", "quire.dev/tools/bench"},
		"quire.dev/tools":                       {"quire.dev/tools", serviceModule + "standalone"}, // its tests alone
		"google.golang.org/protobuf/encoding":   {serviceModule + "billing/internal/bookjson", pkgModule + "/proof"},
		"github.com/golang/protobuf":            nil,
		"go.mongodb.org/mongo-driver/v2/x/bson": nil,
	}
	for module, allowed := range owners {
		if within(imported, module) && !withinAny(importer, allowed) {
			t.Errorf("%s imports %s: only %v may", importer, imported, allowed)
		}
	}
}

func isFold(path string) bool {
	return path == serviceModule+"billing/internal/account" || path == pkgModule+"/document/fold"
}

// checkPure enforces that a fold depends on its events alone: it may not reach a clock, a network or a store, not even through
// another package.
func checkPure(t *testing.T, p listedPackage) {
	t.Helper()
	forbidden := []string{
		"context", "log", "net", "database", "os/exec", "github.com/nats-io", "go.mongodb.org", "modernc.org", "zombiezen.com",
		"github.com/minio", "github.com/prometheus", "github.com/gofiber", pkgModule + "/journal", pkgModule + "/views", pkgModule + "/blob", pkgModule + "/rpc",
	}
	for _, dep := range p.Deps {
		for _, bad := range forbidden {
			if within(dep, bad) && !strings.HasPrefix(dep, "vendor/") {
				t.Errorf("%s reaches %s: a fold is pure", p.ImportPath, dep)
			}
		}
	}
	// Packages below a fold may reach these (protobuf needs os, crypto needs math/rand). The fold itself may not.
	for _, imported := range p.Imports {
		for _, bad := range []string{"os", "crypto/rand", "math/rand", "math/rand/v2", "runtime", "sync"} {
			if imported == bad {
				t.Errorf("%s imports %s: a fold is pure", p.ImportPath, imported)
			}
		}
	}
}

func service(path string) string {
	rest, ok := strings.CutPrefix(path, serviceModule)
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return strings.TrimSuffix(name, "_test")
}

func withinAny(path string, modules []string) bool {
	for _, m := range modules {
		if within(path, m) {
			return true
		}
	}
	return false
}

func within(path, module string) bool {
	path = strings.TrimSuffix(strings.TrimSuffix(path, ".test"), "_test")
	return path == module || strings.HasPrefix(path, module+"/")
}
