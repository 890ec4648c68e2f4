package main

import (
	"slices"
	"strings"
	"testing"

	"quire.dev/pkg/host"
	"quire.dev/services/edge"
)

func TestSettingsAreReadOrAllRefusedAtOnce(t *testing.T) {
	good := []string{
		"QUIRE_NATS_URL=nats://n:4222", "QUIRE_S3_URL=http://k:s@s:9000/quire", "QUIRE_SECRET=" + strings.Repeat("0123456789abcdef", 4),
	}
	settings, err := host.ReadSettings(host.Edge, append(slices.Clone(good), "QUIRE_PARTITIONS=32", "QUIRE_LISTEN=:80"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := configure(settings)
	if cfg.Partitions != 32 || cfg.Listen != ":80" || !cfg.AskPartitions {
		t.Errorf("%+v", cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	if cfg.MaxConns != edge.DefaultMaxConns || cfg.MaxConnsPerSource != edge.DefaultMaxConnsPerSource || cfg.StopGrace != edge.DefaultStopGrace {
		t.Errorf("the table of settings has other defaults than the edge: %+v", cfg)
	}
	_, err = host.ReadSettings(host.Edge, []string{"QUIRE_PARTITIONS=0", "QUIRE_CLOCK_OFFSET=1h", "QUIRE_PARTITION=4"})
	if err == nil {
		t.Fatal("taken")
	}
	for _, name := range []string{"QUIRE_NATS_URL", "QUIRE_S3_URL", "QUIRE_SECRET", "QUIRE_PARTITIONS", "QUIRE_CLOCK_OFFSET", "QUIRE_PARTITION is"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not in: %v", name, err)
		}
	}
}
