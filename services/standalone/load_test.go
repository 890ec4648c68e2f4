package standalone

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load is a crowd of clients of one account that remembers what it was promised: each creation that was
// answered with 201, and how often a request went out without an answer that says what became of it.
type load struct {
	key    string
	client *http.Client

	mu      sync.Mutex
	created map[string]string // id to content
	deleted map[string]bool
	seen    map[string]bool // found to be there by a former verify

	creates, reads, deletes outcomes
	strange                 []string // answers that should not be
	sequence                atomic.Int64
}

// outcomes of one kind of request.
type outcomes struct {
	acked   atomic.Int64 // a 2xx came
	unknown atomic.Int64 // no answer, or 504: it may have been counted
}

func newLoad(key string) *load {
	return &load{
		key: key, created: map[string]string{}, deleted: map[string]bool{}, seen: map[string]bool{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 45 * time.Second},
	}
}

// run has workers send requests to base until ctx ends.
func (l *load) run(ctx context.Context, base string, workers int) {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				l.step(ctx, base, n)
			}
		})
	}
	group.Wait()
	l.client.CloseIdleConnections()
}

func (l *load) step(ctx context.Context, base string, n int) {
	switch {
	case n%4 == 1:
		if id := l.any(); id != "" {
			l.send(ctx, &l.reads, "GET", base+"/api/dev/paste-lite/get/"+id, "")
		}
	case n%16 == 3:
		if id := l.take(); id != "" {
			if _, ok := l.send(ctx, &l.deletes, "DELETE", base+"/api/dev/paste-lite/delete/"+id, ""); ok {
				l.mu.Lock()
				l.deleted[id] = true
				l.mu.Unlock()
			}
		}
	default:
		content := fmt.Sprintf("content %d", l.sequence.Add(1))
		if n%32 == 2 {
			content += strings.Repeat("x", 70<<10) // as a blob
		}
		body, err := json.Marshal(object{"content": content})
		if err != nil {
			panic(err)
		}
		if answer, ok := l.send(ctx, &l.creates, "POST", base+"/api/dev/paste-lite/create", string(body)); ok {
			l.mu.Lock()
			l.created[answer] = content
			l.mu.Unlock()
		}
	}
}

// send reports whether a 2xx came, with the id in it. The request itself does not end with ctx.
func (l *load) send(ctx context.Context, o *outcomes, method, url, body string) (string, bool) {
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), method, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header.Set("x-api-key", l.key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := l.client.Do(req)
	if err != nil {
		o.unknown.Add(1)
		pause(ctx)
		return "", false
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		o.unknown.Add(1)
		return "", false
	}
	var answer struct {
		ID, Code string
	}
	_ = json.Unmarshal(data, &answer) // an answer that is no JSON is a strange one
	switch {
	case res.StatusCode/100 == 2:
		o.acked.Add(1)
		return answer.ID, true
	case res.StatusCode == http.StatusGatewayTimeout && answer.Code == "outcome_unknown":
		o.unknown.Add(1)
	case res.StatusCode == http.StatusServiceUnavailable && answer.Code == "unavailable":
		pause(ctx)
	case res.StatusCode == http.StatusNotFound && method == "GET" && !l.has(url[strings.LastIndexByte(url, '/')+1:]):
		// Another of the crowd has deleted it meanwhile.
	case res.StatusCode == http.StatusTooManyRequests && answer.Code == "too_many_failures":
		pause(ctx) // a part was away for long
	default:
		l.mu.Lock()
		l.strange = append(l.strange, fmt.Sprintf("%s %s: %d %.200s", method, url, res.StatusCode, data))
		l.mu.Unlock()
	}
	return "", false
}

// pause keeps a client that fails from spinning.
func pause(ctx context.Context) {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// any gives the id of a paste that is not being deleted.
func (l *load) any() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.created {
		return id
	}
	return ""
}

// has tells whether nobody has begun to delete the paste.
func (l *load) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, there := l.created[id]
	return there
}

// take gives one up for deletion.
func (l *load) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.created {
		delete(l.created, id)
		return id
	}
	return ""
}

// verify holds the quire at base to what was promised. It returns all that is wrong.
func (l *load) verify(base, adminToken, account string) error {
	var errs []error
	if len(l.strange) > 0 {
		errs = append(errs, fmt.Errorf("%d answers that should not be, such as %s", len(l.strange), l.strange[0]))
	}
	usage, err := fetch(base+"/api/admin/accounts/"+account, adminToken)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for key, o := range map[string]*outcomes{"pasteLite.create": &l.creates, "pasteLite.get": &l.reads, "pasteLite.delete": &l.deletes} {
		used := int64(usage["usage"].(object)[key].(object)["used"].(float64))
		if acked, unknown := o.acked.Load(), o.unknown.Load(); used < acked || used > acked+unknown {
			errs = append(errs, fmt.Errorf("%s: %d were answered, %d more may have been counted, %d are counted", key, acked, unknown, used))
		}
	}
	errs = append(errs, l.verifyContents(base))
	for id := range l.deleted {
		if status, _ := l.read(base, id); status != http.StatusNotFound {
			errs = append(errs, fmt.Errorf("%s was deleted and answers %d", id, status))
		}
		break // too many failures are refused
	}
	return errors.Join(errs...)
}

func (l *load) verifyContents(base string) error {
	type pair struct{ id, content string }
	todo := make(chan pair)
	var mu sync.Mutex
	var errs []error
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for p := range todo {
				status, content := l.read(base, p.id)
				if status != http.StatusOK || content != p.content {
					mu.Lock()
					errs = append(errs, fmt.Errorf("%s was created and answers %d with %.40q, want %.40q", p.id, status, content, p.content))
					mu.Unlock()
				}
			}
		})
	}
	// Of what was there before, a sample: the crowd makes thousands of pastes a second.
	const sample = 500
	again := 0
	for id, content := range l.created {
		if l.seen[id] {
			if again++; again > sample {
				continue
			}
		}
		l.seen[id] = true
		todo <- pair{id, content}
	}
	close(todo)
	group.Wait()
	if len(errs) > 5 {
		errs = append(errs[:5:5], fmt.Errorf("and %d more", len(errs)-5))
	}
	return errors.Join(errs...)
}

// read counts as what it is: an acknowledged read.
func (l *load) read(base, id string) (int, string) {
	req, err := http.NewRequest("GET", base+"/api/dev/paste-lite/get/"+id, nil)
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("x-api-key", l.key)
	res, err := l.client.Do(req)
	if err != nil {
		l.reads.unknown.Add(1)
		return 0, err.Error()
	}
	defer res.Body.Close()
	var answer struct{ Paste struct{ Content string } }
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		l.reads.unknown.Add(1)
		return res.StatusCode, err.Error()
	}
	if res.StatusCode == http.StatusOK {
		l.reads.acked.Add(1)
	}
	return res.StatusCode, answer.Paste.Content
}

// fetch gets a JSON object with the admin token, or posts for it where the path is the audit's.
func fetch(url, adminToken string) (object, error) {
	method := "GET"
	if strings.HasSuffix(url, "/audit") {
		method = "POST"
	}
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var out object
	if err := json.NewDecoder(bufio.NewReader(res.Body)).Decode(&out); err != nil {
		return nil, err
	}
	if res.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %d %v", method, url, res.StatusCode, out)
	}
	return out, nil
}

// auditMatches asks for an audit.
func auditMatches(base, adminToken string) error {
	body, err := fetch(base+"/api/admin/audit", adminToken)
	if err == nil && body["match"] != true {
		err = fmt.Errorf("the audit does not match: %v", body)
	}
	return err
}

// check is verify and the audit for an instance in this process.
func (l *load) check(t *testing.T, i *instance, a account) {
	t.Helper()
	if l.creates.acked.Load() == 0 || l.reads.acked.Load() == 0 {
		t.Errorf("hardly any load: %d creations, %d reads", l.creates.acked.Load(), l.reads.acked.Load())
	}
	if err := l.verify(i.base, testAdminToken, a.id); err != nil {
		t.Error(err)
	}
	if err := auditMatches(i.base, testAdminToken); err != nil {
		t.Error(err)
	}
}
