// Package openapi tries the client that a generator makes of docs/openapi.yaml.
package openapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"quire.dev/tools/openapi/client"
)

// TestAClientOfTodayReadsTomorrowsAnswers answers with a code, a field and a header that the description does not have.
func TestAClientOfTodayReadsTomorrowsAnswers(t *testing.T) {
	answers := map[string]struct {
		status int
		body   string
	}{
		"/api/dev/pastes/get/refused": {http.StatusTooManyRequests, `{"success":false,"reason":"Wait.","code":"from_the_future",
			"requestId":"01a1fff9-83d3-743f-9a6d-5290a1beb664","docs":"http://127.0.0.1:8080/docs/errors#from_the_future","more":{"a":1}}`},
		"/api/dev/pastes/get/found": {http.StatusOK, `{"success":true,"remaining":1,"more":[1],"paste":{"id":"4fGh7KpQ2xZa","title":"t",
			"content":"c","language":"go","visibility":"unlisted","size":1,"version":1,"tags":[],"burnAfterRead":false,
			"passwordProtected":false,"createdAt":"2026-11-21T21:18:24.723Z","updatedAt":"2026-11-21T21:18:24.723Z","expiresAt":null,
			"url":"http://127.0.0.1:8080/p/x","rawUrl":"http://127.0.0.1:8080/p/x/raw","more":true}}`},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("X-From-The-Future", "1")
		w.WriteHeader(answer.status)
		if _, err := io.WriteString(w, answer.body); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	c, err := client.NewClientWithResponses(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	refused, err := c.GetPasteWithResponse(t.Context(), "refused", nil)
	if err != nil || refused.JSON429 == nil || refused.JSON429.Code != "from_the_future" {
		t.Errorf("%v %+v", err, refused)
	}
	found, err := c.GetPasteWithResponse(t.Context(), "found", nil)
	if err != nil || found.JSON200 == nil || found.JSON200.Paste.Content != "c" || found.JSON200.Paste.ExpiresAt != nil {
		t.Errorf("%v %+v", err, found)
	}
}
