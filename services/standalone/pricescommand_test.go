package standalone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPricesAreAppliedByCommand: a document is printed, changed, tried, applied and withdrawn.
func TestPricesAreAppliedByCommand(t *testing.T) {
	t.Parallel()
	const token = "qa_0123456789abcdef0123456789abcdef"
	c := launch(t, filepath.Join(t.TempDir(), "data"), "QUIRE_ADMIN_TOKEN="+token)
	elsewhere := filepath.Join(t.TempDir(), "none")
	prices := func(args ...string) (out, errs string, code int) {
		return quire(t, elsewhere, []string{"QUIRE_PUBLIC_URL=" + c.base, "QUIRE_ADMIN_TOKEN=" + token}, append([]string{"prices"}, args...)...)
	}
	document, errs, code := prices("show")
	if code != 0 || !strings.HasPrefix(document, "{\n  \"creditPrice\": \"1.00\"") || strings.Contains(document, "effectiveAt") {
		t.Fatalf("show: %d %q %q", code, document, errs)
	}
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	same, dearer := file("same.json", document), file("dearer.json", strings.Replace(document, `"price": "0.005000"`, `"price": "0.008"`, 1))
	broken, wrong := file("broken.json", "{"), file("wrong.json", strings.Replace(document, `"0.005000"`, `"cheap"`, 1))
	day := time.Now().UTC().AddDate(0, 1, 0).Format(time.DateOnly)
	id := ""
	for _, step := range []struct {
		args []string
		code int
		want []string // in the output, or in the error if code is not 0
	}{
		{nil, 2, []string{"usage: quire prices"}},
		{[]string{"list"}, 0, []string{"in force"}},
		{[]string{"apply", same, "--effective", day, "--dry-run"}, 0, []string{"No plan or price changes.", "Nothing was changed."}},
		{[]string{"apply", dearer, "--effective", day, "--dry-run"}, 0, []string{"pro", "files.upload price", "0.005000", "0.008000", "Nothing was changed."}},
		{[]string{"apply", dearer}, 2, []string{"--effective"}},
		{[]string{"apply", dearer, "--effective", "soon"}, 2, []string{"--effective"}},
		{[]string{"apply", dearer, "--effective", time.Now().UTC().Format(time.RFC3339)}, 1, []string{"effectiveAt must be at least a minute ahead"}},
		{[]string{"apply", broken, "--effective", day}, 1, []string{"is not JSON"}},
		{[]string{"apply", wrong, "--effective", day}, 1, []string{"book.plans[1].quotas[4].price"}},
		{[]string{"apply", filepath.Join(folder, "none.json"), "--effective", day}, 1, []string{"no such file"}},
		{[]string{"apply", dearer, "--effective", day}, 0, []string{"comes into force at " + day + "T00:00:00.000Z"}},
		{[]string{"list"}, 0, []string{"upcoming", "in force"}},
		{[]string{"show", "<id>"}, 0, []string{"0.008000"}},
		{[]string{"withdraw", "<id>"}, 0, []string{"withdrawn: "}},
		{[]string{"apply", dearer, "--effective", day}, 1, []string{"withdrawn"}},
		{[]string{"withdraw", "nothing"}, 1, []string{"404"}},
	} {
		for i, arg := range step.args {
			step.args[i] = strings.Replace(arg, "<id>", id, 1)
		}
		out, errs, code := prices(step.args...)
		if before, _, found := strings.Cut(out, " comes into force"); found {
			id = before[strings.LastIndex(before, " ")+1:]
		}
		text := out
		if step.code != 0 {
			text = errs
		}
		for _, want := range step.want {
			if code != step.code || !strings.Contains(text, want) {
				t.Errorf("prices %q: exit %d, want %d with %q\n%s%s", step.args, code, step.code, want, out, errs)
			}
		}
	}
}
