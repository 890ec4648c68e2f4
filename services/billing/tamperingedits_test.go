package billing_test

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite/sqlitetest"
	"quire.dev/services/billing/internal/projection"
)

// editRow draws what is edited of a row or two, and its name.
func editRow(random *rand.Rand, of tampered, list rows) (rows, string) {
	list = slices.Clone(list)
	for i := range list {
		list[i].Doc.Keys = slices.Clone(list[i].Doc.Keys)
	}
	at, other := &list[random.IntN(len(list))], &list[random.IntN(len(list))]
	kinds := []func() string{
		func() string { return editContent(random, of, &at.Doc) },
		func() string { return editContent(random, of, &at.Doc) },
		func() string { return editKey(random, list, &at.Doc) },
		func() string { return editKey(random, list, &at.Doc) },
		func() string {
			at.Doc.ID = anotherText(random, at.Doc.ID)
			return "id edited"
		},
		func() string {
			at.Doc.Seq = []uint64{random.Uint64N(at.Doc.Seq + 1), 1 << (20 + random.IntN(40))}[random.IntN(2)] // beyond the journal's end
			return "sequence edited"
		},
		func() string {
			*at = sqlitetest.Row{}
			return "deleted"
		},
		func() string {
			if at.Gone = 1; random.IntN(2) == 0 {
				at.Doc.Keys = nil
			}
			return "marked as deleted"
		},
		func() string {
			row := *at
			list = append(list, double(random, of, row, list))
			return "doubled"
		},
		func() string {
			at.Doc.Head, other.Doc.Head = other.Doc.Head, at.Doc.Head
			at.Doc.Body, other.Doc.Body = other.Doc.Body, at.Doc.Body
			return "contents swapped"
		},
		func() string {
			at.Doc.Keys, other.Doc.Keys = other.Doc.Keys, at.Doc.Keys
			return "keys swapped"
		},
		func() string {
			at.Doc.ID, other.Doc.ID = other.Doc.ID, at.Doc.ID
			return "ids swapped"
		},
		func() string {
			swapAccounts(&at.Doc, &other.Doc)
			return "accounts swapped"
		},
	}
	name := kinds[random.IntN(len(kinds))]()
	return slices.DeleteFunc(list, func(r sqlitetest.Row) bool { return r.Number == 0 }), name
}

// editContent changes a byte or a field of a document, or of what a block has.
func editContent(random *rand.Rand, of tampered, doc *views.Doc) string {
	switch {
	case of.message == nil && of.table == "requests" && random.IntN(2) == 0:
		if requests, err := projection.DecodeBlock(*doc); err == nil {
			a := &event.RecentAnswer{Requests: requests}
			editMessage(random, a.ProtoReflect())
			if projection.EncodeBlock(doc, a.Requests) == nil {
				return "field edited"
			}
		}
		return "nothing"
	case of.message == nil:
		doc.Body = anotherBytes(random, doc.Body)
		return "byte edited"
	case random.IntN(3) == 0:
		doc.Head = anotherBytes(random, doc.Head)
		return "byte edited"
	}
	m := of.message()
	if proto.Unmarshal(doc.Head, m) != nil {
		return "nothing"
	}
	editMessage(random, m.ProtoReflect())
	if head, err := (proto.MarshalOptions{Deterministic: true}).Marshal(m); err == nil && !bytes.Equal(head, doc.Head) {
		doc.Head = head
	}
	return "field edited"
}

// editKey removes a value of an index, edits it, or replaces it by another row's.
func editKey(random *rand.Rand, list rows, doc *views.Doc) string {
	if len(doc.Keys) == 0 {
		return "nothing"
	}
	i := random.IntN(len(doc.Keys))
	key := &doc.Keys[i]
	name := "index " + key.Name + " edited"
	switch random.IntN(3) {
	case 0:
		doc.Keys = slices.Delete(doc.Keys, i, i+1)
	case 1:
		key.Value = list[random.IntN(len(list))].Doc.Keys.Get(key.Name)
	default:
		if s, isText := key.Value.Any().(string); isText {
			key.Value = views.String(anotherText(random, s))
		} else {
			key.Value = views.Int(key.Value.Int64() + random.Int64N(1<<(1+random.IntN(40))) - random.Int64N(1<<(1+random.IntN(40))))
		}
	}
	return name
}

// double is a row once more: under the same id where rows are found by their index, and under another one.
func double(random *rand.Rand, of tampered, row sqlitetest.Row, list rows) sqlitetest.Row {
	for _, r := range list {
		row.Number = max(row.Number, r.Number+1)
	}
	row.Doc.Keys = slices.Clone(row.Doc.Keys)
	if random.IntN(2) == 0 {
		row.Doc.Seq = 1 << (20 + random.IntN(40))
	}
	if of.table == "statements" || random.IntN(2) == 0 {
		row.Doc.ID = row.Doc.ID[:min(len(row.Doc.ID), 12)] + anotherText(random, row.Doc.ID[min(len(row.Doc.ID), 12):])
	}
	return row
}

// swapAccounts swaps the accounts of two documents, in their ids and in their indexes.
func swapAccounts(a, b *views.Doc) {
	n := min(len(a.ID), len(b.ID), 11)
	a.ID, b.ID = b.ID[:n]+a.ID[n:], a.ID[:n]+b.ID[n:]
	i := slices.IndexFunc(a.Keys, func(k views.Key) bool { return k.Name == "account" })
	j := slices.IndexFunc(b.Keys, func(k views.Key) bool { return k.Name == "account" })
	if i >= 0 && j >= 0 {
		a.Keys[i].Value, b.Keys[j].Value = b.Keys[j].Value, a.Keys[i].Value
	}
}

// editMessage draws a field of a message, or of one in it, and changes its value; or an element of a list, which it removes, doubles or swaps
// with another.
func editMessage(random *rand.Rand, m protoreflect.Message) {
	edits := messageEdits(nil, random, m)
	edits[random.IntN(len(edits))]()
}

func messageEdits(edits []func(), random *rand.Rand, m protoreflect.Message) []func() {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case f.IsList():
			edits = listEdits(edits, random, m, f)
		case f.Message() == nil:
			edits = append(edits, func() { m.Set(f, another(random, f, m.Get(f))) })
		case m.Has(f):
			edits = append(messageEdits(edits, random, m.Mutable(f).Message()), func() { m.Clear(f) })
		}
	}
	return edits
}

func listEdits(edits []func(), random *rand.Rand, m protoreflect.Message, f protoreflect.FieldDescriptor) []func() {
	n := m.Get(f).List().Len()
	if n == 0 {
		return edits
	}
	list := m.Mutable(f).List()
	for i := range n {
		if f.Message() != nil {
			edits = messageEdits(edits, random, list.Get(i).Message())
		} else {
			edits = append(edits, func() { list.Set(i, another(random, f, list.Get(i))) })
		}
	}
	rewrite := func(change func([]protoreflect.Value) []protoreflect.Value) func() {
		return func() {
			values := make([]protoreflect.Value, n)
			for i := range n {
				values[i] = list.Get(i)
			}
			values = change(values)
			list.Truncate(0)
			for _, v := range values {
				list.Append(v)
			}
		}
	}
	at, other := random.IntN(n), random.IntN(n)
	return append(edits,
		rewrite(func(l []protoreflect.Value) []protoreflect.Value { return slices.Delete(l, at, at+1) }),
		rewrite(func(l []protoreflect.Value) []protoreflect.Value { return slices.Insert(l, other, l[at]) }),
		rewrite(func(l []protoreflect.Value) []protoreflect.Value { l[at], l[other] = l[other], l[at]; return l }),
	)
}

// another draws another value of a field.
func another(random *rand.Rand, f protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	step := 1 + random.Int64N(1<<(1+random.IntN(40)))
	if random.IntN(2) == 0 {
		step = -step
	}
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(!v.Bool())
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(v.Enum() + 1 + protoreflect.EnumNumber(random.Int32N(3)))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(anotherText(random, v.String()))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(anotherBytes(random, v.Bytes()))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(v.Int()) + int32(step)&0xffff + 1)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(v.Uint()) + uint32(step)&0xffff + 1)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(v.Uint() + uint64(step))
	default:
		return protoreflect.ValueOfInt64(v.Int() + step)
	}
}

// anotherText changes, adds or removes a character.
func anotherText(random *rand.Rand, s string) string {
	at, with := random.IntN(len(s)+1), string(rune(' '+random.IntN(95)))
	switch {
	case at == len(s) || random.IntN(4) == 0:
		return s[:at] + with + s[at:]
	case random.IntN(4) == 0:
		return s[:at] + s[at+1:]
	default:
		return s[:at] + with + s[at+1:]
	}
}

// anotherBytes changes a bit, or adds or removes a byte.
func anotherBytes(random *rand.Rand, data []byte) []byte {
	data = slices.Clone(data)
	switch n := random.IntN(8); {
	case len(data) == 0 || n == 0:
		return append(data, byte(random.Uint32()))
	case n == 1:
		return data[:len(data)-1]
	default:
		data[random.IntN(len(data))] ^= 1 << random.IntN(8)
		return data
	}
}
