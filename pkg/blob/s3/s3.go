// Package s3 keeps blobs in a bucket of any S3 server.
//
// A blob of more than one part is a multipart upload. One that a killed process leaves unfinished is invisible but
// takes space: give the bucket a lifecycle rule that aborts incomplete uploads (MinIO does so by itself after a day).
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/internal/source"
)

const (
	// partBytes is S3's minimum for all parts but the last.
	partBytes = 5 << 20
	// maxParts is S3's maximum, which bounds a blob to 48 GiB.
	maxParts   = 10_000
	maxRetries = 3
)

// Store is a blob.Store in a bucket.
type Store struct {
	client  *minio.Core
	bucket  string
	timeout time.Duration
	slots   chan struct{} // one element per part being sent
	buffers buffers
}

// Open connects to the configured bucket and creates it if it is missing. It refuses a versioned bucket, where a delete would
// not delete, unless Config.Versioned accepts one.
func Open(ctx context.Context, config Config) (*Store, error) {
	store, region, err := connect(config)
	if err != nil {
		return nil, err
	}
	if err := store.prepare(ctx, region, config.Versioned); err != nil {
		return nil, store.fault(ctx, "open bucket", store.bucket, err)
	}
	return store, nil
}

// connect returns a Store that has contacted nothing yet.
func connect(config Config) (store *Store, region string, err error) {
	config = config.withDefaults()
	at, err := parseURL(config.URL)
	if err != nil {
		return nil, "", err
	}
	transport, err := newTransport(at.secure, config.Timeout)
	if err != nil {
		return nil, "", fmt.Errorf("open blob bucket %s: %w", at.bucket, err)
	}
	client, err := minio.NewCore(at.endpoint, &minio.Options{
		Creds:      at.credentials(),
		Secure:     at.secure,
		Region:     at.region,
		Transport:  transport,
		MaxRetries: maxRetries,
	})
	if err != nil {
		return nil, "", fmt.Errorf("open blob bucket %s: %w", at.bucket, err)
	}
	return &Store{
		client:  client,
		bucket:  at.bucket,
		timeout: config.Timeout,
		slots:   make(chan struct{}, config.Uploads),
		buffers: make(buffers, config.Uploads),
	}, at.region, nil
}

func newTransport(secure bool, timeout time.Duration) (*http.Transport, error) {
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	transport.ResponseHeaderTimeout = timeout
	return transport, nil
}

var errVersioned = errors.New("the bucket is versioned, so deletes would not delete; suspend versioning")

func (s *Store) prepare(ctx context.Context, region string, versioned bool) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	exists, limited, err := s.exists(ctx) // limited users may still ask whether the bucket is versioned
	if err != nil {
		return err
	}
	if !exists && !limited {
		err := s.client.MakeBucket(ctx, s.bucket, minio.MakeBucketOptions{Region: region})
		if err != nil && minio.ToErrorResponse(err).Code == minio.BucketAlreadyOwnedByYou {
			return nil // another instance has created it meanwhile
		}
		return err
	}
	versions, err := s.client.GetBucketVersioning(ctx, s.bucket)
	switch {
	case err == nil && versions.Enabled() && !versioned:
		return errVersioned
	case limited:
		return err // the credentials are wrong, or there is no such bucket
	}
	return nil // accepted: this server does not say, or not to this user
}

// PutBytes implements blob.Buffering: a Put buffers one part.
func (s *Store) PutBytes() int64 { return partBytes }

// Put implements blob.Store. A complete part waits while Config.Uploads others are being sent; bounding concurrent Puts is up
// to the caller. Info.Modified is by this process's clock. A Put of several parts that fails aborts its upload.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size int64) (blob.Info, error) {
	if err := errors.Join(blob.ValidateKey(key), blob.ValidateSize(size), ctx.Err()); err != nil {
		return blob.Info{}, err
	}
	from := source.New(ctx, r, size)
	part := &part{spare: s.buffers}
	if err := s.upload(ctx, key, from, part); err != nil {
		if from.Err() != nil {
			part.give()
			return blob.Info{}, fmt.Errorf("put blob %s: %w", key, from.Err())
		}
		// After a failed request the transport may still read from the buffer, so it is not reused.
		return blob.Info{}, s.fault(ctx, "put", key, err)
	}
	part.give()
	return blob.Info{Key: key, Size: from.Size(), Modified: time.Now().UTC()}, nil
}

func (s *Store) upload(ctx context.Context, key string, from *source.Reader, part *part) error {
	data, last, err := part.next(ctx, from)
	if err != nil {
		return err
	}
	if last {
		return s.send(ctx, func(ctx context.Context) error {
			_, err := s.client.PutObject(ctx, s.bucket, key, bytes.NewReader(data), int64(len(data)), "", "", minio.PutObjectOptions{})
			return err
		})
	}
	id, err := s.beginUpload(ctx, key)
	if err != nil {
		return err
	}
	if err := s.uploadParts(ctx, key, id, data, from, part); err != nil {
		s.abortUpload(ctx, key, id)
		return err
	}
	return nil
}

// send calls a function that sends a part, once a slot is free.
func (s *Store) send(ctx context.Context, call func(ctx context.Context) error) error {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.slots }()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return call(ctx)
}

func (s *Store) beginUpload(ctx context.Context, key string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.client.NewMultipartUpload(ctx, s.bucket, key, minio.PutObjectOptions{})
}

func (s *Store) uploadParts(ctx context.Context, key, id string, data []byte, from *source.Reader, part *part) error {
	var done []minio.CompletePart
	for last := false; ; {
		if len(done) == maxParts {
			return fmt.Errorf("%w: more than %d bytes", blob.ErrSize, int64(maxParts)*partBytes)
		}
		etag, err := s.uploadPart(ctx, key, id, len(done)+1, data)
		if err != nil {
			return err
		}
		done = append(done, minio.CompletePart{PartNumber: len(done) + 1, ETag: etag})
		if last {
			break
		}
		if data, last, err = part.next(ctx, from); err != nil {
			return err
		}
		if len(data) == 0 {
			break // the blob's size is a multiple of partBytes
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err := s.client.CompleteMultipartUpload(ctx, s.bucket, key, id, done, minio.PutObjectOptions{})
	return err
}

func (s *Store) uploadPart(ctx context.Context, key, id string, number int, data []byte) (etag string, err error) {
	err = s.send(ctx, func(ctx context.Context) error {
		sent, err := s.client.PutObjectPart(ctx, s.bucket, key, id, number, bytes.NewReader(data), int64(len(data)),
			minio.PutObjectPartOptions{})
		etag = sent.ETag
		return err
	})
	return etag, err
}

// abortUpload frees the parts sent so far, even if ctx has ended. If it fails, the bucket's lifecycle rule frees them. Put
// returns its own error.
func (s *Store) abortUpload(ctx context.Context, key, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer cancel()
	_ = s.client.AbortMultipartUpload(ctx, s.bucket, key, id)
}

// Create implements blob.Store. A server without support for If-None-Match in a put replaces a blob created at the same moment.
func (s *Store) Create(ctx context.Context, key string, content []byte) error {
	if err := blob.ValidateKey(key); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err := s.client.StatObject(bounded, s.bucket, key, minio.StatObjectOptions{})
	if err == nil {
		return fmt.Errorf("create blob %s: %w", key, blob.ErrExists)
	}
	if minio.ToErrorResponse(err).Code != minio.NoSuchKey {
		return s.fault(ctx, "create", key, err)
	}
	var options minio.PutObjectOptions
	options.SetMatchETagExcept("*")
	_, err = s.client.PutObject(bounded, s.bucket, key, bytes.NewReader(content), int64(len(content)), "", "", options)
	switch minio.ToErrorResponse(err).StatusCode {
	case http.StatusPreconditionFailed, http.StatusConflict: // S3 answers 409 to the slower of two concurrent puts
		return fmt.Errorf("create blob %s: %w", key, blob.ErrExists)
	}
	if err != nil {
		return s.fault(ctx, "create", key, err)
	}
	return nil
}

// Move implements blob.Store: the server copies the blob, 5 GiB at most, and deletes the original.
func (s *Store) Move(ctx context.Context, from, to string) error {
	if err := errors.Join(blob.ValidateKey(from), blob.ValidateKey(to)); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err := s.client.CopyObject(bounded, s.bucket, from, s.bucket, to, nil, minio.CopySrcOptions{}, minio.PutObjectOptions{})
	if err != nil {
		return s.fault(ctx, "move", from, err)
	}
	return s.Delete(ctx, from)
}

// Get implements blob.Store. A server that sends nothing for Config.Timeout is ErrUnavailable.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	if err := errors.Join(blob.ValidateKey(key), blob.ValidateRange(offset, length)); err != nil {
		return nil, blob.Info{}, err
	}
	if length == 0 {
		return s.getNothing(ctx, key)
	}
	var options minio.GetObjectOptions
	if offset > 0 || length > 0 {
		if err := options.SetRange(offset, lastByte(offset, length)); err != nil {
			return nil, blob.Info{}, fmt.Errorf("get blob %s: %w: %w", key, blob.ErrInvalid, err)
		}
	}
	idle := newIdle(ctx, s.timeout)
	idle.start()
	body, object, header, err := s.client.GetObject(idle.ctx, s.bucket, key, options)
	idle.stop()
	if err != nil {
		idle.close()
		if minio.ToErrorResponse(err).Code == minio.InvalidRange {
			return s.getNothing(ctx, key) // the range lies past the end
		}
		return nil, blob.Info{}, s.fault(ctx, "get", key, idle.cause(err))
	}
	size, err := wholeSize(object.Size, header)
	if err != nil {
		idle.close()
		return nil, blob.Info{}, errors.Join(s.fault(ctx, "get", key, err), body.Close())
	}
	info := blob.Info{Key: key, Size: size, Modified: object.LastModified.UTC()}
	return &reader{store: s, ctx: ctx, idle: idle, key: key, body: body}, info, nil
}

// lastByte returns the end of a range for SetRange, where 0 means the blob's end.
func lastByte(offset, length int64) int64 {
	if length < 0 || offset > math.MaxInt64-length {
		return 0
	}
	return offset + length - 1
}

// wholeSize returns the size of the blob from a full or partial response (RFC 9110, 14.4: "bytes 0-9/100").
func wholeSize(answered int64, header http.Header) (int64, error) {
	value := header.Get("Content-Range")
	if value == "" {
		return answered, nil
	}
	_, total, _ := strings.Cut(value, "/")
	size, err := strconv.ParseInt(total, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("content range %q: %w", value, err)
	}
	return size, nil
}

// getNothing answers a get whose range is empty.
func (s *Store) getNothing(ctx context.Context, key string) (io.ReadCloser, blob.Info, error) {
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	object, err := s.client.StatObject(bounded, s.bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return nil, blob.Info{}, s.fault(ctx, "get", key, err)
	}
	return http.NoBody, blob.Info{Key: key, Size: object.Size, Modified: object.LastModified.UTC()}, nil
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := blob.ValidateKey(key); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := s.client.RemoveObject(bounded, s.bucket, key, minio.RemoveObjectOptions{})
	if err != nil && minio.ToErrorResponse(err).Code != minio.NoSuchKey {
		return s.fault(ctx, "delete", key, err)
	}
	return nil
}

// Sweep implements blob.Store.
func (s *Store) Sweep(ctx context.Context, prefix string, olderThan time.Time, visit func(blob.Info) error) error {
	if err := blob.ValidatePrefix(prefix); err != nil {
		return err
	}
	idle := newIdle(ctx, s.timeout)
	defer idle.close()
	idle.start()
	for object := range s.client.ListObjectsIter(idle.ctx, s.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		idle.stop()
		if object.Err != nil {
			return s.fault(ctx, "sweep", prefix, idle.cause(object.Err))
		}
		if object.LastModified.Before(olderThan) {
			info := blob.Info{Key: object.Key, Size: object.Size, Modified: object.LastModified.UTC()}
			if err := visit(info); err != nil {
				return err
			}
		}
		idle.start()
	}
	// A listing may end without an error when its context ends.
	if idle.ctx.Err() != nil {
		return s.fault(ctx, "sweep", prefix, context.Cause(idle.ctx))
	}
	return nil
}

// fault classifies an error of the client. ctx is the caller's: if it has ended, its error is the cause.
func (s *Store) fault(ctx context.Context, what, key string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s blob %s: %w", what, key, ctx.Err())
	}
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return fmt.Errorf("%s blob %s: %w", what, key, blob.ErrNotFound)
	}
	if errors.Is(err, errVersioned) || errors.Is(err, blob.ErrSize) {
		return fmt.Errorf("%s blob %s: %w", what, key, err)
	}
	return fmt.Errorf("%s blob %s: %w: %w", what, key, blob.ErrUnavailable, err)
}
