package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Servers of read models, for Options.Store.
const (
	PostgreSQL = "postgres"
	MongoDB    = "mongo" // FerretDB in its place
)

const (
	postgresAdmin    = "postgres"
	postgresDatabase = "quire"
)

func postgresName(n int) string { return fmt.Sprintf("postgres-%d", n) }

// postgresUsers are the users of PostgreSQL: of the services that have a read model, and of backups.
func postgresUsers() []string {
	return append(slices.DeleteFunc(Services(), func(service string) bool { return service == "edge" || service == "archive" }), "backup")
}

// postgresProgram returns the path of a program of PostgreSQL, such as "initdb".
func postgresProgram(name string) (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // of Debian, which has only client programs in the PATH
	if err == nil && len(found) > 0 {
		return found[len(found)-1], nil
	}
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("no %s: install PostgreSQL 15 or newer (Debian's package postgresql-15)", name)
}

// unprivileged returns a command that runs the program as a user other than root, which PostgreSQL refuses. Root becomes one in a
// user namespace, so that its files stay its own.
func unprivileged(program string, args ...string) ([]string, error) {
	command := append([]string{program}, args...)
	if os.Getuid() != 0 {
		return command, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return append([]string{"unshare", "--user", "--map-user=" + u.Uid, "--map-group=" + u.Gid, "--"}, command...), nil
		}
	}
	return nil, errors.New("run PostgreSQL: root may not, and there is neither a user postgres nor a user nobody")
}

// addPostgres adds the servers, which are not started yet. With Options.Standby the second one is the standby of the first.
func (c *Cluster) addPostgres(ctx context.Context) error {
	count := 1
	if c.opts.Standby {
		count = 2
	}
	program, err := postgresProgram("postgres")
	if err != nil {
		return err
	}
	isReady, err := postgresProgram("pg_isready")
	if err != nil {
		return err
	}
	for n := range count {
		h, err := c.net.add(ctx, postgresName(n))
		if err != nil {
			return err
		}
		command, err := unprivileged(program, "-D", c.postgresFolder(h.name))
		if err != nil {
			return err
		}
		path, err := exec.LookPath(command[0])
		if err != nil {
			return err
		}
		c.add(&Process{
			name: h.name, service: PostgreSQL, program: path, args: command[1:], host: h, tree: true,
			ready: func(ctx context.Context) error {
				return exec.CommandContext(ctx, isReady, "-q", "-h", h.ip, "-p", fmt.Sprint(clientPort), "-d", "postgres").Run()
			},
			environ: func() []string { return Environment() },
			url:     "postgres://" + h.address(clientPort) + "/" + postgresDatabase,
			quit:    syscall.SIGINT, // SIGTERM waits for the clients
		})
	}
	return nil
}

func (c *Cluster) postgresFolder(name string) string { return filepath.Join(c.opts.Dir, name, "data") }

// createPostgres creates the data of the first server and starts it, unless the data exists.
func (c *Cluster) createPostgres(ctx context.Context) error {
	first := c.Processes(PostgreSQL)[0]
	folder := c.postgresFolder(first.name)
	if _, err := os.Stat(filepath.Join(folder, "PG_VERSION")); err == nil {
		return nil // StartStores starts it
	}
	for _, path := range []string{folder, c.archive()} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
	}
	password := filepath.Join(c.opts.Dir, "postgres.password")
	if err := os.WriteFile(password, []byte(c.state.Secrets["postgres"]), 0o600); err != nil {
		return err
	}
	err := c.postgresCommand(ctx, "initdb", "-D", folder, "-U", postgresAdmin, "--pwfile="+password, "-E", "UTF8", "--locale=C", "-A", "scram-sha-256")
	if err != nil {
		return err
	}
	const access = "host all all all scram-sha-256\nhost replication all all scram-sha-256\n"
	if err := os.WriteFile(filepath.Join(folder, "pg_hba.conf"), []byte(access), 0o600); err != nil {
		return err
	}
	if err := c.configurePostgres(first); err != nil {
		return err
	}
	if err := first.Start(ctx); err != nil {
		return err
	}
	if _, err := c.SQL(ctx, first, "postgres", "CREATE DATABASE "+postgresDatabase); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "sh", filepath.Join(c.opts.Root, "deploy", "postgres", "init.sh"))
	command.Env = c.postgresEnvironment(first, postgresDatabase)
	for _, service := range postgresUsers() {
		command.Env = append(command.Env, "POSTGRES_"+strings.ToUpper(service)+"_PASSWORD="+c.state.Secrets[postgresSecret(service)])
	}
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("make the users of PostgreSQL: %w\n%s", err, out)
	}
	if c.opts.Standby {
		return c.Follow(ctx, c.Process(postgresName(1)), first)
	}
	return nil
}

// configurePostgres writes the part of the configuration that differs between the servers.
func (c *Cluster) configurePostgres(p *Process) error {
	text := fmt.Sprintf(`listen_addresses = '%s'
port = %d
unix_socket_directories = ''
max_connections = 200
shared_buffers = 64MB
min_wal_size = 32MB
max_wal_size = 64MB
`, p.host.ip, clientPort)
	if c.opts.Standby {
		text += fmt.Sprintf("cluster_name = '%s'\nwal_keep_size = 64MB\narchive_mode = on\narchive_command = 'cp \"%%p\" \"%s/%%f\"'\n", p.name, c.archive())
	}
	return os.WriteFile(filepath.Join(c.postgresFolder(p.name), "postgresql.conf"), []byte(text), 0o600)
}

func (c *Cluster) archive() string { return filepath.Join(c.opts.Dir, "postgres-archive") }

func postgresSecret(service string) string { return "postgres-" + service }

// postgresEnvironment lets PostgreSQL's client programs connect as the administrator.
func (c *Cluster) postgresEnvironment(p *Process, database string) []string {
	return Environment("PGHOST="+p.host.ip, fmt.Sprintf("PGPORT=%d", clientPort), "PGUSER="+postgresAdmin, "PGPASSWORD="+c.state.Secrets["postgres"],
		"PGDATABASE="+database)
}

// postgresCommand runs a program that changes files of a server.
func (c *Cluster) postgresCommand(ctx context.Context, name string, args ...string) error {
	program, err := postgresProgram(name)
	if err != nil {
		return err
	}
	line, err := unprivileged(program, args...)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, line[0], line[1:]...)
	command.Env = Environment("PGPASSWORD=" + c.state.Secrets["postgres"])
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// SQL runs statements as the administrator of a server, each by itself, and returns the rows of the last one. Without a database it is
// Quire's.
func (c *Cluster) SQL(ctx context.Context, p *Process, database string, statements ...string) (string, error) {
	if database == "" {
		database = postgresDatabase
	}
	args := []string{"-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"}
	for _, statement := range statements {
		args = append(args, "-c", statement)
	}
	command := exec.CommandContext(ctx, "psql", args...)
	command.Env = c.postgresEnvironment(p, database)
	out, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("psql to %s: %w\n%s", p.name, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// PostgresURL is the URL of the database, with the password of a service or "backup", or of the administrator for "".
func (c *Cluster) PostgresURL(user string) string {
	if c.opts.PostgresURL != "" {
		return c.opts.PostgresURL
	}
	name, password := postgresAdmin, c.state.Secrets["postgres"]
	if user != "" {
		name, password = "quire_"+user, c.state.Secrets[postgresSecret(user)]
	}
	var hosts []string
	for _, p := range c.Processes(PostgreSQL) {
		hosts = append(hosts, p.host.address(clientPort))
	}
	return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", name, password, strings.Join(hosts, ","), postgresDatabase)
}

// Follow makes p, which must not run, a new synchronous standby of primary, and starts it. From then on the primary
// acknowledges what the standby has too.
func (c *Cluster) Follow(ctx context.Context, p, primary *Process) error {
	folder := c.postgresFolder(p.name)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := c.postgresCommand(ctx, "pg_basebackup", "-D", folder, "-R", "-c", "fast", "-d", c.replicationURL(primary)); err != nil {
		return err
	}
	if err := c.configurePostgres(p); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(folder, "postgresql.auto.conf")); err != nil { // the primary's, with its standbys
		return err
	}
	recovery := fmt.Sprintf("primary_conninfo = '%s'\n", c.replicationURL(primary))
	if err := os.WriteFile(filepath.Join(folder, "postgresql.auto.conf"), []byte(recovery), 0o600); err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	_, err := c.SQL(ctx, primary, "", "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	return err
}

func (c *Cluster) replicationURL(primary *Process) string {
	return fmt.Sprintf("postgres://%s:%s@%s/postgres?sslmode=disable", postgresAdmin, c.state.Secrets["postgres"], primary.host.address(clientPort))
}

// Primary is the server of PostgreSQL that takes writes. It is nil if none does.
func (c *Cluster) Primary(ctx context.Context) *Process {
	for _, p := range c.Processes(PostgreSQL) {
		if out, err := c.SQL(ctx, p, "postgres", "SELECT pg_is_in_recovery()"); err == nil && out == "f" {
			return p
		}
	}
	return nil
}

func (c *Cluster) primary(ctx context.Context) (*Process, error) {
	if p := c.Primary(ctx); p != nil {
		return p, nil
	}
	return nil, errors.New("no server of PostgreSQL takes writes")
}

// other is the server beside p.
func (c *Cluster) other(p *Process) *Process {
	servers := c.Processes(PostgreSQL)
	return servers[(slices.Index(servers, p)+1)%len(servers)]
}

// Failover kills the primary and promotes the standby. It calls between while the new primary has no standby. Then the old primary
// becomes the standby.
func (c *Cluster) Failover(ctx context.Context, between func() error) error {
	old, err := c.primary(ctx)
	if err != nil {
		return err
	}
	promoted := c.other(old)
	if err := old.Kill(); err != nil {
		return err
	}
	if _, err := c.SQL(ctx, promoted, "", "SELECT 1 / pg_promote()::int"); err != nil {
		return err
	}
	return errors.Join(between(), c.Follow(ctx, old, promoted))
}

// Dump writes a dump of all services' schemas, as of one moment.
func (c *Cluster) Dump(ctx context.Context, path string) error {
	return c.postgresClient(ctx, "pg_dump", "-Fc", "-f", path, postgresDatabase)
}

// RestoreDump replaces the database by a dump. No service may run.
func (c *Cluster) RestoreDump(ctx context.Context, path string) error {
	primary, err := c.primary(ctx)
	if err != nil {
		return err
	}
	if _, err := c.SQL(ctx, primary, "postgres", "DROP DATABASE "+postgresDatabase+" WITH (FORCE)"); err != nil {
		return err
	}
	return c.postgresClient(ctx, "pg_restore", "--create", "--exit-on-error", "-d", "postgres", path)
}

// postgresClient runs a client program as the administrator of the primary.
func (c *Cluster) postgresClient(ctx context.Context, name string, args ...string) error {
	program, err := postgresProgram(name)
	if err != nil {
		return err
	}
	primary, err := c.primary(ctx)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, program, args...)
	command.Env = c.postgresEnvironment(primary, postgresDatabase)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// BaseBackup copies the primary's files to a new folder. With the archive of the log, they can become the state of any later moment.
func (c *Cluster) BaseBackup(ctx context.Context, folder string) error {
	primary, err := c.primary(ctx)
	if err != nil {
		return err
	}
	return c.postgresCommand(ctx, "pg_basebackup", "-D", folder, "-c", "fast", "-d", c.replicationURL(primary))
}

// RestoreTo makes the primary what it was at a moment after the base backup, in PostgreSQL's form, and the other server its standby
// again. No service may run.
func (c *Cluster) RestoreTo(ctx context.Context, backup, moment string) error {
	primary, err := c.primary(ctx)
	if err != nil {
		return err
	}
	standby := c.other(primary)
	if err := standby.Kill(); err != nil {
		return err
	}
	if err := primary.Stop(ctx); err != nil { // which archives the rest of the log
		return err
	}
	folder := c.postgresFolder(primary.name)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.CopyFS(folder, os.DirFS(backup)); err != nil {
		return err
	}
	if err := c.configurePostgres(primary); err != nil {
		return err
	}
	recovery := fmt.Sprintf("restore_command = 'cp \"%s/%%f\" \"%%p\"'\nrecovery_target_time = '%s'\nrecovery_target_action = 'promote'\n", c.archive(), moment)
	for name, text := range map[string]string{"postgresql.auto.conf": recovery, "recovery.signal": ""} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if err := os.Chmod(folder, 0o700); err != nil {
		return err
	}
	if err := primary.Start(ctx); err != nil {
		return err
	}
	for c.Primary(ctx) != primary {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of the recovery: %w\n%s", ctx.Err(), primary.Tail())
		case <-time.After(readyTick):
		}
	}
	return c.Follow(ctx, standby, primary)
}
