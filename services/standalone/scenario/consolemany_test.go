package scenario

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/eventually"
)

// many is the number of pastes for testing the pages of the console. The Pro plan has 500 without credits: the ledger has the
// others.
const many, charged = 1500, 1000

// loaded is a user with many pastes, as many quick pastes and files, and as many API keys and webhooks as allowed. The log of
// requests has all of them.
func (i *instance) loaded(t testing.TB, others int) *person {
	t.Helper()
	p, a := i.owner(t)
	a.grant(t, "1000")
	for n := range 19 {
		p.do(t, "POST", "/api/users/user/keys", object{"name": fmt.Sprint("key ", n), "scopes": []string{"pastes.get", "files.get"}}).ok(t, http.StatusCreated)
	}
	for n := range 10 {
		p.do(t, "POST", "/api/users/user/webhooks", object{"url": fmt.Sprint("https://example.com/", n), "events": []string{"quota.threshold", "cap.threshold"}}).ok(t, http.StatusCreated)
	}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	made := func(ctx context.Context, path string, r request) error {
		r.key = a.key
		got, err := i.try(ctx, "POST", path, r)
		if err == nil && got.status != http.StatusCreated {
			err = fmt.Errorf("%s: %d %s", got.what, got.status, got.body)
		}
		return err
	}
	for n := range many {
		title := fmt.Sprintf("An item with a title that is as long as titles are, number %d", n)
		body := object{"content": title, "title": title, "tags": []string{"one", "two", "three"}, "language": "go"}
		group.Go(func() error { return made(ctx, "/api/dev/pastes/create", request{body: body}) })
		if n >= others {
			continue
		}
		group.Go(func() error { return made(ctx, "/api/dev/paste-lite/create", request{body: body}) })
		group.Go(func() error {
			return made(ctx, "/api/dev/files/upload?name="+url.QueryEscape(title), request{body: []byte(title)})
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return p
}

var (
	listedContent = regexp.MustCompile(`name="ref" value="([^"]+)"`)
	listedRequest = regexp.MustCompile(`href="/console/requests/([0-9a-f-]{36})"`)
	laterPage     = regexp.MustCompile(`<a class="button quiet" href="([^"]*)"[^>]*>(?:Next page|Older)</a>`)
)

// list is a page of the console that may have many items.
type list struct {
	path string
	item *regexp.Regexp // has what names an item
	most int            // of a page
	all  int            // of the account
}

// lists are those of somebody who is loaded, with so many others.
func lists(others int) []list {
	return []list{
		{"/console/pastes", listedContent, 40, many},
		{"/console/quick", listedContent, 40, others},
		{"/console/files", listedContent, 40, others},
		{"/console/requests", listedRequest, 50, many + 2*others},
		{"/console/billing/ledger", listedRequest, 50, charged + max(others-100, 0)}, // 100 files are free
	}
}

// pagesOf returns the console pages that show anything of the account.
func (p *person) pagesOf(t testing.TB) []string {
	t.Helper()
	first := func(path string, item *regexp.Regexp) string {
		found := item.FindStringSubmatch(string(p.page(t, "GET", path, request{}).shows(t, http.StatusOK).body))
		if found == nil {
			t.Fatalf("%s has no item", path)
		}
		return found[1]
	}
	paste := "/console/pastes/" + first("/console/pastes", listedContent)
	hook := first("/console/billing/webhooks", regexp.MustCompile(`href="(/console/billing/webhooks/wh_[^"/]+)"`))
	selected := url.Values{}
	for path := "/console/quick"; path != "" && len(selected["ref"]) < 100; {
		page := p.page(t, "GET", path, request{})
		for _, m := range listedContent.FindAllStringSubmatch(string(page.body), -1) {
			selected.Add("ref", m[1])
		}
		path = later(page)
	}
	var paths []string
	for _, l := range lists(0) {
		paths = append(paths, l.path)
	}
	return append(paths,
		"/console", "/console/usage", "/console/keys", "/console/keys/default", "/console/requests/list", "/console/requests/"+first("/console/requests", listedRequest),
		"/console/billing", "/console/billing/webhooks", hook, "/console/statements/"+p.i.now().Format("2006-01"),
		"/console/account", "/console/export", paste, "/console/pastes/new", "/console/quick/delete?"+selected.Encode(),
		"/console/pastes?q=number+999", "/console/billing/ledger?type=grant", "/console/requests?decision=quota_exhausted",
	)
}

// later is the address of the next page, or "".
func later(page answer) string {
	if m := laterPage.FindStringSubmatch(string(page.body)); m != nil {
		return strings.ReplaceAll(m[1], "&amp;", "&")
	}
	return ""
}

// TestTheConsoleIsLightWithManyItems: of a thousand items a page shows only as many as fit, below 100 KB. The following pages
// have the others, each once.
func TestTheConsoleIsLightWithManyItems(t *testing.T) {
	t.Parallel()
	i := start(t, behindProxy())
	const maxBytes, others = 100_000, 100 // a page of more of these makes no other work
	p := i.loaded(t, others)
	for _, path := range p.pagesOf(t) {
		if page := p.page(t, "GET", path, request{}).shows(t, http.StatusOK); len(page.body) > maxBytes {
			t.Errorf("%.80s has %d bytes", path, len(page.body))
		}
	}
	for _, l := range lists(others) {
		eventually.NoError(t, l.path, func() error { // a request is charged a moment after its response
			seen, pages := map[string]bool{}, 0
			for at := l.path; at != ""; pages++ {
				page := p.page(t, "GET", at, request{}).shows(t, http.StatusOK)
				items := l.item.FindAllStringSubmatch(string(page.body), -1)
				if len(items) > l.most || len(page.body) > maxBytes {
					t.Errorf("%s has %d items and %d bytes", at, len(items), len(page.body))
				}
				for _, item := range items {
					if seen[item[1]] {
						t.Errorf("%s: %s comes twice", l.path, item[1])
					}
					seen[item[1]] = true
				}
				at = later(page)
			}
			if len(seen) != l.all || pages < l.all/l.most || pages > l.all/l.most+1 {
				return fmt.Errorf("%d items on %d pages, want %d", len(seen), pages, l.all)
			}
			return nil
		})
	}
}

// BenchmarkConsole is how long a page takes, of an account with a thousand of all that can be so many. Any should take less than 50 ms.
func BenchmarkConsole(b *testing.B) {
	i := start(b, behindProxy())
	p := i.loaded(b, 1000)
	for _, path := range p.pagesOf(b) {
		name, _, _ := strings.Cut(strings.TrimPrefix(path, "/console"), "?")
		b.Run("page="+name, func(b *testing.B) {
			p.benchmark(b, path)
		})
	}
}

// BenchmarkConsoleHealth is the same for the page with the health of 64 partitions of each service.
func BenchmarkConsoleHealth(b *testing.B) {
	i := start(b, behindProxy(), with("QUIRE_PARTITIONS", "64"))
	form := url.Values{"token": {i.adminToken}}
	signed := i.do(b, "POST", "/console/admin/sign-in", request{
		body: strings.NewReader(form.Encode()), header: map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"},
	})
	admin := &person{i: i, cookies: (&http.Response{Header: signed.header}).Cookies()}
	admin.benchmark(b, "/console/admin/health")
}

// benchmark requests a page repeatedly.
func (p *person) benchmark(b *testing.B, path string) {
	b.Helper()
	size := 0
	for b.Loop() {
		size = len(p.page(b, "GET", path, request{}).shows(b, http.StatusOK).body)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms/page")
	b.ReportMetric(float64(size), "B/page")
}
