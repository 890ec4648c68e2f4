//go:build !linux

package render

import (
	"runtime"

	"quire.dev/pkg/num"
)

// limitMemory leaves the bound to the garbage collector: only Linux enforces one on a process.
func limitMemory(more int64) error {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	limitGarbage(num.Int64(m.Sys), more)
	return nil
}
