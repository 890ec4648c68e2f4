package billing_test

import (
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"
)

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
