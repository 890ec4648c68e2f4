package headers

import (
	"fmt"
	"testing"
)

func TestEntityTags(t *testing.T) {
	for _, tc := range []struct {
		in    string
		valid bool
		match []uint64
	}{
		{`"3"`, true, []uint64{3}},
		{`"3" , "4"`, true, []uint64{3, 4}},
		{`W/"3"`, true, []uint64{0}},
		{`"abc"`, true, []uint64{0}},
		{`"03"`, true, []uint64{0}},
		{`"0"`, true, []uint64{0}},
		{`""`, true, []uint64{0}},
		{`3`, false, nil},
		{`"3`, false, nil},
		{`"3" "4"`, false, nil},
		{`"3",`, true, []uint64{3}},
		{` ,,"3" , ,"4"`, true, []uint64{3, 4}},
		{`w/"3"`, false, nil},
		{`"a b"`, false, nil},
	} {
		tags, ok := splitETags(tc.in)
		if ok != tc.valid {
			t.Errorf("%s: %v", tc.in, ok)
		} else if got := (ETags{sent: true, tags: tags}).Numbers(); ok && fmt.Sprint(got) != fmt.Sprint(tc.match) {
			t.Errorf("%s: %v, want %v", tc.in, got, tc.match)
		}
	}
	if got := (ETags{}).Numbers(); got != nil {
		t.Errorf("without a header: %v", got)
	}
}

func TestRanges(t *testing.T) {
	for _, tc := range []struct {
		header             string
		size               int64
		offset, length     int64
		valid, satisfiable bool
	}{
		{"bytes=0-0", 10, 0, 1, true, true},
		{"bytes=0-", 10, 0, 10, true, true},
		{"bytes=9-", 10, 9, 1, true, true},
		{"bytes=10-", 10, 0, 0, true, false},
		{"bytes=5-99", 10, 5, 5, true, true},
		{"bytes=-3", 10, 7, 3, true, true},
		{"bytes=-99", 10, 0, 10, true, true},
		{"bytes=-0", 10, 0, 0, true, false},
		{"bytes=5-4", 10, 0, 0, false, false},
		{"bytes=0-1,3-4", 10, 0, 0, false, false},
		{"lines=0-1", 10, 0, 0, false, false},
		{"bytes", 10, 0, 0, false, false},
		{"bytes=-", 10, 0, 0, false, false},
		{"bytes=a-b", 10, 0, 0, false, false},
		{"bytes=0-99999999999999999999", 10, 0, 10, true, true},
		{"BYTES=1-2", 10, 1, 2, true, true},
		{"bytes=0-", 0, 0, 0, true, false},
	} {
		part, valid, satisfiable := parseRange(tc.header, tc.size)
		if valid != tc.valid || satisfiable != tc.satisfiable || satisfiable && (part.offset != tc.offset || part.length != tc.length) {
			t.Errorf("%s of %d: %+v %v %v", tc.header, tc.size, part, valid, satisfiable)
		}
	}
}

func TestContentDispositions(t *testing.T) {
	for name, want := range map[string]string{
		"a.txt":   `attachment; filename=a.txt`,
		"a b.txt": `attachment; filename="a b.txt"`,
		"a\"b":    `attachment; filename=a_b; filename*=UTF-8''a%22b`,
		"ü.txt":   `attachment; filename=_.txt; filename*=UTF-8''%C3%BC.txt`,
		"50%.txt": `attachment; filename=50_.txt; filename*=UTF-8''50%25.txt`,
	} {
		if got := ContentDisposition(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
