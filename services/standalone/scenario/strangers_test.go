package scenario

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
)

const (
	trickling      = 500      // connections
	tricklingBytes = 70 << 10 // that each sends at once; then a byte now and then
)

// trickle opens connections that announce a paste of 4 MiB, send the beginning of it, and then a byte each half second.
// Their answers come on the channel; 0 stands for a connection that ended without one.
func trickle(t testing.TB, i *instance, a account, count int) (answers <-chan int) {
	t.Helper()
	out := make(chan int, count)
	beginning := `{"content": "` + strings.Repeat("x", tricklingBytes)
	conns := make([]net.Conn, count)
	for n := range conns {
		c, err := net.Dial("tcp", i.address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		conns[n] = c
		go func() {
			defer c.Close()
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				out <- 0
				return
			}
			out <- res.StatusCode
		}()
		head := fmt.Sprintf("POST /api/dev/pastes/create HTTP/1.1\r\nHost: q\r\nx-api-key: %s\r\nX-Forwarded-For: %s\r\nContent-Length: %d\r\n\r\n",
			a.key, newSource(), 4<<20)
		if _, err := io.WriteString(c, head+beginning); err != nil {
			t.Logf("connection %d: %v", n, err) // it was refused meanwhile
		}
	}
	ended := t.Context().Done()
	go func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ended:
				return
			}
			for _, c := range conns {
				_, _ = io.WriteString(c, "x") // fails once it was cut
			}
		}
	}()
	return out
}

// TestBodiesThatTrickleStopNobody: 500 connections announce 4 MiB and trickle. Another client's creations of 20 KiB continue,
// and only trickling connections are cut.
func TestBodiesThatTrickleStopNobody(t *testing.T) {
	t.Parallel()
	i := start(t, behindProxy())
	crowd, other := i.account(t, "admin"), i.account(t, "admin")
	answers := trickle(t, i, crowd, trickling)
	content := strings.Repeat("twenty characters, ", 20<<10/20)
	created, cut := 0, 0
	for cut < trickling {
		select {
		case status := <-answers:
			switch status {
			case http.StatusRequestTimeout, http.StatusServiceUnavailable:
			case http.StatusTooManyRequests: // opened when many had failed already
			default:
				t.Fatalf("a connection that trickles got %d", status)
			}
			cut++
		default:
			other.quick(t, object{"content": content})
			created++
		}
	}
	for range 50 {
		other.quick(t, object{"content": content})
		created++
	}
	eventually.NoError(t, "the creations are counted, and nothing of the crowd's is", func() error {
		if used, none := other.used(t, "pasteLite.create"), crowd.used(t, "pastes.create"); used != int64(created) || none != 0 {
			return fmt.Errorf("%d are counted, want %d; of the crowd's %d", used, created, none)
		}
		return nil
	})
}

// BenchmarkCreationsBesideBodiesThatTrickle measures creations of 20 KiB while 500 connections that announce 4 MiB trickle. The
// slowest of a hundred should take less than 200 ms.
func BenchmarkCreationsBesideBodiesThatTrickle(b *testing.B) {
	i := start(b, behindProxy())
	crowd, other := i.account(b, "admin"), i.account(b, "admin")
	trickle(b, i, crowd, trickling)
	content := object{"content": strings.Repeat("twenty characters, ", 20<<10/20)}
	var took []time.Duration
	for b.Loop() {
		started := time.Now()
		other.quick(b, content)
		took = append(took, time.Since(started))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// header sends the header of a request and the beginning of its body, and returns the answer.
func (i *instance) header(t *testing.T, method, path, lines, beginning string) answer {
	t.Helper()
	c, err := net.Dial("tcp", i.address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(callLimit)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: q\r\n%s\r\n%s", method, path, lines, beginning); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: res.StatusCode, header: res.Header, body: body, what: method + " " + path}
}

// TestALargeBodyIsReadOnceItsRequestIsAdmitted: a client that may not make a request learns so before it sends 64 KiB.
func TestALargeBodyIsReadOnceItsRequestIsAdmitted(t *testing.T) {
	i := common(t)
	free, pro := i.account(t, "free"), i.account(t, "pro")
	const create, quick = "/api/dev/pastes/create", "/api/dev/paste-lite/create"
	key := func(a account) string { return "x-api-key: " + a.key + "\r\n" }
	refused := "plan_upgrade_required"
	large := fmt.Sprintf("Content-Length: %d\r\n", 64<<10+1)
	i.header(t, "POST", create, key(free)+large, "").fails(t, http.StatusTooManyRequests, refused, "")
	i.header(t, "POST", create, key(free)+"Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n", 64<<10+1, strings.Repeat(" ", 64<<10+1))).
		fails(t, http.StatusTooManyRequests, refused, "")
	i.header(t, "PUT", "/api/dev/pastes/update/no-id", key(pro)+large, "").fails(t, http.StatusNotFound, "not_found", "")
	i.header(t, "PUT", "/api/dev/paste-lite/update/000000000000", "X-Manage-Token: mt_wrong\r\nX-Forwarded-For: "+newSource()+"\r\n"+large, "").
		fails(t, http.StatusNotFound, "not_found", "")

	// Errors visible in the header come first, as do those in a small body.
	i.header(t, "POST", create, key(free)+fmt.Sprintf("Content-Length: %d\r\n", 64<<20), "").fails(t, http.StatusRequestEntityTooLarge, "too_large", "")
	i.header(t, "POST", create, key(free)+"Content-Type: image/png\r\n"+large, "").fails(t, http.StatusUnsupportedMediaType, "unsupported_media_type", "")
	i.header(t, "POST", create, key(free)+"Content-Encoding: gzip\r\n"+large, "").fails(t, http.StatusUnsupportedMediaType, "unsupported_media_type", "")
	i.header(t, "POST", create+"?title=x", key(free)+large, "").fails(t, http.StatusBadRequest, "unknown_field", "")
	small := strings.Repeat(" ", 64<<10-1) + "{"
	i.header(t, "POST", create, key(free)+fmt.Sprintf("Content-Length: %d\r\n", len(small)), small).fails(t, http.StatusBadRequest, "malformed", "")
	i.header(t, "POST", create, key(free)+"Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(small), small)).
		fails(t, http.StatusBadRequest, "malformed", "")

	source := newSource()
	for range anonLimit {
		i.do(t, "POST", quick, request{source: source, body: withContent(nil)}).ok(t, http.StatusCreated)
	}
	for _, path := range []string{quick, "/"} {
		got := i.header(t, "POST", path, "Accept: application/json\r\nX-Forwarded-For: "+source+"\r\n"+large, "")
		got.fails(t, http.StatusTooManyRequests, "anonymous_limit", "")
	}
}

// TestAFaultOfALargeBodyCostsNothing: what only the body shows is found after the admission, which is given back.
func TestAFaultOfALargeBodyCostsNothing(t *testing.T) {
	i := common(t)
	a := i.account(t, "pro")
	long := strings.Repeat("long ", 40_000)
	const create = "/api/dev/pastes/create"
	a.do(t, "POST", create, object{"content": long, "zzz": 1}).fails(t, http.StatusBadRequest, "unknown_field", "")
	a.do(t, "POST", create, `{"content": "`+long).fails(t, http.StatusBadRequest, "malformed", "")
	a.with(t, "POST", create, request{body: []byte(long + "\xff"), header: map[string]string{"Content-Type": "text/plain"}}).
		fails(t, http.StatusBadRequest, "invalid_field", "")
	a.do(t, "POST", "/api/dev/paste-lite/create", object{"content": strings.Repeat(long, 2)}).
		fails(t, http.StatusRequestEntityTooLarge, "too_large", "")
	if used, quick := a.used(t, "pastes.create"), a.used(t, "pasteLite.create"); used != 0 || quick != 0 {
		t.Errorf("%d and %d faulty creations are counted", used, quick)
	}

	// The same call again is answered again, and another one under its key is refused.
	call := func(content string) answer {
		return a.with(t, "POST", create, request{body: object{"content": content}, header: map[string]string{"Idempotency-Key": "large"}})
	}
	first, again := call(long), call(long)
	if id := text(t, first.ok(t, http.StatusCreated), "id"); id != text(t, again.ok(t, http.StatusCreated), "id") {
		t.Errorf("two pastes under one key: %s, %s", first.body, again.body)
	}
	again.hasHeader(t, "Idempotency-Replayed", "true")
	call(long+"!").fails(t, http.StatusUnprocessableEntity, "idempotency_mismatch", "")
	id := text(t, first.json(t), "id")
	a.do(t, "PUT", "/api/dev/pastes/update/"+id, object{"content": long, "zzz": 1}).fails(t, http.StatusBadRequest, "unknown_field", "")
	a.do(t, "PUT", "/api/dev/pastes/update/"+id, object{"content": long + "?"}).ok(t, http.StatusOK)
	if got := text(t, a.do(t, "GET", "/api/dev/pastes/get/"+id, nil).ok(t, http.StatusOK), "paste", "content"); got != long+"?" {
		t.Errorf("%d characters, want %d", len(got), len(long)+1)
	}
	if created, updated := a.used(t, "pastes.create"), a.used(t, "pastes.update"); created != 1 || updated != 1 {
		t.Errorf("%d creations and %d updates are counted", created, updated)
	}
}

// TestFaultyLargeBodiesAreLimited: each is admitted and voided in the permanent journal, and none uses the allowance of its
// source.
func TestFaultyLargeBodiesAreLimited(t *testing.T) {
	i := common(t)
	r := request{body: []byte(strings.Repeat("x", 70_000) + "\xff"), header: map[string]string{"Content-Type": "text/plain"}, source: newSource()}
	i.untilRefused(t, "too_many_failures", func() answer { return i.do(t, "POST", "/api/dev/paste-lite/create", r) }, func(got answer) {
		got.fails(t, http.StatusBadRequest, "invalid_field", "")
	})
}

// TestKeylessCreationsAreLimitedForAnIPv6Site: a /48 contains 65,536 sources, and may create what 16 of them may. Each edge
// counts, and informs the others once a second.
func TestKeylessCreationsAreLimitedForAnIPv6Site(t *testing.T) {
	i := common(t)
	create := func(site, n int) answer {
		source := fmt.Sprintf("2001:db8:%x:%x::1", site, n/anonLimit)
		return i.do(t, "POST", "/api/dev/paste-lite/create", request{source: source, body: withContent(nil)})
	}
	const most = 16 * anonLimit
	created := 0
	refused := create(1, created)
	for ; refused.status == http.StatusCreated; refused = create(1, created) {
		if created++; created > most*len(i.bases) {
			t.Fatalf("%d creations of one /48", created)
		}
	}
	refused.fails(t, http.StatusTooManyRequests, "anonymous_limit", "")
	if created < most {
		t.Errorf("refused after %d creations, want %d", created, most)
	}
	create(2, 0).ok(t, http.StatusCreated)
}
