package pages

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
)

// TestAPageIsLight weighs each page, without what others wrote, together with all that it loads, neither of them compressed.
// What must arrive before a page is painted is the page itself, which fits the first flight of a connection compressed.
func TestAPageIsLight(t *testing.T) {
	const mostBytes, firstFlight = 60_000, 14_000
	p := New()
	doc := &event.Document{Id: "AAAAAAAAAAAA", Title: "x", Visibility: uint32(event.Public), CreatedMs: 1, UpdatedMs: 2, ExpiresMs: 3, Version: 2}
	for name, h := range map[string]fiber.Handler{
		"landing": func(c *fiber.Ctx) error {
			return p.Landing(c, 200, &Landing{URL: "https://quire.example", Prices: publishedPrices(), Allowance: &event.AllowanceAnswer{Limit: 10}})
		},
		"created": func(c *fiber.Ctx) error { return p.Created(c, &Created{Document: doc, ManageToken: "x"}) },
		"text": func(c *fiber.Ctx) error {
			return p.Text(c, &Text{Document: doc, Lines: linesOf("x"), URL: "https://quire.example/p/x", Raw: "/raw", Download: "/download"})
		},
		"ask":     func(c *fiber.Ctx) error { return p.Ask(c, Ask{Document: doc}) },
		"file":    func(c *fiber.Ctx) error { return p.File(c, &File{Document: doc}) },
		"failure": func(c *fiber.Ctx) error { return p.Failure(c, Failure{Status: 404}) },
	} {
		res := answerOf(t, h)
		body := bodyOf(t, res)
		checkProtected(t, name, res.Header, body)
		bytes := len(body)
		loaded := regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`).FindAllStringSubmatch(body, -1)
		if len(loaded) == 0 {
			t.Errorf("%s loads nothing, not even its icon", name)
		}
		for _, m := range loaded {
			a := p.assets.byAddress[strings.TrimPrefix(m[1], AssetsPath)]
			if a == nil {
				t.Fatalf("%s loads %s, which is not there", name, m[1])
			}
			bytes += len(a.plain)
		}
		first := len(bodyOf(t, answerOf(t, h, "Accept-Encoding", "gzip")))
		t.Logf("%s: %d bytes in all, %d compressed until it is painted", name, bytes, first)
		if bytes > mostBytes || first > firstFlight {
			t.Errorf("%s: %d bytes in all, %d compressed until it is painted", name, bytes, first)
		}
		for _, m := range regexp.MustCompile(`(?:src|href|action)="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if strings.Contains(m[1], "//") && !strings.HasPrefix(m[1], "https://quire.example") {
				t.Errorf("%s leads to another host: %s", name, m[1])
			}
		}
	}
}

// publishedPrices is the published price book as an event.
func publishedPrices() *event.PriceBook { return pricebook.Configured(plan.Published(10)) }

func TestTheTableOfPlansIsThePriceBook(t *testing.T) {
	l := &Landing{Prices: publishedPrices()}
	table := l.Plans()
	if got := strings.Join(table.Tiers, " "); got != "Free Pro Max" || len(table.Rows) != len(plan.QuotaKeys()) {
		t.Fatalf("%q, %d rows", got, len(table.Rows))
	}
	for i, key := range plan.QuotaKeys() {
		if row := table.Rows[i]; row.Key != key.String() || row.About == "" {
			t.Errorf("row %d: %+v", i, row)
		}
	}
	for key, want := range map[plan.QuotaKey][]planCell{
		plan.PastesCreate: {{"–", ""}, {"500", "0.002"}, {"10,000", "0.001"}},
		plan.PastesDelete: {{"10", ""}, {"500", "0.0005"}, {"5,000", "0.0003"}},
		plan.LiteList:     {{"unlimited", ""}, {"unlimited", ""}, {"unlimited", ""}},
	} {
		for i, cell := range table.Rows[key-1].Cells {
			if cell != want[i] {
				t.Errorf("%s, %s: %+v, want %+v", key, table.Tiers[i], cell, want[i])
			}
		}
	}
	if len(table.Storage) != 1 || table.Storage[0] != (planCell{"10 GB", "$0.03"}) || table.Fees != nil {
		t.Errorf("%+v", table)
	}
	own := plan.Published(10)
	own.Plans[9] = plan.Plan{Name: "team", FeeCents: 2_900, FreeStorageBytes: 100 * plan.GB}
	applied, err := pricebook.Applied(own, 1)
	if err != nil {
		t.Fatal(err)
	}
	other := (&Landing{Prices: applied}).Plans()
	if got := strings.Join(append(other.Tiers, other.Fees...), " "); got != "Free Pro Max Team $0.00 $0.00 $0.00 $29.00" || len(other.Storage) != 4 || other.Storage[3].Limit != "100 GB" {
		t.Errorf("%s, %+v", got, other.Storage)
	}
	l.Prices.Tiers[1].Terms = nil
	if cell := l.Plans().Rows[0].Cells[1]; cell != (planCell{Limit: "–"}) {
		t.Errorf("a key that the book does not have: %+v", cell)
	}
	if (&Landing{}).Plans() != nil {
		t.Error("there is a table without prices")
	}
	if got := plan.Short(plan.Micros(1_000_000)); got != "1" || numberText(1_234_567) != "1,234,567" || numberText(999) != "999" {
		t.Error(got)
	}
}

func TestTheNextAllowanceIsSaidRoundedUp(t *testing.T) {
	for seconds, want := range map[uint32]string{0: "", 1: "1 minute", 60: "1 minute", 61: "2 minutes", 3541: "1 hour", 3601: "1 hour 1 minute", 7141: "2 hours", 86400: "24 hours"} {
		if got := (&Landing{Allowance: &event.AllowanceAnswer{ResetSeconds: seconds}}).NextIn(); got != want {
			t.Errorf("%d s: %q, want %q", seconds, got, want)
		}
		if got := (&Landing{Allowance: &event.AllowanceAnswer{ResetSeconds: seconds, Remaining: 1}}).NextIn(); got != "" {
			t.Errorf("%d s, with one left: %q", seconds, got)
		}
	}
}
