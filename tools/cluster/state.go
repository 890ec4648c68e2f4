package cluster

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// state is what a cluster keeps beside its data, so that it has the same secrets and addresses after a restart.
type state struct {
	path    string
	Network string            `json:"network"` // the addresses begin with it
	Secrets map[string]string `json:"secrets"` // by purpose
}

func openState(path string) (*state, error) {
	s := &state{path: path, Secrets: map[string]string{}}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the state of the cluster: %w", err)
	}
	names := append([]string{"admin", "secret", "databases"}, natsUsers()...)
	for _, user := range s3Users() {
		names = append(names, s3Secret(user))
	}
	names = append(names, "postgres")
	for _, service := range postgresUsers() {
		names = append(names, postgresSecret(service))
	}
	if s.Secrets["checkpoint"] == "" {
		s.Secrets["checkpoint"] = rand.Text() + rand.Text() // of 32 bytes at least
	}
	for _, name := range names {
		if s.Secrets[name] == "" {
			s.Secrets[name] = strings.ToLower(rand.Text())
		}
	}
	return s, nil
}

func (s *state) save() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.path, data, 0o600)
}
