package main

import (
	"slices"
	"strings"
	"testing"

	"quire.dev/pkg/host"
)

func TestSettingsAreReadOrAllRefusedAtOnce(t *testing.T) {
	good := []string{
		"QUIRE_NATS_URL=nats://n:4222", "QUIRE_MONGO_URL=mongodb://m", "QUIRE_S3_URL=http://k:s@s:9000/quire",
	}
	settings, err := host.ReadSettings(host.Billing, append(slices.Clone(good), "QUIRE_PARTITIONS=16", "QUIRE_BILLING_PARTITIONS=0-2, 7,1", "QUIRE_ANON_LIMIT=3"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := configure(settings)
	if !slices.Equal(cfg.Partitions, []int{0, 1, 2, 7}) || cfg.Book.AnonymousLimit != 3 {
		t.Fatalf("%+v", cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	if settings, err = host.ReadSettings(host.Billing, good); err != nil || configure(settings).Partitions != nil {
		t.Fatalf("%+v, %v", settings, err)
	}
	_, err = host.ReadSettings(host.Billing, []string{"QUIRE_PARTITIONS=4", "QUIRE_BILLING_PARTITIONS=3-4", "QUIRE_CLOCK_OFFSET=1h", "QUIRE_MONGO_URL=http://x"})
	if err == nil {
		t.Fatal("taken")
	}
	for _, name := range []string{"QUIRE_NATS_URL", "QUIRE_MONGO_URL", "QUIRE_S3_URL", "QUIRE_BILLING_PARTITIONS", "QUIRE_CLOCK_OFFSET"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not in: %v", name, err)
		}
	}
}
