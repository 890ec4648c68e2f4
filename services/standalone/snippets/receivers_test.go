package snippets

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/freeport"
)

// Secrets of webhooks: the one of the guide, and another one.
const (
	hookSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// receivers are the languages of the guides' programs that take webhooks, with what each needs beside its text.
func receivers() map[string]func(t *testing.T, folder, text string) *exec.Cmd {
	return map[string]func(*testing.T, string, string) *exec.Cmd{"go": goReceiver, "ts": typeScriptReceiver}
}

func goReceiver(t *testing.T, folder, text string) *exec.Cmd {
	t.Helper()
	write(t, filepath.Join(folder, "main.go"), text+"\n")
	writeModule(t, folder)
	if out, err := run(t, folder, nil, "gofmt", "-l", "."); err != nil || out != "" {
		t.Errorf("the program is not formatted: %s %v", out, err)
	}
	for _, arguments := range [][]string{{"vet", "."}, {"build", "-o", "receiver", "."}} {
		if out, err := run(t, folder, goVariables(t), "go", arguments...); err != nil {
			t.Fatalf("go %s: %v\n%s", arguments[0], err, out)
		}
	}
	return exec.CommandContext(t.Context(), filepath.Join(folder, "receiver"))
}

func typeScriptReceiver(t *testing.T, folder, text string) *exec.Cmd {
	t.Helper()
	write(t, filepath.Join(folder, "receiver.ts"), text+"\n")
	compileTypeScript(t, folder, "node")
	return exec.CommandContext(t.Context(), "node", "receiver.js")
}

// tryReceiver runs a program of a guide that takes webhooks, and posts to it what it has to take and to refuse.
func tryReceiver(t *testing.T, language, text string) {
	t.Helper()
	folder := t.TempDir()
	cmd := receivers()[language](t, folder, text)
	address, err := freeport.NextAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	var out strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, &out, &out
	cmd.Env = environment(folder, map[string]string{"PORT": port, "WEBHOOK_SECRET": hookSecret})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // "signal: killed"
	}
	defer ended()
	eventually.NoError(t, "the program listens", func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	const body = `{"type":"quota.threshold","timestamp":"2026-11-21T21:19:24.723Z","data":{"threshold":80}}`
	now := time.Now()
	for _, c := range []struct {
		name    string
		secrets []string
		at      time.Time
		sent    string
		want    int
	}{
		{"signed", []string{hookSecret}, now, body, http.StatusNoContent},
		{"signed during a rotation", []string{otherSecret, hookSecret}, now, body, http.StatusNoContent},
		{"signed with another secret", []string{otherSecret}, now, body, http.StatusUnauthorized},
		{"changed", []string{hookSecret}, now, body + " ", http.StatusUnauthorized},
		{"too old", []string{hookSecret}, now.Add(-6 * time.Minute), body, http.StatusUnauthorized},
		{"from the future", []string{hookSecret}, now.Add(6 * time.Minute), body, http.StatusUnauthorized},
		{"not signed", nil, now, body, http.StatusUnauthorized},
	} {
		var signatures []string
		for _, secret := range c.secrets {
			signer, err := standardwebhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			signature, err := signer.Sign("evt_1", c.at, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			signatures = append(signatures, signature)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/hooks/quire", strings.NewReader(c.sent))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("webhook-id", "evt_1")
		request.Header.Set("webhook-timestamp", fmt.Sprint(c.at.Unix()))
		request.Header.Set("webhook-signature", strings.Join(signatures, " "))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatalf("%s, %s: %v", language, c.name, err)
		}
		response.Body.Close()
		if response.StatusCode != c.want {
			t.Errorf("%s, %s: %s", language, c.name, response.Status)
		}
	}
	if ended(); strings.Count(out.String(), body) != 2 {
		t.Errorf("%s printed %s", language, out.String())
	}
}
