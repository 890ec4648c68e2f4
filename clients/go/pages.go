package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
)

// Order is the order of a list by creation.
type Order string

// Newest first, the default, or oldest first.
const (
	NewestFirst Order = "desc"
	OldestFirst Order = "asc"
)

// ListFilter selects documents. The zero value lists all, newest first.
type ListFilter struct {
	PageSize      int        // documents per page, 1 to 100; 0 is 100
	Order         Order      // empty is NewestFirst
	TitleContains string     // also of a file's name
	Tag           string     // of pastes and quick pastes
	Visibility    Visibility // empty for any
	Language      string     // of pastes and quick pastes
	Cursor        string     // continues an earlier list
}

const maxPageSize = 100

func (f ListFilter) set(q url.Values, cursor string) {
	setPage(q, f.PageSize, cursor, f.Cursor)
	setText(q, "order", string(f.Order))
	setText(q, "q", f.TitleContains)
	setText(q, "tag", f.Tag)
	setText(q, "visibility", string(f.Visibility))
	setText(q, "language", f.Language)
}

// setPage requests a page of a list. cursor comes from the previous page; first is the starting cursor.
func setPage(q url.Values, size int, cursor, first string) {
	if cursor == "" {
		cursor = first
	}
	setText(q, "cursor", cursor)
	if size == 0 {
		size = maxPageSize
	}
	q.Set("limit", strconv.Itoa(size))
}

func setText(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

// page is the common part of every page.
type page struct {
	Meta
	NextCursor string `json:"nextCursor"` // empty on the last page
}

func (p *page) next() string { return p.NextCursor }

// pages iterates over the items of all pages. ask creates the request for a page, with an empty cursor for the first one;
// items returns the items of a page P.
func pages[P, T any, A interface {
	*P
	answer
	next() string
}](ctx context.Context, c *Client, ask func(cursor string) *request, items func(P) []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			found, err := fetch[P, A](ctx, c, ask(cursor))
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items(*found) {
				if !yield(item, nil) {
					return
				}
			}
			if cursor = A(found).next(); cursor == "" {
				return
			}
		}
	}
}

// fetch sends r and returns the JSON of its answer.
func fetch[T any, P interface {
	*T
	answer
}](ctx context.Context, c *Client, r *request) (*T, error) {
	out := new(T)
	if err := c.call(ctx, r, P(out)); err != nil {
		return nil, err
	}
	return out, nil
}
