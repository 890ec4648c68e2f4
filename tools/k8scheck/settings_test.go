package k8scheck_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"quire.dev/tools/k8scheck"
)

// TestServicesTakeTheirSettings starts each service, and the backup, with its pod's settings and one that is certainly wrong. The
// start reports all faults and ends. If it reports only that one, all others are right.
func TestServicesTakeTheirSettings(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+"/", "./services/edge/cmd/edge", "./services/billing/cmd/billing",
		"./services/paste/cmd/paste", "./services/lite/cmd/lite", "./services/file/cmd/file", "./services/archive/cmd/archive", "./services/standalone/cmd/quire")
	build.Dir = root
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "GOWORK=") {
			build.Env = append(build.Env, variable)
		}
	}
	build.Env = append(build.Env, "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for overlay, want := range map[string]int{"dev": 6, "production": 6, "backup": 7} {
		objects := render(t, overlay)
		pods := podsOf(t, overlay, objects)
		if len(pods) != want {
			t.Fatalf("%s has %d services", overlay, len(pods))
		}
		for service, container := range pods {
			t.Run(overlay+"/"+service, func(t *testing.T) {
				environment := environmentOf(t, service, container, objects)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				program, _, _ := strings.Cut(path.Base(container.Image), ":")
				command := exec.CommandContext(ctx, filepath.Join(bin, program), container.Args...)
				command.Env = append(environment, "QUIRE_LOG_FORMAT=smoke-signals")
				var stderr bytes.Buffer
				command.Stderr = &stderr
				var exit *exec.ExitError
				if err := command.Run(); !errors.As(err, &exit) || ctx.Err() != nil {
					t.Fatalf("it did not stop at the wrong setting: %v", err)
				}
				text := strings.TrimPrefix(stderr.String(), "quire: backup: ")
				if !strings.HasPrefix(text, "invalid setting: QUIRE_LOG_FORMAT") || strings.Count(text, "\n") != 1 {
					t.Errorf("it does not report that setting alone:\n%s", text)
				}
			})
		}
	}
}

// podsOf returns the container of each service and of the backup.
func podsOf(t *testing.T, overlay string, objects []*k8scheck.Object) map[string]corev1.Container {
	t.Helper()
	k8scheck.Check(objects, options(t, overlay)) // decodes them
	pods := map[string]corev1.Container{}
	for _, o := range objects {
		var template corev1.PodTemplateSpec
		switch typed := o.Typed.(type) {
		case *appsv1.Deployment:
			template = typed.Spec.Template
		case *appsv1.StatefulSet:
			template = typed.Spec.Template
		case *batchv1.CronJob:
			template = typed.Spec.JobTemplate.Spec.Template
		}
		if slices.Contains([]string{"service", "backup"}, template.Labels["app.kubernetes.io/component"]) {
			pods[o.Name] = template.Spec.Containers[0]
		}
	}
	return pods
}

// environmentOf returns the variables that Kubernetes would set. Where the overlay has no secrets, it takes those of
// development, and for the backup those of a service.
func environmentOf(t *testing.T, service string, container corev1.Container, objects []*k8scheck.Object) []string {
	t.Helper()
	memory, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{}
	if service == "backup" {
		service, secrets["BACKUP_TO"] = "paste", "s3://backups/quire"
	}
	files := []string{service}
	if service == "archive" {
		files = append(files, "checkpoint-key")
	}
	for _, file := range files {
		text, err := memory.ReadFile("/k8s/overlays/dev/secrets/" + file + ".env")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			secrets[name] = value
		}
	}
	var environment []string
	for _, from := range container.EnvFrom {
		for _, o := range objects {
			if settings, ok := o.Typed.(*corev1.ConfigMap); ok && o.Name == from.ConfigMapRef.Name {
				for name, value := range settings.Data {
					if name != "QUIRE_LOG_FORMAT" {
						environment = append(environment, name+"="+value)
					}
				}
			}
		}
	}
	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			environment = append(environment, variable.Name+"="+variable.Value)
			continue
		}
		ref := variable.ValueFrom.SecretKeyRef
		value, made := secrets[ref.Key]
		if !made && ref.Optional != nil && *ref.Optional {
			continue
		}
		if value == "" {
			t.Fatalf("no secret %s", variable.Name)
		}
		environment = append(environment, variable.Name+"="+value)
	}
	return environment
}
