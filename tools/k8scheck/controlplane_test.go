//go:build cluster

package k8scheck_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodelease "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

const (
	token = "only-on-loopback"
	// patience bounds each wait. It is long, since the machine may be busy.
	patience = 3 * time.Minute
)

// eventually waits until condition reports nothing missing. Importing pkg/eventually would change the versions that
// Kubernetes is built from.
func eventually(t *testing.T, what string, condition func(ctx context.Context) (missing string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		missing := condition(ctx)
		if missing == "" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %s", what, missing)
		}
	}
}

// controlPlane starts etcd, kube-apiserver, kube-controller-manager and kwok on loopback, and stops them at the end.
func controlPlane(t *testing.T) *rest.Config {
	t.Helper()
	dir := t.TempDir()
	ports := freePorts(t, 4)
	etcd, peer, api, kwok := ports[0], ports[1], ports[2], ports[3]
	start(t, dir, ports[:2], "etcd", "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls", "http://"+etcd, "--advertise-client-urls", "http://"+etcd,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster", "default=http://"+peer)
	listening(t, etcd)

	key := filepath.Join(dir, "service-account.key")
	writeFile(t, key, serviceAccountKey(t))
	tokens := filepath.Join(dir, "tokens.csv")
	writeFile(t, tokens, []byte(token+",admin,admin,system:masters\n"))
	_, port, _ := net.SplitHostPort(api)
	start(t, dir, []string{api}, "kube-apiserver", "--etcd-servers=http://"+etcd, "--bind-address=127.0.0.1", "--secure-port="+port,
		"--cert-dir="+filepath.Join(dir, "certificates"), "--token-auth-file="+tokens, "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+key,
		"--service-account-signing-key-file="+key, "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none")
	config := &rest.Config{
		Host: "https://" + api, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS: 200, Burst: 400, WarningHandler: rest.NoWarnings{},
	}
	ready(t, config)

	kubeconfig := filepath.Join(dir, "kubeconfig")
	writeFile(t, kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://%s", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, api, token))
	start(t, dir, nil, "kube-controller-manager", "--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file="+key, "--horizontal-pod-autoscaler-sync-period=2s", "--kube-api-qps=200", "--kube-api-burst=400")
	var stages []byte
	for _, stage := range []string{
		nodefast.DefaultNodeInit, nodelease.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete,
	} {
		stages = append(append(stages, stage...), "\n---\n"...)
	}
	file := filepath.Join(dir, "stages.yaml")
	writeFile(t, file, stages)
	start(t, dir, []string{kwok}, "kwok", "--kubeconfig="+kubeconfig, "--config="+file, "--manage-all-nodes=true",
		"--node-lease-duration-seconds=40", "--server-address="+kwok)
	return config
}

// freePorts returns different addresses that nothing listens on, as pkg/freeport does.
func freePorts(t *testing.T, count int) []string {
	t.Helper()
	var addresses []string
	for len(addresses) < count {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+mathrand.IntN(22768)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, l.Addr().String())
		defer l.Close()
	}
	return addresses
}

// start runs one of the programs of make k8s-test. At the end of the test it stops the program and waits for its ports.
func start(t *testing.T, dir string, ports []string, name string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("bin/"+name, args...)
	command.Stdout, command.Stderr = log, log
	// It ends with the test, even if the test is killed.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Env = append(os.Environ(), "HOME="+dir)
	if err := command.Start(); err != nil {
		t.Fatalf("start %s (make k8s-test builds it): %v", name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		defer log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the end of %s.log:\n%s", name, text[max(0, len(text)-4000):])
		}
		_ = command.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = command.Process.Kill()
			<-ended
		}
		for _, address := range ports {
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Errorf("%s has ended, and %s is not free: %v", name, address, err)
				continue
			}
			l.Close()
		}
	})
}

func listening(t *testing.T, address string) {
	t.Helper()
	eventually(t, "listen on "+address, func(context.Context) string {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err.Error()
		}
		c.Close()
		return ""
	})
}

func ready(t *testing.T, config *rest.Config) {
	t.Helper()
	plain := rest.CopyConfig(config)
	plain.NegotiatedSerializer = codecs()
	plain.APIPath, plain.GroupVersion = "/", noVersion()
	client, err := rest.RESTClientFor(plain)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server", func(ctx context.Context) string {
		if err := client.Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
			return err.Error()
		}
		return ""
	})
}

func serviceAccountKey(t *testing.T) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
