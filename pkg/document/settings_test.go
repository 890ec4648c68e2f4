package document_test

import (
	"testing"
	"time"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/sweep"
	"quire.dev/pkg/host"
)

func TestSettingsOfADocumentServiceAndTheirDefaults(t *testing.T) {
	settings, err := host.ReadSettings(host.File, []string{
		"QUIRE_NATS_URL=nats://n:4222", "QUIRE_MONGO_URL=mongodb://m", "QUIRE_S3_URL=http://k:s@s:9000/quire",
		"QUIRE_PARTITIONS=4", "QUIRE_TRASH_RETENTION=3d", "QUIRE_KEEP_ORPHANS=1", "QUIRE_OVERLAY_BYTES=2MiB", "QUIRE_DEV=1", "QUIRE_CLOCK_OFFSET=1h",
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := document.Configure(settings)
	if cfg.PartitionCount != 4 || cfg.Offset != time.Hour {
		t.Errorf("%+v", cfg)
	}
	want := document.Bounds{
		Sweep:      sweep.Bounds{ContentRetention: 7 * 24 * time.Hour, TrashRetention: 3 * 24 * time.Hour, KeepOrphans: true},
		CacheBytes: 64 << 20, OverlayBytes: 2 << 20,
	}
	if cfg.Bounds != want {
		t.Errorf("%+v, want %+v", cfg.Bounds, want)
	}
}
