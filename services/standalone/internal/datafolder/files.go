package datafolder

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// version is what the file VERSION says: the number on the first line, then "<word> <value>" lines.
type version struct {
	format  int
	secret  string   // fingerprint
	streams []string // sorted
	welcome bool     // the first account's key was shown
}

func (v version) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d\nsecret %s\n", v.format, v.secret)
	for _, s := range v.streams {
		fmt.Fprintf(&b, "stream %s\n", s)
	}
	if v.welcome {
		fmt.Fprintf(&b, "welcomed yes\n")
	}
	return b.Bytes()
}

func decodeVersion(data []byte) (version, error) {
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	format, err := strconv.Atoi(lines[0])
	if err != nil || format < 1 {
		return version{}, fmt.Errorf("%.40q is no version number", lines[0])
	}
	v := version{format: format}
	if format > Format {
		return v, nil // what follows is for those who know it
	}
	for _, line := range lines[1:] {
		word, value, _ := strings.Cut(line, " ")
		switch {
		case word == "secret" && value != "" && v.secret == "":
			v.secret = value
		case word == "stream" && value != "":
			v.streams = append(v.streams, value)
		case word == "welcomed" && value == "yes":
			v.welcome = true
		default:
			return version{}, fmt.Errorf("line %.60q is not understood", line)
		}
	}
	if v.secret == "" {
		return version{}, fmt.Errorf("no line for the secret")
	}
	return v, nil
}

// writeFile replaces a file so that after a crash it is the old one or the new one, whole.
func writeFile(path string, data []byte) error {
	tmp := path + ".tmp"
	file, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
