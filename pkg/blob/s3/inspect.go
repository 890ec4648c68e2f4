package s3

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"quire.dev/pkg/blob"
)

// Bucket is what an operator may have to know of a bucket.
type Bucket struct {
	Missing   bool
	Versioned bool
	Owner     string // content of the object "installation"; empty: none
}

// Inspect asks for the state of the configured bucket, and changes nothing.
func Inspect(ctx context.Context, config Config) (Bucket, error) {
	s, _, err := connect(config)
	if err != nil {
		return Bucket{}, err
	}
	exists, limited, err := s.exists(ctx)
	if err != nil {
		return Bucket{}, s.fault(ctx, "ask for bucket", s.bucket, err)
	}
	if !exists && !limited {
		return Bucket{Missing: true}, nil
	}
	var b Bucket
	versions, err := s.client.GetBucketVersioning(ctx, s.bucket)
	if err != nil && limited {
		return Bucket{}, s.fault(ctx, "ask for bucket", s.bucket, err)
	}
	b.Versioned = err == nil && versions.Enabled() // a server may not say, or not to this user
	r, _, err := s.Get(ctx, installationKey, 0, maxOwner)
	if errors.Is(err, blob.ErrNotFound) {
		return b, nil
	}
	if err != nil {
		return Bucket{}, err
	}
	id, err := io.ReadAll(r)
	b.Owner = string(id)
	if err = errors.Join(err, r.Close()); err != nil {
		err = fmt.Errorf("read %s: %w", installationKey, err)
	}
	return b, err
}

const (
	installationKey = "installation"
	maxOwner        = 1 << 10
)

// exists reports whether the bucket exists. S3 hides that from users who may list only some prefixes: limited.
func (s *Store) exists(ctx context.Context) (exists, limited bool, err error) {
	exists, err = s.client.BucketExists(ctx, s.bucket)
	if minio.ToErrorResponse(err).Code == minio.AccessDenied {
		return false, true, nil
	}
	return exists, false, err
}
