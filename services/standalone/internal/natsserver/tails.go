package natsserver

import (
	"errors"
	"os"

	"quire.dev/services/standalone/internal/durable"
	"quire.dev/services/standalone/internal/streamcheck"
)

// rewriteTails writes the last block of each stream again, to a new file that replaces the old one.
//
// After a failed fsync the operating system still returns the bytes that it could not store, and the next fsync succeeds
// without storing them. Only bytes that are written again are known to be on the disk. An error also shows that there is
// no room yet. A block has a few megabytes at most.
func rewriteTails(folder string) error {
	blocks, err := streamcheck.LastBlocks(folder)
	errs := []error{err}
	for _, block := range blocks {
		data, err := os.ReadFile(block)
		if err == nil {
			err = durable.Write(block, data)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
