package k8scheck_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/filesys"

	"quire.dev/tools/k8scheck"
)

const root = "../.."

// shared is the file system that all tests render from. They share one, since making its secrets takes a second.
var shared = sync.OnceValues(func() (filesys.FileSystem, error) {
	memory := filesys.MakeFsInMemory()
	if err := copyTree(memory, root+"/k8s", "/k8s"); err != nil {
		return nil, err
	}
	// The development overlay with MongoDB, as its comment says.
	withMongo := strings.NewReplacer("components/postgres", "components/mongodb", "(nats|postgres|minio)", "(nats|mongodb|minio)",
		"{name: postgres, envs: [secrets/postgres.env]}", "{name: mongodb, envs: [secrets/mongodb.env], files: [secrets/mongodb/keyfile]}")
	if err := variant(memory, "dev", "dev-mongo", withMongo); err != nil {
		return nil, err
	}
	// Backups need a secret of their own, and generations a setting, so the production overlay has them as comments.
	withBackup := strings.NewReplacer("# - ../../components/backup", "- ../../components/backup", "# - {name: quire/quire,", "- {name: quire/quire,",
		"# - ../../components/generations", "- ../../components/generations")
	if err := variant(memory, "production", "backup", withBackup); err != nil {
		return nil, err
	}
	for overlay, store := range map[string]string{"dev": "postgres", "dev-mongo": "mongo"} {
		if err := makeSecrets(memory, store, "/k8s/overlays/"+overlay+"/secrets"); err != nil {
			return nil, err
		}
	}
	// KEDA needs its operator, and Ingress replaces the gateway, so no overlay has them by default.
	if err := memory.WriteFile("/k8s/overlays/ingress/kustomization.yaml", []byte(`
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: quire
resources: [../production]
components: [../../components/ingress]
patches:
  - target: {group: gateway.networking.k8s.io}
    patch: "{apiVersion: any, kind: any, metadata: {name: any}, $patch: delete}"
`)); err != nil {
		return nil, err
	}
	return memory, memory.WriteFile("/k8s/overlays/keda/kustomization.yaml", []byte(`
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: quire
resources: [../production]
components: [../../components/keda]
`))
})

// variant copies an overlay, and edits the copy's kustomization.
func variant(memory filesys.FileSystem, overlay, name string, edit *strings.Replacer) error {
	if err := copyTree(memory, root+"/k8s/overlays/"+overlay, "/k8s/overlays/"+name); err != nil {
		return err
	}
	file := "/k8s/overlays/" + name + "/kustomization.yaml"
	text, err := memory.ReadFile(file)
	if err != nil {
		return err
	}
	return memory.WriteFile(file, []byte(edit.Replace(string(text))))
}

func makeSecrets(memory filesys.FileSystem, store, at string) error {
	folder, err := os.MkdirTemp("", "quire-k8s-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	made := filepath.Join(folder, "made")
	run := exec.Command("go", "run", "./secrets", "-store", store, "-out", made)
	run.Dir, run.Env = root+"/deploy", append(os.Environ(), "GOWORK=off")
	if out, err := run.CombinedOutput(); err != nil {
		return &exec.Error{Name: string(out), Err: err}
	}
	return copyTree(memory, made, at)
}

func copyTree(to filesys.FileSystem, from, at string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, from)
		if entry.IsDir() {
			if strings.HasPrefix(name, "/check") || strings.HasSuffix(name, "/dev/secrets") {
				return filepath.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return to.WriteFile(at+name, text)
	})
}

// outside are the secrets that an operator makes for the production overlay: docs/operations.md lists them.
func outside() map[string][]string {
	stores := []string{"QUIRE_NATS_URL", "QUIRE_S3_URL", "QUIRE_POSTGRES_URL"}
	return map[string][]string{
		"quire-edge":    {"QUIRE_NATS_URL", "QUIRE_S3_URL", "QUIRE_SECRET", "QUIRE_ADMIN_TOKEN"},
		"quire-billing": stores, "quire-paste": stores, "quire-lite": stores, "quire-file": stores,
		"quire-archive":   {"QUIRE_NATS_URL", "QUIRE_S3_URL", "QUIRE_RETENTION_NATS_URL"},
		"checkpoint-key":  {"QUIRE_CHECKPOINT_KEY"},
		"quire-provision": {"QUIRE_NATS_URL"},
		"quire-backup":    append([]string{"BACKUP_TO", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}, stores...),
		"nats":            {"passwords.conf"},
		"nats-tls":        {"tls.crt", "tls.key", "ca.crt"},
		"quire-tls":       {"tls.crt", "tls.key"},
	}
}

func options(t *testing.T, overlay string) k8scheck.Options {
	t.Helper()
	crds, err := k8scheck.ReadCRDs("testdata/crds")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := k8scheck.Settings(root)
	if err != nil {
		t.Fatal(err)
	}
	anchors, err := k8scheck.Anchors(root + "/docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	o := k8scheck.Options{CRDs: crds, Settings: settings, Anchors: anchors}
	if strings.HasPrefix(overlay, "dev") {
		o.Built = "quire/"
	} else {
		o.Secrets = outside()
	}
	return o
}

func render(t *testing.T, overlay string) []*k8scheck.Object {
	t.Helper()
	memory, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := k8scheck.Render(memory, "/k8s/overlays/"+overlay)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestOverlaysAreSound(t *testing.T) {
	for _, overlay := range []string{"dev", "dev-mongo", "production", "ingress", "keda", "backup"} {
		t.Run(overlay, func(t *testing.T) {
			objects := render(t, overlay)
			for _, fault := range k8scheck.Check(objects, options(t, overlay)) {
				t.Error(fault)
			}
			kinds := map[string]int{}
			for _, o := range objects {
				kinds[o.Kind]++
			}
			t.Log(kinds)
			if kinds["Deployment"] != 5 || kinds["StatefulSet"] < 2 || kinds["PodDisruptionBudget"] < 6 {
				t.Errorf("not everything was rendered: %v", kinds)
			}
			if overlay == "backup" && kinds["CronJob"] != 2 {
				t.Error("the lines of the production overlay that add backups and generations don't")
			}
			if !strings.HasPrefix(overlay, "dev") && kinds["Secret"] > 0 {
				t.Error("the overlay contains a secret")
			}
		})
	}
}

// TestOnlyTheArchiveHasTheKeyOfTheLog: anyone with the key can sign another log.
func TestOnlyTheArchiveHasTheKeyOfTheLog(t *testing.T) {
	for _, overlay := range []string{"dev", "production", "keda", "backup"} {
		var users []string
		for _, o := range render(t, overlay) {
			text, err := json.Marshal(o.Fields)
			if err != nil {
				t.Fatal(err)
			}
			if o.Kind != "Secret" && strings.Contains(string(text), `"checkpoint-key`) {
				users = append(users, o.Kind+" "+o.Name)
			}
		}
		if !slices.Equal(users, []string{"Deployment archive"}) {
			t.Errorf("%s: the secret is used by %v", overlay, users)
		}
	}
}

func TestProductionListsTheSecretsItExpects(t *testing.T) {
	memory, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	text, err := memory.ReadFile("/k8s/overlays/production/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(root + "/docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, keys := range outside() {
		if !strings.Contains(string(text), name) {
			t.Errorf("the production overlay does not name the secret %s", name)
		}
		for _, word := range append(keys, name) {
			if !strings.Contains(string(page), "`"+word+"`") {
				t.Errorf("docs/operations.md does not name %s", word)
			}
		}
	}
}
