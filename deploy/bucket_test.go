package deploy_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"quire.dev/deploy/natsconf"
)

// The rights themselves are tried on a real MinIO: tools/cluster/bucket_test.go.

// TestEachServiceHasAnS3UserOfItsOwn: the secrets, init.sh and both deployments have the same users.
func TestEachServiceHasAnS3UserOfItsOwn(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made")
	run := exec.CommandContext(t.Context(), "go", "run", "./secrets", "-out", made)
	run.Env = append(os.Environ(), "GOWORK=off")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("make the secrets: %v\n%s", err, out)
	}
	job := variables(t, filepath.Join(made, "minio.env"))
	script, component := read(t, "minio/init.sh"), read(t, "../k8s/components/minio/kustomization.yaml")
	mounted := map[string]string{}
	project := composed(t)
	for _, config := range project.Services["minio-init"].Configs {
		mounted[config.Target] = filepath.Base(project.Configs[config.Source].File)
	}
	if key := variables(t, filepath.Join(made, "checkpoint-key.env"))["QUIRE_CHECKPOINT_KEY"]; len(key) < 32 {
		t.Errorf("the log's key has %d bytes", len(key))
	}
	passwords := map[string]bool{job["MINIO_ROOT_PASSWORD"]: true}
	for _, service := range natsconf.Services() {
		at, err := url.Parse(variables(t, filepath.Join(made, service+".env"))["QUIRE_S3_URL"])
		if err != nil {
			t.Fatal(err)
		}
		variable := "S3_" + strings.ToUpper(service) + "_PASSWORD"
		password, _ := at.User.Password()
		if at.User.Username() != service || password == "" || password != job[variable] || strings.Trim(at.Path, "/") != job["BUCKET"] {
			t.Errorf("%s uses the bucket %q as %q, with a password that is not %s", service, at.Path, at.User.Username(), variable)
		}
		if passwords[password] {
			t.Errorf("%s has the password of another user", service)
		}
		passwords[password] = true
		if key := variables(t, filepath.Join(made, service+".env"))["QUIRE_CHECKPOINT_KEY"]; key != "" {
			t.Errorf("the secret of %s has the log's key, which has a secret of its own", service)
		}
		if want := "\nuser " + service + ` "${` + variable + `:-}"` + "\n"; !strings.Contains(script, want) {
			t.Errorf("minio/init.sh does not say %q", want)
		}
		if file := service + ".json"; mounted["/scripts/"+file] != file || !strings.Contains(component, file) {
			t.Errorf("Compose and Kubernetes do not both give the job %s", file)
		}
	}
}

// TestDocumentServicesHaveTheSameRights apart from the names of their parts of the bucket.
func TestDocumentServicesHaveTheSameRights(t *testing.T) {
	want := read(t, "minio/paste.json")
	for _, domain := range []string{"lite", "file"} {
		if got := strings.NewReplacer(domain+"/", "paste/", domain+"-trash/", "paste-trash/").Replace(read(t, "minio/"+domain+".json")); got != want {
			t.Errorf("minio/%s.json is not minio/paste.json with another name:\n%s", domain, got)
		}
	}
}

// variables reads a file of lines NAME=value.
func variables(t *testing.T, path string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(read(t, path)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		found[name] = value
	}
	return found
}
