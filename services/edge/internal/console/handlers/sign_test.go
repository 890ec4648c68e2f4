package handlers

import (
	"regexp"
	"testing"

	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
	"quire.dev/services/edge/internal/fault"
)

// TestASignUpThatMayHaveBeenTakenIsShownWithItsOnce: what is sent again must be the same request.
func TestASignUpThatMayHaveBeenTakenIsShownWithItsOnce(t *testing.T) {
	edge := endpointtest.New(t, endpoint.Config{})
	s := New(edge.Base, Deps{Console: console.New(edge.Pages)})
	addr := edge.Serve(t, endpoint.Row{Path: "/refused", Rules: endpoint.OwnQuery, Handle: func(c *endpoint.Call) error {
		page := &console.Sign{Form: console.SignUpForm("", c.Query("once"))}
		return s.refuseSign(c, page, s.console.SignUp, fault.New(fault.Kind(c.Query("kind")), "No."))
	}})
	for _, test := range []struct {
		once string
		kind fault.Kind
		kept bool
	}{
		{"ABC", fault.OutcomeUnknown, true},
		{"ABC", fault.Unavailable, true},
		{"ABC", fault.IdempotencyInFlight, true},
		{"", fault.Unavailable, false},
		{"ABC", fault.IdempotencyMismatch, false}, // another address or password needs another key
		{"ABC", fault.EmailTaken, false},
	} {
		a := endpointtest.Exchange(t, addr, "GET /refused?once="+test.once+"&kind="+string(test.kind)+" HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
		once := regexp.MustCompile(`name="once" value="([^"]+)"`).FindStringSubmatch(a.Body)
		if a.Status != test.kind.Status() || once == nil || (once[1] == "ABC") != test.kept {
			t.Errorf("%q %s: %d with %q", test.once, test.kind, a.Status, once)
		}
	}
}
