package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	root  = "../../.."
	chart = root + "/deploy/helm"
)

// TestTheTemplatesAreCurrent compares what was made with what k8s would be made to now.
func TestTheTemplatesAreCurrent(t *testing.T) {
	made, err := Templates(manifests(t))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(chart + "/templates/made")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(made) {
		t.Errorf("templates/made has %d files, want %d", len(entries), len(made))
	}
	for name, want := range made {
		got, err := os.ReadFile(filepath.Join(chart, "templates", "made", name))
		if err != nil || string(got) != want {
			t.Errorf("templates/made/%s is not what k8s has (%v): make -C deploy chart", name, err)
		}
	}
}

// TestTheChartInstallsWhatTheOverlayDoes, object by object, for each way to run it.
func TestTheChartInstallsWhatTheOverlayDoes(t *testing.T) {
	images := map[string]any{"registry": "registry.example.com/quire", "tag": "0.1.0"}
	for name, c := range map[string]struct {
		overlay string
		values  map[string]any
	}{
		"production": {"resources: [../overlays/production]", nil},
		"ingress": {
			`
resources: [../overlays/production]
components: [../components/ingress]
patches:
  - target: {group: gateway.networking.k8s.io}
    patch: "{apiVersion: any, kind: any, metadata: {name: any}, $patch: delete}"`,
			map[string]any{"gateway": map[string]any{"enabled": false}, "ingress": map[string]any{"enabled": true}},
		},
		"KEDA": {
			"resources: [../overlays/production]\ncomponents: [../components/keda]",
			map[string]any{
				"keda":     map[string]any{"enabled": true},
				"services": map[string]any{"edge": map[string]any{"minReplicas": 2}},
			},
		},
		"MongoDB": {
			`
resources: [../overlays/production]
components: [../components/mongodb-client]
patches:
  - target: {kind: NetworkPolicy, name: services-to-postgres-outside}
    patch: |-
      - {op: replace, path: /spec/egress/0/ports/0/port, value: 27017}`,
			map[string]any{"store": "mongodb"},
		},
		"backup": {
			`
resources: [../overlays/production]
components: [../components/backup]
images: [{name: quire/quire, newName: registry.example.com/quire/quire, newTag: 0.1.0}]`,
			map[string]any{"backup": map[string]any{"enabled": true}},
		},
		"generations": {
			`
resources: [../overlays/production]
components: [../components/generations]
images: [{name: quire/billing, newName: registry.example.com/quire/billing, newTag: 0.1.0}]`,
			map[string]any{"generations": map[string]any{"enabled": true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{"image": images}
			maps.Copy(values, c.values)
			want, got := rendered(t, c.overlay), installed(t, "quire", values)
			for id, object := range want {
				if got[id] == "" {
					t.Errorf("the chart has no %s", id)
				} else if got[id] != object {
					t.Errorf("%s: the chart has\n%s\nthe overlay has\n%s", id, only(got[id], object), only(object, got[id]))
				}
			}
			for id := range got {
				if want[id] == "" {
					t.Errorf("the overlay has no %s", id)
				}
			}
		})
	}
}

// TestAnotherNamespaceIsEverywhere: alerts select the series of their installation.
func TestAnotherNamespaceIsEverywhere(t *testing.T) {
	for id, object := range installed(t, "pastes", nil) {
		if strings.Contains(object, `namespace="quire"`) || strings.Contains(object, `namespace=\"quire\"`) || strings.Contains(object, `"namespace": "quire"`) {
			t.Errorf("%s names the namespace quire", id)
		}
	}
}

// TestValuesOfEachKindAreTaken: what operators set beside the overlay's patches.
func TestValuesOfEachKindAreTaken(t *testing.T) {
	got := installed(t, "quire", map[string]any{
		"host":  "paste.example.org",
		"image": map[string]any{"pullSecrets": []any{"registry"}},
		"services": map[string]any{"billing": map[string]any{
			"affinity":     nil,
			"nodeSelector": map[string]any{"disk": "fast"}, "priorityClassName": "high",
			"tolerations": []any{map[string]any{"key": "billing", "operator": "Exists"}},
		}},
		"keda":     map[string]any{"enabled": true, "prometheus": "http://metrics.example.org"},
		"nats":     map[string]any{"enabled": false},
		"networks": map[string]any{"nats": []any{map[string]any{"ipBlock": map[string]any{"cidr": "10.30.0.0/24"}}}},
	})
	billing := got["StatefulSet billing"]
	for _, want := range []string{`"disk": "fast"`, `"priorityClassName": "high"`, `"operator": "Exists"`, `"imagePullSecrets"`} {
		if !strings.Contains(billing, want) {
			t.Errorf("billing has no %s:\n%s", want, billing)
		}
	}
	if strings.Contains(billing, "podAntiAffinity") {
		t.Error("affinity: null keeps instances apart")
	}
	if !strings.Contains(got["ConfigMap edge-settings"], "https://paste.example.org") || !strings.Contains(got["Gateway quire"], "paste.example.org") {
		t.Error("the host is not in the settings and the gateway")
	}
	for _, service := range []string{"edge", "paste", "lite", "file"} {
		object := got["ScaledObject "+service]
		if triggers := strings.Count(object, `"type": "prometheus"`); triggers == 0 || strings.Count(object, "http://metrics.example.org") != triggers {
			t.Errorf("a trigger asks another Prometheus:\n%s", object)
		}
	}
	if got["StatefulSet nats"] != "" {
		t.Error("NATS is there though it is off")
	}
	if !strings.Contains(got["NetworkPolicy nats-outside"], "10.30.0.0/24") {
		t.Error("no policy leads to the servers of NATS outside")
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"store":       {"store": "sqlite"},
		"a typo":      {"gatway": map[string]any{"enabled": false}},
		"a number":    {"settings": map[string]any{"QUIRE_PARTITIONS": 16}},
		"no setting":  {"settings": map[string]any{"PARTITIONS": "16"}},
		"no instance": {"services": map[string]any{"billing": map[string]any{"replicas": 0}}},
		"a host":      {"host": "https://quire.example.com"},
		"a backup":    {"store": "mongodb", "backup": map[string]any{"enabled": true}},
		"no NATS":     {"nats": map[string]any{"enabled": false}},
	} {
		if _, err := valuesOf(values, "quire"); err == nil {
			t.Errorf("%s: not refused", name)
		} else {
			t.Log(err)
		}
	}
}

func TestLint(t *testing.T) {
	for _, message := range lint.RunAll(chart, nil, "quire").Messages {
		if message.Severity >= support.WarningSev {
			t.Error(message)
		}
	}
}

func manifests(t *testing.T) filesys.FileSystem {
	t.Helper()
	memory, err := Manifests(root)
	if err != nil {
		t.Fatal(err)
	}
	return memory
}

// rendered are the objects of an overlay, as JSON by kind and name.
func rendered(t *testing.T, overlay string) map[string]string {
	t.Helper()
	objects, err := Build(manifests(t), "namespace: quire\n"+overlay)
	if err != nil {
		t.Fatal(err)
	}
	text, err := objects.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	found := index(t, string(text), false)
	delete(found, "Namespace quire") // the chart leaves it to whoever made its secrets
	return found
}

// TestHelmTestReachesTheEdge: its pod asks the addresses of services that the chart has, and the policies let it.
func TestHelmTestReachesTheEdge(t *testing.T) {
	values := map[string]any{"image": map[string]any{"registry": "registry.example.com/quire", "tag": "0.1.0"}}
	objects, made := installed(t, "pastes", values), hooks(t, "pastes", values)
	pod := made["Pod first-steps"]
	for service, address := range map[string]string{"edge": `"http://edge"`, "edge-ops": `"http://edge-ops:9090/readyz"`} {
		if !strings.Contains(pod, address) || objects["Service "+service] == "" {
			t.Errorf("the pod does not ask %s, or there is no such service:\n%s", address, pod)
		}
	}
	if !strings.Contains(pod, `"image": "registry.example.com/quire/quire:0.1.0"`) {
		t.Errorf("the pod runs another image:\n%s", pod)
	}
	const token = `"key": "QUIRE_ADMIN_TOKEN"`
	if strings.Count(pod, `"smoke-test",`) != 2 || strings.Count(pod, token) != 1 || !strings.Contains(objects["Deployment edge"], token) {
		t.Errorf("the pod runs no smoke test with the edges' admin token:\n%s", pod)
	}
	values["edgeSettings"] = map[string]any{"QUIRE_ADMIN_LISTEN": ":9443"}
	if pod := hooks(t, "pastes", values)["Pod first-steps"]; strings.Contains(pod, token) {
		t.Errorf("the pod has the admin token where the edges' public address does not take it:\n%s", pod)
	}
	for _, policy := range []string{"first-steps", "edge-from-first-steps"} {
		for _, port := range []string{`"port": 8080`, `"port": 9090`} {
			if !strings.Contains(made["NetworkPolicy "+policy], port) {
				t.Errorf("the policy %s has no %s", policy, port)
			}
		}
	}
	for id, object := range made {
		if !strings.Contains(object, `"namespace": "pastes"`) || !strings.Contains(object, `"helm.sh/hook": "test"`) {
			t.Errorf("%s is not of helm test, or in another namespace", id)
		}
	}
}

// installed are the objects of a first install of the chart, without its hooks.
func installed(t *testing.T, namespace string, values map[string]any) map[string]string {
	t.Helper()
	return objects(t, namespace, values, false)
}

// hooks are the objects of helm test.
func hooks(t *testing.T, namespace string, values map[string]any) map[string]string {
	t.Helper()
	return objects(t, namespace, values, true)
}

func objects(t *testing.T, namespace string, values map[string]any, hooks bool) map[string]string {
	t.Helper()
	all, err := valuesOf(values, namespace)
	if err != nil {
		t.Fatal(err)
	}
	c, err := loader.LoadDir(chart)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			for id, object := range index(t, text, hooks) {
				if found[id] != "" {
					t.Errorf("the chart has two of %s", id)
				}
				found[id] = object
			}
		}
	}
	return found
}

// valuesOf are the values that templates see, checked against the schema.
func valuesOf(values map[string]any, namespace string) (common.Values, error) {
	c, err := loader.LoadDir(chart)
	if err != nil {
		return nil, err
	}
	release := common.ReleaseOptions{Name: "quire", Namespace: namespace, Revision: 1, IsInstall: true}
	return util.ToRenderValues(c, values, release, common.DefaultCapabilities)
}

// index parses documents: hooks, or all others. What Helm needs and kustomize doesn't is taken away: the hash of configuration, and the revision in the name
// of the job. The order of variables does not matter.
func index(t *testing.T, text string, hooks bool) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if object == nil {
			continue
		}
		metadata := object["metadata"].(map[string]any)
		if annotations, _ := metadata["annotations"].(map[string]any); (annotations["helm.sh/hook"] != nil) != hooks {
			continue
		}
		if object["kind"] == "Job" && metadata["name"] == "provision-1" {
			metadata["name"] = "provision"
		}
		if spec, _ := object["spec"].(map[string]any); spec != nil {
			if template, _ := spec["template"].(map[string]any); template != nil {
				of := template["metadata"].(map[string]any)
				if annotations, _ := of["annotations"].(map[string]any); annotations != nil {
					delete(annotations, "checksum/configuration")
					if len(annotations) == 0 {
						delete(of, "annotations")
					}
				}
			}
		}
		sortVariables(object)
		data, err := json.MarshalIndent(object, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		found[fmt.Sprint(object["kind"], " ", metadata["name"])] = string(data)
	}
	return found
}

// sortVariables puts the variables of each container in the order of their names.
func sortVariables(value any) {
	switch value := value.(type) {
	case map[string]any:
		if variables, ok := value["env"].([]any); ok {
			slices.SortFunc(variables, func(a, b any) int {
				return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
			})
		}
		for _, each := range value {
			sortVariables(each)
		}
	case []any:
		for _, each := range value {
			sortVariables(each)
		}
	}
}

// only returns the lines of a that b does not have.
func only(a, b string) string {
	var lines []string
	for line := range strings.Lines(a) {
		if !strings.Contains(b, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
