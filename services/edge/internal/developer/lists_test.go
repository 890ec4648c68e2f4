package developer

import (
	"testing"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
)

func TestCursorsAreGoodForTheirListOnly(t *testing.T) {
	secret, err := apikey.NewSecret(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	s := &API{secret: secret}
	who := &endpoint.Caller{Account: 7}
	files, quick := &Listing{Domain: event.File}, &Listing{Domain: event.Lite}
	scope := cursorScope(files, who, &event.ListRequest{})
	at := position{1_700_000_000_000, "abcdefABCDEF"}
	text := s.formatCursor(scope, at)
	if got, ok := s.parseCursor(scope, text); !ok || got != at {
		t.Errorf("%+v %v", got, ok)
	}
	for name, other := range map[string]string{
		"another list":    cursorScope(quick, who, &event.ListRequest{}),
		"another account": cursorScope(files, &endpoint.Caller{Account: 8}, &event.ListRequest{}),
		"another order":   cursorScope(files, who, &event.ListRequest{Ascending: true}),
	} {
		if _, ok := s.parseCursor(other, text); ok {
			t.Errorf("good for %s", name)
		}
	}
	for i := range len(text) {
		changed := []byte(text)
		changed[i] ^= 1
		if got, ok := s.parseCursor(scope, string(changed)); ok && got != at {
			t.Errorf("with byte %d changed it is good for %+v", i, got)
		}
	}
}
