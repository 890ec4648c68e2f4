package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// part is a file of the chart: the objects of a kustomization, or of one kind among them, if a condition holds.
type part struct {
	file, kustomization, when string
	only, without             string // kinds
}

// parts are all files that are made. A component that patches the base is there as its resources; edit does what its patches do.
func parts() []part {
	return []part{
		{file: "services.yaml", kustomization: "resources: [../base]", without: "ConfigMap"}, // templates/settings.yaml
		{file: "networks.yaml", kustomization: "resources: [../overlays/production/networkpolicies.yaml]"},
		{file: "nats.yaml", kustomization: "components: [../components/nats]", when: ".Values.nats.enabled", without: "ConfigMap"},
		// By itself, since the servers' pods have its hash.
		{file: "nats-configuration.yaml", kustomization: "components: [../components/nats]", when: ".Values.nats.enabled", only: "ConfigMap"},
		{file: "gateway.yaml", kustomization: "resources: [../components/gateway/gateway.yaml]", when: ".Values.gateway.enabled"},
		{file: "ingress.yaml", kustomization: "resources: [../components/ingress/ingress.yaml]", when: ".Values.ingress.enabled"},
		{file: "keda.yaml", kustomization: "resources: [../components/keda/scaledobjects.yaml]", when: ".Values.keda.enabled"},
		{file: "monitoring.yaml", kustomization: "components: [../components/monitoring]", when: ".Values.monitoring.enabled"},
		{file: "backup.yaml", kustomization: "resources: [../components/backup/backup.yaml]", when: ".Values.backup.enabled"},
		{file: "generations.yaml", kustomization: "resources: [../components/generations/generations.yaml]", when: ".Values.generations.enabled"},
	}
}

// Templates returns the text of each file by its name. manifests has the folder k8s.
func Templates(manifests filesys.FileSystem) (map[string]string, error) {
	made := map[string]string{}
	for _, p := range parts() {
		objects, err := Build(manifests, p.kustomization)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.file, err)
		}
		if made[p.file], err = p.template(objects); err != nil {
			return nil, fmt.Errorf("%s: %w", p.file, err)
		}
	}
	return made, nil
}

// Build renders a kustomization as of a folder beside k8s/base.
func Build(manifests filesys.FileSystem, kustomization string) (resmap.ResMap, error) {
	if err := manifests.WriteFile("/k8s/made/kustomization.yaml", []byte(kustomization)); err != nil {
		return nil, err
	}
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	return krusty.MakeKustomizer(options).Run(manifests, "/k8s/made")
}

// Manifests copies the folder k8s of the project into memory. What it renders has names of configuration without a hash: pods of the
// chart have the hash as an annotation.
func Manifests(root string) (filesys.FileSystem, error) {
	memory := filesys.MakeFsInMemory()
	folder := os.DirFS(filepath.Join(root, "k8s"))
	return memory, fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(folder, path)
		if err != nil {
			return err
		}
		if entry.Name() == "kustomization.yaml" {
			text = append(text, "\ngeneratorOptions: {disableNameSuffixHash: true}\n"...)
		}
		return memory.WriteFile("/k8s/"+path, text)
	})
}

// head is the first line of each file.
const head = "{{- /* Made from k8s by make -C deploy chart. */}}\n"

func (p part) template(objects resmap.ResMap) (string, error) {
	var text strings.Builder
	text.WriteString(head)
	if p.when != "" {
		fmt.Fprintf(&text, "{{- if %s }}\n", p.when)
	}
	for _, object := range objects.Resources() {
		if kind := object.GetKind(); kind == p.without || p.only != "" && kind != p.only {
			continue
		}
		one, err := template(object)
		if err != nil {
			return "", fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		text.WriteString(one)
	}
	if p.when != "" {
		text.WriteString("{{- end }}\n")
	}
	return text.String(), nil
}

// template is the text of an object, with actions in the place of values.
func template(object *resource.Resource) (string, error) {
	e := &editor{node: &object.RNode}
	e.edit(object.GetKind(), object.GetName())
	if e.err != nil {
		return "", e.err
	}
	raw, err := object.AsYAML()
	if err != nil {
		return "", err
	}
	text := "---\n" + e.fill(strings.ReplaceAll(string(raw), "{{", `{{ "{{" }}`))
	switch object.GetKind() {
	case "HorizontalPodAutoscaler":
		text = "{{- if not .Values.keda.enabled }}\n" + text + "{{- end }}\n"
	case "PrometheusRule":
		text = strings.NewReplacer(`namespace="quire"`, `namespace="{{ .Release.Namespace }}"`,
			`namespace=\"quire\"`, `namespace=\"{{ .Release.Namespace }}\"`).Replace(text)
	}
	return text, nil
}
