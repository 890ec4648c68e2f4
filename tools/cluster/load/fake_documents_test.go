package load

import (
	"fmt"
	"net/http"
	"strings"
)

// metered serves the developer API.
func (f *fake) metered(r *http.Request, parts []string, fields map[string]any, body []byte, base int) *fakeAnswer {
	if r.Header.Get("x-api-key") == "" {
		return f.keyless(r, parts, fields, body, base)
	}
	a, refusal := f.keyOf(r, base)
	if refusal != nil {
		return f.replayed(r, refusal)
	}
	idem := ""
	key := r.Header.Get(headerIdempotency)
	if key != "" && a.tier == "pro" && f.lies("done twice", 4) {
		key = ""
	}
	if key != "" {
		idem = r.Method + r.URL.Path + key
		if done := f.outcomes[idem]; done != nil {
			again := *done
			again.header = map[string]string{headerReplayed: "true", headerSource: "none"}
			return &again
		}
	}
	quotaKey := map[string]string{"paste-lite": "pasteLite", "pastes": "pastes", "files": "files"}[parts[0]] + "." + parts[1]
	header, refusal := f.admit(a, quotaKey)
	if refusal != nil {
		return refusal
	}
	done := f.execute(r, a, parts, fields, body, base)
	if done.status/100 != 2 {
		f.void(a, quotaKey, header)
	} else {
		done.header = header
		f.book(a, quotaKey, header)
		if a.tier == "admin" && f.lies("double charge", 20) {
			a.used[quotaKey]++
		}
		if a.tier == "admin" && parts[1] == "create" && f.lies("uncounted", 5) {
			a.used[quotaKey]--
		}
	}
	if idem != "" {
		f.outcomes[idem] = done
	}
	return done
}

// replayed is the refusal of a key, unless the fake lies and repeats the answer to an earlier call.
func (f *fake) replayed(r *http.Request, refusal *fakeAnswer) *fakeAnswer {
	done := f.outcomes[r.Method+r.URL.Path+r.Header.Get(headerIdempotency)]
	if done == nil || !f.lies("old key is repeated", 1) {
		return refusal
	}
	return done
}

// keyless serves creations without a key, up to the limit of a source.
func (f *fake) keyless(r *http.Request, parts []string, fields map[string]any, body []byte, base int) *fakeAnswer {
	source, key := r.Header.Get("X-Forwarded-For"), r.Header.Get(headerIdempotency)
	idem := source + key
	if done := f.outcomes[idem]; done != nil && key != "" {
		return done
	}
	limit := keylessLimit
	if f.lie == "keyless refused" && base == 1 {
		f.lied++
		limit--
	}
	if f.guests[source] >= limit && !f.lies("keyless beyond the limit", 2) {
		return failure(429, codeAnonymous)
	}
	f.guests[source]++
	done := f.execute(r, nil, parts, fields, body, base)
	if key != "" {
		f.outcomes[idem] = done
	}
	return done
}

func (f *fake) admit(a *fakeAccount, quotaKey string) (map[string]string, *fakeAnswer) {
	limit, price := f.limit(a, quotaKey)
	switch {
	case limit == 0:
		if f.lies("refused call charged", 3) {
			a.used[quotaKey]++
		}
		return nil, failure(429, "plan_upgrade_required")
	case limit < 0:
		a.used[quotaKey]++
		return map[string]string{headerSource: "none"}, nil
	case a.used[quotaKey] < limit:
		a.used[quotaKey]++
		return map[string]string{headerSource: "quota"}, nil
	case a.granted-a.gone >= price && price > 0:
		a.used[quotaKey]++
		a.overage[quotaKey]++
		a.spent[quotaKey] += price
		a.gone += price
		return map[string]string{headerSource: "credits", headerCost: formatMicros(price)}, nil
	case f.requests > 100 && f.lies("beyond the limit", 5):
		return map[string]string{headerSource: "quota"}, nil
	}
	if f.requests > 100 && f.lies("refused call charged", 3) {
		a.used[quotaKey]++
	}
	return nil, failure(429, "quota_exhausted")
}

func (f *fake) void(a *fakeAccount, quotaKey string, header map[string]string) {
	if f.lies("failed call charged", 2) {
		return
	}
	a.used[quotaKey]--
	if header[headerSource] == "credits" {
		price, _ := micros(header[headerCost])
		a.overage[quotaKey]--
		a.spent[quotaKey] -= price
		a.gone -= price
	}
}

// book enters a charge in the ledger, if credits paid the call.
func (f *fake) book(a *fakeAccount, quotaKey string, header map[string]string) {
	if header[headerSource] != "credits" {
		return
	}
	price, _ := micros(header[headerCost])
	request := fmt.Sprint("request", len(a.ledger))
	if f.lies("wrong ledger", 10) {
		request = "request1"
	}
	a.ledger = append(a.ledger, entry{
		ID: request, Type: "charge", QuotaKey: &quotaKey, RequestID: &request, Amount: formatMicros(-price), Balance: formatMicros(a.granted - a.gone),
	})
	if f.lies("one micro-credit", 10) {
		a.spent[quotaKey]++
		a.gone++
	}
	if f.lies("balance", 10) {
		a.gone--
	}
	if f.lies("named price", 10) {
		header[headerCost] = formatMicros(price + 1)
	}
}

func (f *fake) execute(r *http.Request, a *fakeAccount, parts []string, fields map[string]any, body []byte, base int) *fakeAnswer {
	content, _ := fields["content"].(string)
	if parts[0] == "files" {
		content = string(body)
	}
	if parts[1] == "create" || parts[1] == "upload" {
		f.ids++
		id := fmt.Sprintf("doc%d", f.ids)
		if len(f.docs) < 10 || !f.lies("lost write", 20) {
			burns, _ := fields["burnAfterRead"].(bool)
			f.docs[id] = &fakeDoc{owner: a, content: content, file: parts[1] == "upload", burns: burns}
		}
		return &fakeAnswer{status: 201, body: map[string]any{"id": id}}
	}
	doc := f.docs[parts[2]]
	if doc == nil || doc.deleted && (parts[1] != "get" || f.lie != "deleted is there") {
		return failure(404, "not_found")
	}
	switch {
	case parts[1] == "get":
		return f.show(a, parts[0], doc, base)
	case doc.owner != a:
		return failure(403, "not_owner")
	case parts[1] == "delete":
		doc.deleted = true
		f.lies("deleted is there", 1)
	case strings.Trim(r.Header.Get("If-Match"), `"`) != "":
		return failure(412, "version_mismatch")
	case content != "" && !f.lies("lost update", 5):
		doc.content = content
	}
	return &fakeAnswer{status: 200, body: map[string]any{"id": parts[2]}}
}

func (f *fake) show(a *fakeAccount, domain string, doc *fakeDoc, base int) *fakeAnswer {
	content := doc.content
	if doc.burns && (doc.owner != a || f.lies("burns for its owner", 1)) {
		if doc.burned && !f.lies("burns twice", 1) || !doc.burned && f.lies("burns unseen", 2) {
			doc.burned = true
			return failure(404, "not_found")
		}
		doc.burned = true
	}
	if base == 1 && doc.owner != nil && doc.owner.tier == "admin" && f.lies("wrong content", 10) {
		content = strings.ToUpper(content) + "."
	}
	if domain == "files" {
		return &fakeAnswer{status: 200, raw: []byte(content)}
	}
	return &fakeAnswer{status: 200, body: map[string]any{"paste": map[string]any{"content": content}}}
}
