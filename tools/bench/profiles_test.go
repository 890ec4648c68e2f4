package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/pprof/profile"
)

// TestProfilesNameNoFileOfTheMachine: quire.pgo is committed, and the same program must be built from it anywhere.
func TestProfilesNameNoFileOfTheMachine(t *testing.T) {
	one := func(microseconds int64) *profile.Profile {
		mapping := &profile.Mapping{ID: 1, File: "/home/someone/bin/quire", BuildID: "abc"}
		location := &profile.Location{ID: 1, Mapping: mapping}
		return &profile.Profile{
			SampleType: []*profile.ValueType{{Type: "cpu", Unit: "microseconds"}}, PeriodType: &profile.ValueType{}, Mapping: []*profile.Mapping{mapping},
			Location: []*profile.Location{location}, Sample: []*profile.Sample{{Value: []int64{microseconds}, Location: []*profile.Location{location}}},
		}
	}
	folder := t.TempDir()
	if err := writeProfiles(folder, map[string]*profile.Profile{"get": one(3), "create": one(4)}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{"cpu-get.pprof": 3, "cpu-create.pprof": 4, "quire.pgo": 7} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		p, err := profile.ParseData(data)
		if err != nil || len(p.Sample) != 1 || p.Sample[0].Value[0] != want {
			t.Fatalf("%s: %v, %v", name, p, err)
		}
		if m := p.Mapping[0]; m.File != "quire" || m.BuildID != "" {
			t.Errorf("%s names %s, build %q", name, m.File, m.BuildID)
		}
	}
}
