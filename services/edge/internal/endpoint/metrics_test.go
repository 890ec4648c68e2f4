package endpoint

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/plan"
	"quire.dev/pkg/telemetry"
)

func TestTheTimeOfARequestIsCountedForItsGroupAndClass(t *testing.T) {
	metrics := telemetry.NewMetrics()
	m := newMetrics(metrics)
	m.observe(quickRoutes, 404, 150*time.Microsecond, "0af7651916cd43dd8448eb211c80319c")
	m.observe(otherRoutes, 0, time.Second, "")
	m.observe(otherRoutes, 999, time.Second, "")
	request := httptest.NewRequest("GET", "/metrics", nil)
	page := httptest.NewRecorder()
	telemetry.Handler(metrics, nil).ServeHTTP(page, request)
	for _, want := range []string{
		`quire_edge_request_seconds_bucket{class="4xx",group="quick_pastes",le="0.0002"} 1`, `quire_edge_request_seconds_count{class="5xx",group="pages"} 0`,
		`quire_edge_answers_total{class="4xx"} 1`, `quire_edge_answers_total{class="other"} 2`,
	} {
		if !strings.Contains(page.Body.String(), "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	request.Header.Set("Accept", "application/openmetrics-text")
	page = httptest.NewRecorder()
	telemetry.Handler(metrics, nil).ServeHTTP(page, request)
	if want := `le="0.0002"} 1 # {trace_id="0af7651916cd43dd8448eb211c80319c"} 0.00015`; !strings.Contains(page.Body.String(), want) {
		t.Errorf("no exemplar in %s", page.Body)
	}
}

func TestEachRouteHasAGroup(t *testing.T) {
	for _, c := range []struct {
		row  Row
		want group
	}{
		{Row{Path: "/api/dev/pastes/create", Key: plan.PastesCreate}, pasteRoutes},
		{Row{Path: "/", Key: plan.LiteCreate}, quickRoutes},
		{Row{Path: "/api/dev/paste-lite/list"}, quickRoutes},
		{Row{Path: "/api/dev/files/get/:id", Key: plan.FilesGet}, fileRoutes},
		{Row{Path: "/api/users/user/requests"}, accountRoutes},
		{Row{Path: "/console", Rules: Page}, pageRoutes},
		{Row{Path: "/console/admin", Who: AdminPage, Rules: Page}, otherRoutes},
		{Row{Path: "/livez", Who: Operators}, otherRoutes},
	} {
		if got := groupOf(&c.row); got != c.want {
			t.Errorf("%s is of %v", c.row.Path, got)
		}
	}
}
