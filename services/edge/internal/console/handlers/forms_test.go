package handlers

import "testing"

func TestATimeOfAFormMayLackItsSecondsAndZone(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-30T12:00": "2026-11-30T12:00:00Z", "2026-11-30T12:00:05": "2026-11-30T12:00:05Z", "2026-11-30T12:00:05.5": "2026-11-30T12:00:05.5Z",
		"2026-11-30T12:00:00+01:00": "2026-11-30T12:00:00+01:00", "2026-11-30T1:00": "2026-11-30T1:00", "2026-11-30T12:00:05,5": "2026-11-30T12:00:05,5",
		"2026-11-31T12:00": "2026-11-31T12:00", "": "",
	} {
		if got := momentOfForm(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
