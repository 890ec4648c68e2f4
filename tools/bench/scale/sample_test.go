package main

import (
	"os"
	"testing"

	"quire.dev/tools/cluster"
)

func TestAProcessIsMeasuredUnderItsService(t *testing.T) {
	// The shell stops itself: a process that is about to become another one by exec has no resident memory for a moment.
	shell, err := cluster.StartServer(t.Context(), t.TempDir()+"/log", nil, "/bin/sh", "-c", "echo listens on http://127.0.0.1:1; kill -STOP $$")
	if err != nil {
		t.Fatal(err)
	}
	s := &system{processes: []*cluster.Process{shell}}
	if sums, err := s.resident(); err != nil || sums["quire"] < uint64(os.Getpagesize()) || shell.URL() != "http://127.0.0.1:1" {
		t.Errorf("%v, %v, at %s", sums, err, shell.URL())
	}
	if now, err := s.sample(t.Context()); err != nil || now.cpu["quire"] < 0 || len(now.cpu) != 1 {
		t.Errorf("%+v, %v", now, err)
	}
	if err := shell.Kill(); err != nil {
		t.Fatal(err)
	}
	if sums, err := s.resident(); err != nil || len(sums) != 0 {
		t.Errorf("of a process that has ended: %v, %v", sums, err)
	}
}
