package admin_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"quire.dev/pkg/admin"
)

// TestWhatTakesLongIsAskedForAgain: the client polls until the result is ready.
func TestWhatTakesLongIsAskedForAgain(t *testing.T) {
	var asked []string
	answers := map[string][]string{
		"POST /api/admin/audit":      {`{"id":"a","done":1,"total":4}`},
		"GET /api/admin/audits/a":    {`{"id":"a","done":4,"total":4,"match":true,"partitions":[{"partition":0,"match":true,"entries":7}]}`},
		"GET /api/admin/requests/r":  {`{"done":1,"total":4}`, `{"request":{"id":"r"}}`},
		"GET /api/admin/requests/r2": {`{"request":{"id":"r2"}}`},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question := r.Method + " " + r.URL.Path
		asked = append(asked, question)
		if len(answers[question]) == 0 || r.Header.Get("Authorization") != "Bearer token" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if strings.Contains(answers[question][0], `"done":1`) {
			w.WriteHeader(http.StatusAccepted)
		}
		_, _ = io.WriteString(w, answers[question][0])
		answers[question] = answers[question][1:]
	}))
	defer server.Close()
	client, told := admin.Client{Base: server.URL, Token: "token"}, 0
	progress := func(done, total uint64) {
		told++
		if done != 1 || total != 4 {
			t.Errorf("%d of %d", done, total)
		}
	}
	audit, err := client.Audit(t.Context(), admin.AuditOptions{}, progress)
	if err != nil || audit.Match == nil || !*audit.Match || len(audit.Partitions) != 1 || audit.Partitions[0].Entries != 7 {
		t.Errorf("%+v, %v", audit, err)
	}
	for _, id := range []string{"r", "r2"} {
		if answer, err := client.Explain(t.Context(), id, progress); err != nil || string(answer) != `{"request":{"id":"`+id+`"}}` {
			t.Errorf("%s, %v", answer, err)
		}
	}
	if told != 2 || len(asked) != 5 {
		t.Errorf("told %d times, asked %v", told, asked)
	}
	if _, err := client.Audit(t.Context(), admin.AuditOptions{}, progress); err == nil {
		t.Error("a failure is no error")
	}
}
