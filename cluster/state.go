package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
)

// state is what a cluster keeps beside its data: a process has the same address after a restart, and secrets stay.
type state struct {
	path    string
	Ports   map[string]int    `json:"ports"`   // by process and use: "nats-0/client"
	Secrets map[string]string `json:"secrets"` // by what they are for
}

func openState(path string) (*state, error) {
	s := &state{path: path, Ports: map[string]int{}, Secrets: map[string]string{}}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("state of the cluster: %w", err)
	}
	for _, name := range append([]string{"admin", "secret", "minio", "databases"}, natsUsers()...) {
		if s.Secrets[name] == "" {
			s.Secrets[name] = newSecret()
		}
	}
	return s, nil
}

func newSecret() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

func (s *state) save() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.path, data, 0o600)
}

// reserve finds a free port of the loopback interface for a use, once: a second call gives the same.
func (s *state) reserve(use string) (int, error) {
	if port := s.Ports[use]; port != 0 {
		return port, nil
	}
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, fmt.Errorf("find a port for %s: %w", use, err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return 0, err
		}
		if !s.taken(port) {
			s.Ports[use] = port
			return port, nil
		}
	}
}

func (s *state) taken(port int) bool {
	for _, p := range s.Ports {
		if p == port {
			return true
		}
	}
	return false
}
