package segment_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"quire.dev/pkg/segment"
)

// part writes a range of the messages as one segment.
func part(t *testing.T, a *segment.Archive, all []segment.Message, from, to int) segment.Segment {
	t.Helper()
	return write(t, a, chainOf(all[:from-1]), all[from-1:to])
}

// TestOfOverlappingSegmentsTheLongestAreRead, each message once.
func TestOfOverlappingSegmentsTheLongestAreRead(t *testing.T) {
	all := drawn(draw(t), 1, 100)
	for _, test := range []struct {
		name   string
		ranges [][2]int
		read   string // ranges that are read, from Start
		spare  int
	}{
		{"in order", [][2]int{{1, 40}, {41, 100}}, "1-40 41-100", 0},
		{"one that has all", [][2]int{{1, 40}, {41, 100}, {1, 100}}, "1-100", 2},
		{"one inside", [][2]int{{1, 60}, {30, 50}, {61, 100}}, "1-60 61-100", 1},
		{"an overlap", [][2]int{{1, 60}, {30, 100}}, "1-60 61-100", 0},
		{"the one that goes further", [][2]int{{1, 30}, {20, 40}, {25, 80}, {31, 50}, {70, 100}}, "1-30 31-80 81-100", 2},
	} {
		a := newArchive(t, newStore(t))
		a.Small(700, 1<<20)
		for _, r := range test.ranges {
			part(t, a, all, r[0], r[1])
		}
		l, err := a.List(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		var read []string
		for _, s := range l.Segments {
			read = append(read, fmt.Sprintf("%d-%d", s.Start, s.Last))
		}
		if got := strings.Join(read, " "); got != test.read || len(l.Spare) != test.spare || len(l.Gaps) > 0 || l.Last() != 100 {
			t.Errorf("%s: %q is read, %+v", test.name, got, l)
		}
		got, err := replay(t, a, 1, 0)
		if err != nil || !reflect.DeepEqual(got, all) {
			t.Errorf("%s: %d messages: %v", test.name, len(got), err)
		}
		next := uint64(1)
		for m, err := range a.Messages(t.Context(), a.Find(t.Context(), stream, segment.Query{})) {
			if err != nil || m.Sequence != next {
				t.Errorf("%s: %d instead of %d is found: %v", test.name, m.Sequence, next, err)
				break
			}
			next++
		}
	}
}

// TestMissingMessagesAreAGap: what is before the gap is handled.
func TestMissingMessagesAreAGap(t *testing.T) {
	all := drawn(draw(t), 1, 100)
	a := newArchive(t, newStore(t))
	a.Small(700, 1<<20)
	part(t, a, all, 11, 40)
	part(t, a, all, 51, 90)
	l, err := a.List(t.Context(), stream)
	if want := []segment.Range{{First: 1, Last: 10}, {First: 41, Last: 50}}; err != nil || !reflect.DeepEqual(l.Gaps, want) {
		t.Fatalf("%v: %v", l.Gaps, err)
	}
	for _, test := range []struct{ from, to, handled, first, last uint64 }{
		{1, 0, 0, 1, 10},
		{5, 7, 0, 5, 7},
		{11, 0, 30, 41, 50},
		{40, 45, 1, 41, 45},
		{45, 60, 0, 45, 50},
		{51, 95, 40, 91, 95},
		{91, 92, 0, 91, 92},
	} {
		got, err := replay(t, a, test.from, test.to)
		if uint64(len(got)) != test.handled {
			t.Errorf("%d to %d: %d messages", test.from, test.to, len(got))
		}
		requireGap(t, err, test.first, test.last)
	}
	if got, err := replay(t, a, 51, 0); err != nil || len(got) != 40 {
		t.Errorf("after the gap: %d messages: %v", len(got), err)
	}
	if got, err := replay(t, a, 91, 0); err != nil || len(got) != 0 {
		t.Errorf("after the end: %d messages: %v", len(got), err)
	}
	find := func(first, last uint64) error {
		for _, err := range a.Find(t.Context(), stream, segment.Query{Sequences: &segment.Range{First: first, Last: last}}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	requireGap(t, find(5, 100), 1, 10)
	requireGap(t, find(11, 45), 41, 50)
	if err := find(51, 100); err != nil {
		t.Errorf("find after the gap: %v", err)
	}
}

// TestAChainThatDoesNotContinueIsADamage: at the border of two segments, and where they overlap.
func TestAChainThatDoesNotContinueIsADamage(t *testing.T) {
	r := draw(t)
	all, others := drawn(r, 1, 60), drawn(r, 1, 60)
	for _, from := range []int{41, 30} {
		a := newArchive(t, newStore(t))
		a.Small(700, 1<<20)
		part(t, a, all, 1, 40)
		s := part(t, a, others, from, 60)
		got, err := replay(t, a, 1, 0)
		requireDamaged(t, "another journal's", err, s.Key)
		if !reflect.DeepEqual(got, all[:40]) {
			t.Errorf("%d messages are handled", len(got))
		}
	}
}

// TestForeignNamesAreListedAndIgnored.
func TestForeignNamesAreListedAndIgnored(t *testing.T) {
	store := newStore(t)
	a := newArchive(t, store)
	all := drawn(draw(t), 1, 5)
	s := part(t, a, all, 1, 5)
	bad := []string{
		"archive/BILLING_0/readme",
		strings.TrimSuffix(s.Key, ".seg"),
		strings.Replace(s.Key, "BILLING_0/0", "BILLING_0/", 1),
		strings.Replace(s.Key, "00001-", "00006-", 1),
		strings.Replace(s.Key, "00001-", "00000-", 1),
		strings.Replace(s.Key, "00005-", "0000x-", 1),
		s.Key[:len(s.Key)-5] + ".seg",
		"archive/BILLING_0/99999999999999999999-99999999999999999999" + s.Key[len(s.Key)-69:],
		"archive/BILLING_0/00000000000000000001-18446744073709551615" + s.Key[len(s.Key)-69:],
	}
	for _, key := range append(bad, "archive/BILLING_00/x", "archive/BILLING_1/x") {
		if _, err := store.Put(t.Context(), key, bytes.NewReader(nil), 0); err != nil {
			t.Fatal(err)
		}
	}
	l, err := a.List(t.Context(), stream)
	if err != nil || len(l.Segments) != 1 || l.Segments[0].Key != s.Key || len(l.Foreign) != len(bad) {
		t.Fatalf("%+v: %v", l, err)
	}
	if l, err := a.List(t.Context(), "NONE_0"); err != nil || l.Last() != 0 {
		t.Fatalf("%+v: %v", l, err)
	}
}

// TestMissingIsWhatNoSegmentHas up to a message: in a gap, or after the end.
func TestMissingIsWhatNoSegmentHas(t *testing.T) {
	all := drawn(draw(t), 1, 100)
	a := newArchive(t, newStore(t))
	part(t, a, all, 1, 40)
	part(t, a, all, 51, 90)
	l, err := a.List(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	for to, want := range map[uint64]segment.Range{40: {}, 41: {First: 41, Last: 41}, 100: {First: 41, Last: 50}} {
		if got, some := l.Missing(to); some != (want != segment.Range{}) || some && got != want {
			t.Errorf("up to %d: %v, %v", to, got, some)
		}
	}
	part(t, a, all, 41, 50)
	if l, err = a.List(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	for to, want := range map[uint64]segment.Range{0: {}, 90: {}, 91: {First: 91, Last: 91}} {
		if got, some := l.Missing(to); some != (want != segment.Range{}) || some && got != want {
			t.Errorf("without the gap, up to %d: %v, %v", to, got, some)
		}
	}
}
