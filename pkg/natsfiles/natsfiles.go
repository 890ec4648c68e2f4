// Package natsfiles reads the private files of a NATS server, and is the only package that knows them.
//
// The server repairs damaged files when it starts: it truncates a block file at the first invalid record, and drops a stream
// whose description is unreadable. The journals count money, so such a silent loss must not happen. Check detects it before the
// start, and writes nothing. It accepts only what a killed process leaves: an incomplete record at the end of the last block, which
// was never acknowledged, and the folder of a stream that was being created (Report.RemoveUnfinished) or deleted
// (Report.KeepDeleted). An unreadable index counts as none.
//
// If its index names the last record, the server trusts the index and reads no blocks. Otherwise it reads all of them. The
// index is current after an orderly stop. After a kill it is some minutes old, and is brought up to the last record by reading
// the blocks that have grown since (Report.RenewIndexes). So of large journals only those and the last blocks are checked
// before the start, and the others while the server works (Report.CheckRest).
//
// A Reader gives followers in the server's process the messages without a consumer, and RewriteTails rewrites what a disk may
// have lost.
//
// The layout is <folder>/jetstream/<account>/streams/<stream>/{meta.inf,meta.sum,msgs/<n>.blk,msgs/index.db}, where folder is
// the server's StoreDir, without encryption and compression (server/filestore.go). NATS does not promise it to stay the same
// between versions: see Supports.
package natsfiles

import (
	"errors"
	"os"
	"slices"
)

// Supports reports whether this package was tested with the files of that nats-server version, including restarts, kills and
// damage in services/standalone. The files of other versions are left to the server.
func Supports(version string) bool {
	return slices.Contains([]string{"2.15.2"}, version)
}

// RewriteTails rewrites the last block of each stream below folder to a new file that replaces the old one. The server must not
// run.
//
// After a failed fsync the operating system still returns the bytes that it could not store, and the next fsync succeeds
// without storing them. Only rewritten bytes are known to be on the disk. An error also reveals a disk that is still full. A
// block has a few megabytes at most.
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
