//go:build !linux

package main

// forgetStart does nothing: see pages_linux.go.
func forgetStart() {}
