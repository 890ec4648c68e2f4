package datafolder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
)

// socketFile is the socket of the journal server. The operator's commands on this machine connect to it.
const socketFile = "journal.sock"

// maxSocketPath is the longest path that every system takes, with its final zero.
const maxSocketPath = 104

// Listen opens the socket of the journal server. Only the owner of the folder can connect to it.
func (f *Folder) Listen() (net.Listener, error) {
	path := filepath.Join(f.Path, socketFile)
	// A killed process has left it.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen in the data folder: %w", err)
	}
	var listener net.Listener
	err := withSocket(f.Path, func(path string) (err error) {
		unix, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return err
		}
		unix.SetUnlinkOnClose(false) // path may not be valid then; the next start removes the file
		listener = unix
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listen in the data folder: %w", err)
	}
	return listener, nil
}

// Dial connects to the journal server of the process that has the folder at path open.
func Dial(ctx context.Context, path string) (conn net.Conn, err error) {
	err = withSocket(path, func(path string) (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "unix", path)
		return err
	})
	return conn, err
}

// withSocket calls use with the path of the socket, or with a shorter name of it that is valid until use returns.
func withSocket(folder string, use func(path string) error) error {
	path := filepath.Join(folder, socketFile)
	if len(path) < maxSocketPath || runtime.GOOS != "linux" {
		return use(path)
	}
	opened, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer opened.Close()
	return use(fmt.Sprintf("/proc/self/fd/%d/%s", opened.Fd(), socketFile))
}
