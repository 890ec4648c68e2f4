package standalone

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"quire.dev/pkg/eventually"
)

// TestListenForwardsWhatAWebhookIsTold runs the real command beside the webhook itself: both get the same bytes.
func TestListenForwardsWhatAWebhookIsTold(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	c := launch(t, folder, "QUIRE_WEBHOOK_ALLOW_PRIVATE=1")
	direct, forwarded := newReceiver(t), newReceiver(t)
	w := watch(t, c.base, "a@example.org", direct.URL, []int{1})
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	var out, errs lockedBuffer
	listen := exec.Command(binary(t), "listen", "--forward-to", forwarded.URL+"/hooks", "--url", c.base, "--secret", secret)
	listen.Env = environment("QUIRE_API_KEY=" + w.key)
	listen.Stdout, listen.Stderr = &out, &errs
	if err := listen.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listen.Process.Kill() }) // it has ended by then
	eventually.True(t, "it listens", func() bool { return strings.Contains(errs.String(), forwarded.URL) })

	w.must(t, "POST", "/api/dev/paste-lite/create", map[string]any{"content": "x"}, http.StatusCreated) // 1 %
	id := w.must(t, "POST", "/api/users/user/webhooks/"+w.hook+"/test", nil, http.StatusAccepted)["delivery"].(string)
	eventually.True(t, "both get both", func() bool { return direct.events() == 2 && forwarded.events() == 2 })
	eventually.True(t, "the test is delivered", func() bool { return direct.last(id).body != "" && forwarded.last(id).body != "" })
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	for event := range forwarded.ids() {
		got := forwarded.last(event)
		if err := signer.Verify([]byte(got.body), got.header); err != nil || got.body != direct.last(event).body || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: forwarded is %s, posted %s; %v", event, got.body, direct.last(event).body, err)
		}
		eventually.True(t, event+" is printed", func() bool { return strings.Contains(out.String(), " "+event+" {") }) // once it is answered
	}
	if err := listen.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := listen.Wait(); err != nil {
		t.Errorf("it ends with %v: %s", err, errs.String())
	}

	// The profile of a log-in gives the URL and the key.
	home := t.TempDir()
	login := exec.Command(binary(t), "paste", "login", "--no-keyring", "--profile", "work", "--url", c.base)
	login.Env, login.Stdin = environment("HOME="+home, "XDG_CONFIG_HOME="), strings.NewReader(w.key)
	if out, err := login.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	var said lockedBuffer
	again := exec.Command(binary(t), "listen", "--profile", "work", "--forward-to", forwarded.URL+"/profile")
	again.Env, again.Stderr = environment("HOME="+home, "XDG_CONFIG_HOME="), &said
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Process.Kill() }) // it has ended by then
	eventually.True(t, "it listens with the profile", func() bool { return strings.Contains(said.String(), "Events go to "+forwarded.URL+"/profile") })
	if err := again.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := again.Wait(); err != nil {
		t.Errorf("it ends with %v: %s", err, said.String())
	}

	made := w.must(t, "POST", "/api/users/user/keys", map[string]any{"name": "narrow", "scopes": []string{"pastes.get"}}, http.StatusCreated)
	for _, wrong := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"listen", "--key", w.key}, 2, "--forward-to"},
		{[]string{"listen", "--key", w.key, "--forward-to", "localhost:3000"}, 2, "--forward-to"},
		{[]string{"listen", "--forward-to", forwarded.URL}, 2, "QUIRE_API_KEY"},
		{[]string{"listen", "--profile", "nobody", "--forward-to", forwarded.URL}, 2, `no profile "nobody"`},
		{[]string{"listen", "--key", w.key, "--forward-to", forwarded.URL, "--secret", "whsec_?"}, 2, "--secret"},
		{[]string{"listen", "--key", "qk_wrong", "--forward-to", forwarded.URL, "--url", c.base}, 1, "Invalid API key"},
		{[]string{"listen", "--key", made["apiKey"].(string), "--forward-to", forwarded.URL, "--url", c.base}, 1, "403"},
	} {
		if _, errs, code := quire(t, folder, nil, wrong.args...); code != wrong.code || !strings.Contains(errs, wrong.says) {
			t.Errorf("%v: exit %d, %s", wrong.args, code, errs)
		}
	}
}
