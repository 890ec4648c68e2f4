package chaos

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/eventually"
	"quire.dev/tools/cluster"
)

// The bounds of an outage of all journals: ten seconds until every instance knows, and an answer at once from then on. Both are
// tripled, since the machine may be busy.
const (
	noticeLimit = 3 * 10 * time.Second
	refuseLimit = 3 * time.Second
)

// outage has every NATS server fail at the same time. All services must say that they are unready, and edges must answer 503 at
// once, until the servers are back.
func outage(begin func(*cluster.Process) error, end func(context.Context, *cluster.Process) error) func(*testing.T, *bench) error {
	return func(t *testing.T, b *bench) error {
		servers := b.c.Processes("nats")
		for _, p := range servers {
			if err := begin(p); err != nil {
				return err
			}
		}
		begun := time.Now()
		for _, p := range b.c.Processes(cluster.Services()...) {
			eventually.NoError(t, p.Name()+" is unready", func() error {
				status, body, err := get(t.Context(), p.Ops()+"/readyz")
				if err == nil && (status != http.StatusServiceUnavailable || !strings.Contains(body, "journal")) {
					err = fmt.Errorf("%d %s", status, body)
				}
				return err
			})
		}
		took := time.Since(begun)
		t.Logf("every service noticed within %s", took.Round(100*time.Millisecond))
		if took > noticeLimit {
			t.Errorf("it took %s until every service was unready, want %s at most", took, noticeLimit)
		}
		for _, base := range b.c.Edges() {
			begun := time.Now()
			status, body, err := post(t.Context(), base+"/api/dev/paste-lite/create", "x")
			if took := time.Since(begun); err != nil || status != http.StatusServiceUnavailable || took > refuseLimit {
				t.Errorf("a creation is answered %d %s in %s, %v", status, body, took, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), startLimit)
		defer cancel()
		group, ctx := errgroup.WithContext(ctx) // none is ready before another one is
		for _, p := range servers {
			group.Go(func() error { return end(ctx, p) })
		}
		return group.Wait()
	}
}

func get(ctx context.Context, url string) (status int, body string, err error) {
	return do(ctx, http.MethodGet, url, "")
}

func post(ctx context.Context, url, text string) (status int, body string, err error) {
	return do(ctx, http.MethodPost, url, text)
}

func do(ctx context.Context, method, url, text string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(text))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "text/plain")
	request.Header.Set("X-Forwarded-For", "203.0.113.77")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

func outages() []fault {
	return []fault{
		{name: "pause all of NATS", inject: outage((*cluster.Process).Pause, func(_ context.Context, p *cluster.Process) error { return p.Resume() })},
		{name: "kill all of NATS", inject: outage((*cluster.Process).Kill, func(ctx context.Context, p *cluster.Process) error { return p.Start(ctx) })},
	}
}
