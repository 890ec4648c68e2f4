package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"io"
)

// notices is THIRD_PARTY_NOTICES of the project's root, compressed. make notices writes both.
//
//go:embed notices.gz
var notices []byte

func (c *command) licenses() error {
	text, err := gzip.NewReader(bytes.NewReader(notices))
	if err != nil {
		return err
	}
	_, err = io.Copy(c.stdout, text) //nolint:gosec // it is embedded
	return errors.Join(err, text.Close())
}
