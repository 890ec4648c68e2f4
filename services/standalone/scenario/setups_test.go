package scenario

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"quire.dev/pkg/eventually"
)

// roundTrip uses each service, and audits.
func roundTrip(t *testing.T, i *instance) {
	t.Helper()
	a, other := i.account(t, "pro"), i.account(t, "pro")
	var ids []string
	for n := range 12 { // enough for every partition
		id := a.quick(t, object{"title": fmt.Sprint(n)})
		ids = append(ids, id)
		a.do(t, "PUT", "/api/dev/paste-lite/update/"+id, object{"content": fmt.Sprint("changed ", n)}).ok(t, http.StatusOK)
		if got := text(t, other.do(t, "GET", "/api/dev/paste-lite/get/"+id, nil).ok(t, http.StatusOK), "paste", "content"); got != fmt.Sprint("changed ", n) {
			t.Errorf("content %q", got)
		}
	}
	paste := a.paste(t, object{"content": strings.Repeat("large ", 20_000)})
	a.do(t, "GET", "/api/dev/pastes/get/"+paste, nil).ok(t, http.StatusOK)
	file := a.upload(t, "f", []byte("bytes"))
	a.do(t, "GET", "/api/dev/files/get/"+file, nil).ok(t, http.StatusOK)
	body := a.do(t, "GET", "/api/dev/paste-lite/list?limit=5", nil).ok(t, http.StatusOK)
	listed := len(at(t, body, "pastes").([]any))
	for body["hasMore"] == true {
		body = a.do(t, "GET", "/api/dev/paste-lite/list?limit=5&cursor="+text(t, body, "nextCursor"), nil).ok(t, http.StatusOK)
		listed += len(at(t, body, "pastes").([]any))
	}
	if listed != len(ids) {
		t.Errorf("%d of %d are listed", listed, len(ids))
	}
	retry := request{body: object{"content": "x"}, header: map[string]string{"Idempotency-Key": "k"}}
	first, again := a.with(t, "POST", "/api/dev/paste-lite/create", retry), a.with(t, "POST", "/api/dev/paste-lite/create", retry)
	if string(first.body) != string(again.body) {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	if used := a.used(t, "pasteLite.create"); used != int64(len(ids))+1 {
		t.Errorf("%d creations are counted", used)
	}
	i.audit(t)
}

func TestSeveralPartitions(t *testing.T) {
	t.Parallel()
	i := start(t, with("QUIRE_PARTITIONS", "3"), with("QUIRE_UPGRADE_URL", "https://shop.example/plans?from=quire"),
		with("QUIRE_OPERATOR", "Example & Sons"), with("QUIRE_OPERATOR_ADDRESS", "1 High Street | 10115 Berlin|"))
	roundTrip(t, i)
	i.person(t).page(t, "GET", "/console/statements/"+i.now().Format("2006-01"), request{}).
		shows(t, http.StatusOK, "<b>Example &amp; Sons</b><br>1 High Street<br>10115 Berlin</p>")
	i.account(t, "free").do(t, "POST", "/api/dev/pastes/create", object{"content": "x"}).
		says(t, object{"code": "plan_upgrade_required", "upgradeUrl": "https://shop.example/plans?from=quire"})
	i.restart(t)
	roundTrip(t, i)
	if got := len(at(t, i.audit(t), "partitions").([]any)); got != 3 {
		t.Errorf("%d partitions were audited", got)
	}
	if err := i.stop(); err != nil {
		t.Fatal(err)
	}
	right := maps.Clone(i.settings)
	for _, test := range []struct {
		why      string
		settings map[string]string
		message  string
	}{
		{"another number would look for keys in other partitions", map[string]string{"QUIRE_PARTITIONS": "2"}, "partitions"},
		{"a clock that is wrong on purpose makes bills wrong", map[string]string{"QUIRE_CLOCK_OFFSET": "1h", "QUIRE_DEV": "0"}, "QUIRE_CLOCK_OFFSET"},
	} {
		maps.Copy(i.settings, test.settings)
		if err := i.boot(); err == nil || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%s: started with %v: %v", test.why, test.settings, err)
		}
		i.settings = maps.Clone(right)
	}
	// Instances with the wrong settings may have announced themselves before they ended. Until they are forgotten, some
	// seconds later, instances with the right settings refuse to start beside them.
	eventually.NoError(t, "it starts with the right settings", i.boot)
	i.audit(t)
}
