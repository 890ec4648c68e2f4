package scenario

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"quire.dev/tools/cluster"
)

// manyProcesses is a cluster on this machine: three NATS servers, a server of read models (-store), MinIO, two edges and two of
// each service.
type manyProcesses struct {
	folder   string
	logs     string            // another folder, since the disk of the first may be full
	settings map[string]string // of the last boot
	c        *cluster.Cluster  // nil before the first boot
}

// manyPublicURL is the public URL of both edges, which listen on an address each.
const manyPublicURL = "http://quire.example"

func (p *manyProcesses) boot(ctx context.Context, settings map[string]string) error {
	settings["QUIRE_PUBLIC_URL"] = cmp.Or(settings["QUIRE_PUBLIC_URL"], manyPublicURL)
	p.settings = settings
	if p.c == nil {
		return p.bootFirst(ctx)
	}
	p.c.Set(settings)
	if err := p.c.StartServices(ctx); err != nil {
		return errors.Join(err, p.c.StopServices(ctx))
	}
	return nil
}

func (p *manyProcesses) bootFirst(ctx context.Context) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	count := partitions
	if s := p.settings["QUIRE_PARTITIONS"]; s != "" {
		if count, err = strconv.Atoi(s); err != nil {
			return err
		}
	}
	dir := filepath.Join(p.folder, "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := os.Symlink(p.logs, filepath.Join(dir, "log")); err != nil {
		return err
	}
	p.c, err = cluster.Start(ctx, cluster.Options{
		Root: root, Dir: dir, Partitions: count, Settings: p.settings, Store: *readModelStore,
	})
	return err
}

func (p *manyProcesses) stop(ctx context.Context) error {
	if p.c == nil {
		return nil
	}
	return p.c.StopServices(ctx)
}

// close also looks for violations in the logs of NATS: a missing permission shows nowhere else.
func (p *manyProcesses) close() error {
	if p.c == nil {
		return nil
	}
	errs := []error{p.c.Close()}
	for _, server := range p.c.Processes("nats") {
		for _, line := range p.lines(server, func(line string) bool { return strings.Contains(line, "Violation") }) {
			errs = append(errs, fmt.Errorf("%s: %s", server.Name(), line))
		}
	}
	return errors.Join(errs...)
}

// diagnosis is the end of each log, from warnings upwards.
func (p *manyProcesses) diagnosis() string {
	if p.c == nil {
		return ""
	}
	var b strings.Builder
	for _, process := range p.c.Processes() {
		fmt.Fprintf(&b, "--- %s\n", process.Log())
		for _, line := range p.lines(process, func(line string) bool {
			return !strings.Contains(line, `"level":"INFO"`) && !strings.Contains(line, "[INF]")
		}) {
			fmt.Fprintln(&b, line)
		}
	}
	return b.String()
}

// shownLines is how many lines of a log are shown.
const shownLines = 12

// lines are the last lines of a process's log for which wanted is true.
func (p *manyProcesses) lines(of *cluster.Process, wanted func(line string) bool) []string {
	data, err := os.ReadFile(of.Log())
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for line := range bytes.Lines(data) {
		if text := strings.TrimSpace(string(line)); text != "" && wanted(text) {
			out = append(out, text)
		}
	}
	return out[max(0, len(out)-shownLines):]
}

func (p *manyProcesses) edges() []string    { return p.c.Edges() }
func (p *manyProcesses) adminToken() string { return p.c.AdminToken() }
func (p *manyProcesses) publicURL() string {
	return strings.TrimSuffix(p.settings["QUIRE_PUBLIC_URL"], "/")
}

func (p *manyProcesses) operators() []string {
	var urls []string
	for _, service := range cluster.Services() {
		for _, process := range p.c.Processes(service) {
			urls = append(urls, process.Ops())
		}
	}
	return urls
}

func (p *manyProcesses) journal() []restarter {
	var servers []restarter
	for _, process := range p.c.Processes("nats") {
		servers = append(servers, process)
	}
	return servers
}

func (p *manyProcesses) readModels(ctx context.Context, condition readModel) error {
	server := p.c.ReadModels()
	switch condition {
	case fails:
		return server.Kill()
	case hangs:
		return server.Pause()
	}
	if !server.Running() {
		return server.Start(ctx)
	}
	return server.Resume()
}

// killSenders kills every instance of billing, one after the other.
func (p *manyProcesses) killSenders(ctx context.Context) error {
	for _, process := range p.c.Processes("billing") {
		if err := process.Kill(); err != nil {
			return err
		}
		if err := process.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// alive is the path by which Kubernetes asks whether a NATS server lives (k8s/components/nats).
const alive = "/healthz?js-enabled-only=true"

// heal does what Kubernetes does: it starts processes that have ended, and restarts NATS servers that do not live.
func (p *manyProcesses) heal(ctx context.Context) error {
	for _, process := range p.c.Processes() {
		if !process.Running() {
			if err := process.Start(ctx); err != nil {
				return err
			}
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, server := range p.c.Processes("nats") {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.Ops()+alive, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		if err != nil || response.StatusCode != http.StatusOK {
			group.Go(func() error { return server.Restart(ctx) })
		}
	}
	return group.Wait()
}

func (p *manyProcesses) emptyBytes() int64 { return 192 << 20 } // most of it PostgreSQL's, and its log's
