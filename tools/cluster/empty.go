package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// Empty stops everything and starts the stores again without data, as if all volumes were lost. Secrets and addresses stay, and so do other
// buckets than the installation's. StartServices goes on once the stores are filled again.
func (c *Cluster) Empty(ctx context.Context) error {
	if err := errors.Join(c.StopServices(ctx), stopTogether(ctx, c.Processes())); err != nil {
		return err
	}
	folders := []string{filepath.Join(c.opts.Dir, "minio", bucket), c.archive()}
	stores := c.Processes("nats", c.opts.Store, "minio")
	for _, p := range c.Processes("nats", c.opts.Store) {
		folders = append(folders, filepath.Join(c.opts.Dir, p.name))
	}
	for _, folder := range folders {
		if err := emptyFolder(folder); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(c.opts.Dir, "minio", bucket)); err != nil { // the bucket itself
		return err
	}
	if len(c.Processes(PostgreSQL)) > 0 {
		if err := c.createPostgres(ctx); err != nil {
			return err
		}
	}
	if err := startTogether(ctx, stores); err != nil {
		return err
	}
	return c.divideBucket(ctx)
}

// emptyFolder removes the contents of a folder, but not the folder, which may be a mount point.
func emptyFolder(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(folder, entry.Name())))
	}
	return err
}
