package billing_test

import (
	"slices"
	"testing"

	"quire.dev/pkg/host"
	"quire.dev/services/billing"
)

func TestSettingsOfBillingAndTheirDefaults(t *testing.T) {
	cluster := []string{"QUIRE_NATS_URL=nats://n:4222", "QUIRE_MONGO_URL=mongodb://m", "QUIRE_S3_URL=http://k:s@s:9000/quire"}
	for name, c := range map[string]struct {
		environ    []string
		partitions []int
		anonymous  int
		secrets    []string
	}{
		"none":       {nil, nil, 10, nil},
		"partitions": {[]string{"QUIRE_PARTITIONS=16", "QUIRE_BILLING_PARTITIONS=0-2, 7,1", "QUIRE_ANON_LIMIT=3"}, []int{0, 1, 2, 7}, 3, nil},
		"secrets": {
			[]string{"QUIRE_SECRET=0123456789abcdef", "QUIRE_SECRET_PREVIOUS=fedcba9876543210"}, nil, 10, []string{"0123456789abcdef", "fedcba9876543210"},
		},
		"a previous secret alone": {[]string{"QUIRE_SECRET_PREVIOUS=fedcba9876543210"}, nil, 10, nil},
	} {
		t.Run(name, func(t *testing.T) {
			settings, err := host.ReadSettings(host.Billing, slices.Concat(cluster, c.environ))
			if err != nil {
				t.Fatal(err)
			}
			cfg := billing.Configure(settings)
			if err := cfg.Validate(); err != nil {
				t.Error(err)
			}
			var secrets []string
			for _, secret := range cfg.Secrets {
				secrets = append(secrets, string(secret))
			}
			if !slices.Equal(cfg.Partitions, c.partitions) || (cfg.Partitions == nil) != (c.partitions == nil) ||
				cfg.Book.AnonymousLimit != c.anonymous || !slices.Equal(secrets, c.secrets) {
				t.Errorf("%+v", cfg)
			}
		})
	}
}
