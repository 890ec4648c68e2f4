package main

import (
	"slices"
	"strings"
	"testing"
)

func TestSettingsAreReadOrAllRefusedAtOnce(t *testing.T) {
	good := []string{
		"QUIRE_NATS_URL=nats://n:4222", "QUIRE_S3_URL=http://k:s@s:9000/quire", "QUIRE_SECRET=" + strings.Repeat("0123456789abcdef", 4),
	}
	cfg, err := read(append(slices.Clone(good), "QUIRE_PARTITIONS=32", "QUIRE_LISTEN=:80"))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.edge.Partitions != 32 || cfg.edge.Listen != ":80" || !cfg.edge.AskPartitions {
		t.Errorf("%+v", cfg.edge)
	}
	if err := cfg.edge.Validate(); err != nil {
		t.Error(err)
	}
	_, err = read([]string{"QUIRE_PARTITIONS=0", "QUIRE_CLOCK_OFFSET=1h", "QUIRE_PARTITION=4"})
	if err == nil {
		t.Fatal("taken")
	}
	for _, name := range []string{"QUIRE_NATS_URL", "QUIRE_S3_URL", "QUIRE_SECRET", "QUIRE_PARTITIONS", "QUIRE_CLOCK_OFFSET", "QUIRE_PARTITION is"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not in: %v", name, err)
		}
	}
}
