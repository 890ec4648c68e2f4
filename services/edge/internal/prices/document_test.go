package prices

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/services/edge/internal/httpin/input"
)

// read reads a document as the API does.
func read(t *testing.T, document string, tiers map[string]plan.Tier) (*plan.Book, error) {
	t.Helper()
	var book *plan.Book
	body := []byte(`{"book":` + document + `}`)
	err := input.ParseObject(body, input.Fields{"book": func(name string, v input.Value) (err error) {
		book, err = Read(name, v, tiers)
		return err
	}}.Set)
	return book, err
}

func encoded(t *testing.T, d Document) string {
	t.Helper()
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestTheBuiltInBookIsADocument to the digit, as is a book with plans of its own.
func TestTheBuiltInBookIsADocument(t *testing.T) {
	own := plan.Published(3)
	own.CreditPrice = 10_500
	own.Plans[7] = plan.Plan{Name: "team", FeeCents: 2_905, FreeStorageBytes: 5, StorageCentsPerGBMonth: 100, Terms: own.Plans[plan.Max].Terms}
	for name, book := range map[string]*plan.Book{"built-in": plan.Published(10), "own": own} {
		back, err := read(t, encoded(t, Of(book)), map[string]plan.Tier{"free": plan.Free, "pro": plan.Pro, "max": plan.Max, "admin": plan.Admin, "team": 7})
		if err != nil || *back != *book {
			t.Errorf("%s: %v, %+v", name, err, back)
		}
	}
	if d := Of(own); d.CreditPrice != "0.0105" || d.Plans[4].MonthlyFee != "29.05" || *d.Plans[1].Quotas[0].Price != "0.002000" || d.Plans[3].Quotas[0].Limit != nil {
		t.Errorf("%+v", d)
	}
}

// TestTheSchemaAgrees with the reader about documents on both sides of each bound.
func TestTheSchemaAgrees(t *testing.T) {
	file, err := os.Open("../../../../docs/price-book.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	raw, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("price-book.json", raw); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("price-book.json")
	if err != nil {
		t.Fatal(err)
	}
	good := encoded(t, Of(plan.Published(10)))
	type edit struct {
		from, to string
		valid    bool
	}
	edits := []edit{{"", "", true}}
	for _, c := range []struct {
		from, format string
		good, bad    []string
	}{
		{`"creditPrice":"1.00"`, `"creditPrice":%s`, []string{`"0.000001"`, `"1"`, `"1000000"`}, []string{`"0"`, `"0.000000"`, `"0.0000001"`, `1`, `null`, `"-1"`, `"1."`, `"01"`, `"1e3"`, `"10000000"`}},
		{`"limit":10,`, `"limit":%s,`, []string{"0", "1000000"}, []string{"-1", "1000001", "1.5", `"1"`, "null"}},
		{`"windowSeconds":86400`, `"windowSeconds":%s`, []string{"60", "2592000"}, []string{"59", "2592001", "null"}},
		{`"monthlyFee":"0.00"`, `"monthlyFee":%s`, []string{`"0"`, `"1000000"`, `"9.5"`, `"9.05"`}, []string{`"9.005"`, `9`, `"-9"`, `"10000000"`}},
		{`"includedBytes":10737418240`, `"includedBytes":%s`, []string{"0", "1125899906842624"}, []string{"-1", "1125899906842625", `"1"`}},
		{`"pricePerGBMonth":"0.03"`, `"pricePerGBMonth":%s`, []string{`"0"`, `"1.25"`}, []string{`"0.001"`, "null"}},
		{`"limit":500,`, `"limit":%s,`, []string{"0", "1000000000000"}, []string{"-1", "1000000000001"}},
		{`"limit":500,"price":"0.002000"`, `"limit":null,"price":%s`, []string{"null"}, []string{`"0.002000"`}},
		{`"price":"0.002000"`, `"price":%s`, []string{"null", `"0.000001"`, `"1000000000"`}, []string{`"0"`, `"0.0000001"`, "0.002", `"10000000000"`}},
		{`"quotaKey":"pastes.get"`, `"quotaKey":%s`, nil, []string{`"pastes.read"`, "1"}},
		{`"name":"max"`, `"name":%s`, nil, []string{`"maxi"`, `"Max"`, `""`}},
		{`"plans":[`, `"plans":%s[`, nil, []string{`[],"x":`}},
		{`"creditPrice":"1.00",`, `%s`, nil, []string{``}},
	} {
		for _, value := range c.good {
			edits = append(edits, edit{c.from, fmt.Sprintf(c.format, value), true})
		}
		for _, value := range c.bad {
			edits = append(edits, edit{c.from, fmt.Sprintf(c.format, value), false})
		}
	}
	for _, e := range edits {
		if !strings.Contains(good, e.from) {
			t.Fatalf("the document has no %s", e.from)
		}
		document := strings.Replace(good, e.from, e.to, 1)
		_, err := read(t, document, Tiers(nil))
		value, syntax := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(document)))
		if syntax != nil {
			t.Fatalf("%s: %v", e.to, syntax)
		}
		if invalid := schema.Validate(value); (err == nil) != e.valid || (invalid == nil) != e.valid {
			t.Errorf("%s instead of %s: the reader says %v, the schema %v", e.to, e.from, err, invalid)
		}
	}
}

// TestPlansKeepTheirNumbers, also those of upcoming books.
func TestPlansKeepTheirNumbers(t *testing.T) {
	book := plan.Published(10)
	book.Plans[6] = plan.Plan{Name: "team", Terms: book.Plans[plan.Max].Terms}
	applied, err := pricebook.Applied(book, 5)
	if err != nil {
		t.Fatal(err)
	}
	list := &event.PriceList{Books: []*event.BookState{{Book: pricebook.Configured(plan.Published(10))}}, Upcoming: []*event.BookState{{FromMs: 5, Book: applied}}}
	d := Of(book)
	crew := d.Plans[0]
	crew.Name = "crew"
	d.Plans = append([]Plan{crew}, d.Plans...)
	back, err := read(t, encoded(t, d), Tiers(list))
	if err != nil || back.Plans[6].Name != "team" || back.Plans[7].Name != "crew" {
		t.Errorf("%v, %v", err, back.Tiers())
	}
	if got := slices.Collect(func(yield func(string) bool) {
		for _, at := range []int64{4, 5, 6} {
			before, err := Fits(list, plan.Published(10), time.UnixMilli(at))
			if !yield(fmt.Sprint(before != nil, err != nil)) {
				return
			}
		}
	}); !slices.Equal(got, []string{"true false", "false true", "false true"}) {
		t.Errorf("a book without the plan team, before, with and after the one that has it: %v", got)
	}
	if _, err := Fits(list, back, time.UnixMilli(4)); err == nil {
		t.Error("the plan crew would be lost")
	}
}

// TestChangesNameWhatDiffers.
func TestChangesNameWhatDiffers(t *testing.T) {
	from, to := plan.Published(10), plan.Published(11)
	to.CreditPrice *= 2
	to.Plans[plan.Pro].FeeCents = 900
	to.Plans[plan.Pro].Terms[plan.FilesUpload] = plan.Term{Limit: plan.Unlimited}
	to.Plans[9] = plan.Plan{Name: "team"}
	var got []string
	for _, c := range Changes(from, to) {
		value := func(s *string) string {
			if s == nil {
				return "null"
			}
			return *s
		}
		got = append(got, strings.Join([]string{c.Plan, c.QuotaKey, c.Field, value(c.From), value(c.To)}, " "))
	}
	want := []string{
		"  creditPrice 1.00 2.00", "  anonymous.limit 10 11", "pro  monthlyFee 0.00 9.00",
		"pro files.upload limit 100 null", "pro files.upload price 0.005000 null", "team  name null team",
	}
	if !slices.Equal(got, want) {
		t.Errorf("changes %q", got)
	}
	if len(Changes(from, from)) != 0 {
		t.Error("a book differs from itself")
	}
}
