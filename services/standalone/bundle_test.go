package standalone

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quire.dev/pkg/freeport"
)

// unpacked returns the files of an archive, those that are compressed themselves uncompressed.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	archive := tar.NewReader(bytes.NewReader(gunzipped(t, data)))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(header.Name, ".gz") {
			content = gunzipped(t, content)
		}
		files[strings.TrimPrefix(header.Name, "quire-debug/")] = string(content)
	}
}

func gunzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// freeAddress is an address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.NextAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// TestADebugBundleHasNoSecrets runs quire with every secret of its settings, uses a key and an address, and has all of them logged.
func TestADebugBundleHasNoSecrets(t *testing.T) {
	t.Parallel()
	folder, ops := filepath.Join(t.TempDir(), "data"), freeAddress(t)
	const email, content = "holder.of+it@mail.example.org", "the content of a paste"
	settings := []string{
		"QUIRE_OPS_LISTEN=" + ops, "QUIRE_ADMIN_TOKEN=ann:" + testAdminToken + ",bob:the-token-of-bob-is-another",
		"QUIRE_SECRET_PREVIOUS=previous-secret-number-one,previous \"secret\" <number> two", "QUIRE_OPERATOR_ADDRESS=1 Main Street|" + email,
	}
	c := launch(t, folder, settings...)
	key := accountKey(t, c.base)
	createQuickPaste(t, c.base, key)
	if out, errs, code := quire(t, folder, settings, "account", "create", "--email", email, "--tier", "pro"); code != 0 {
		t.Fatalf("%s%s", out, errs)
	}
	stored, err := os.ReadFile(filepath.Join(folder, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	// The command has more settings than the process, as those of a cluster: nothing serves them.
	more := append([]string{
		"QUIRE_POSTGRES_URL=postgres://reader:p%40ssword@127.0.0.1:1/quire?sslpassword=of-the-client-key", "QUIRE_S3_URL=http://AKIAABCDEFGHIJKLMNOP:bucket-secret@127.0.0.1:1/b",
		"QUIRE_API_KEY=" + key, "QUIRE_PASSWORD=pass phrase of mine", "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20collector-token,x-team=platform-team",
		"AWS_SECRET_ACCESS_KEY=secret-access-key-of-aws", "QUIRE_MANAGE_TOKEN=manage-token-of-mine", "QUIRE_WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}, settings...)
	secrets := []string{
		testAdminToken, "the-token-of-bob-is-another", "previous-secret-number-one", `previous "secret" <number> two`, `previous \"secret\" <number> two`, `previous \"secret\" \u003cnumber\u003e two`, email, key, strings.TrimSpace(string(stored)),
		"p%40ssword", "p@ssword", "of-the-client-key", "AKIAABCDEFGHIJKLMNOP", "bucket-secret", "pass phrase of mine", "collector-token", "platform-team",
		"secret-access-key-of-aws", "manage-token-of-mine", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}
	log := filepath.Join(t.TempDir(), "log")
	lines := "a line without secrets\n"
	for _, secret := range secrets {
		lines += `{"msg":"x","value":"` + secret + `"}` + "\n" + "value " + secret + " in words\n"
	}
	others := []string{"qk_0123456789abcdefghij", "somebody@example.net", "tell-nobody", "of-a-session"}
	lines += "key qk_0123456789abcdefghij of somebody@example.net, \"password\":\"tell-nobody\", Authorization: Bearer of-a-session\n"
	if err := os.WriteFile(log, []byte(lines+"the last line"), 0o600); err != nil {
		t.Fatal(err)
	}

	bundle := filepath.Join(t.TempDir(), "b.tar.gz")
	out, errs, code := quire(t, folder, more, "debug-bundle", "-o", bundle, "--log", log)
	if code != 0 {
		t.Fatalf("exit status %d: %s%s", code, out, errs)
	}
	files := unpacked(t, bundle)
	for name, has := range map[string]string{
		"version.txt": "quire ", "settings.json": `"value": "postgres://***@127.0.0.1:1/quire?sslpassword=***"`, "doctor.json": `"check": "data folder"`,
		"streams.json": `"name": "BILLING_0"`, "files.txt": "views/billing.db", "ops/1/url.txt": "http://" + ops, "ops/1/readyz.json": `"success":true`,
		"ops/1/metrics.txt": "\nquire_clock_seconds ", "ops/1/goroutines.txt": "goroutine profile: total ", "ops/1/heap.pprof.gz": "alloc_space",
		"log.txt": "the last line", "contents.txt": "ops/1/heap.pprof.gz",
	} {
		if !strings.Contains(files[name], has) {
			t.Errorf("%s lacks %q: %.2000s", name, has, files[name])
		}
		if !strings.Contains(out, " "+name) {
			t.Errorf("%s is not listed: %s", name, out)
		}
	}
	if strings.Contains(out, "missing") || !strings.Contains(files["log.txt"], "a line without secrets\n") || !strings.Contains(files["log.txt"], "value *** in words") {
		t.Errorf("%s%s", out, files["log.txt"])
	}
	files["what is printed"] = out + errs
	for name, text := range files {
		for _, secret := range append(append(secrets, others...), content) {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q", name, secret)
			}
		}
	}
	if info, err := os.Stat(bundle); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}

	before, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	if _, errs, code = quire(t, folder, more, "debug-bundle", "-o", bundle); code != 1 || !strings.Contains(errs, "exists already") {
		t.Errorf("exit status %d: %s", code, errs)
	}
	if after, err := os.ReadFile(bundle); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed: %v", err)
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// TestADebugBundleSaysWhatIsMissing without a process, with settings that don't start, and with a listener that nothing serves.
func TestADebugBundleSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		settings, args []string
		missing        []string
		has            []string
	}{
		"no process": {nil, nil, []string{"ops: no quire is running on ", "streams.json: connect to the journals", "files.txt: "}, []string{"settings.json", "doctor.json"}},
		"invalid settings": {
			[]string{"QUIRE_PARTITIONS=0", "QUIRE_SECRET=shorter"}, nil, []string{"doctor.json, streams.json: 2 invalid settings"}, []string{"settings.json"},
		},
		"no listener": {
			nil,
			[]string{"--ops", "http://" + freeAddress(t) + "/", "--ops", "http://" + freeAddress(t)},
			[]string{"ops/1/readyz.json: ", "ops/2/readyz.json: "},
			[]string{"ops/1/url.txt", "ops/2/url.txt"},
		},
		"any port": {[]string{"QUIRE_OPS_LISTEN=127.0.0.1:0"}, nil, []string{"ops: QUIRE_OPS_LISTEN has any free port"}, nil},
		"no log":   {nil, []string{"--log", "/nonexistent"}, []string{"log.txt: open /nonexistent"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "b.tar.gz")
			out, errs, code := quire(t, filepath.Join(t.TempDir(), "data"), tc.settings, append([]string{"debug-bundle", "-o", path}, tc.args...)...)
			if code != 0 {
				t.Fatalf("exit status %d: %s%s", code, out, errs)
			}
			files := unpacked(t, path)
			for _, missing := range tc.missing {
				if !strings.Contains(out, "missing  "+missing) || !strings.Contains(files["contents.txt"], "missing  "+missing) {
					t.Errorf("nothing says %q: %s%s", missing, out, files["contents.txt"])
				}
			}
			for _, has := range append(tc.has, "version.txt") {
				if files[has] == "" {
					t.Errorf("%s is missing: %s", has, out)
				}
			}
			if strings.Contains(files["settings.json"], "shorter") {
				t.Error(files["settings.json"])
			}
		})
	}
	if _, errs, code := quire(t, t.TempDir(), nil, "debug-bundle", "--ops", "10.0.0.7:9090"); code != 2 || !strings.Contains(errs, "--ops must be a URL") {
		t.Errorf("exit status %d: %s", code, errs)
	}
}
