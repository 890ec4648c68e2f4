package standalone

import (
	"strings"
	"testing"
	"time"
)

func TestSettingsHaveTheDefaultsOfTheContract(t *testing.T) {
	cfg, err := FromEnvironment(nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen != "127.0.0.1:8080" || cfg.Data != "./data" || cfg.AnonymousLimit != 10 || cfg.Partitions != 1 ||
		cfg.ContentRetention != 7*24*time.Hour || cfg.ClockOffset != 0 || len(cfg.TrustedProxies) != 0 {
		t.Fatalf("%+v", cfg)
	}
}

func TestAllWrongSettingsAreInOneMessage(t *testing.T) {
	wrong := map[string]string{
		"QUIRE_LISTEN": "nowhere", "QUIRE_PUBLIC_URL": "ftp://x", "QUIRE_ANON_LIMIT": "-1", "QUIRE_TRUSTED_PROXIES": "10.0.0.0/99",
		"QUIRE_PARTITIONS": "0", "QUIRE_NATS_URL": "http://x", "QUIRE_MONGO_URL": "nats://x", "QUIRE_S3_URL": "s3://x",
		"QUIRE_CONTENT_RETENTION": "1m", "QUIRE_DEV": "maybe", "QUIRE_CLOCK_OFFSET": "tomorrow", "QUIRE_SECRET": "short",
		"QUIRE_ADMIN_TOKEN": "short", "QUIRE_DATTA": "x",
	}
	environ := make([]string, 0, len(wrong))
	for name, value := range wrong {
		environ = append(environ, name+"="+value)
	}
	_, err := FromEnvironment(environ)
	if err == nil {
		t.Fatal("wrong settings were taken")
	}
	for name := range wrong {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in %q", name, err)
		}
	}
	if strings.Contains(err.Error(), "short") {
		t.Errorf("a secret is shown: %q", err)
	}
}

func TestClockOffsetIsForDevelopmentOnly(t *testing.T) {
	if _, err := FromEnvironment([]string{"QUIRE_CLOCK_OFFSET=24h"}); err == nil || !strings.Contains(err.Error(), "QUIRE_DEV=1") {
		t.Fatalf("got %v", err)
	}
	cfg, err := FromEnvironment([]string{"QUIRE_CLOCK_OFFSET=24h", "QUIRE_DEV=1"})
	if err != nil || cfg.ClockOffset != 24*time.Hour {
		t.Fatalf("%v, %v", cfg.ClockOffset, err)
	}
}
