// Package verifier holds the bill verifier, which the edge serves to browsers.
package verifier

import (
	"bytes"
	_ "embed"
)

//go:embed verify.mjs
var program []byte

// Program returns verify.mjs, a JavaScript module. README.md says what it checks.
func Program() []byte { return bytes.Clone(program) }
