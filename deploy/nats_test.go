// Package deploy_test checks the configuration of the stores with the programs that read it.
package deploy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/bcrypt"

	"quire.dev/deploy/natsconf"
)

// partitions of the committed users.conf.
const partitions = 16

const patience = 10 * time.Second

// world is a server on loopback with the committed configuration.
type world struct {
	url       string
	pool      *x509.CertPool
	authority []byte // in PEM
}

// start lays the files out as a container sees them and starts one server from them. It changes paths and ports, removes
// the routes, since there are no other servers, and makes the hashes cheaper.
func start(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	made := filepath.Join(dir, "made")
	run := exec.CommandContext(t.Context(), "go", "run", "./secrets", "-out", made)
	run.Env = append(os.Environ(), "GOWORK=off")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("make the secrets: %v\n%s", err, out)
	}
	var passwords strings.Builder
	for _, user := range users() {
		hash, err := bcrypt.GenerateFromPassword([]byte(user+"-password"), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&passwords, "%s_password: %q\n", user, hash)
	}
	conf := read(t, "nats/nats.conf")
	for _, edit := range [][2]string{
		{"/etc/nats/tls/", filepath.Join(made, "nats") + "/"},
		{`"/data"`, `"` + filepath.Join(dir, "data") + `"`},
		{`"/tmp/nats.pid"`, `"` + filepath.Join(dir, "nats.pid") + `"`},
		{"0.0.0.0:4222", "127.0.0.1:-1"},
		{"0.0.0.0:8222", "127.0.0.1:-1"},
	} {
		if !strings.Contains(conf, edit[0]) {
			t.Fatalf("nats.conf no longer says %s", edit[0])
		}
		conf = strings.ReplaceAll(conf, edit[0], edit[1])
	}
	write(t, filepath.Join(dir, "conf", "nats.conf"), conf)
	write(t, filepath.Join(dir, "conf", "users.conf"), read(t, "nats/users.conf"))
	write(t, filepath.Join(dir, "secrets", "passwords.conf"), passwords.String())
	t.Setenv("NATS_SERVER_NAME", "nats-0")
	t.Setenv("NATS_MAX_FILE_STORE", "85GB")

	opts, err := server.ProcessConfigFile(filepath.Join(dir, "conf", "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if opts.Cluster.Name != "quire" || len(opts.Routes) != 3 || opts.Cluster.TLSConfig.ClientAuth != tls.RequireAndVerifyClientCert {
		t.Errorf("cluster %q of %d routes, client certificates %v", opts.Cluster.Name, len(opts.Routes), opts.Cluster.TLSConfig.ClientAuth)
	}
	if opts.JetStreamMaxStore != 85<<30 {
		t.Errorf("the server stores up to %d bytes", opts.JetStreamMaxStore)
	}
	if !opts.SyncAlways {
		t.Error("the server acknowledges before it syncs")
	}
	opts.Cluster, opts.Routes, opts.NoSigs, opts.NoLog = server.ClusterOpts{}, nil, true, true
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	pool := x509.NewCertPool()
	authority := []byte(read(t, filepath.Join(made, "nats", "ca.crt")))
	pool.AppendCertsFromPEM(authority)
	return &world{url: s.ClientURL(), pool: pool, authority: authority}
}

func users() []string {
	all := append([]string{"sys"}, natsconf.Others()...)
	for _, service := range natsconf.Services() {
		all = append(all, natsconf.Users(service)...)
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// client is the connection of one user. The server's refusals go to refused.
type client struct {
	*nats.Conn
	refused chan error
}

func (w *world) connect(t *testing.T, service, user string) *client {
	t.Helper()
	c := &client{refused: make(chan error, 16)}
	nc, err := nats.Connect(w.url, nats.UserInfo(user, user+"-password"), nats.Secure(&tls.Config{RootCAs: w.pool}),
		nats.CustomInboxPrefix(natsconf.InboxPrefix(service)), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				c.refused <- err
			}
		}))
	if err != nil {
		t.Fatalf("connect as %s: %v", user, err)
	}
	t.Cleanup(nc.Close)
	c.Conn = nc
	return c
}

// settled returns the refusals of everything sent so far. nats.go reports them in order on its own goroutine: once the
// last one, which settled provokes, has arrived, no other is under way.
func (c *client) settled(t *testing.T) (violations []string) {
	t.Helper()
	const last = "nobody.may.publish.this"
	if err := c.Publish(last, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		select {
		case err := <-c.refused:
			if strings.Contains(err.Error(), last) {
				return violations
			}
			violations = append(violations, err.Error())
		case <-ctx.Done():
			t.Fatal("the server does not refuse a subject that no user may publish to")
		}
	}
}
