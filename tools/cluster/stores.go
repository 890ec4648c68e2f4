package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"quire.dev/pkg/blob/s3"
)

// natsUsers are the names of the secrets that are passwords of the users in deploy/nats/users.conf.
func natsUsers() []string {
	names := []string{"nats-backup", "nats-operator", "nats-provision", "nats-retention", "nats-sys"}
	for _, service := range Services() {
		names = append(names, "nats-"+service, "nats-"+service+"_b")
	}
	return names
}

const natsServers = 3

func natsName(n int) string { return fmt.Sprintf("nats-%d", n) }

// natsConf is deploy/nats/nats.conf for one machine: without TLS, and with addresses.
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

// addNATS adds the NATS servers, which are not started yet.
func (c *Cluster) addNATS(ctx context.Context) error {
	if err := c.writeUsers(); err != nil {
		return err
	}
	var hosts []*host
	var routes []string
	for n := range natsServers {
		h, err := c.net.add(ctx, natsName(n))
		if err != nil {
			return err
		}
		hosts, routes = append(hosts, h), append(routes, fmt.Sprintf("%q", "nats://"+h.address(peerPort)))
	}
	for _, h := range hosts {
		conf := filepath.Join(c.opts.Dir, "nats", h.name+".conf")
		content := fmt.Sprintf(natsConf, h.name, h.address(clientPort), h.address(opsPort), filepath.Join(c.opts.Dir, h.name),
			h.address(peerPort), strings.Join(routes, ", "))
		if err := os.WriteFile(conf, []byte(content), 0o600); err != nil {
			return err
		}
		c.add(&Process{
			name: h.name, service: "nats", program: "nats-server", args: []string{"-c", conf}, host: h,
			ready: answers("http://" + h.address(opsPort) + "/healthz"),
			url:   "nats://" + h.address(clientPort), ops: "http://" + h.address(opsPort),
			quit: syscall.SIGINT, // SIGTERM is graceful, too, but ends with status 1
		})
	}
	return nil
}

// Provision creates the journals, or changes them to what the services in bin need, as the job of a deployment does.
func (c *Cluster) Provision(ctx context.Context, bin string) error {
	return c.job(ctx, bin, "provision")
}

// CloseGenerations closes the generations of the billing journals that have so many bytes, as the CronJob of a deployment does.
func (c *Cluster) CloseGenerations(ctx context.Context, bytes int) error {
	return c.job(ctx, c.opts.Bin, "generations", "QUIRE_GENERATION_BYTES="+strconv.Itoa(bytes))
}

// job runs a job of the provisioning user.
func (c *Cluster) job(ctx context.Context, bin, name string, settings ...string) error {
	command := exec.CommandContext(ctx, filepath.Join(bin, "quire-billing"), name)
	command.Env = Environment(append(settings, "QUIRE_NATS_URL="+c.NATSURL("provision"), "QUIRE_PARTITIONS="+strconv.Itoa(c.opts.Partitions),
		"QUIRE_REPLICAS="+strconv.Itoa(c.opts.Replicas))...)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// writeUsers writes the permissions of the deployment and the passwords of this cluster to the files that the servers'
// configuration includes.
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

// addStores adds the stores of read models and blobs, which are not started yet.
func (c *Cluster) addStores(ctx context.Context) error {
	if c.opts.Store == PostgreSQL && c.opts.PostgresURL == "" {
		if err := c.addPostgres(ctx); err != nil {
			return err
		}
	}
	if c.opts.Store == MongoDB && c.opts.MongoURL == "" {
		h, err := c.net.add(ctx, "mongo")
		if err != nil {
			return err
		}
		address := h.address(clientPort)
		c.add(&Process{
			name: "mongo", service: "mongo", program: "ferretdb", host: h, quit: syscall.SIGTERM,
			args:  []string{"-listen", address, "-data", filepath.Join(c.opts.Dir, "mongo")},
			ready: accepts(address), url: "mongodb://" + address + "/",
		})
	}
	h, err := c.net.add(ctx, "minio")
	if err != nil {
		return err
	}
	address := h.address(clientPort)
	c.add(&Process{
		name: "minio", service: "minio", program: "minio", host: h, quit: syscall.SIGTERM,
		args: []string{"server", "--quiet", "--address", address, filepath.Join(c.opts.Dir, "minio")},
		environ: func() []string {
			return Environment("MINIO_ROOT_USER="+S3Root, "MINIO_ROOT_PASSWORD="+c.s3Password(S3Root), "MINIO_BROWSER=off",
				"MINIO_UPDATE=off", "CI=true") // CI lets it share a disk
		},
		// MinIO reports readiness too early: calls of the bucket may still get a 503.
		ready: func(ctx context.Context) error {
			_, err := s3.Open(ctx, s3.Config{URL: c.S3URL(S3Root)})
			return err
		},
		url: "http://" + address,
	})
	return nil
}

// MongoURL is the URL of the server of the MongoDB protocol.
func (c *Cluster) MongoURL() string {
	if c.opts.MongoURL != "" {
		return c.opts.MongoURL
	}
	return c.Process("mongo").URL()
}

// S3Root is the user of MinIO that may do everything.
const S3Root = "quire"

const bucket = "quire"

// s3Users are the users of MinIO: its root, and one for each service, with the rights of deploy/minio.
func s3Users() []string { return append([]string{S3Root}, Services()...) }

func (c *Cluster) s3Password(user string) string { return c.state.Secrets[s3Secret(user)] }

// s3Secret is the name of the secret that is the password of a user of MinIO.
func s3Secret(user string) string {
	if user == S3Root {
		return "minio"
	}
	return "minio-" + user
}

// S3URL is the URL of the bucket in MinIO, with the credentials of a service, or of S3Root.
func (c *Cluster) S3URL(user string) string {
	return fmt.Sprintf("http://%s:%s@%s/%s", user, c.s3Password(user), c.net.host("minio").address(clientPort), bucket)
}

// divideBucket creates the services' users of MinIO, as the job of a deployment does.
func (c *Cluster) divideBucket(ctx context.Context) error {
	command := exec.CommandContext(ctx, "sh", filepath.Join(c.opts.Root, "deploy", "minio", "init.sh"))
	command.Env = Environment("PATH="+filepath.Join(c.opts.Root, "bin")+":"+os.Getenv("PATH"),
		"MINIO_ADDRESS="+c.net.host("minio").address(clientPort), "BUCKET="+bucket,
		"MINIO_ROOT_USER="+S3Root, "MINIO_ROOT_PASSWORD="+c.s3Password(S3Root))
	for _, service := range Services() {
		command.Env = append(command.Env, "S3_"+strings.ToUpper(service)+"_PASSWORD="+c.s3Password(service))
	}
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("make the users of MinIO: %w\n%s", err, out)
	}
	return nil
}
