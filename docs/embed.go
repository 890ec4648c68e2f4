// Package docs holds the documents that the edge serves: the descriptions of the API and of the pages, the errors and the guides.
package docs

import (
	"bytes"
	"embed"
	"io/fs"
)

//go:embed openapi.yaml
var api []byte

//go:embed openapi-pages.yaml
var pages []byte

//go:embed errors.md
var errorCodes string

//go:embed guides/*.md
var files embed.FS

// API returns openapi.yaml, the OpenAPI document of the API.
func API() []byte { return bytes.Clone(api) }

// Pages returns openapi-pages.yaml, the OpenAPI document of the pages for people and the operators' paths. It refers to
// parts of openapi.yaml, by that name.
func Pages() []byte { return bytes.Clone(pages) }

// Errors returns errors.md: the codes of the API's errors, each with its cause and fix.
func Errors() string { return errorCodes }

// Guides returns the files of the folder guides, which are Markdown. Its README.md lists the others in their order.
func Guides() fs.FS {
	guides, err := fs.Sub(files, "guides")
	if err != nil {
		panic(err) // the name is a constant
	}
	return guides
}
