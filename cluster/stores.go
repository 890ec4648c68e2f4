package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// natsUsers are the secrets' names of the users in deploy/nats/users.conf.
func natsUsers() []string {
	names := []string{"nats-operator", "nats-sys"}
	for _, service := range Services() {
		names = append(names, "nats-"+service, "nats-"+service+"_b")
	}
	return names
}

func natsName(n int) string { return fmt.Sprintf("nats-%d", n) }

// addJournals makes the NATS servers, none of them started yet.
func (c *Cluster) addJournals(ctx context.Context) error {
	for n := range natsServers {
		if _, err := c.net.add(ctx, natsName(n), "client", "cluster", "http"); err != nil {
			return err
		}
	}
	if err := c.writeUsers(); err != nil {
		return err
	}
	for n := range natsServers {
		if err := c.addNATS(n); err != nil {
			return err
		}
	}
	return nil
}

// addStores makes the stores of read models and blobs, not started yet.
func (c *Cluster) addStores(ctx context.Context) error {
	if c.opts.MongoURL == "" {
		h, err := c.net.add(ctx, "mongo", "client")
		if err != nil {
			return err
		}
		c.add(&Process{
			name: "mongo", service: "mongo", program: c.program("ferretdb"), host: h, log: c.log("mongo"),
			args:    []string{"-listen", h.address("client"), "-data", filepath.Join(c.opts.Dir, "mongo")},
			environ: outside, quit: syscall.SIGTERM, ready: accepts(h.address("client")), url: "mongodb://" + h.address("client") + "/",
		})
	}
	return c.addMinIO(ctx)
}

// writeUsers lays the permissions of the deployment and this cluster's passwords where nats.conf includes them.
func (c *Cluster) writeUsers() error {
	users, err := os.ReadFile(filepath.Join(c.opts.Root, "deploy", "nats", "users.conf"))
	if err != nil {
		return err
	}
	var passwords strings.Builder
	for _, name := range natsUsers() {
		fmt.Fprintf(&passwords, "%s_password: %q\n", strings.TrimPrefix(name, "nats-"), c.state.Secrets[name])
	}
	for path, content := range map[string]string{"nats/users.conf": string(users), "secrets/passwords.conf": passwords.String()} {
		path = filepath.Join(c.opts.Dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// natsConf is deploy/nats/nats.conf for one machine: without TLS, with an address for each server.
const natsConf = `server_name: %[1]s
listen: "%[2]s"
http: "%[3]s"
max_payload: 8MB
write_deadline: "10s"
ping_interval: "1s"
ping_max: 3
jetstream {
  store_dir: %[4]q
  sync_interval: always
  max_memory_store: 256MB
}
cluster {
  name: quire
  listen: "%[5]s"
  ping_interval: "1s"
  ping_max: 3
  routes: [%[6]s]
}
include "./users.conf"
`

func (c *Cluster) addNATS(n int) error {
	name := natsName(n)
	h := c.net.host(name)
	var routes []string
	for other := range natsServers {
		routes = append(routes, fmt.Sprintf("%q", "nats://"+c.net.host(natsName(other)).address("cluster")))
	}
	conf := filepath.Join(c.opts.Dir, "nats", name+".conf")
	content := fmt.Sprintf(natsConf, name, h.address("client"), h.address("http"), filepath.Join(c.opts.Dir, name),
		h.address("cluster"), strings.Join(routes, ", "))
	if err := os.WriteFile(conf, []byte(content), 0o600); err != nil {
		return err
	}
	c.add(&Process{
		name: name, service: "nats", program: c.program("nats-server"), args: []string{"-c", conf}, environ: outside,
		host: h, log: c.log(name), ready: answers("http://" + h.address("http") + "/healthz"), url: "nats://" + h.address("client"),
		ops:  "http://" + h.address("http"),
		quit: syscall.SIGINT, // SIGTERM is an orderly stop too, but ends with status 1
	})
	return nil
}

func (c *Cluster) addMinIO(ctx context.Context) error {
	h, err := c.net.add(ctx, "minio", "client")
	if err != nil {
		return err
	}
	environ := func() []string {
		return append(outside(), "MINIO_ROOT_USER=quire", "MINIO_ROOT_PASSWORD="+c.state.Secrets["minio"], "MINIO_BROWSER=off",
			"MINIO_UPDATE=off", "CI=true") // it may share its disk with others
	}
	c.add(&Process{
		name: "minio", service: "minio", program: c.program("minio"), environ: environ, host: h, log: c.log("minio"),
		args:  []string{"server", "--quiet", "--address", h.address("client"), filepath.Join(c.opts.Dir, "minio")},
		quit:  syscall.SIGTERM,
		ready: answers("http://" + h.address("client") + "/minio/health/ready"), url: "http://" + h.address("client"),
	})
	return nil
}

// S3URL is MinIO's, with the credentials for it.
func (c *Cluster) S3URL() string {
	return fmt.Sprintf("http://quire:%s@%s", c.state.Secrets["minio"], c.net.host("minio").address("client"))
}

func (c *Cluster) program(name string) string { return filepath.Join(c.opts.Root, "bin", name) }

func (c *Cluster) log(name string) string { return filepath.Join(c.opts.Dir, "log", name+".log") }

// outside is this process's environment without what is meant for Quire.
func outside() []string {
	var environ []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "QUIRE_") {
			environ = append(environ, v)
		}
	}
	return environ
}
