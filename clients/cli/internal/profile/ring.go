package profile

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"github.com/zalando/go-keyring"
)

// service is the name under which the key ring has the keys.
const service = "quire"

// System is the system's key ring: the Keychain, Windows' Credential Manager, or the Secret Service on D-Bus. It is nil
// where none can be reached. env gives variables of the environment.
func System(env func(string) string) Ring {
	switch runtime.GOOS {
	case "darwin", "windows":
		return system{}
	}
	// Without a bus of the session the library would start one, just to find nothing on it.
	if env("DBUS_SESSION_BUS_ADDRESS") != "" {
		return system{}
	}
	if folder := env("XDG_RUNTIME_DIR"); folder != "" {
		if _, err := os.Stat(filepath.Join(folder, "bus")); err == nil {
			return system{}
		}
	}
	return nil
}

type system struct{}

// Set implements Ring.
func (system) Set(user, secret string) error { return keyring.Set(service, user, secret) }

// Get implements Ring.
func (system) Get(user string) (string, error) { return keyring.Get(service, user) }

// Delete implements Ring. A secret that is not there is deleted.
func (system) Delete(user string) error {
	if err := keyring.Delete(service, user); err != nil && !errors.Is(err, keyring.ErrNotFound) {
		return err
	}
	return nil
}
