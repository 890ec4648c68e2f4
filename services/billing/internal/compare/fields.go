package compare

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/projection"
)

// maxValue bounds a value in a difference, in bytes.
const maxValue = 200

const (
	missing = "missing"
	present = "present"
)

// differences names the fields in which a row differs.
func (r *row) differences() []*event.AuditDifference {
	var owner event.AccountID
	if r.table != adminLog { // whose ids begin with the time
		owner, _ = event.ParseAccountID(r.key[:min(len(r.key), accountDigits)])
	}
	d := differ{table: r.table.name(), account: owner, row: r.name()}
	switch {
	case r.expected == nil:
		d.row = r.key
		d.add("", missing, present)
		return d.list
	case len(r.found) == 0:
		d.add("", present, missing)
		return d.list
	case len(r.found) > 1:
		d.add("", "one row", strconv.Itoa(len(r.found))+" rows")
	}
	found := r.found[0]
	switch r.table {
	case ledger:
		d.entries(r.expected.Head, found.Head)
	case agedLedger: // it has hashes
	default:
		d.heads(r.message, r.expected.Head, found.Head)
	}
	if r.expected.ID != found.ID {
		d.add("id", r.expected.ID, found.ID)
	}
	if r.expected.Seq != found.Seq {
		d.add("sequence", strconv.FormatUint(r.expected.Seq, 10), strconv.FormatUint(found.Seq, 10))
	}
	for _, key := range r.expected.Keys {
		if have := found.Keys.Get(key.Name); have != key.Value {
			d.add("index "+key.Name, key.Value.String(), have.String())
		}
	}
	if len(d.list) == 0 {
		d.add("encoding", hex.EncodeToString(r.expected.Head), hex.EncodeToString(found.Head))
	}
	return d.list
}

// name is the row's identity for people.
func (r *row) name() string {
	switch r.table {
	case days:
		_, day := dayOfID(r.key)
		return time.UnixMilli(int64(day) * dayMillis).UTC().Format(time.DateOnly)
	case adminLog:
		return r.key
	}
	return r.key[min(len(r.key), accountDigits+1):]
}

func (r *row) message() reflected {
	switch r.table {
	case days:
		return &event.UsageDay{}
	case statements:
		return &event.StatementAnswer{}
	case events:
		return &event.Alert{}
	}
	return &event.AdminEntry{}
}

// reflected is a message whose fields can be named.
type reflected interface {
	event.Message
	ProtoReflect() protoreflect.Message
}

// StateDifferences names the fields in which an account's or network's encoded state differs. make returns an empty message of
// the state.
func StateDifferences[M reflected](table string, id uint64, expected, found []byte, make func() M) []*event.AuditDifference {
	d := differ{table: table, account: event.AccountID(id)}
	switch {
	case expected == nil:
		d.add("", missing, present)
	case found == nil:
		d.add("", present, missing)
	default:
		d.heads(func() reflected { return make() }, expected, found)
	}
	return d.list
}

// differ collects the differences of a row.
type differ struct {
	table   string
	account event.AccountID
	row     string
	list    []*event.AuditDifference
}

func (d *differ) add(field, expected, found string) {
	d.list = append(d.list, &event.AuditDifference{
		Table: d.table, Account: uint64(d.account), Row: d.row, Field: field, Expected: short(expected), Found: short(found),
	})
}

// short cuts a value, and makes it valid UTF-8.
func short(s string) string {
	if len(s) > maxValue {
		s = s[:maxValue] + "…"
	}
	if !utf8.ValidString(s) {
		return strconv.QuoteToASCII(s)
	}
	return s
}

// entries compares the entries of two rows of the ledger.
func (d *differ) entries(expected, found []byte) {
	want, err1 := projection.LedgerEntries(expected)
	have, err2 := projection.LedgerEntries(found)
	if err1 != nil || err2 != nil {
		d.add("", "readable", fmt.Sprint(err2))
		return
	}
	for i := range max(len(want), len(have)) {
		switch {
		case i >= len(have):
			d.row = want[i].Id
			d.add("", present, missing)
		case i >= len(want):
			d.row = have[i].Id
			d.add("", missing, present)
		default:
			if want[i].Id != "" {
				d.row = want[i].Id
			}
			d.fields("", want[i].ProtoReflect(), have[i].ProtoReflect())
		}
	}
}

func (d *differ) heads(make func() reflected, expected, found []byte) {
	want, have := make(), make()
	if err := event.Decode(expected, want); err != nil {
		d.add("", "readable", err.Error())
		return
	}
	if err := event.Decode(found, have); err != nil {
		d.add("", "readable", err.Error())
		return
	}
	d.fields("", want.ProtoReflect(), have.ProtoReflect())
}

// fields compares two messages field by field.
func (d *differ) fields(path string, want, have protoreflect.Message) {
	list := want.Descriptor().Fields()
	for i := range list.Len() {
		f := list.Get(i)
		name := path + f.JSONName()
		a, b := want.Get(f), have.Get(f)
		switch {
		case f.IsList():
			d.elements(name, f, a.List(), b.List())
		case f.Message() != nil:
			if want.Has(f) != have.Has(f) {
				d.add(name, text(f, a, want.Has(f)), text(f, b, have.Has(f)))
			} else if want.Has(f) {
				d.fields(name+".", a.Message(), b.Message())
			}
		case !a.Equal(b) || want.Has(f) != have.Has(f):
			d.add(name, text(f, a, true), text(f, b, true))
		}
	}
}

func (d *differ) elements(name string, f protoreflect.FieldDescriptor, want, have protoreflect.List) {
	for i := range max(want.Len(), have.Len()) {
		at := name + "[" + strconv.Itoa(i) + "]"
		switch {
		case i >= have.Len():
			d.add(at, text(f, want.Get(i), true), missing)
		case i >= want.Len():
			d.add(at, missing, text(f, have.Get(i), true))
		case f.Message() != nil:
			d.fields(at+".", want.Get(i).Message(), have.Get(i).Message())
		case !want.Get(i).Equal(have.Get(i)):
			d.add(at, text(f, want.Get(i), true), text(f, have.Get(i), true))
		}
	}
}

// text shows a value.
func text(f protoreflect.FieldDescriptor, v protoreflect.Value, has bool) string {
	switch {
	case !has:
		return missing
	case f.Message() != nil:
		return present
	case f.Kind() == protoreflect.BytesKind:
		return hex.EncodeToString(v.Bytes())
	case f.Enum() != nil:
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return string(e.Name())
		}
	}
	return v.String()
}

// Repairable reports whether a name is one of Tables whose rows can be written again one by one.
func Repairable(name string) bool {
	return slices.Contains(Tables(), name) && name != agedLedger.name()
}
