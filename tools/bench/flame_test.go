package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// TestAFlameGraphShowsEachCallByItsShare: merged over stacks, with what was inlined, and names that are no XML.
func TestAFlameGraphShowsEachCallByItsShare(t *testing.T) {
	functions := map[string]*profile.Function{}
	location := func(names ...string) *profile.Location { // the innermost first
		l := &profile.Location{}
		for _, name := range names {
			if functions[name] == nil {
				functions[name] = &profile.Function{ID: uint64(len(functions) + 1), Name: name}
			}
			l.Line = append(l.Line, profile.Line{Function: functions[name]})
		}
		return l
	}
	serve := location("quire.dev/edge.serve")
	graph := flameGraph("a & b", &profile.Profile{Sample: []*profile.Sample{
		{Value: []int64{1, 60}, Location: []*profile.Location{location("sql.step[go.shape.<int>]"), serve}},
		{Value: []int64{1, 30}, Location: []*profile.Location{location("inlined", "quire.dev/edge.fold"), serve}},
		{Value: []int64{1, 10}, Location: []*profile.Location{location("runtime.gc")}},
	}})
	d := xml.NewDecoder(strings.NewReader(graph))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, graph)
		}
	}
	for _, want := range []string{
		"all: 100.0 %", "quire.dev/edge.serve: 90.0 %", "sql.step[go.shape.&lt;int&gt;]: 60.0 %", "quire.dev/edge.fold: 30.0 %",
		"inlined: 30.0 %", "runtime.gc: 10.0 %", "a &amp; b",
	} {
		if !strings.Contains(graph, want) {
			t.Errorf("%q is missing in\n%s", want, graph)
		}
	}
}

// TestAnEmptyProfileIsAGraph: as of a server that had nothing to do.
func TestAnEmptyProfileIsAGraph(t *testing.T) {
	if graph := flameGraph("idle", &profile.Profile{}); !strings.Contains(graph, "</svg>") {
		t.Error(graph)
	}
}
