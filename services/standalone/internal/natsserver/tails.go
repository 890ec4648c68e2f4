package natsserver

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// rewriteTails writes the last block of every stream again, as a new file that takes its name.
//
// After a failed fsync the operating system shows what it failed to store as if it were stored, and
// the next fsync succeeds without storing it. Only bytes that were written anew are known to be on
// the disk. It also tells whether there is room again. Blocks are at most a few megabytes.
func rewriteTails(folder string) error {
	dirs, err := filepath.Glob(filepath.Join(folder, "jetstream", "*", "streams", "*", "msgs"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		block, err := lastBlock(dir)
		if err == nil && block != "" {
			err = rewrite(block)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func lastBlock(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	index := func(e os.DirEntry) int {
		number, isBlock := strings.CutSuffix(e.Name(), ".blk")
		n, err := strconv.Atoi(number)
		if !isBlock || err != nil {
			return -1
		}
		return n
	}
	if len(entries) == 0 {
		return "", nil
	}
	last := slices.MaxFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(index(a), index(b)) })
	if index(last) < 0 {
		return "", nil
	}
	return filepath.Join(dir, last.Name()), nil
}

// rewrite replaces file by a synced copy of itself. The copy's name is one that the server ignores.
func rewrite(file string) (err error) {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	tmp := file + ".again"
	out, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp, file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("rewrite %s: %w", file, err), os.Remove(tmp))
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
