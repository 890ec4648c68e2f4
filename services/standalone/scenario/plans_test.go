package scenario

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
)

// row is one line of the table in docs/api.md, Metering.
type row struct {
	key                string
	free, pro, max     int64
	proPrice, maxPrice string // with six places
}

func rows() []row {
	return []row{
		{"pastes.create", 0, 500, 10_000, "0.002000", "0.001000"},
		{"pastes.get", 0, 3_000, 50_000, "0.000500", "0.000300"},
		{"pastes.update", 0, 500, 10_000, "0.001000", "0.000500"},
		{"pastes.delete", 10, 500, 5_000, "0.000500", "0.000300"},
		{"files.upload", 0, 100, 1_000, "0.005000", "0.003000"},
		{"files.get", 0, 500, 5_000, "0.001000", "0.000500"},
		{"files.delete", 0, 200, 2_000, "0.000500", "0.000300"},
		{"pasteLite.create", 100, 5_000, 20_000, "0.000500", "0.000200"},
		{"pasteLite.get", 500, 10_000, 100_000, "0.000200", "0.000100"},
		{"pasteLite.update", 50, 2_000, 10_000, "0.000200", "0.000100"},
		{"pasteLite.delete", 50, 2_000, 10_000, "0.000200", "0.000100"},
	}
}

// unlimited are the quota keys without limits.
var unlimited = []string{"pasteLite.list", "files.list"}

func (r row) limit(tier string) int64 {
	return map[string]int64{"free": r.free, "pro": r.pro, "max": r.max, "admin": -1}[tier]
}

func (r row) price(tier string) string {
	return map[string]string{"pro": r.proPrice, "max": r.maxPrice}[tier]
}

func TestEveryTierHasItsLimits(t *testing.T) {
	i := common(t)
	for _, tier := range []string{"free", "pro", "max", "admin"} {
		a := i.account(t, tier)
		usage := a.usage(t)
		if got := text(t, usage, "account", "tier"); got != tier {
			t.Errorf("tier is %s, want %s", got, tier)
		}
		for _, r := range rows() {
			want := r.limit(tier)
			if got := number(t, usage, "usage", r.key, "limit"); got != want {
				t.Errorf("%s %s: limit %d, want %d", tier, r.key, got, want)
			}
			if got := number(t, usage, "usage", r.key, "remaining"); got != want {
				t.Errorf("%s %s: remaining %d, want %d", tier, r.key, got, want)
			}
		}
		for _, key := range unlimited {
			if got := number(t, usage, "usage", key, "limit"); got != -1 {
				t.Errorf("%s %s: limit %d, want unlimited", tier, key, got)
			}
		}
		if got := len(at(t, usage, "usage").(object)); got != len(rows())+len(unlimited) {
			t.Errorf("%d quota keys", got)
		}
	}
}

// operation is a request, and the status that it must be answered with.
type operation struct {
	method, path, body string
	status             int
}

// material is the documents that the operations of one account need.
type material struct {
	pastes, quicks, files []string // to be deleted
	paste, quick, file    string   // to be read and changed
}

func (m *material) operation(key string, n int) operation {
	switch key {
	case "pastes.create":
		return operation{http.MethodPost, "/api/dev/pastes/create", `{"content":"x"}`, http.StatusCreated}
	case "pastes.get":
		return operation{http.MethodGet, "/api/dev/pastes/get/" + m.paste, "", http.StatusOK}
	case "pastes.update":
		return operation{http.MethodPut, "/api/dev/pastes/update/" + m.paste, `{"title":"y"}`, http.StatusOK}
	case "pastes.delete":
		return operation{http.MethodDelete, "/api/dev/pastes/delete/" + m.pastes[n], "", http.StatusOK}
	case "files.upload":
		return operation{http.MethodPost, "/api/dev/files/upload?name=f", "x", http.StatusCreated}
	case "files.get":
		return operation{http.MethodGet, "/api/dev/files/get/" + m.file, "", http.StatusOK}
	case "files.delete":
		return operation{http.MethodDelete, "/api/dev/files/delete/" + m.files[n], "", http.StatusOK}
	case "pasteLite.create":
		return operation{http.MethodPost, "/api/dev/paste-lite/create", `{"content":"x"}`, http.StatusCreated}
	case "pasteLite.get":
		return operation{http.MethodGet, "/api/dev/paste-lite/get/" + m.quick, "", http.StatusOK}
	case "pasteLite.update":
		return operation{http.MethodPut, "/api/dev/paste-lite/update/" + m.quick, `{"title":"y"}`, http.StatusOK}
	case "pasteLite.delete":
		return operation{http.MethodDelete, "/api/dev/paste-lite/delete/" + m.quicks[n], "", http.StatusOK}
	}
	panic("no operation for " + key)
}

func (o operation) request() request {
	r := request{}
	if o.body != "" {
		r.body = o.body
	}
	if strings.HasPrefix(o.path, "/api/dev/files/upload") {
		r.body = []byte(o.body)
	}
	return r
}

const hammerers = 48

// hammer does n concurrent operations, all of which must succeed, and returns the created ids. It does not check the answers
// against docs/openapi.yaml.
func (a account) hammer(t testing.TB, n int, operate func(n int) operation) []string {
	t.Helper()
	var next atomic.Int64
	ids := make([]string, max(n, 0))
	var group sync.WaitGroup
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	for range min(hammerers, n) {
		group.Go(func() {
			w, err := dialWire(a.i.address())
			if err != nil {
				cancel(err)
				return
			}
			defer w.conn.Close()
			for {
				k := int(next.Add(1)) - 1
				if k >= n || ctx.Err() != nil {
					return
				}
				if ids[k], err = w.do(a.key, operate(k)); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Fatal(err)
	}
	return ids
}

// wire is a connection with as little HTTP as possible: the tests send hundreds of thousands of requests from the same
// two cores.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	body []byte
}

func dialWire(address string) (*wire, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, in: bufio.NewReader(conn)}, nil
}

func (w *wire) do(key string, o operation) (id string, err error) {
	kind := "application/json"
	if strings.HasPrefix(o.path, "/api/dev/files/upload") {
		kind = "application/octet-stream"
	}
	w.out = fmt.Appendf(w.out[:0], "%s %s HTTP/1.1\r\nHost: q\r\nx-api-key: %s\r\n", o.method, o.path, key)
	if o.body != "" {
		w.out = fmt.Appendf(w.out, "Content-Type: %s\r\nContent-Length: %d\r\n", kind, len(o.body))
	}
	w.out = append(append(w.out, "\r\n"...), o.body...)
	if err := w.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	if _, err := w.conn.Write(w.out); err != nil {
		return "", err
	}
	status, err := w.read()
	if err != nil {
		return "", err
	}
	if status != o.status {
		return "", fmt.Errorf("%s %s: %d %s, want %d", o.method, o.path, status, w.body, o.status)
	}
	const field, length = `"id":"`, 12
	if at := bytes.Index(w.body, []byte(field)); at >= 0 && len(w.body) >= at+len(field)+length {
		return string(w.body[at+len(field) : at+len(field)+length]), nil
	}
	return "", nil
}

// read reads one answer, which must have a Content-Length.
func (w *wire) read() (status int, err error) {
	length := -1
	for line := 0; ; line++ {
		text, err := w.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		text = bytes.TrimRight(text, "\r\n")
		if line == 0 {
			if len(text) < 12 {
				return 0, fmt.Errorf("status line %q", text)
			}
			if status, err = strconv.Atoi(string(text[9:12])); err != nil {
				return 0, err
			}
			continue
		}
		if len(text) == 0 {
			break
		}
		if name, value, _ := bytes.Cut(text, []byte(": ")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		}
	}
	if length < 0 {
		return 0, fmt.Errorf("an answer of %d without a length", status)
	}
	if cap(w.body) < length {
		w.body = make([]byte, length)
	}
	w.body = w.body[:length]
	_, err = io.ReadFull(w.in, w.body)
	return status, err
}

// TestEveryLimitAndPrice uses up every row of the table on every tier: the last free request, the first paid one, and the
// one that the balance does not cover.
func TestEveryLimitAndPrice(t *testing.T) {
	t.Parallel()
	i := start(t) // so many documents would make the other tests' lists slow
	for _, tier := range []string{"free", "pro", "max"} {
		t.Run(tier, func(t *testing.T) {
			a := i.account(t, tier)
			m := &material{}
			if tier == "free" {
				// A Free account can't make pastes and files, so it makes those that it deletes before, as Admin.
				a.setTier(t, "admin")
				m.pastes = a.hammer(t, 11, func(n int) operation { return m.operation("pastes.create", n) })
				m.paste, m.file = m.pastes[0], a.upload(t, "f", []byte("x"))
				m.files = []string{m.file}
				a.setTier(t, "free")
			}
			for _, r := range rows() {
				useUp(t, a, m, r, tier)
			}
			checkLedger(t, a)
			i.audit(t)
		})
	}
}

// useUp uses up one row.
func useUp(t *testing.T, a account, m *material, r row, tier string) {
	t.Helper()
	m.require(t, a, r, tier)
	do := func(n int) answer { o := m.operation(r.key, n); return a.with(t, o.method, o.path, o.request()) }
	limit := r.limit(tier)
	if limit == 0 {
		refused := do(0)
		title := strings.ToUpper(tier[:1]) + tier[1:]
		refused.fails(t, http.StatusTooManyRequests, "plan_upgrade_required",
			r.key+" is not available on the "+title+" plan. Upgrade your plan to continue.")
		refused.hasHeader(t, "Retry-After", "")
		refused.hasHeader(t, "X-Charge-Source", "none")
		return
	}
	begun := a.used(t, r.key)
	left := int(limit - begun)
	ids := a.hammer(t, left-1, func(n int) operation { return m.operation(r.key, n) })
	last := do(left - 1)
	if last.status/100 != 2 {
		t.Fatalf("%s: the last free request: %d %s", r.key, last.status, last.body)
	}
	body := last.json(t)
	if got := number(t, body, "remaining"); got != 0 {
		t.Errorf("%s: remaining %d after the last free request", r.key, got)
	}
	last.hasHeader(t, "X-Charge-Source", "quota")
	last.hasHeader(t, "X-Credits-Cost", "")
	last.hasHeader(t, "RateLimit-Policy", fmt.Sprintf("%q;q=%d", r.key, limit))
	checkRateLimit(t, a.i, last, r.key, 0)
	if id, ok := body["id"].(string); ok {
		ids = append(ids, id)
	}
	if price := r.price(tier); price != "" {
		ids = append(ids, payOne(t, a, r.key, price, limit, func() answer { return do(left) })...)
	} else {
		a.grant(t, "5")
		exhausted(t, do(left), r.key, limit)
		if got := a.balance(t); got != "5.000000" {
			t.Errorf("%s: a plan without overage was charged: balance %s", r.key, got)
		}
		a.grant(t, "-5")
	}
	m.keep(r.key, ids)
}

// payOne pays for one request beyond the limit, to the micro-credit.
func payOne(t *testing.T, a account, key, price string, limit int64, do func() answer) []string {
	t.Helper()
	exhausted(t, do(), key, limit)
	micros := micro(t, price)
	had := micro(t, a.balance(t))
	a.grant(t, credits(micros-1-had))
	exhausted(t, do(), key, limit)
	if got := micro(t, a.balance(t)); got != micros-1 {
		t.Errorf("%s: a balance below the price was touched: %d micro-credits", key, got)
	}
	a.grant(t, "0.000001")
	paid := do()
	if paid.status/100 != 2 {
		t.Fatalf("%s: paid request: %d %s", key, paid.status, paid.body)
	}
	paid.hasHeader(t, "X-Charge-Source", "credits")
	paid.hasHeader(t, "X-Credits-Cost", price)
	paid.hasHeader(t, "X-Credits-Balance", "0.000000")
	body := paid.json(t)
	if got := number(t, body, "remaining"); got != 0 {
		t.Errorf("%s: remaining %d after a paid request", key, got)
	}
	exhausted(t, do(), key, limit)
	usage := a.usage(t)
	if used, over := number(t, usage, "usage", key, "used"), number(t, usage, "usage", key, "overage"); used != limit+1 || over != 1 {
		t.Errorf("%s: used %d, overage %d", key, used, over)
	}
	if got := text(t, usage, "usage", key, "creditsSpent"); got != price {
		t.Errorf("%s: spent %s, want %s", key, got, price)
	}
	if id, ok := body["id"].(string); ok {
		return []string{id}
	}
	return nil
}

func exhausted(t *testing.T, a answer, key string, limit int64) {
	t.Helper()
	a.fails(t, http.StatusTooManyRequests, "quota_exhausted",
		fmt.Sprintf("Monthly limit of %d requests reached for %s. Upgrade your plan to continue.", limit, key))
	a.hasHeader(t, "X-Charge-Source", "none")
	if !strings.HasPrefix(a.header.Get("RateLimit"), fmt.Sprintf("%q;r=0;", key)) {
		t.Errorf("%s: RateLimit is %q", key, a.header.Get("RateLimit"))
	}
	if a.header.Get("Retry-After") == "" {
		t.Errorf("%s: no Retry-After, though the next month ends it", key)
	}
}

// checkRateLimit holds the header RateLimit to the remaining requests and to the end of the month.
func checkRateLimit(t *testing.T, i *instance, a answer, key string, remaining int64) {
	t.Helper()
	var r, reset int64
	if _, err := fmt.Sscanf(a.header.Get("RateLimit"), fmt.Sprintf("%q;r=%%d;t=%%d", key), &r, &reset); err != nil || r != remaining {
		t.Errorf("%s: RateLimit is %q, want r=%d", a.what, a.header.Get("RateLimit"), remaining)
		return
	}
	now := i.now()
	month := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	if want := int64(month.Sub(now).Seconds()); reset < want-90 || reset > want+90 {
		t.Errorf("%s: resets in %d s, the month ends in %d s", a.what, reset, want)
	}
}

// require makes the documents that the row's requests need, by paid requests if the quota is too small.
func (m *material) require(t *testing.T, a account, r row, tier string) {
	t.Helper()
	fill := func(have *[]string, want int64, createKey string) {
		missing := int(want) + 1 - len(*have)
		if tier == "free" || missing <= 0 {
			return
		}
		a.grant(t, "10")
		*have = append(*have, a.hammer(t, missing, func(n int) operation { return m.operation(createKey, n) })...)
		a.grant(t, credits(-micro(t, a.balance(t))))
	}
	switch r.key {
	case "pastes.delete":
		fill(&m.pastes, r.limit(tier), "pastes.create")
	case "files.delete":
		fill(&m.files, r.limit(tier), "files.upload")
	case "pasteLite.delete":
		fill(&m.quicks, r.limit(tier), "pasteLite.create")
	}
	if m.paste == "" && len(m.pastes) > 0 {
		m.paste = m.pastes[0]
	}
	if m.quick == "" && len(m.quicks) > 0 {
		m.quick = m.quicks[0]
	}
	if m.file == "" && len(m.files) > 0 {
		m.file = m.files[0]
	}
	// A request that will be refused needs an id too.
	pad := func(list *[]string) {
		for int64(len(*list)) < r.limit(tier)+3 {
			*list = append(*list, "000000000000")
		}
	}
	switch r.key {
	case "pastes.delete":
		pad(&m.pastes)
	case "files.delete":
		pad(&m.files)
	case "pasteLite.delete":
		pad(&m.quicks)
	}
}

func (m *material) keep(key string, ids []string) {
	switch key {
	case "pastes.create":
		m.pastes = ids
	case "files.upload":
		m.files = ids
	case "pasteLite.create":
		m.quicks = ids
	}
}

// micro reads credits as micro-credits; credits does the reverse.
func micro(t testing.TB, amount string) int64 {
	t.Helper()
	sign := int64(1)
	digits, negative := strings.CutPrefix(amount, "-")
	if negative {
		sign = -1
	}
	whole, part, ok := strings.Cut(digits, ".")
	var w, p int64
	if _, err := fmt.Sscanf(whole+" "+part, "%d %d", &w, &p); err != nil || !ok || len(part) != 6 {
		t.Fatalf("%q are no credits with six places", amount)
	}
	return sign * (w*1_000_000 + p)
}

func credits(micros int64) string {
	sign := ""
	if micros < 0 {
		sign, micros = "-", -micros
	}
	return fmt.Sprintf("%s%d.%06d", sign, micros/1_000_000, micros%1_000_000)
}

// entry is one entry of the ledger.
type entry struct{ id, kind, quotaKey, requestID, reason, amount, balance string }

// ledger reads all pages.
func ledger(t testing.TB, a account, limit int) []entry {
	t.Helper()
	var out []entry
	cursor := ""
	for {
		path := fmt.Sprintf("/api/users/user/credits?limit=%d", limit)
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		page := a.do(t, http.MethodGet, path, nil).ok(t, http.StatusOK)
		for _, v := range at(t, page, "entries").([]any) {
			o := v.(object)
			maybe := func(name string) string { s, _ := o[name].(string); return s }
			out = append(out, entry{
				id: text(t, o, "id"), kind: text(t, o, "type"), quotaKey: maybe("quotaKey"), requestID: maybe("requestId"),
				reason: maybe("reason"), amount: text(t, o, "amount"), balance: text(t, o, "balance"),
			})
		}
		next, more := page["nextCursor"].(string)
		if !more || page["hasMore"] != true {
			return out
		}
		cursor = next
	}
}

// checkLedger holds each entry of the ledger to its balance, and the sum to the account's balance. A charge is entered
// once it is settled; for a read that is a moment after the answer.
func checkLedger(t testing.TB, a account) []entry {
	t.Helper()
	var entries []entry
	eventually.NoError(t, "nothing is in flight", func() error {
		entries = ledger(t, a, 100)
		if sum, balance := sumOf(t, entries), micro(t, a.balance(t)); sum != balance {
			return fmt.Errorf("the ledger sums to %s, the balance is %s", credits(sum), credits(balance))
		}
		return nil
	})
	return entries
}

// sumOf holds each entry's balance to the sum of the entries up to it, and returns the sum of all.
func sumOf(t testing.TB, entries []entry) (sum int64) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range slices.Backward(entries) {
		if seen[e.id] {
			t.Errorf("entry %s is listed twice", e.id)
		}
		seen[e.id] = true
		sum += micro(t, e.amount)
		if got := micro(t, e.balance); got != sum {
			t.Errorf("entry %s %s of %s: balance %s, the sum is %s", e.id, e.kind, e.amount, e.balance, credits(sum))
		}
	}
	return sum
}

func TestAdminIsUnlimitedAndCountedAndNeverCharged(t *testing.T) {
	a := common(t).account(t, "admin")
	a.grant(t, "1")
	id := a.quick(t, nil)
	got := a.do(t, http.MethodGet, "/api/dev/paste-lite/get/"+id, nil)
	if remaining := number(t, got.ok(t, http.StatusOK), "remaining"); remaining != -1 {
		t.Errorf("remaining %d", remaining)
	}
	got.hasHeader(t, "X-Credits-Cost", "")
	if used := a.used(t, "pasteLite.get"); used != 1 {
		t.Errorf("used %d", used)
	}
	if b := a.balance(t); b != "1.000000" {
		t.Errorf("balance %s", b)
	}
}

func TestListsAreUnlimitedOnEveryTier(t *testing.T) {
	i := common(t)
	for _, tier := range []string{"free", "pro", "max", "admin"} {
		a := i.account(t, tier)
		for _, path := range []string{"/api/dev/pastes/list", "/api/dev/paste-lite/list", "/api/dev/files/list"} {
			got := a.do(t, http.MethodGet, path, nil)
			if remaining := number(t, got.ok(t, http.StatusOK), "remaining"); remaining != -1 {
				t.Errorf("%s %s: remaining %d", tier, path, remaining)
			}
			got.hasHeader(t, "RateLimit", "")
		}
	}
}

func TestUpgradeAndDowngradeKeepTheCountersAndChangeTheLimitsAtOnce(t *testing.T) {
	a := common(t).account(t, "free")
	id := a.quick(t, nil)
	get := func() answer { return a.do(t, http.MethodGet, "/api/dev/paste-lite/get/"+id, nil) }
	a.hammer(t, 500, func(int) operation {
		return operation{http.MethodGet, "/api/dev/paste-lite/get/" + id, "", http.StatusOK}
	})
	exhausted(t, get(), "pasteLite.get", 500)
	a.setTier(t, "pro")
	if got := number(t, get().ok(t, http.StatusOK), "remaining"); got != 10_000-501 {
		t.Errorf("remaining %d after the upgrade", got)
	}
	a.setTier(t, "free")
	exhausted(t, get(), "pasteLite.get", 500)
	if got := number(t, a.usage(t), "usage", "pasteLite.get", "remaining"); got != 0 {
		t.Errorf("remaining %d after the downgrade", got)
	}
	if got := a.used(t, "pasteLite.get"); got != 501 {
		t.Errorf("used %d", got)
	}
}

func TestConcurrentRequestsNeverOverspend(t *testing.T) {
	i := common(t)
	a := i.account(t, "free")
	const tries, limit = 120, 50
	id := a.quick(t, nil)
	var admitted, refused atomic.Int64
	var group sync.WaitGroup
	for range tries {
		group.Go(func() {
			got, err := i.try(t.Context(), http.MethodPut, "/api/dev/paste-lite/update/"+id, request{key: a.key, body: object{"title": "t"}})
			switch {
			case err != nil:
				t.Error(err)
			case got.status == http.StatusOK:
				admitted.Add(1)
			case got.status == http.StatusTooManyRequests:
				refused.Add(1)
			default:
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	group.Wait()
	if admitted.Load() != limit || refused.Load() != tries-limit || a.used(t, "pasteLite.update") != limit {
		t.Errorf("%d admitted, %d refused, %d counted", admitted.Load(), refused.Load(), a.used(t, "pasteLite.update"))
	}
}

// TestFailedCallsCostNothingBesideOthers: at the last request of a quota, failing calls run beside successful ones. The successful
// one that fits is neither refused for the month nor charged, and no other is free.
func TestFailedCallsCostNothingBesideOthers(t *testing.T) {
	i := common(t)
	a := i.account(t, "free")
	ids := a.hammer(t, 11, func(int) operation {
		return operation{"POST", "/api/dev/paste-lite/create", `{"content":"x"}`, http.StatusCreated}
	})
	get := func(id string) answer { return a.with(t, http.MethodGet, "/api/dev/paste-lite/get/"+id, request{}) }
	const limit = 500
	a.hammer(t, limit-1, func(n int) operation {
		return operation{"GET", "/api/dev/paste-lite/get/" + ids[n%len(ids)], "", http.StatusOK}
	})
	var group sync.WaitGroup
	for range 39 {
		group.Go(func() {
			got, err := i.try(t.Context(), http.MethodGet, "/api/dev/paste-lite/get/aaaaaaaaaaaa", request{key: a.key})
			// A call after the successful one is correctly refused: the month's quota is used up.
			if err != nil || got.status != http.StatusNotFound && !strings.Contains(string(got.body), `"quota_held"`) &&
				!strings.Contains(string(got.body), `"quota_exhausted"`) {
				t.Errorf("a missing one: %d %s, %v", got.status, got.body, err)
			}
		})
	}
	good := get(ids[0])
	group.Wait()
	if good.status != http.StatusOK {
		good.fails(t, http.StatusTooManyRequests, "quota_held", "Calls in flight hold the last requests of this month for pasteLite.get. Try again.")
		good.hasHeader(t, "Retry-After", "1")
		get(ids[0]).ok(t, http.StatusOK)
	}
	exhausted(t, get(ids[0]), "pasteLite.get", limit)
	if used := a.used(t, "pasteLite.get"); used != limit {
		t.Errorf("used %d", used)
	}

	// With credits the successful calls continue, and each over quota is paid once.
	a.setTier(t, "pro")
	a.grant(t, "1")
	const deletes = 500
	made := a.hammer(t, deletes+2, func(int) operation {
		return operation{"POST", "/api/dev/pastes/create", `{"content":"x"}`, http.StatusCreated}
	})
	a.hammer(t, deletes-1, func(n int) operation {
		return operation{"DELETE", "/api/dev/pastes/delete/" + made[n], "", http.StatusOK}
	})
	for n := range 3 {
		for range 13 {
			group.Go(func() {
				if got, err := i.try(t.Context(), http.MethodDelete, "/api/dev/pastes/delete/aaaaaaaaaaaa", request{key: a.key}); err != nil || got.status != http.StatusNotFound {
					t.Errorf("a missing one: %d %s, %v", got.status, got.body, err)
				}
			})
		}
		a.do(t, http.MethodDelete, "/api/dev/pastes/delete/"+made[deletes-1+n], nil).ok(t, http.StatusOK)
	}
	group.Wait()
	usage := a.usage(t)
	if used, overage := number(t, usage, "usage", "pastes.delete", "used"), number(t, usage, "usage", "pastes.delete", "overage"); used != deletes+2 || overage != 2 {
		t.Errorf("%d used, %d paid", used, overage)
	}
	if spent := text(t, usage, "usage", "pastes.delete", "creditsSpent"); spent != "0.001000" {
		t.Errorf("spent %s", spent)
	}
	checkLedger(t, a)
}
