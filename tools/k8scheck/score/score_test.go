// Package score has kube-score judge the manifests. What it finds is mended, or judged in judged.txt, one by one.
package score

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zegl/kube-score/config"
	"github.com/zegl/kube-score/domain"
	"github.com/zegl/kube-score/parser"
	"github.com/zegl/kube-score/score"
	"github.com/zegl/kube-score/score/checks"
	"github.com/zegl/kube-score/scorecard"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const manifests = "../../../k8s"

// overlays are kustomizations beside those of the project.
func overlays() map[string]string {
	return map[string]string{
		"production": "resources: [../production]",
		"KEDA":       "resources: [../production]\ncomponents: [../../components/keda]",
		"MongoDB": "resources: [../production]\ncomponents: [../../components/mongodb-client]\npatches:\n" +
			"- target: {kind: NetworkPolicy, name: services-to-postgres-outside}\n  patch: |-\n    - {op: replace, path: /spec/egress/0/ports/0/port, value: 27017}",
		"backup": "resources: [../production]\ncomponents: [../../components/backup]\nimages: [{name: quire/quire, newTag: 0.1.0}]",
	}
}

func TestEachFindingIsJudged(t *testing.T) {
	judged := judgements(t)
	used := map[string]bool{}
	for name, text := range overlays() {
		for _, finding := range findings(t, name, text) {
			if _, ok := judged[finding]; !ok {
				t.Errorf("%s: kube-score finds %q: mend it, or judge it in judged.txt", name, finding)
			}
			used[finding] = true
		}
	}
	for finding := range judged {
		if !used[finding] {
			t.Errorf("judged.txt has %q, which kube-score does not find any more", finding)
		}
	}
}

// judgements are the lines of judged.txt: a finding, a colon, and why it stays.
func judgements(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("judged.txt")
	if err != nil {
		t.Fatal(err)
	}
	judged := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if line := lines.Text(); line != "" && !strings.HasPrefix(line, "#") {
			finding, why, _ := strings.Cut(line, ": ")
			if why == "" || judged[finding] != "" {
				t.Errorf("judged.txt: %q needs a reason, and one line", line)
			}
			judged[finding] = why
		}
	}
	return judged
}

// findings are the kinds of objects, their names and the checks that they fail, of an overlay.
func findings(t *testing.T, name, kustomization string) (list []string) {
	t.Helper()
	files := filesys.MakeFsInMemory()
	err := filepath.WalkDir(manifests, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return files.WriteFile("/k8s/"+filepath.ToSlash(strings.TrimPrefix(path, manifests)), text)
	})
	if err == nil {
		err = files.WriteFile("/k8s/overlays/judged/kustomization.yaml", []byte("namespace: quire\n"+kustomization))
	}
	if err != nil {
		t.Fatal(err)
	}
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/k8s/overlays/judged")
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	text, err := objects.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	p, err := parser.New(&parser.Config{})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := p.ParseFiles([]domain.NamedReader{named{bytes.NewReader(text), name}})
	if err != nil {
		t.Fatal(err)
	}
	settings := &config.RunConfiguration{KubernetesVersion: config.Semver{Major: 1, Minor: 32}, MinReplicasDeployment: 2, MinReplicasHPA: 2}
	card, err := score.Score(parsed, score.RegisterAllChecks(parsed, &checks.Config{}, settings), settings)
	if err != nil {
		t.Fatal(err)
	}
	if len(*card) < 20 {
		t.Fatalf("%s: kube-score has seen %d objects", name, len(*card))
	}
	for _, object := range *card {
		for _, check := range object.Checks {
			if !check.Skipped && check.Grade <= scorecard.GradeWarning {
				list = append(list, fmt.Sprintf("%s %s %s", object.TypeMeta.Kind, object.ObjectMeta.Name, check.Check.ID))
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

type named struct {
	*bytes.Reader
	name string
}

func (n named) Name() string { return n.name }
