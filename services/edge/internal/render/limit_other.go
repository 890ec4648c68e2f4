//go:build !linux

package render

import "runtime"

// limitMemory has the collector hold the bound, as well as it can: only Linux bounds the memory of a process for certain.
func limitMemory(more int64) error {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	limitGarbage(int64(m.Sys), more) //nolint:gosec // far below
	return nil
}
