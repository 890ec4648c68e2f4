package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"strconv"
)

// state is what a cluster keeps beside its data: a process has the same address after a restart, and secrets stay.
type state struct {
	path    string
	Ports   map[string]int    `json:"ports"`   // by process and use: "nats-0/client"
	Secrets map[string]string `json:"secrets"` // by what they are for

	block net.Listener // occupies the ports after its own
	next  int          // of them
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

// Ports come in blocks, below those that the kernel gives to whoever wants any. A cluster keeps the first one of its
// block occupied, so that no other cluster takes the block, also while none of its processes listens.
const (
	firstPort = 12_000
	lastPort  = 32_000
	blockSize = 80
)

// reserve finds a free port of the loopback interface for a use, once: a second call gives the same.
func (s *state) reserve(use string) (int, error) {
	if port := s.Ports[use]; port != 0 {
		return port, nil
	}
	for range tries {
		if s.block == nil || s.next >= s.block.Addr().(*net.TCPAddr).Port+blockSize {
			if err := s.occupy(); err != nil {
				return 0, fmt.Errorf("find a port for %s: %w", use, err)
			}
		}
		port := s.next
		s.next++
		if l, err := listen(port); err == nil && !s.taken(port) {
			s.Ports[use] = port
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a port for %s: none is free", use)
}

// tries bound the search for a free block, and for a free port.
const tries = 1000

// occupy takes a block that no other cluster has.
func (s *state) occupy() error {
	for range tries {
		port := firstPort + mathrand.IntN((lastPort-firstPort)/blockSize)*blockSize
		l, err := listen(port)
		if err != nil {
			continue
		}
		if err := s.release(); err != nil {
			return errors.Join(err, l.Close())
		}
		s.block, s.next = l, port+1
		return nil
	}
	return errors.New("no block of ports is free")
}

// release gives the block back.
func (s *state) release() error {
	if s.block == nil {
		return nil
	}
	err := s.block.Close()
	s.block = nil
	return err
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

func (s *state) taken(port int) bool {
	for _, p := range s.Ports {
		if p == port {
			return true
		}
	}
	return false
}
