package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// pieceBytes is the size of a write.
const pieceBytes = 128 << 10

// admittedFirstBytes is the length above which the service admits an upload before it reads the body.
const admittedFirstBytes = 64 << 10

// Files has the operations of files.
type Files struct{ c *Client }

// NewFile is a file to upload.
type NewFile struct {
	Name        string     // 1 to 255 characters without / and \
	Content     io.Reader  // 1 byte to 50 MB. The upload can be retried if it is an io.Seeker
	Size        int64      // of Content, if known; 0 uses the length of Content, if it has one
	ContentType string     // empty to detect it from the first bytes
	Visibility  Visibility // empty is Unlisted
	ExpiresIn   Lifetime   // empty is never
	Progress    Progress   // may be nil
}

// Progress is called with the number of bytes transferred and the total; -1 if unknown. It is called from
// the goroutine of the transfer, and starts over when the transfer is retried.
type Progress func(done, total int64)

// FileHead is a file's metadata.
type FileHead struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Size        int64      `json:"size"`
	ContentType string     `json:"contentType"`
	SHA256      string     `json:"sha256"` // in hexadecimal
	Visibility  Visibility `json:"visibility"`
	CreatedAt   time.Time  `json:"createdAt"`
	ExpiresAt   time.Time  `json:"expiresAt"` // zero if never
	URL         string     `json:"url"`       // of the page
}

// File is a file that was read.
type File struct {
	Meta `json:"-"`
	FileHead
	DownloadURL string `json:"downloadUrl"` // of the bytes, valid for 15 minutes; needs no API key and is not metered
}

// UploadedFile is a newly uploaded file.
type UploadedFile struct {
	Meta
	FileHead
}

// Upload sends a file. It compares the SHA-256 stored by the service with its own. If they differ, the error is
// ErrChecksum.
func (f *Files) Upload(ctx context.Context, file NewFile, options ...CallOption) (*UploadedFile, error) {
	r := once(http.MethodPost, "/api/dev/files/upload", options)
	for name, value := range map[string]string{
		"name": file.Name, "visibility": string(file.Visibility), "expiresIn": string(file.ExpiresIn),
	} {
		if value != "" {
			r.query.Set(name, value)
		}
	}
	r.header.Set("Content-Type", file.ContentType)
	if file.ContentType == "" {
		r.header.Set("Content-Type", "application/octet-stream")
	}
	source, err := newSource(file)
	if err != nil {
		return nil, err
	}
	r.body, r.length = source.open, source.size
	if source.size < 0 || source.size > admittedFirstBytes {
		r.header.Set("Expect", "100-continue") // a refused upload is not sent at all
	}
	out, err := fetch[UploadedFile](ctx, f.c, r)
	if err == nil && out.SHA256 != source.sum() && !out.Replayed {
		return nil, ErrChecksum
	}
	return out, err
}

// source is the content of an upload.
type source struct {
	content io.Reader
	seeker  io.Seeker // nil if it can be read only once
	start   int64     // of the content, in seeker
	size    int64     // -1 if unknown
	tell    Progress
	last    *attemptBody // nil before the first attempt
}

func newSource(file NewFile) (*source, error) {
	s := &source{content: file.Content, size: -1, tell: file.Progress}
	if file.Content == nil {
		return nil, errors.New("quire: the file has no content")
	}
	if seeker, ok := file.Content.(io.Seeker); ok {
		// A pipe has the method but can't seek.
		if start, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			s.seeker, s.start = seeker, start
			end, err := seeker.Seek(0, io.SeekEnd)
			if err == nil {
				_, err = seeker.Seek(start, io.SeekStart)
			}
			if err != nil {
				return nil, fmt.Errorf("quire: %w", err)
			}
			s.size = end - start
		}
	}
	if file.Size > 0 {
		s.size = file.Size
	}
	return s, nil
}

// bodyError: the content can't be read, or not a second time, so a retry is impossible.
type bodyError struct{ cause error }

func (e *bodyError) Error() string { return "quire: read the content: " + e.cause.Error() }
func (e *bodyError) Unwrap() error { return e.cause }

var errReadOnce = errors.New("the connection broke, and the content can't be read a second time")

// open returns the content from its start. The previous attempt stops reading.
func (s *source) open() (io.Reader, error) {
	if s.last != nil {
		_ = s.last.Close() // never fails
		if s.seeker == nil {
			return nil, &bodyError{errReadOnce}
		}
		if _, err := s.seeker.Seek(s.start, io.SeekStart); err != nil {
			return nil, &bodyError{err}
		}
	}
	s.last = &attemptBody{source: s, hash: sha256.New()}
	return s.last, nil
}

// sum is the SHA-256 of what the last attempt read.
func (s *source) sum() string {
	s.last.mu.Lock()
	defer s.last.mu.Unlock()
	return hex.EncodeToString(s.last.hash.Sum(nil))
}

// attemptBody is the content for one attempt. The transport may read and close it after the attempt has ended.
type attemptBody struct {
	source *source

	mu     sync.Mutex
	hash   hash.Hash
	done   int64
	closed bool
}

// Read reads and counts the content.
func (b *attemptBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, fs.ErrClosed
	}
	n, err := b.source.content.Read(p)
	b.hash.Write(p[:n])
	b.done += int64(n)
	if n > 0 && b.source.tell != nil {
		b.source.tell(b.done, b.source.size)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = &bodyError{err}
	}
	return n, err
}

// Close stops reading. The caller's content stays open.
func (b *attemptBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// Get returns a file's metadata.
func (f *Files) Get(ctx context.Context, id string, options ...CallOption) (*File, error) {
	found, err := fetch[struct {
		Meta
		File File `json:"file"`
	}](ctx, f.c, once(http.MethodGet, "/api/dev/files/get/"+url.PathEscape(id), options))
	if err != nil {
		return nil, err
	}
	found.File.Meta = found.Meta
	return &found.File, nil
}

// Download writes a file's bytes to w, and returns its metadata. It counts as one Get: after a broken connection it resumes
// where it stopped. The error is ErrChecksum if the bytes differ from the uploaded ones, which are then already in w.
func (f *Files) Download(ctx context.Context, id string, w io.Writer, progress Progress, options ...CallOption) (*File, error) {
	file, err := f.Get(ctx, id, options...)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	if err := f.transfer(ctx, file, io.MultiWriter(w, sum), progress); err != nil {
		return file, err
	}
	if hex.EncodeToString(sum.Sum(nil)) != file.SHA256 {
		return file, ErrChecksum
	}
	return file, nil
}

// transfer downloads a file by its link, unmetered. It resumes after each break as long as bytes arrive.
func (f *Files) transfer(ctx context.Context, file *File, w io.Writer, progress Progress) error {
	link, err := url.Parse(file.DownloadURL)
	if err != nil {
		return fmt.Errorf("quire: the service named an address that can't be read: %w", err)
	}
	t := &transfer{w: w, size: file.Size, progress: progress}
	r := newRequest(http.MethodGet, "", nil)
	r.at, r.keyless = link, true // the link may lead to another host, which must not get the key
	r.before = t.from
	for {
		before := t.done
		err := f.c.send(ctx, r, t.read)
		var broken *brokenError
		if err == nil || t.done == before || !errors.As(err, &broken) || ctx.Err() != nil {
			return err
		}
	}
}

// transfer is the progress of a download.
type transfer struct {
	w          io.Writer
	done, size int64
	progress   Progress
}

// from requests the missing bytes.
func (t *transfer) from(h http.Header) {
	h.Set("Accept-Encoding", "identity")
	if t.done > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", t.done))
	}
}

// read writes the bytes of an answer.
func (t *transfer) read(response *http.Response) error {
	defer response.Body.Close()
	if (response.StatusCode == http.StatusPartialContent) != (t.done > 0) {
		return fmt.Errorf("quire: the bytes from %d on were asked for, and the answer is %s", t.done, response.Status)
	}
	piece := make([]byte, pieceBytes)
	for {
		n, err := response.Body.Read(piece)
		if n > 0 {
			if _, err := t.w.Write(piece[:n]); err != nil {
				return fmt.Errorf("quire: write what was downloaded: %w", err)
			}
			t.done += int64(n)
			if t.progress != nil {
				t.progress(t.done, t.size)
			}
		}
		switch {
		case errors.Is(err, io.EOF) && t.done >= t.size:
			return nil
		case errors.Is(err, io.EOF):
			return &brokenError{fmt.Errorf("%d of %d bytes arrived", t.done, t.size)}
		case err != nil:
			return &brokenError{err}
		}
	}
}

// Delete deletes a file with its bytes.
func (f *Files) Delete(ctx context.Context, id string, options ...CallOption) (*Deleted, error) {
	return fetch[Deleted](ctx, f.c, once(http.MethodDelete, "/api/dev/files/delete/"+url.PathEscape(id), options))
}

type filePage struct {
	page
	Files []*FileHead `json:"files"`
}

// List iterates over the account's files, page by page, until the last one or the first error.
func (f *Files) List(ctx context.Context, filter ListFilter, options ...CallOption) iter.Seq2[*FileHead, error] {
	return pages(ctx, f.c, func(cursor string) *request {
		r := newRequest(http.MethodGet, "/api/dev/files/list", options)
		filter.set(r.query, cursor)
		return r
	}, func(p filePage) []*FileHead { return p.Files })
}
