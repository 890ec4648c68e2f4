// Package docs holds the documents that the edge serves: the description of the API and the guides.
package docs

import (
	"bytes"
	"embed"
	"io/fs"
)

//go:embed openapi.yaml
var api []byte

//go:embed guides/*.md
var files embed.FS

// API returns openapi.yaml, the OpenAPI document of the API.
func API() []byte { return bytes.Clone(api) }

// Guides returns the files of the folder guides, which are Markdown.
func Guides() fs.FS {
	guides, err := fs.Sub(files, "guides")
	if err != nil {
		panic(err) // the name is a constant
	}
	return guides
}
