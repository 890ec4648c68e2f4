package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestThePriceBookIsPublished: what everyone can read is the table of docs/api.md to the digit.
func TestThePriceBookIsPublished(t *testing.T) {
	i := common(t)
	body := i.do(t, "GET", "/api/prices", request{}).ok(t, http.StatusOK)
	current := at(t, body, "current").(object)
	if number(t, body, "remaining") != -1 || current["creditPrice"] != "1.00" || len(at(t, body, "upcoming").([]any)) != 0 {
		t.Errorf("prices %v", body)
	}
	plans := at(t, current, "plans").([]any)
	if len(plans) != 4 {
		t.Fatalf("%d plans", len(plans))
	}
	for _, p := range plans {
		of := p.(object)
		name := of["name"].(string)
		quotas := map[string]object{}
		for _, q := range at(t, of, "quotas").([]any) {
			quotas[q.(object)["quotaKey"].(string)] = q.(object)
		}
		for _, r := range rows() {
			var limit, price any
			if n := r.limit(name); n >= 0 {
				limit = fmt.Sprint(n)
			}
			if text := r.price(name); text != "" {
				price = text
			}
			got := quotas[r.key]
			if got["limit"] != nil {
				got["limit"] = fmt.Sprint(number(t, got, "limit"))
			}
			if got["limit"] != limit || got["price"] != price {
				t.Errorf("%s on %s: %v, want %v at %v", r.key, name, got, limit, price)
			}
		}
		if number(t, of, "storage", "includedBytes") != 10<<30 || text(t, of, "storage", "pricePerGBMonth") != "0.03" || of["monthlyFee"] != "0.00" {
			t.Errorf("plan %s: %v, %v", name, of["storage"], of["monthlyFee"])
		}
		if len(quotas) != len(rows())+len(unlimited) {
			t.Errorf("plan %s has %d quotas", name, len(quotas))
		}
	}
	id := text(t, current, "id")
	if one := i.do(t, "GET", "/api/prices/"+id, request{}).ok(t, http.StatusOK); text(t, one, "book", "id") != id {
		t.Errorf("the book by its id: %v", one)
	}
	i.do(t, "GET", "/api/prices/nothing", request{}).fails(t, http.StatusNotFound, "not_found", "")
	i.do(t, "GET", "/api/prices?x=1", request{}).fails(t, http.StatusBadRequest, "unknown_field", "")
}

// document is the price book in force as a document to apply.
func (i *instance) document(t *testing.T) object {
	t.Helper()
	current := at(t, i.admin(t, "GET", "/api/admin/prices", nil).ok(t, http.StatusOK), "current").(object)
	delete(current, "id")
	delete(current, "effectiveAt")
	return current
}

// planOf is a plan of a document.
func planOf(t *testing.T, document object, name string) object {
	t.Helper()
	for _, p := range document["plans"].([]any) {
		if p.(object)["name"] == name {
			return p.(object)
		}
	}
	t.Fatalf("no plan %s", name)
	return nil
}

// quotaOf is a quota of a plan.
func quotaOf(t *testing.T, of object, key string) object {
	t.Helper()
	for _, q := range of["quotas"].([]any) {
		if q.(object)["quotaKey"] == key {
			return q.(object)
		}
	}
	t.Fatalf("no quota %s", key)
	return nil
}

// withTeam is the price book in force, with dearer uploads on Pro and a plan of its own.
func (i *instance) withTeam(t *testing.T) object {
	t.Helper()
	document, team := i.document(t), planOf(t, i.document(t), "max")
	quotaOf(t, planOf(t, document, "pro"), "files.upload")["limit"] = 0
	quotaOf(t, planOf(t, document, "pro"), "files.upload")["price"] = "0.008"
	team["name"], team["monthlyFee"] = "team", "29.00"
	quotaOf(t, team, "files.upload")["limit"] = 7
	document["plans"] = append(document["plans"].([]any), team)
	return document
}

// TestAPriceBookIsAppliedAtATime: what is admitted before is charged by the old book, what is admitted after by the new one, in
// every partition. Its plan can be set from then on.
func TestAPriceBookIsAppliedAtATime(t *testing.T) {
	t.Parallel()
	i := start(t, behindProxy(), with("QUIRE_CLOCK_OFFSET", "1s"))
	var accounts []account
	for range 6 { // in several partitions
		a := i.account(t, "pro")
		i.admin(t, "POST", "/api/admin/accounts/"+a.id+"/credits", object{"amount": "1", "reason": "test"}).ok(t, http.StatusOK)
		accounts = append(accounts, a)
	}
	effective := i.now().Add(time.Hour).Truncate(time.Second)
	apply := func(book object, at time.Time, query string) answer {
		return i.admin(t, "POST", "/api/admin/prices"+query, object{"book": book, "effectiveAt": at.Format(time.RFC3339)})
	}
	upcoming := func() int {
		return len(at(t, i.admin(t, "GET", "/api/admin/prices", nil).ok(t, http.StatusOK), "upcoming").([]any))
	}
	dry := apply(i.withTeam(t), effective, "?dryRun=true").ok(t, http.StatusOK)
	if n := len(at(t, dry, "changes").([]any)); n != 3 || upcoming() != 0 || number(t, at(t, dry, "accounts").([]any)[1].(object), "accounts") != 6 {
		t.Errorf("the dry run: %v, then %d books are upcoming", dry, upcoming())
	}
	made := apply(i.withTeam(t), effective, "").ok(t, http.StatusOK)
	if again := apply(i.withTeam(t), effective, "").ok(t, http.StatusOK); again["id"] != made["id"] || made["id"] != dry["id"] || upcoming() != 1 {
		t.Errorf("applied as %v, then as %v; %d books are upcoming", made["id"], again["id"], upcoming())
	}
	id := text(t, made, "id")
	tier := func(name string) answer {
		return i.admin(t, "PUT", "/api/admin/accounts/"+accounts[0].id+"/tier", object{"tier": name})
	}
	tier("team").fails(t, http.StatusBadRequest, "invalid_field", "")
	// A book after it needs its plan, and one before it must not have more.
	without := i.document(t)
	apply(without, effective.Add(time.Hour), "").fails(t, http.StatusBadRequest, "invalid_field", "")
	more := i.withTeam(t)
	planOf(t, more, "team")["name"] = "crew"
	apply(more, effective.Add(-time.Minute), "").fails(t, http.StatusBadRequest, "invalid_field", "")
	later := text(t, apply(i.withTeam(t), effective.Add(time.Hour), "").ok(t, http.StatusOK), "id")
	i.admin(t, "DELETE", "/api/admin/prices/"+id, nil).fails(t, http.StatusConflict, "price_book_conflict", "")
	for range 2 {
		i.admin(t, "DELETE", "/api/admin/prices/"+later, nil).ok(t, http.StatusOK)
	}
	apply(i.withTeam(t), effective.Add(time.Hour), "").fails(t, http.StatusConflict, "price_book_conflict", "")
	i.admin(t, "DELETE", "/api/admin/prices/nothing", nil).fails(t, http.StatusNotFound, "not_found", "")

	upload := func(a account) string {
		got := a.do(t, "POST", "/api/dev/files/upload?name=f", []byte("x"))
		got.ok(t, http.StatusCreated)
		return got.header.Get("X-Credits-Cost")
	}
	for _, a := range accounts {
		if cost := upload(a); cost != "" {
			t.Errorf("an upload before costs %s", cost)
		}
	}
	i.travel(t, effective.Sub(i.now())+time.Second)
	for _, a := range accounts {
		if cost := upload(a); cost != "0.008000" {
			t.Errorf("an upload after costs %s", cost)
		}
	}
	body := i.do(t, "GET", "/api/prices", request{}).ok(t, http.StatusOK)
	if text(t, body, "current", "id") != id || text(t, body, "current", "effectiveAt") != effective.Format("2006-01-02T15:04:05.000Z") || len(at(t, body, "upcoming").([]any)) != 0 {
		t.Errorf("in force is %v", at(t, body, "current", "id"))
	}
	i.admin(t, "DELETE", "/api/admin/prices/"+id, nil).fails(t, http.StatusConflict, "price_book_conflict", "")
	tier("team").ok(t, http.StatusOK)
	usage := accounts[0].usage(t)
	if text(t, usage, "account", "tier") != "team" || number(t, usage, "usage", "files.upload", "limit") != 7 {
		t.Errorf("on the plan of the book: %v", at(t, usage, "account"))
	}
	statement := accounts[0].do(t, "GET", "/api/users/user/statements/"+i.now().Format("2006-01"), nil).ok(t, http.StatusOK)
	periods := at(t, statement, "periods").([]any)
	last := periods[len(periods)-1].(object)
	if last["tier"] != "team" || text(t, last, "fee", "monthUsd") != "29.00" || text(t, last, "fee", "amountUsd") != text(t, statement, "feesUsd") {
		t.Errorf("statement %v", statement)
	}
	log := fmt.Sprint(i.admin(t, "GET", "/api/admin/log", nil).ok(t, http.StatusOK))
	for _, want := range []string{"prices.apply", "prices.withdraw", id} {
		if !strings.Contains(log, want) {
			t.Errorf("the admin log lacks %s", want)
		}
	}
	i.audit(t)
}

// TestPriceBooksAreChecked: each rule of the document, with the place of the error. Nothing of a refused book remains.
func TestPriceBooksAreChecked(t *testing.T) {
	i := common(t)
	soon := time.Now().Add(24 * time.Hour)
	for name, c := range map[string]struct {
		change func(object)
		at     time.Time
		field  string
	}{
		"a plan is missing":     {func(d object) { d["plans"] = d["plans"].([]any)[1:] }, soon, "book.plans"},
		"a plan twice":          {func(d object) { d["plans"] = append(d["plans"].([]any), d["plans"].([]any)[0]) }, soon, "book.plans[4].name"},
		"a name":                {func(d object) { planOf(t, d, "max")["name"] = "Max" }, soon, "book.plans[2].name"},
		"a fee":                 {func(d object) { planOf(t, d, "max")["monthlyFee"] = "1.001" }, soon, "book.plans[2].monthlyFee"},
		"a negative fee":        {func(d object) { planOf(t, d, "max")["monthlyFee"] = "-1" }, soon, "book.plans[2].monthlyFee"},
		"a fee as a number":     {func(d object) { planOf(t, d, "max")["monthlyFee"] = 1 }, soon, "book.plans[2].monthlyFee"},
		"a limit":               {func(d object) { quotaOf(t, planOf(t, d, "pro"), "files.get")["limit"] = -2 }, soon, "book.plans[1].quotas[5].limit"},
		"a large limit":         {func(d object) { quotaOf(t, planOf(t, d, "pro"), "files.get")["limit"] = 1_000_000_000_001 }, soon, "book.plans[1].quotas[5].limit"},
		"a price":               {func(d object) { quotaOf(t, planOf(t, d, "pro"), "files.get")["price"] = "0" }, soon, "book.plans[1].quotas[5].price"},
		"a price too fine":      {func(d object) { quotaOf(t, planOf(t, d, "pro"), "files.get")["price"] = "0.0000001" }, soon, "book.plans[1].quotas[5].price"},
		"a price of none":       {func(d object) { quotaOf(t, planOf(t, d, "admin"), "files.get")["price"] = "1" }, soon, "book.plans[3].quotas[5].price"},
		"a quota key":           {func(d object) { quotaOf(t, planOf(t, d, "pro"), "files.get")["quotaKey"] = "x" }, soon, "book.plans[1].quotas[5].quotaKey"},
		"a quota key twice":     {func(d object) { quotaOf(t, planOf(t, d, "pro"), "files.get")["quotaKey"] = "pastes.get" }, soon, "book.plans[1].quotas[5].quotaKey"},
		"a field too many":      {func(d object) { planOf(t, d, "pro")["x"] = 1 }, soon, "x"},
		"a field is missing":    {func(d object) { delete(planOf(t, d, "pro"), "storage") }, soon, "book.plans[1].storage"},
		"storage":               {func(d object) { planOf(t, d, "pro")["storage"].(object)["includedBytes"] = -1 }, soon, "book.plans[1].storage.includedBytes"},
		"the price of a credit": {func(d object) { d["creditPrice"] = "0" }, soon, "book.creditPrice"},
		"anonymous":             {func(d object) { d["anonymous"] = nil }, soon, "book.anonymous"},
		"now":                   {func(object) {}, time.Now(), "effectiveAt"},
		"far ahead":             {func(object) {}, time.Now().AddDate(3, 0, 0), "effectiveAt"},
	} {
		document := i.document(t)
		c.change(document)
		got := i.admin(t, "POST", "/api/admin/prices", object{"book": document, "effectiveAt": c.at.UTC().Format(time.RFC3339)})
		if got.status != http.StatusBadRequest || !strings.Contains(string(got.body), `"field":"`+c.field+`"`) {
			t.Errorf("%s: %d %s, want the field %s", name, got.status, got.body, c.field)
		}
	}
	many := i.document(t)
	for n := range 11 { // fifteen plans are the most
		p := planOf(t, i.document(t), "free")
		p["name"] = fmt.Sprintf("plan-%d", n)
		many["plans"] = append(many["plans"].([]any), p)
	}
	path, body := "/api/admin/prices?dryRun=true", object{"book": many, "effectiveAt": soon.UTC().Format(time.RFC3339)}
	i.admin(t, "POST", path, body).ok(t, http.StatusOK)
	p := planOf(t, i.document(t), "free")
	p["name"] = "one-more"
	many["plans"] = append(many["plans"].([]any), p)
	i.admin(t, "POST", path, body).fails(t, http.StatusBadRequest, "invalid_field", "")
	i.admin(t, "POST", "/api/admin/prices", object{"effectiveAt": soon.UTC().Format(time.RFC3339)}).fails(t, http.StatusBadRequest, "invalid_field", "")
	i.admin(t, "POST", "/api/admin/prices", object{"book": i.document(t)}).fails(t, http.StatusBadRequest, "invalid_field", "")
	i.do(t, "POST", "/api/admin/prices", request{body: object{}}).fails(t, http.StatusUnauthorized, "admin_token_required", "")
	if n := len(at(t, i.do(t, "GET", "/api/prices", request{}).ok(t, http.StatusOK), "upcoming").([]any)); n != 0 {
		t.Errorf("%d books are upcoming", n)
	}
}
