package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Visibility says who may read a document.
type Visibility string

// Public and unlisted documents can be read with any API key and by anyone with the link. Search engines don't index
// unlisted ones. Private documents can be read by their owner.
const (
	Public   Visibility = "public"
	Unlisted Visibility = "unlisted"
	Private  Visibility = "private"
)

// Lifetime is the time after which a document expires: "10m", "1h", "7d", "2w", "1y" or "never".
type Lifetime string

// LifetimeOf is d in whole seconds, at least one minute and at most ten years.
func LifetimeOf(d time.Duration) Lifetime {
	return Lifetime(strconv.FormatInt(int64(d/time.Second), 10))
}

// MarshalJSON writes a number of seconds as a number.
func (l Lifetime) MarshalJSON() ([]byte, error) {
	if n, err := strconv.ParseInt(string(l), 10, 64); err == nil {
		return strconv.AppendInt(nil, n, 10), nil
	}
	return json.Marshal(string(l))
}

// NewPaste is a paste or quick paste to create. Only Content is needed.
type NewPaste struct {
	Content       string     `json:"content"`                 // UTF-8: 1 byte to 4 MB; for a quick paste, to 256 KB
	Title         string     `json:"title,omitempty"`         // one line of at most 200 characters
	Language      string     `json:"language,omitempty"`      // for highlighting; empty is plaintext, "auto" is detected from Title and Content
	Visibility    Visibility `json:"visibility,omitempty"`    // empty is Unlisted
	ExpiresIn     Lifetime   `json:"expiresIn,omitempty"`     // empty is never; without an API key 30 days
	ExpiresAt     time.Time  `json:"expiresAt,omitzero"`      // instead of ExpiresIn
	BurnAfterRead bool       `json:"burnAfterRead,omitempty"` // delete after the first read by someone else
	Password      string     `json:"password,omitempty"`      // required from every reader, including the owner
	Tags          []string   `json:"tags,omitempty"`          // at most 10, of up to 32 characters
}

// PasteChange is an edit of a paste or quick paste. A zero field stays unchanged: use Set and Reset.
type PasteChange struct {
	Content       Change[string]     `json:"content,omitzero"`
	Title         Change[string]     `json:"title,omitzero"`
	Language      Change[string]     `json:"language,omitzero"`
	Visibility    Change[Visibility] `json:"visibility,omitzero"`
	ExpiresIn     Change[Lifetime]   `json:"expiresIn,omitzero"`
	ExpiresAt     Change[time.Time]  `json:"expiresAt,omitzero"`
	BurnAfterRead Change[bool]       `json:"burnAfterRead,omitzero"`
	Password      Change[string]     `json:"password,omitzero"`
	Tags          Change[[]string]   `json:"tags,omitzero"`
}

// Change is a new value of a field, or none.
type Change[T any] struct {
	value T
	kind  uint8
}

const (
	changeSet = 1 + iota
	changeReset
)

// Set sets a field.
func Set[T any](value T) Change[T] { return Change[T]{value: value, kind: changeSet} }

// Reset resets a field to its default.
func Reset[T any]() Change[T] { return Change[T]{kind: changeReset} }

// IsZero tells whether the field stays unchanged.
func (c Change[T]) IsZero() bool { return c.kind == 0 }

// MarshalJSON writes the value, or null for a reset.
func (c Change[T]) MarshalJSON() ([]byte, error) {
	if c.kind == changeSet {
		return json.Marshal(c.value)
	}
	return []byte("null"), nil
}

// PasteHead is a paste or quick paste without its content.
type PasteHead struct {
	ID                string     `json:"id"`
	Title             string     `json:"title"`
	Language          string     `json:"language"`
	Visibility        Visibility `json:"visibility"`
	Size              int64      `json:"size"`    // of the content, in bytes of UTF-8
	Version           int64      `json:"version"` // from 1
	Tags              []string   `json:"tags"`
	BurnAfterRead     bool       `json:"burnAfterRead"`
	PasswordProtected bool       `json:"passwordProtected"`
	CreatedAt         time.Time  `json:"createdAt"`
	UpdatedAt         time.Time  `json:"updatedAt"`
	ExpiresAt         time.Time  `json:"expiresAt"` // zero if never
	URL               string     `json:"url"`       // of the page
	RawURL            string     `json:"rawUrl"`    // of the content as text
}

// Paste is a paste or quick paste.
type Paste struct {
	Meta `json:"-"`
	PasteHead
	Content string `json:"content"`
}

// CreatedPaste is a newly created paste or quick paste.
type CreatedPaste struct {
	Meta
	ID          string    `json:"id"`
	URL         string    `json:"url"`
	RawURL      string    `json:"rawUrl"`
	Version     int64     `json:"version"`
	CreatedAt   time.Time `json:"createdAt"`
	ExpiresAt   time.Time `json:"expiresAt"`   // zero if never
	ManageToken string    `json:"manageToken"` // of a quick paste without an owner, for WithManageToken; shown only here
}

// UpdatedPaste is the version created by an edit.
type UpdatedPaste struct {
	Meta
	ID        string    `json:"id"`
	Version   int64     `json:"version"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// Deleted is a deleted document.
type Deleted struct {
	Meta
	ID string `json:"id"`
}

// PasteVersion is a version of a paste or quick paste, without its content.
type PasteVersion struct {
	Version   int64     `json:"version"`
	Title     string    `json:"title"`
	Language  string    `json:"language"`
	Size      int64     `json:"size"`
	CreatedAt time.Time `json:"createdAt"`
}

// Pastes are the operations of pastes, or of quick pastes.
type Pastes struct {
	c    *Client
	path string
}

func (p *Pastes) item(operation, id string) string {
	return p.path + "/" + operation + "/" + url.PathEscape(id)
}

// Create creates a paste.
func (p *Pastes) Create(ctx context.Context, paste NewPaste, options ...CallOption) (*CreatedPaste, error) {
	r := once(http.MethodPost, p.path+"/create", options)
	if err := r.json(paste); err != nil {
		return nil, err
	}
	return fetch[CreatedPaste](ctx, p.c, r)
}

// Get reads a paste. With IfNotVersion the error can be ErrNotModified.
func (p *Pastes) Get(ctx context.Context, id string, options ...CallOption) (*Paste, error) {
	return p.get(ctx, once(http.MethodGet, p.item("get", id), options))
}

// GetVersion reads a version, from 1. Only the owner may read versions.
func (p *Pastes) GetVersion(ctx context.Context, id string, version int64, options ...CallOption) (*Paste, error) {
	r := once(http.MethodGet, p.item("get", id), options)
	r.query.Set("version", strconv.FormatInt(version, 10))
	return p.get(ctx, r)
}

func (p *Pastes) get(ctx context.Context, r *request) (*Paste, error) {
	found, err := fetch[struct {
		Meta
		Paste Paste `json:"paste"`
	}](ctx, p.c, r)
	if err != nil {
		return nil, err
	}
	found.Paste.Meta = found.Meta
	return &found.Paste, nil
}

// Update edits a paste. The change has to set or reset at least one field.
func (p *Pastes) Update(ctx context.Context, id string, change PasteChange, options ...CallOption) (*UpdatedPaste, error) {
	r := once(http.MethodPut, p.item("update", id), options)
	if err := r.json(change); err != nil {
		return nil, err
	}
	return fetch[UpdatedPaste](ctx, p.c, r)
}

// Delete deletes a paste with all its versions.
func (p *Pastes) Delete(ctx context.Context, id string, options ...CallOption) (*Deleted, error) {
	return fetch[Deleted](ctx, p.c, once(http.MethodDelete, p.item("delete", id), options))
}

type pastePage struct {
	page
	Pastes []*PasteHead `json:"pastes"`
}

// List iterates over the account's pastes, page by page, until the last one or the first error.
func (p *Pastes) List(ctx context.Context, filter ListFilter, options ...CallOption) iter.Seq2[*PasteHead, error] {
	return pages(ctx, p.c, func(cursor string) *request {
		r := newRequest(http.MethodGet, p.path+"/list", options)
		filter.set(r.query, cursor)
		return r
	}, func(found pastePage) []*PasteHead { return found.Pastes })
}

type versionPage struct {
	page
	Versions []*PasteVersion `json:"versions"`
}

// Versions iterates over a paste's versions, newest first.
func (p *Pastes) Versions(ctx context.Context, id string, options ...CallOption) iter.Seq2[*PasteVersion, error] {
	return pages(ctx, p.c, func(cursor string) *request {
		r := newRequest(http.MethodGet, p.item("versions", id), options)
		ListFilter{}.set(r.query, cursor)
		return r
	}, func(found versionPage) []*PasteVersion { return found.Versions })
}
