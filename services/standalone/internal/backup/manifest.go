package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"quire.dev/pkg/blob"
)

// format is the number of the layout.
const format = 1

const (
	manifestKey = "manifest.json"
	draftKey    = "unfinished.json" // of a backup that has not ended
)

// Manifest describes a backup. Times are UTC.
type Manifest struct {
	Format       int       `json:"format"`
	Version      string    `json:"version"` // of quire
	Installation string    `json:"installation"`
	Partitions   int       `json:"partitions"`
	Started      time.Time `json:"started"`
	Cut          time.Time `json:"cut"` // everything acknowledged before is in it
	Ended        time.Time `json:"ended"`
	Journals     []Journal `json:"journals"`
	Models       []Model   `json:"readModels"`
	Blobs        []Blob    `json:"blobs"`
	Folder       []File    `json:"dataFolder"`
	SHA256       string    `json:"sha256"` // of this manifest with an empty sha256
}

// Part is an object of the backup.
type Part struct {
	Key    string `json:"key"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Journal is a copied journal. Its messages begin with First. Those after Cut are the settlements that were under way.
type Journal struct {
	Stream   string    `json:"stream"`
	Created  time.Time `json:"created"`
	First    uint64    `json:"first"`
	Cut      uint64    `json:"cut"`
	Last     uint64    `json:"last"`
	Segments []Segment `json:"segments"`
}

// Segment is a part with messages of a journal.
type Segment struct {
	Part
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// End is the SHA-256 of the last message, as encoded.
	End string `json:"end"`
}

// Model is a copied read model.
type Model struct {
	Part
	Service     string            `json:"service"`
	Documents   uint64            `json:"documents"`
	Checkpoints map[string]uint64 `json:"checkpoints"` // by journal, and others of the service
}

// Blob is a copied blob.
type Blob struct {
	Part
	Name     string    `json:"name"`
	Modified time.Time `json:"modified"`
}

// File is a file of the data folder.
type File struct {
	Part
	Name string `json:"name"`
}

// Read returns the manifest of the finished backup in a store. Errors: ErrNone, ErrDamaged, and the store's.
func Read(ctx context.Context, store blob.Store) (*Manifest, error) {
	m, err := readManifest(ctx, store, manifestKey)
	if err == nil && m == nil {
		err = ErrNone
	}
	return m, err
}

// readManifest returns nil if the manifest does not exist.
func readManifest(ctx context.Context, store blob.Store, key string) (*Manifest, error) {
	data, err := readAll(ctx, store, key)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, key, err)
	}
	if m.Format > format {
		return nil, fmt.Errorf("the backup has format %d, and this quire reads formats up to %d: use the quire that wrote it (%s) or a newer one", m.Format, format, m.Version)
	}
	sum := m.SHA256
	if _, err := m.encode(); err != nil {
		return nil, err
	}
	if m.SHA256 != sum {
		return nil, fmt.Errorf("%w: %s does not match its checksum", ErrDamaged, key)
	}
	return m, nil
}

// encode sets the checksum.
func (m *Manifest) encode() ([]byte, error) {
	m.SHA256 = ""
	data, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	m.SHA256 = digest(data)
	return json.MarshalIndent(m, "", " ")
}

func (m *Manifest) write(ctx context.Context, store blob.Store, key string) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	_, err = store.Put(ctx, key, bytes.NewReader(data), int64(len(data)))
	return err
}

// Parts are all objects of the backup.
func (m *Manifest) Parts() []Part {
	var list []Part
	for _, j := range m.Journals {
		for _, s := range j.Segments {
			list = append(list, s.Part)
		}
	}
	for _, model := range m.Models {
		list = append(list, model.Part)
	}
	for _, b := range m.Blobs {
		list = append(list, b.Part)
	}
	for _, f := range m.Folder {
		list = append(list, f.Part)
	}
	return list
}

// journal returns the entry of a stream, which it adds if it is missing.
func (m *Manifest) journal(stream string) *Journal {
	for i := range m.Journals {
		if m.Journals[i].Stream == stream {
			return &m.Journals[i]
		}
	}
	m.Journals = append(m.Journals, Journal{Stream: stream})
	return &m.Journals[len(m.Journals)-1]
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func readAll(ctx context.Context, store blob.Store, key string) (data []byte, err error) {
	r, _, err := store.Get(ctx, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return io.ReadAll(r)
}

// Open returns a reader of a part that ends with ErrDamaged unless all of it was as written.
func (p Part) Open(ctx context.Context, store blob.Store) (io.ReadCloser, error) {
	r, info, err := store.Get(ctx, p.Key, 0, -1)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, fmt.Errorf("%w: %s is missing", ErrDamaged, p.Key)
	}
	if err != nil {
		return nil, err
	}
	if info.Size != p.Bytes {
		return nil, errors.Join(fmt.Errorf("%w: %s has %d bytes instead of %d", ErrDamaged, p.Key, info.Size, p.Bytes), r.Close())
	}
	return &checked{ReadCloser: r, part: p, sum: sha256.New()}, nil
}

// checked is a reader of a part.
type checked struct {
	io.ReadCloser
	part Part
	sum  hash.Hash
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	_, _ = c.sum.Write(p[:n]) // never fails
	if errors.Is(err, io.EOF) && hex.EncodeToString(c.sum.Sum(nil)) != c.part.SHA256 {
		return n, fmt.Errorf("%w: %s does not match its checksum", ErrDamaged, c.part.Key)
	}
	return n, err
}
