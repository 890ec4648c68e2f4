package accounts

import (
	"bytes"
	"encoding/csv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/headers"
	"quire.dev/services/edge/internal/httpin/input"
)

const (
	mediaCSV       = "text/csv"
	contentTypeCSV = mediaCSV + "; charset=utf-8"
)

// wantsCSV reports whether the call asks for CSV.
func wantsCSV(c *endpoint.Call) bool {
	return headers.Prefers(c.Context(), mediaCSV, fiber.MIMEApplicationJSON)
}

// addLimit adds the field limit of a list that answers with a page in JSON, or with up to MaxTable rows in CSV. limit is its value once
// the fields are parsed.
func addLimit(c *endpoint.Call, fields input.Fields) (table bool, limit *uint64) {
	most, initial := uint64(endpoint.MaxPage), uint64(endpoint.DefaultPage)
	if table = wantsCSV(c); table {
		most, initial = MaxTable, MaxTable
	}
	fields["limit"] = input.To(&initial, input.CountField(most))
	return table, &initial
}

// sendCSV answers with a CSV file (RFC 4180).
func sendCSV(c *endpoint.Call, name string, header []string, records [][]string) error {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	w.UseCRLF = true
	if err := w.Write(header); err != nil {
		return err
	}
	if err := w.WriteAll(records); err != nil {
		return err
	}
	r := c.Response()
	r.SetStatusCode(fiber.StatusOK)
	r.Header.SetContentType(contentTypeCSV)
	r.Header.Set(fiber.HeaderCacheControl, "no-store")
	r.Header.Set(fiber.HeaderContentDisposition, `attachment; filename="`+name+`"`)
	r.SetBodyRaw(out.Bytes())
	return nil
}

// cell makes user text safe for spreadsheets. Text that a spreadsheet would take for a formula gets a leading apostrophe, also after a
// semicolon, which separates cells in many countries (docs/api.md, Usage and bills).
func cell(text string) string {
	var out strings.Builder
	begins := true // a cell
	for _, c := range text {
		if begins && strings.ContainsRune("=+-@\t\r＝＋－＠", c) {
			out.WriteByte('\'')
		}
		begins = c == ';' || begins && c == ' '
		out.WriteRune(c)
	}
	return out.String()
}
