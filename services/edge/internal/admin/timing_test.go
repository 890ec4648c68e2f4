package admin

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"quire.dev/pkg/event"
)

// TestEveryPartOfTheTimeIsShown under the name that the access log has for it, each with its own value.
func TestEveryPartOfTheTimeIsShown(t *testing.T) {
	timing := &event.RequestTiming{}
	want := map[string]uint32{}
	fields := timing.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.Name() == "index" { // in its report
			continue
		}
		want[field.JSONName()] = uint32(i + 1)
		timing.ProtoReflect().Set(field, protoreflect.ValueOfUint32(uint32(i+1)))
	}
	view := viewTiming(&event.ExplainAnswer{}, &event.RecentRequest{HttpStatus: 200, DurationMs: 45, Timing: timing})
	data, err := json.Marshal(view.Parts)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]uint32
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("parts %v, want %v", got, want)
	}
	for name, ms := range want {
		if got[name] != ms {
			t.Errorf("%s is %d, want %d", name, got[name], ms)
		}
	}
}

func TestWhatIsNotKnownOfATimeIsNull(t *testing.T) {
	const id = "01a1fff9-83d3-743f-9a6d-5290a1beb664"
	request, err := event.ParseRequestID(id)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		explained *event.ExplainAnswer
		recorded  *event.RecentRequest
		want      string
	}{
		"not in the log, not settled": {
			&event.ExplainAnswer{RequestId: request[:], StoredMs: 1_795_295_904_723}, nil,
			`{"startedAt":"2026-11-21T21:18:24.723Z","admittedAt":"2026-11-21T21:18:24.723Z","settledAt":null,"durationMs":null,"parts":null}`,
		},
		"decided, and not reported by its edge": {
			&event.ExplainAnswer{RequestId: request[:]}, &event.RecentRequest{Decision: event.Decision_ADMITTED},
			`{"startedAt":"2026-11-21T21:18:24.723Z","admittedAt":null,"settledAt":null,"durationMs":null,"parts":null}`,
		},
		"fast": {
			&event.ExplainAnswer{RequestId: request[:], StoredMs: 1_795_295_904_723, SettlementStoredMs: 1_795_295_904_730},
			&event.RecentRequest{HttpStatus: 200},
			`{"startedAt":"2026-11-21T21:18:24.723Z","admittedAt":"2026-11-21T21:18:24.723Z","settledAt":"2026-11-21T21:18:24.730Z","durationMs":0,"parts":null}`,
		},
	} {
		got, err := json.Marshal(viewTiming(c.explained, c.recorded))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, want %s (%v)", name, got, c.want, err)
		}
	}
}
