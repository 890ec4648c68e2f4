package k8scheck_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

func skaffold(t *testing.T) (document any, text []byte) {
	t.Helper()
	text, err := os.ReadFile(root + "/skaffold.yaml")
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		t.Fatal(err)
	}
	if document, err = jsonschema.UnmarshalJSON(strings.NewReader(string(asJSON))); err != nil {
		t.Fatal(err)
	}
	return document, asJSON
}

func skaffoldSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile("testdata/skaffold-v4beta11.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSkaffoldKeepsToItsSchema(t *testing.T) {
	document, _ := skaffold(t)
	if err := skaffoldSchema(t).Validate(document); err != nil {
		t.Error(err)
	}
	// The schema finds a planted fault.
	document.(map[string]any)["build"].(map[string]any)["artefacts"] = true
	if err := skaffoldSchema(t).Validate(document); err == nil {
		t.Error("a misspelled field passes")
	}
}

// TestSkaffoldBuildsWhatTheOverlaysRun: skaffold must build the images that the manifests name, or the cluster would run
// others.
func TestSkaffoldBuildsWhatTheOverlaysRun(t *testing.T) {
	_, text := skaffold(t)
	var config struct {
		Build struct {
			Artifacts []struct {
				Image  string `json:"image"`
				Docker struct {
					Dockerfile string            `json:"dockerfile"`
					BuildArgs  map[string]string `json:"buildArgs"`
				} `json:"docker"`
			} `json:"artifacts"`
		} `json:"build"`
		Manifests struct {
			Kustomize struct {
				Paths []string `json:"paths"`
			} `json:"kustomize"`
		} `json:"manifests"`
		Profiles []struct {
			Manifests struct {
				Kustomize struct {
					Paths []string `json:"paths"`
				} `json:"kustomize"`
			} `json:"manifests"`
			Patches []struct {
				Op    string `json:"op"`
				Path  string `json:"path"`
				Value any    `json:"value"`
			} `json:"patches"`
		} `json:"profiles"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	images := map[string][]string{}
	for _, artifact := range config.Build.Artifacts {
		images["dev"] = append(images["dev"], artifact.Image)
		if _, err := os.Stat(root + "/" + artifact.Docker.Dockerfile); err != nil {
			t.Error(err)
		}
		if artifact.Image == "quire/minio" {
			continue
		}
		service := artifact.Docker.BuildArgs["SERVICE"]
		if _, err := os.Stat(root + "/services/" + service + "/cmd/" + service); err != nil || !strings.HasSuffix(artifact.Image, "/"+service) {
			t.Errorf("%s is built from the service %q", artifact.Image, service)
		}
	}
	for _, patch := range config.Profiles[0].Patches {
		if strings.HasPrefix(patch.Path, "/build/artifacts/") && patch.Op == "replace" {
			images["production"] = append(images["production"], patch.Value.(string))
		}
	}
	paths := map[string][]string{"dev": config.Manifests.Kustomize.Paths, "production": config.Profiles[0].Manifests.Kustomize.Paths}
	for overlay, built := range images {
		if !slices.Equal(paths[overlay], []string{"k8s/overlays/" + overlay}) {
			t.Errorf("%s deploys %v", overlay, paths[overlay])
		}
		var rendered strings.Builder
		for _, o := range render(t, overlay) {
			rendered.Write(o.YAML)
		}
		if want := map[string]int{"dev": 7, "production": 6}[overlay]; len(built) != want {
			t.Errorf("%s builds %d images, want %d", overlay, len(built), want)
		}
		for _, image := range built {
			if !strings.Contains(rendered.String(), "image: "+image+"\n") && !strings.Contains(rendered.String(), "image: "+image+":") {
				t.Errorf("nothing in %s runs %s", overlay, image)
			}
		}
	}
}
