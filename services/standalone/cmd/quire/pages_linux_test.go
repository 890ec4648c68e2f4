package main

import (
	"bytes"
	"fmt"
	"os"
	"testing"
)

// mapped is how many KiB of files are mapped into memory.
func mapped(t *testing.T) (kib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := bytes.Cut(status, []byte("RssFile:"))
	if _, err := fmt.Sscanf(string(line), "%d kB", &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

// TestTheStartIsForgotten: the program needs less memory, and keeps working.
func TestTheStartIsForgotten(t *testing.T) {
	before := mapped(t)
	forgetStart()
	if after := mapped(t); after >= before {
		t.Errorf("%d KiB of files are mapped, and %d before", after, before)
	}
}
