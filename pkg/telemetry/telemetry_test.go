package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/config"
	"quire.dev/pkg/telemetry"
)

func TestALineHasItsServiceAndItsLevel(t *testing.T) {
	var out strings.Builder
	log := telemetry.NewLogger(&out, telemetry.LogConfig{Service: "billing"})
	log.Debug("left out")
	log.Info("folded", "sequence", 7)
	var line map[string]any
	if err := json.Unmarshal([]byte(out.String()), &line); err != nil {
		t.Fatalf("%q: %v", out.String(), err)
	}
	if line["service"] != "billing" || line["msg"] != "folded" || line["level"] != "INFO" || line["sequence"] != 7.0 {
		t.Errorf("the line is %v", line)
	}
}

func TestTextAndLevelAreChosen(t *testing.T) {
	var out strings.Builder
	log := telemetry.NewLogger(&out, telemetry.LogConfig{Level: slog.LevelError, Text: true})
	log.Warn("left out")
	log.Error("failed")
	if line := out.String(); !strings.Contains(line, "level=ERROR msg=failed") || strings.Count(line, "\n") != 1 {
		t.Errorf("the log is %q", line)
	}
}

func TestNoSecretIsLogged(t *testing.T) {
	const secret = "hunter2"
	at := &url.URL{Scheme: "http", User: url.UserPassword("key", secret), Host: "host"}
	for _, text := range []bool{false, true} {
		var out strings.Builder
		log := telemetry.NewLogger(&out, telemetry.LogConfig{Text: text}).With("adminToken", secret)
		log.Info("connect to http://key:"+secret+"@host",
			"password", secret, "apiKey", secret, "x-api-key", []string{secret}, "Authorization", "Bearer "+secret,
			"secret", errors.New(secret), "url", "nats://"+secret+"@host:4222",
			"error", fmt.Errorf("dial http://u:%s@host: refused", secret), "at", at, "value", config.Secret(secret),
			slog.Group("headers", "cookie", secret), slog.Group("credentials", "id", secret))
		log.WithGroup("token").Info("grouped", "value", secret)
		if strings.Contains(out.String(), secret) {
			t.Errorf("the secret is logged: %s", out.String())
		}
	}
}

func TestWhatIsNoSecretIsLoggedAsItIs(t *testing.T) {
	var out strings.Builder
	telemetry.NewLogger(&out, telemetry.LogConfig{Text: true}).Info("admitted",
		"quotaKey", "pastes.create", "keyPrefix", "qk_abc", "password", true, "count", 3, "error", errors.New("refused"),
		"url", "http://host/p?x=1")
	want := `msg=admitted quotaKey=pastes.create keyPrefix=qk_abc password=true count=3 error=refused url="http://host/p?x=1"`
	if !strings.Contains(out.String(), want) {
		t.Errorf("the line is %s, want %s", out.String(), want)
	}
}

// get asks the handler and returns its answer with the body.
func get(t *testing.T, handler http.Handler, method, path string) (*http.Response, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return recorder.Result(), recorder.Body.String()
}

func TestReadyzListsTheChecksThatFail(t *testing.T) {
	health := telemetry.NewHealth()
	handler := telemetry.Handler(telemetry.NewMetrics(), health)
	ready := `{"success":true,"remaining":-1}`
	want := func(status int, body string) {
		t.Helper()
		response, got := get(t, handler, http.MethodGet, "/readyz")
		if response.StatusCode != status || strings.TrimSpace(got) != body {
			t.Errorf("readyz is %d %s, want %d %s", response.StatusCode, got, status, body)
		}
		if (status == http.StatusServiceUnavailable) != (response.Header.Get("Retry-After") != "") {
			t.Errorf("readyz of %d has Retry-After %q", status, response.Header.Get("Retry-After"))
		}
	}
	nothing := `{"success":false,"reason":"Not ready: process","code":"unavailable","failing":[{"name":"process","reason":"nothing runs"}]}`
	want(503, nothing) // no part has begun
	views, journal := health.Register("views"), health.Register("journal")
	want(503, `{"success":false,"reason":"Not ready: journal, views","code":"unavailable","failing":[`+
		`{"name":"journal","reason":"starting"},{"name":"views","reason":"starting"}]}`)
	journal.Ready()
	want(503, `{"success":false,"reason":"Not ready: views","code":"unavailable","failing":[{"name":"views","reason":"starting"}]}`)
	views.Ready()
	want(200, ready)
	journal.Fail("no leader")
	want(503, `{"success":false,"reason":"Not ready: journal","code":"unavailable","failing":[{"name":"journal","reason":"no leader"}]}`)
	journal.Remove()
	want(200, ready)
	views.Remove()
	want(503, nothing) // all have ended
}

func TestAWatchedPartIsAskedEachTime(t *testing.T) {
	health := telemetry.NewHealth()
	var fault error
	health.Watch("journal", func() error { return fault })
	if failing := health.Failing(); len(failing) != 0 {
		t.Errorf("failing are %v, want none", failing)
	}
	fault = errors.New("no leader")
	if failing := health.Failing(); len(failing) != 1 || failing[0] != (telemetry.Failing{Name: "journal", Reason: "no leader"}) {
		t.Errorf("failing are %v", failing)
	}
}

func TestTwoChecksOfOneNameBothCount(t *testing.T) {
	health := telemetry.NewHealth()
	health.Register("journal").Ready()
	health.Register("journal")
	if failing := health.Failing(); len(failing) != 1 {
		t.Errorf("failing are %v, want one", failing)
	}
}

func TestChecksMayBeToldConcurrently(t *testing.T) {
	health := telemetry.NewHealth()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			check := health.Register(fmt.Sprint(i))
			check.Fail("busy")
			_ = health.Failing()
			check.Ready()
		})
	}
	wg.Wait()
	if failing := health.Failing(); len(failing) > 0 {
		t.Errorf("failing are %v, want none", failing)
	}
}

func TestNilHealthAndMetricsAreFine(t *testing.T) {
	var health *telemetry.Health
	check := health.Register("journal")
	check.Ready()
	check.Fail("x")
	check.Remove()
	var metrics *telemetry.Metrics
	desc := telemetry.Desc{Service: "edge", Name: "x_total", Help: "x"}
	metrics.Counter(desc).Inc()
	metrics.CounterVec(desc, "a").WithLabelValues("b").Inc()
	metrics.Gauge(desc).Set(1)
	metrics.GaugeVec(desc, "a").WithLabelValues("b").Set(1)
	metrics.Histogram(desc, telemetry.Counts()).Observe(1)
	metrics.HistogramVec(desc, telemetry.Counts(), "a").WithLabelValues("b").Observe(1)
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if answer, _ := get(t, telemetry.Handler(metrics, health), http.MethodGet, path); answer.StatusCode != 200 {
			t.Errorf("%s is %d", path, answer.StatusCode)
		}
	}
}

func TestLivezIsGoodWhateverTheChecksSay(t *testing.T) {
	health := telemetry.NewHealth()
	health.Register("journal").Fail("no leader")
	if answer, body := get(t, telemetry.Handler(telemetry.NewMetrics(), health), http.MethodGet, "/livez"); answer.StatusCode != 200 {
		t.Errorf("livez is %d %s", answer.StatusCode, body)
	}
}

func TestOtherPathsAndMethodsAreErrorsInJSON(t *testing.T) {
	handler := telemetry.Handler(telemetry.NewMetrics(), telemetry.NewHealth())
	tests := []struct {
		method, path, code string
		status             int
	}{
		{http.MethodGet, "/", "not_found", 404},
		{http.MethodGet, "/livez/x", "not_found", 404},
		{http.MethodPost, "/livez", "method_not_allowed", 405},
		{http.MethodDelete, "/metrics", "method_not_allowed", 405},
	}
	for _, test := range tests {
		response, body := get(t, handler, test.method, test.path)
		var decoded struct {
			Success      bool
			Reason, Code string
		}
		if err := json.Unmarshal([]byte(body), &decoded); err != nil {
			t.Errorf("%s %s: %q: %v", test.method, test.path, body, err)
		}
		if response.StatusCode != test.status || decoded.Code != test.code || decoded.Success || decoded.Reason == "" {
			t.Errorf("%s %s is %d %s", test.method, test.path, response.StatusCode, body)
		}
		if test.status == 405 && response.Header.Get("Allow") == "" {
			t.Errorf("%s %s does not say what is allowed", test.method, test.path)
		}
	}
}

func TestProfilesAreReadByOperatorsAlone(t *testing.T) {
	public := telemetry.Handler(telemetry.NewMetrics(), telemetry.NewHealth())
	operators := telemetry.HandlerWithProfiles(telemetry.NewMetrics(), telemetry.NewHealth())
	for path, want := range map[string]string{
		"/debug/pprof/": "goroutine", "/debug/pprof/heap?debug=1": "heap profile", "/debug/pprof/goroutine?debug=2": "TestProfilesAreReadByOperatorsAlone",
		"/metrics": "go_goroutines", "/livez": `"success":true`,
	} {
		if response, body := get(t, operators, http.MethodGet, path); response.StatusCode != 200 || !strings.Contains(body, want) {
			t.Errorf("%s for operators is %d %.200s", path, response.StatusCode, body)
		}
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1", "/debug/pprof/cmdline"} {
		if response, body := get(t, public, http.MethodGet, path); response.StatusCode != 404 || !strings.Contains(body, `"not_found"`) {
			t.Errorf("%s for all is %d %.200s", path, response.StatusCode, body)
		}
		if response, body := get(t, operators, http.MethodPost, path); response.StatusCode != 405 {
			t.Errorf("POST %s is %d %.200s", path, response.StatusCode, body)
		}
	}
}

// TestAProfileMayTakeLongerThanOtherAnswers: the time-out for reading a request would end it halfway.
func TestAProfileMayTakeLongerThanOtherAnswers(t *testing.T) {
	server := httptest.NewUnstartedServer(telemetry.HandlerWithProfiles(telemetry.NewMetrics(), telemetry.NewHealth()))
	server.Config.ReadTimeout = 300 * time.Millisecond
	server.Start()
	defer server.Close()
	started := time.Now()
	response, err := server.Client().Get(server.URL + "/debug/pprof/trace?seconds=1")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 200 || !bytes.HasPrefix(body, []byte("go 1.")) {
		t.Fatalf("%d, %d bytes, %v", response.StatusCode, len(body), err)
	}
	if took := time.Since(started); took < time.Second {
		t.Errorf("a trace of a second was over after %s", took)
	}
}

func TestMetricsAreShownUnderTheirNames(t *testing.T) {
	metrics := telemetry.NewMetrics()
	metrics.Counter(telemetry.Desc{Service: "billing", Name: "admissions_total", Help: "Admissions folded."}).Add(3)
	metrics.CounterVec(telemetry.Desc{Service: "edge", Name: "requests_total", Help: "x"}, "status").WithLabelValues("200").Inc()
	metrics.Gauge(telemetry.Desc{Service: "paste", Name: "overlay_items", Help: "x"}).Set(5)
	metrics.Histogram(telemetry.Desc{Service: "edge", Name: "request_seconds", Help: "x"}, telemetry.Durations()).Observe(0.00015)
	_, body := get(t, telemetry.Handler(metrics, telemetry.NewHealth()), http.MethodGet, "/metrics")
	want := []string{
		"quire_billing_admissions_total 3", `quire_edge_requests_total{status="200"} 1`, "quire_paste_overlay_items 5",
		`quire_edge_request_seconds_bucket{le="0.0002"} 1`, "go_goroutines ", "go_build_info{",
	}
	for _, line := range want {
		if !strings.Contains(body, "\n"+line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}

func TestAMetricThatExistsIsShared(t *testing.T) {
	metrics := telemetry.NewMetrics()
	desc := telemetry.Desc{Service: "billing", Name: "admissions_total", Help: "Admissions folded."}
	metrics.Counter(desc).Inc()
	metrics.Counter(desc).Inc()
	if _, body := get(t, telemetry.Handler(metrics, telemetry.NewHealth()), http.MethodGet, "/metrics"); !strings.Contains(body, "\nquire_billing_admissions_total 2") {
		t.Error("the counter is not shared")
	}
	defer func() {
		if recover() == nil {
			t.Error("two metrics of one name are taken")
		}
	}()
	metrics.CounterVec(desc, "label")
}

func TestTwoProcessesInOneDoNotShareMetrics(t *testing.T) {
	desc := telemetry.Desc{Service: "billing", Name: "admissions_total", Help: "Admissions folded."}
	telemetry.NewMetrics().Counter(desc).Inc()
	other := telemetry.NewMetrics()
	other.Counter(desc)
	if _, body := get(t, telemetry.Handler(other, telemetry.NewHealth()), http.MethodGet, "/metrics"); !strings.Contains(body, "\nquire_billing_admissions_total 0") {
		t.Error("a count shows in another registry")
	}
}

func TestBucketsGrow(t *testing.T) {
	for name, buckets := range map[string][]float64{
		"durations": telemetry.Durations(), "counts": telemetry.Counts(),
	} {
		if !slices.IsSorted(buckets) || len(buckets) < 10 || len(buckets) > 20 {
			t.Errorf("%s are %v", name, buckets)
		}
	}
}
