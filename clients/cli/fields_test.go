package cli

import "testing"

func TestATimeOfAFlagIsADayOrRFC3339(t *testing.T) {
	for value, taken := range map[string]bool{
		"": true, "10m": true, "never": true, "2026-12-31": true, "2026-12-31T18:00:00Z": true, "2026-12-31t18:00:00.5+23:59": true,
		"2026-12-31T8:00:00Z": false, "2026-12-31T18:00:00,5Z": false, "2026-12-31T18:00:00+24:00": false, "2026-12-31T18:00:00+0200": false,
		"2026-12-31T18:00:60Z": false, "2026-12-31 18:00:00Z": false, "2026-02-29": false, "tomorrow": false,
	} {
		if _, _, err := until(value); (err == nil) != taken {
			t.Errorf("%q: %v", value, err)
		}
	}
}
