package edge_test

import (
	"strings"
	"testing"

	"quire.dev/pkg/host"
	"quire.dev/services/edge"
	"quire.dev/services/edge/internal/httpin"
)

func TestSettingsOfTheEdgeAndTheirDefaults(t *testing.T) {
	cluster := []string{"QUIRE_NATS_URL=nats://n:4222", "QUIRE_S3_URL=http://k:s@s:9000/quire", "QUIRE_SECRET=" + testSecret}
	settings, err := host.ReadSettings(host.Edge, append(cluster, "QUIRE_PARTITIONS=32", "QUIRE_LISTEN=:80"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := edge.Configure(settings)
	if cfg.Partitions != 32 || cfg.Listen != ":80" || string(cfg.Secret) != testSecret || !cfg.AskPartitions {
		t.Errorf("%+v", cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	if cfg.MaxConns != httpin.DefaultMaxConns || cfg.MaxConnsPerSource != httpin.DefaultMaxConnsPerSource || cfg.StopGrace != httpin.DefaultStopGrace {
		t.Errorf("the table of settings has other defaults than the edge: %+v", cfg)
	}
	settings, err = host.ReadSettings(host.Quire, []string{"QUIRE_MAX_CONNS=20", "QUIRE_STOP_GRACE=1s"})
	if cfg = edge.Configure(settings); err != nil || cfg.MaxConns != 0 || cfg.StopGrace != 0 || cfg.UnmeteredRate != 100 {
		t.Errorf("quire has not the edge's own defaults for what it does not read: %+v, %v", cfg, err)
	}
}

func TestTheContentURLIsAnOriginOnAnotherHost(t *testing.T) {
	for _, tc := range []struct{ content, public, fault string }{
		{"", "", ""},
		{"https://content.example", "https://quire.example", ""},
		{"https://content.example/", "https://quire.example", ""},
		{"https://content.example", "", "needs a public URL"},
		{"https://quire.example:8443", "https://quire.example", "another host"},
		{"https://QUIRE.example", "https://quire.example", "another host"},
		{"https://content.example/path", "https://quire.example", "must be an origin"},
		{"https://user@content.example", "https://quire.example", "must be an origin"},
		{"https://", "https://quire.example", "must be an origin"},
	} {
		cfg := edge.Config{Listen: ":0", Secret: []byte(testSecret), Partitions: 1, ContentURL: tc.content, PublicURL: tc.public}
		err := cfg.Validate()
		if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%q beside %q: %v, want %q", tc.content, tc.public, err, tc.fault)
		}
	}
}
