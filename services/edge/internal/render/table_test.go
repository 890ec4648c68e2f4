package render_test

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html/atom"

	"quire.dev/services/edge/internal/render"
)

func TestTable(t *testing.T) {
	r := patient()
	for _, c := range []struct{ name, content, html string }{
		{"commas", "name,age\n\"O'Neil, <b>\",42\n", `<table><thead><tr><th scope="col">name</th><th scope="col">age</th></tr></thead>
<tbody>
<tr><td>O&#39;Neil, &lt;b&gt;</td><td class="number">42</td></tr>
</tbody></table>`},
		{"tabs", "a\tb,c\r\n1,5\t-2.5\r\n", `<table><thead><tr><th scope="col">a</th><th scope="col">b,c</th></tr></thead>
<tbody>
<tr><td>1,5</td><td class="number">-2.5</td></tr>
</tbody></table>`},
		{"semicolons", "\ufeffa;b\n\"x\ny\"\n", `<table><thead><tr><th scope="col">a</th><th scope="col">b</th></tr></thead>
<tbody>
<tr><td>x
y</td><td></td></tr>
</tbody></table>`},
		{"a broken quote", "a,b\nx\"y,z\n", `<table><thead><tr><th scope="col">a</th><th scope="col">b</th></tr></thead>
<tbody>
<tr><td>x&#34;y</td><td>z</td></tr>
</tbody></table>`},
		{"bidi", "a\n\u202e\n", "<table><thead><tr><th scope=\"col\">a</th></tr></thead>\n<tbody>\n<tr><td><bdi class=\"ctl\" data-c=\"RLO\">\u202e</bdi></td></tr>\n</tbody></table>"},
	} {
		table := r.Table(t.Context(), c.content)
		if table == nil {
			t.Errorf("%s: there is no table", c.name)
			continue
		}
		requireHarmless(t, string(table.HTML), atom.Div)
		if string(table.HTML) != c.html || table.Rows != 1 || table.Cut {
			t.Errorf("%s: %d rows, cut %v\n%s\nwant\n%s", c.name, table.Rows, table.Cut, table.HTML, c.html)
		}
	}
	if r.Table(t.Context(), "") != nil || r.Table(t.Context(), "\n\n") != nil {
		t.Error("nothing is a table")
	}
}

func TestATableIsBounded(t *testing.T) {
	r := patient()
	columns := func(n int) string { return strings.Repeat("x,", n-1) + "x\n" }
	for name, c := range map[string]struct {
		content string
		rows    int
		cut     bool
	}{
		"rows at the bound":    {"a\n" + strings.Repeat("x\n", render.TableRows), render.TableRows, false},
		"one row more":         {"a\n" + strings.Repeat("x\n", render.TableRows+1), render.TableRows, true},
		"columns at the bound": {columns(render.TableColumns) + columns(render.TableColumns), 1, false},
		"one column more":      {columns(render.TableColumns+1) + "x\n", 1, true},
		"a longer row":         {"a,b\n1,2,3\n", 1, true},
		"cell at the bound":    {"a\n" + strings.Repeat("é", 1000) + "\n", 1, false},
		"a longer cell":        {"a\n" + strings.Repeat("é", 1001) + "\n", 1, true},
		"an open quote":        {"a,b\n1,\"" + strings.Repeat("x\n", 50_000), 1, true},
	} {
		table := r.Table(t.Context(), c.content)
		if table == nil || table.Rows != c.rows || table.Cut != c.cut {
			t.Errorf("%s: %+v", name, table != nil && table.Cut)
			continue
		}
		requireHarmless(t, string(table.HTML), atom.Div)
	}
	wide := r.Table(t.Context(), columns(50)+strings.Repeat(strings.Repeat("\"\x00\x00\x00\x00\",", 49)+"x\n", 1000))
	if size := len(wide.HTML); !wide.Cut || size > 5<<20 {
		t.Errorf("cut is %v, and the page takes %d bytes", wide.Cut, size)
	}
}

func FuzzTable(f *testing.F) {
	f.Add("a,b\n1,\"2\"\n")
	f.Add("a\tb\n\"\n;\x00\u202e<b>")
	r := patient()
	f.Fuzz(func(t *testing.T, content string) {
		if table := r.Table(t.Context(), strings.ToValidUTF8(content, "?")); table != nil {
			nodes := requireHarmless(t, string(table.HTML), atom.Div)
			if n := strings.Count(string(table.HTML), "<tr>"); n != table.Rows+1 || len(nodes) != 1 {
				t.Errorf("%s rows for %d", strconv.Itoa(n), table.Rows)
			}
		}
	})
}
