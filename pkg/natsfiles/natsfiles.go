// Package natsfiles reads the private files of a NATS server, and is the only package that knows them.
//
// The server repairs damaged files when it starts. It cuts a block file off at the first record that is not valid, and leaves out
// a stream whose description it can't read. Money is counted by the journals, so such a silent loss must not happen. Check finds
// it before the start, and writes nothing. It accepts one fault only: an incomplete record at the end of the last block, which a
// killed process was writing and never acknowledged.
//
// The server takes all blocks as its index describes them, and reads none, where the index is of the last record. Without such an
// index it reads all. After a stop in order the index is of the last record. After a kill the one from some minutes before is
// brought up to the last record by reading the blocks that have grown since (Report.RenewIndexes). So of large journals only those
// and the last blocks are checked before the start, and the others while the server works (Report.CheckRest).
//
// A Reader gives followers in the process of the server the messages without a consumer, and RewriteTails makes sure of what a
// disk may have lost.
//
// The layout is
// <folder>/jetstream/<account>/streams/<stream>/{meta.inf,meta.sum,msgs/<n>.blk,msgs/index.db}, where folder is the server's
// StoreDir, without encryption and compression (server/filestore.go). No version of NATS promises it to the next one: see Tried.
package natsfiles

import (
	"errors"
	"os"
	"slices"
)

// Tried reports whether this package was tried with the files of that version of nats-server: its tests and those of restarts,
// kills and damage in services/standalone have passed. The files of another version are left to the server.
func Tried(version string) bool {
	return slices.Contains([]string{"2.15.2"}, version)
}

// RewriteTails writes the last block of each stream below folder again, to a new file that replaces the old one. The server must
// not run.
//
// After a failed fsync the operating system still returns the bytes that it could not store, and the next fsync succeeds
// without storing them. Only bytes that are written again are known to be on the disk. An error also shows that there is
// no room yet. A block has a few megabytes at most.
func RewriteTails(folder string, replace Replace) error {
	dirs, err := streamFolders(folder)
	errs := []error{err}
	for _, dir := range dirs {
		blocks, err := listBlocks(dir)
		if err == nil && len(blocks) > 0 {
			last := blocks[len(blocks)-1].Path
			var data []byte
			if data, err = os.ReadFile(last); err == nil {
				err = replace(last, data)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
