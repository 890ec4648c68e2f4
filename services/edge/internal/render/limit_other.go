//go:build !linux

package render

import "runtime"

// limitMemory leaves the bound to the garbage collector: only Linux enforces one on a process.
func limitMemory(more int64) error {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	limitGarbage(int64(m.Sys), more) //nolint:gosec // far below
	return nil
}
