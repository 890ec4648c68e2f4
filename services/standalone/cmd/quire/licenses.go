package main

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"errors"
	"io"
)

// notices is THIRD_PARTY_NOTICES of the project's root, compressed. make notices writes both.
//
//go:embed notices.gz
var notices []byte

func (c *command) licenses(_ context.Context, args []string) error {
	if len(args) > 0 {
		return usage("licenses takes no arguments")
	}
	text, err := gzip.NewReader(bytes.NewReader(notices))
	if err != nil {
		return err
	}
	_, err = io.Copy(c.stdout, text)
	return errors.Join(err, text.Close())
}
