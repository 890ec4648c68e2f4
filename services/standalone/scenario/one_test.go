package scenario

import (
	"context"
	"fmt"
	"path/filepath"

	"quire.dev/pkg/host"
	"quire.dev/pkg/views"
	"quire.dev/services/standalone"
	"quire.dev/services/standalone/internal/quiretest"
)

// oneProcess is a Quire in the test's own process, with everything embedded.
type oneProcess struct {
	folder string
	views  quiretest.Views

	q      *standalone.Quire
	cancel context.CancelFunc
	ended  chan error // nil while it does not run
}

const oneAdminToken = "an-admin-token-for-tests"

func newOneProcess(folder string) *oneProcess {
	return &oneProcess{folder: folder}
}

func (p *oneProcess) boot(ctx context.Context, settings map[string]string) error {
	environ := []string{"QUIRE_LISTEN=127.0.0.1:0", "QUIRE_DATA=" + filepath.Join(p.folder, "data"), "QUIRE_ADMIN_TOKEN=" + oneAdminToken}
	for name, value := range settings {
		environ = append(environ, name+"="+value)
	}
	cfg, err := host.ReadSettings(host.Quire, environ)
	if err != nil {
		return err
	}
	deps := deps()
	deps.View = p.faulty
	q, err := standalone.New(cfg, deps)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(running) }()
	p.q, p.cancel, p.ended = q, cancel, ended
	select {
	case <-q.Ready():
		return nil
	case err := <-ended:
		cancel()
		p.ended = nil
		return fmt.Errorf("ended before it was ready: %w", err)
	case <-ctx.Done():
		cancel()
		return fmt.Errorf("not ready: %w", ctx.Err())
	}
}

func (p *oneProcess) stop(ctx context.Context) error {
	if p.ended == nil {
		return nil
	}
	p.cancel()
	select {
	case err := <-p.ended:
		p.ended = nil
		return err
	case <-ctx.Done():
		return fmt.Errorf("still running: %w", ctx.Err())
	}
}

func (p *oneProcess) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	p.views.Work()
	return p.stop(ctx)
}

func (p *oneProcess) diagnosis() string { return "QUIRE_TEST_LOG=1 shows the log" }

func (p *oneProcess) edges() []string     { return []string{p.q.URL()} }
func (p *oneProcess) operators() []string { return p.edges() }
func (p *oneProcess) adminToken() string  { return oneAdminToken }
func (p *oneProcess) publicURL() string   { return p.q.URL() }

func (p *oneProcess) journal() []restarter { return []restarter{journalOf{p.q}} }

type journalOf struct{ q *standalone.Quire }

func (j journalOf) Restart(ctx context.Context) error { return j.q.RestartJournal(ctx) }

func (p *oneProcess) faulty(_ string, s views.Store) views.Store { return p.views.Wrap(s) }

func (p *oneProcess) readModels(_ context.Context, condition readModel) error {
	switch condition {
	case works:
		p.views.Work()
	case fails:
		p.views.Fail()
	case hangs:
		p.views.Hang()
	}
	return nil
}

// killSenders has nothing to kill but the test itself: TestWebhooksSurviveKills in quire.dev/services/standalone kills the process.
func (p *oneProcess) killSenders(context.Context) error { return nil }

// heal has nothing to do: the process watches its journal server itself.
func (p *oneProcess) heal(context.Context) error { return nil }

func (p *oneProcess) emptyBytes() int64 { return 24 << 20 }
