package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// folder examines the data folder, which a process with external stores has too, for its secrets.
func folder(_ context.Context, cfg Config) []Finding {
	const name = "data folder"
	path := cfg.Settings.Data
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		path = filepath.Dir(filepath.Clean(path))
		f := ok(name, "%s does not exist yet; the first start creates it", cfg.Settings.Data)
		if err := unix.Access(path, unix.W_OK|unix.X_OK); err != nil {
			f = failed(name, fmt.Errorf("%s can't be created in %s: %w", cfg.Settings.Data, path, err), "Create the folder, owned by the user that runs quire, or set QUIRE_DATA.")
		}
		return append([]Finding{f}, free(path)...)
	}
	switch {
	case err != nil:
		return []Finding{failed(name, err, "Set QUIRE_DATA to a folder of the user that runs quire.")}
	case !info.IsDir():
		return []Finding{failed(name, fmt.Errorf("%s is no folder", path), "Set QUIRE_DATA to a folder.")}
	}
	f := ok(name, "%s", path)
	if wide := info.Mode().Perm() & 0o077; wide != 0 {
		f = Finding{
			Check: name, Result: Warn, Detail: fmt.Sprintf("%s has the mode %#o: other users of this host reach the secrets in it", path, info.Mode().Perm()),
			Advice: "chmod 700 " + path,
		}
	}
	if err := unix.Access(path, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		f = failed(name, fmt.Errorf("%s can't be written: %w", path, err), "Give it to the user that runs quire.")
	}
	return append([]Finding{f}, free(path)...)
}

func free(path string) []Finding {
	const name = "room for the data folder"
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return []Finding{failed(name, err, "")}
	}
	used := s.Blocks - s.Bfree // of what this user may use, as df counts
	return []Finding{room(name, used, used+s.Bavail, "Make room, or move the data folder to a larger volume. A full one stops all writes.")}
}
