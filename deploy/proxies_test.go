package deploy_test

import (
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNoDeploymentTrustsAWideNetwork: whoever is in a trusted network chooses the address that limits go by. The network of a
// cluster's pods, 10.0.0.0/8 for example, has many more in it than the proxies.
func TestNoDeploymentTrustsAWideNetwork(t *testing.T) {
	files := []string{"compose.yaml"}
	for _, pattern := range []string{"../k8s/base/*.env", "../k8s/overlays/*/*.env", "../k8s/*/*.yaml", "../k8s/*/*/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	setting := regexp.MustCompile(`QUIRE_TRUSTED_PROXIES[:=] *"?([^"\n]*)`)
	networks := 0
	for _, name := range files {
		for _, match := range setting.FindAllStringSubmatch(read(t, name), -1) {
			for text := range strings.SplitSeq(match[1], ",") {
				network, err := netip.ParsePrefix(strings.TrimSpace(text))
				if err != nil {
					t.Errorf("%s trusts %q: %v", name, text, err)
					continue
				}
				networks++
				widest := 20 // a pod network of one node or a subnet of load balancers
				if network.Addr().Is6() {
					widest = 64
				}
				if network.Bits() < widest {
					t.Errorf("%s trusts all of %s", name, network)
				}
			}
		}
	}
	if networks == 0 {
		t.Error("no deployment trusts a proxy")
	}
}
