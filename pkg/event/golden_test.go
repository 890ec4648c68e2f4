package event_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"quire.dev/pkg/event"
)

var write = flag.Bool("write-golden", false, "write examples that are not there yet; existing ones are never changed")

// journaled are the messages in journals and kept states. All later versions must read them.
func journaled() map[string]event.Message {
	return map[string]event.Message{
		"usage_batch":           &event.UsageBatch{},
		"command_batch":         &event.CommandBatch{},
		"price_book":            &event.PriceBook{},
		"request_batch":         &event.RequestBatch{},
		"verdict_batch":         &event.VerdictBatch{},
		"command_outcome_batch": &event.CommandOutcomeBatch{},
		"outcome_batch":         &event.OutcomeBatch{},
		"document":              &event.Document{},
		"outcome":               &event.Outcome{},
		"ledger_entry":          &event.LedgerEntry{},
		"statement_answer":      &event.StatementAnswer{},
		"admin_entry":           &event.AdminEntry{},
		"user":                  &event.User{},
		"billing_state":         &event.BillingState{},
		"domain_state":          &event.DomainState{},
		"domain_redo":           &event.DomainRedo{},
	}
}

// reserved returns the bytes of an example that belong to fields which are reserved now.
func reserved() map[string][]byte {
	return map[string][]byte{"domain_state": {0x20, 11}} // redo_chunks
}

// TestGoldenVersion1 reads every example that version 1 encoded. An example holds every field that
// version 1 knew; reading it and writing it again must give the same bytes: nothing was dropped,
// renumbered or given another type.
func TestGoldenVersion1(t *testing.T) {
	for name, message := range journaled() {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", "v1", name+".bin")
			if _, err := os.Stat(path); os.IsNotExist(err) && *write {
				writeExample(t, path, message)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := event.Decode(data, message); err != nil {
				t.Fatal(err)
			}
			if unknown := message.(proto.Message).ProtoReflect().GetUnknown(); string(unknown) != string(reserved()[name]) {
				t.Errorf("the bytes %x were not understood", unknown)
			}
			again, err := event.Encode(message)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(data, again) {
				t.Errorf("read and written again it is %x, was %x", again, data)
			}
		})
	}
}

func writeExample(t *testing.T, path string, m event.Message) {
	t.Helper()
	filled := m.(proto.Message).ProtoReflect().New()
	counter := uint64(1)
	fill(filled, &counter, 0)
	data, err := event.Encode(filled.Interface().(event.Message))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// fill sets every field, each to another value; of a oneof the last one stays set.
func fill(m protoreflect.Message, counter *uint64, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		*counter++
		switch {
		case f.IsList():
			list := m.Mutable(f).List()
			for range 2 {
				if f.Kind() == protoreflect.MessageKind {
					element := list.NewElement()
					fill(element.Message(), counter, depth+1)
					list.Append(element)
				} else {
					*counter++
					list.Append(scalar(f, *counter))
				}
			}
		case f.Kind() == protoreflect.MessageKind:
			fill(m.Mutable(f).Message(), counter, depth+1)
		default:
			m.Set(f, scalar(f, *counter))
		}
	}
}

func scalar(f protoreflect.FieldDescriptor, n uint64) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("text " + string(rune('a'+n%26)))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(bytes.Repeat([]byte{byte(n)}, 16))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(n)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind:
		return protoreflect.ValueOfInt64(-int64(n))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind:
		return protoreflect.ValueOfInt32(-int32(n))
	}
	panic("a kind of field that no example has: " + f.Kind().String())
}

// TestOneofVersion1 covers the members of a oneof that the examples, which hold one member each, leave out.
func TestOneofVersion1(t *testing.T) {
	requests := []*event.Request{
		{Item: "a", Action: &event.Request_Create{Create: &event.Create{Document: &event.Document{Id: "a"}}}},
		{Item: "b", Action: &event.Request_Update{Update: &event.Update{Title: proto.String("")}}},
		{Item: "c", Action: &event.Request_Delete{Delete: &event.Delete{IfMatch: []uint64{3}}}},
		{Item: "d", Action: &event.Request_Burn{Burn: &event.Burn{Version: 2}}},
		{Item: "e", Action: &event.Request_Expire{Expire: &event.Expire{}}},
	}
	for _, r := range requests {
		data, err := event.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		var back event.Request
		if err := event.Decode(data, &back); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(r, &back) || reflect.TypeOf(r.Action) != reflect.TypeOf(back.Action) {
			t.Errorf("%v came back as %v", r, &back)
		}
	}
}

// TestCommandsVersion1 covers the actions of commands that the example, which holds one, leaves out.
func TestCommandsVersion1(t *testing.T) {
	for number, c := range map[uint64]*event.Command{
		10: {Action: &event.Command_Create{Create: &event.CreateAccount{Tier: 2}}},
		17: {Action: &event.Command_SetNextTier{SetNextTier: &event.SetNextTier{Tier: 2}}},
		11: {Action: &event.Command_SetTier{SetTier: &event.SetTier{Tier: 2}}},
		12: {Action: &event.Command_Grant{Grant: &event.Grant{Reason: "r"}}},
		13: {Action: &event.Command_RotateKey{RotateKey: &event.RotateKey{Prefix: "p"}}},
		14: {Action: &event.Command_Suspend{Suspend: &event.Suspend{Reason: "r"}}},
		15: {Action: &event.Command_Resume{Resume: &event.Resume{Reason: "r"}}},
		16: {Action: &event.Command_Note{Note: &event.Note{Action: "a", Detail: "d"}}},
	} {
		data, err := event.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		var back event.Command
		if err := event.Decode(data, &back); err != nil || !proto.Equal(c, &back) {
			t.Errorf("%v came back as %v, %v", c, &back, err)
		}
		tag := binary.AppendUvarint(nil, number<<3|2)
		if !bytes.HasPrefix(data, tag) {
			t.Errorf("%v is encoded as %x", c, data)
		}
	}
}

func TestDecodeRefusesDamage(t *testing.T) {
	var batch event.UsageBatch
	if err := event.Decode([]byte{0x0a, 0xff}, &batch); err == nil {
		t.Error("a message cut off in a field was taken")
	}
}
