package process

import (
	"strings"
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	whole := []string{"QUIRE_NATS_URL=nats://n:4222", "QUIRE_MONGO_URL=mongodb://a,b/?replicaSet=r", "QUIRE_S3_URL=https://k:s@h/b"}
	for name, c := range map[string]struct {
		environ []string
		faults  []string
	}{
		"nothing":      {nil, []string{"QUIRE_NATS_URL", "QUIRE_MONGO_URL", "QUIRE_S3_URL"}},
		"what it must": {whole, nil},
		"an offset":    {append(whole, "QUIRE_CLOCK_OFFSET=1h"), []string{"QUIRE_CLOCK_OFFSET"}},
		"a typo":       {append(whole, "QUIRE_PARTITION=4"), []string{"QUIRE_PARTITION"}},
		"several":      {append(whole, "QUIRE_PARTITIONS=0", "QUIRE_CONTENT_RETENTION=x"), []string{"QUIRE_PARTITIONS", "QUIRE_CONTENT_RETENTION"}},
		"the edge's":   {append(whole, "QUIRE_SECRET=0123456789", "QUIRE_LISTEN=:80"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read("paste", c.environ)
			if (err != nil) != (len(c.faults) > 0) {
				t.Fatalf("settings: %v", err)
			}
			for _, fault := range c.faults {
				if !strings.Contains(err.Error(), fault) {
					t.Errorf("%v does not name %s", err, fault)
				}
			}
		})
	}
	env, err := read("paste", append(whole, "QUIRE_CLOCK_OFFSET=48h", "QUIRE_DEV=1", "QUIRE_PARTITIONS=4"))
	if err != nil || env.service.Offset != 48*time.Hour || env.service.PartitionCount != 4 || env.service.Bounds.ContentRetention != 7*24*time.Hour {
		t.Errorf("settings %+v, %v", env, err)
	}
}

// TestEachServiceHasADatabaseOfItsOwn: their users may not touch another's.
func TestEachServiceHasADatabaseOfItsOwn(t *testing.T) {
	for _, c := range []struct{ service, setting, want string }{
		{"paste", "", "quire_paste"}, {"lite", "", "quire_lite"}, {"file", "", "quire_file"}, {"file", "mine", "mine"},
	} {
		environ := []string{"QUIRE_NATS_URL=nats://n:4222", "QUIRE_MONGO_URL=mongodb://a", "QUIRE_S3_URL=https://k:s@h/b"}
		if c.setting != "" {
			environ = append(environ, "QUIRE_MONGO_DATABASE="+c.setting)
		}
		env, err := read(c.service, environ)
		if err != nil || env.database != c.want {
			t.Errorf("%s with %q: %+v, %v", c.service, c.setting, env, err)
		}
	}
}
