package deploy_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

func composed(t *testing.T) *types.Project {
	t.Helper()
	// `make secrets` makes the files with secrets. This test only needs their names.
	options, err := cli.NewProjectOptions([]string{"compose.yaml"}, cli.WithoutEnvironmentResolution)
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// TestComposeIsSound loads the file with Compose's own loader, which checks its schema and its dependencies.
func TestComposeIsSound(t *testing.T) {
	project := composed(t)
	quire := []string{"archive", "billing", "edge", "file", "lite", "paste"}
	for name, service := range project.Services {
		once := strings.HasSuffix(name, "-init")
		if !once && (service.HealthCheck == nil || len(service.HealthCheck.Test) == 0) {
			t.Errorf("%s has no health check", name)
		}
		if len(service.Ports) > 0 && name != "edge" {
			t.Errorf("%s is published", name)
		}
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s is published beyond loopback", name)
			}
		}
		if !slices.Contains(service.CapDrop, "ALL") {
			t.Errorf("%s keeps capabilities", name)
		}
		if slices.Contains(quire, name) {
			if !service.ReadOnly || service.Build == nil || *service.Build.Args["SERVICE"] != name {
				t.Errorf("%s has a writable root filesystem, or is built from another service", name)
			}
		} else if service.Image == "quire/billing" { // built here too
			if !service.ReadOnly || !slices.Equal(service.Command, []string{"provision"}) {
				t.Errorf("%s runs %v with billing's image", name, service.Command)
			}
		} else if strings.HasPrefix(name, "minio") {
			// The images that MinIO publishes have a known hole.
			if service.Image != "quire/minio" || service.Build == nil || service.Build.Dockerfile != "deploy/minio/Dockerfile" {
				t.Errorf("%s runs %s, which is not built here", name, service.Image)
			}
		} else if _, tag, ok := strings.Cut(service.Image, ":"); !ok || tag == "latest" {
			t.Errorf("%s has no fixed version: %s", name, service.Image)
		}
		for setting, value := range service.Environment {
			if value != nil && (strings.HasSuffix(setting, "PASSWORD") || strings.HasSuffix(setting, "SECRET") || strings.HasSuffix(setting, "TOKEN")) {
				t.Errorf("%s: the file contains %s", name, setting)
			}
		}
		for dependency, condition := range service.DependsOn {
			want := "service_healthy"
			if strings.HasSuffix(dependency, "-init") {
				want = "service_completed_successfully"
			}
			if condition.Condition != want {
				t.Errorf("%s waits for %s to be %s", name, dependency, condition.Condition)
			}
		}
	}
	for _, name := range append(quire, "nats-0", "nats-1", "nats-2", "mongodb-0", "mongodb-1", "mongodb-2", "minio") {
		if _, ok := project.Services[name]; !ok {
			t.Errorf("there is no %s", name)
		}
	}
	for name, config := range project.Configs {
		if _, err := os.Stat(config.File); err != nil && !strings.Contains(config.File, "/run/") {
			t.Errorf("config %s: %v", name, err)
		}
	}
}
