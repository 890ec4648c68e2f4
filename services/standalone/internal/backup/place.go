package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/blob/s3"
)

// Place is where a backup is: a folder, or s3://bucket/prefix. The server and the credentials of a bucket come from
// AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from a role.
type Place string

// Write opens the place for Run. A folder is locked until close is called.
func (p Place) Write(ctx context.Context) (store blob.Store, close func() error, err error) {
	if p.isBucket() {
		store, err = p.bucket(ctx)
		return store, func() error { return nil }, err
	}
	entries, err := os.ReadDir(string(p))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("back up to a folder: %w", err)
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(string(p), "keys")); err != nil {
			return nil, nil, fmt.Errorf("%s has other files, such as %s: choose an empty folder, or one with a backup", p, entries[0].Name())
		}
	}
	folder, err := disk.Open(string(p))
	if err != nil {
		return nil, nil, err
	}
	return folder, folder.Close, nil
}

// Read opens the place for everything else.
func (p Place) Read(ctx context.Context) (blob.Store, error) {
	if p.isBucket() {
		return p.bucket(ctx)
	}
	return disk.Reading(string(p)), nil
}

func (p Place) isBucket() bool { return strings.HasPrefix(string(p), "s3://") }

func (p Place) bucket(ctx context.Context) (blob.Store, error) {
	u, err := url.Parse(string(p))
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("%s is not s3://bucket/prefix", p)
	}
	region := cmp.Or(os.Getenv("AWS_REGION"), "us-east-1")
	at, err := url.Parse(cmp.Or(os.Getenv("AWS_ENDPOINT_URL"), "https://s3."+region+".amazonaws.com"))
	if err != nil || at.Host == "" {
		return nil, errors.New("AWS_ENDPOINT_URL is not a URL")
	}
	at.Path, at.RawQuery = "/"+u.Host, "region="+url.QueryEscape(region)
	store, err := s3.Open(ctx, s3.Config{URL: at.String(), Versioned: true})
	if err != nil {
		return nil, err
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return Below(store, prefix), nil
}
