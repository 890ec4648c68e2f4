package billing_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views/sqlite/sqlitetest"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/snapshots"
)

// suspects are what an audit has to name of snapshots or of the live state, and may name: keys of snapshots, and accounts or networks.
type suspects struct {
	keys, principals []string
}

// named reports what is wrong with an audit's answer; empty: it names each of them, and nothing else. live says that the principals are those
// of the live state.
func (w suspects) named(a *event.AuditAnswer, live bool) string {
	found := map[string]bool{}
	for _, d := range a.Differences {
		principal := fmt.Sprint(d.Account)
		known := d.Account == 0 || slices.Contains(w.principals, principal)
		switch {
		case d.Table == "snapshots" && slices.Contains(w.keys, d.Row) && known:
			found[d.Row] = true
			found[principal] = found[principal] || !live
		case live && known && d.Account != 0: // perhaps in tables of the read model too
			found[principal] = found[principal] || d.Table == "accounts" || d.Table == "networks"
		default:
			return fmt.Sprintf("the audit names %v besides %v", d, w)
		}
	}
	for _, one := range slices.Concat(w.keys, w.principals) {
		if !found[one] && len(a.Differences) < 20 {
			return fmt.Sprintf("the audit names %v, not %s", a.Differences, one)
		}
	}
	if a.Match {
		return "the audit finds nothing"
	}
	return ""
}

// stored are all snapshots.
func (f *forger) stored() map[string][]byte {
	f.t.Helper()
	all := map[string][]byte{}
	for _, i := range f.snapshots() {
		all[i.Key] = f.read(i.Key)
	}
	return all
}

// restoreSnapshots undoes what was done to snapshots.
func (f *forger) restoreSnapshots(before map[string][]byte) {
	f.t.Helper()
	for key := range f.stored() {
		if _, known := before[key]; !known {
			f.remove(key)
		}
	}
	for key, data := range before {
		f.put(key, data)
	}
}

func (f *forger) remove(key string) {
	f.t.Helper()
	if err := f.blobs.Delete(f.t.Context(), key); err != nil {
		f.t.Fatal(err)
	}
}

// tamperSnapshots tampers with one or two of the snapshots that an audit compares, audits, and restores them.
func (f *forger) tamperSnapshots() {
	f.t.Helper()
	before := f.stored()
	keys := slices.Sorted(maps.Keys(before))
	compared := keys[len(keys)-3:]
	key, other := compared[f.random.IntN(3)], keys[f.random.IntN(len(keys))]
	kinds := []struct {
		name   string
		tamper func() suspects
	}{
		{"byte edited", func() suspects {
			f.put(key, anotherBytes(f.random, before[key]))
			return suspects{keys: []string{key}}
		}},
		{"cut", func() suspects {
			f.put(key, before[key][:f.random.IntN(len(before[key]))])
			return suspects{keys: []string{key}}
		}},
		{"contents swapped", func() suspects {
			f.put(key, before[other])
			f.put(other, before[key])
			return suspects{keys: slices.DeleteFunc([]string{key, other}, func(k string) bool { return !slices.Contains(compared, k) })}
		}},
		{"renamed", func() suspects {
			parts := strings.Split(key, "-")
			part := 2 + f.random.IntN(2) // the hash or the entries
			at := f.random.IntN(len(parts[part]))
			parts[part] = parts[part][:at] + string('0'+(parts[part][at]-'0'+1)%10) + parts[part][at+1:]
			renamed := strings.Join(parts, "-")
			f.remove(key)
			f.put(renamed, before[key])
			return suspects{keys: []string{renamed}}
		}},
		{"state forged", func() suspects {
			f.remove(key)
			return f.forgeState(before[key])
		}},
	}
	kind := kinds[f.random.IntN(len(kinds))]
	for other == key {
		other = keys[f.random.IntN(len(keys))]
	}
	if fault := kind.tamper().named(f.audit(), false); fault != "" {
		f.t.Errorf("tampering %d, snapshots %s: %s", f.total(), kind.name, fault)
	}
	f.restoreSnapshots(before)
	f.counts["snapshots, "+kind.name]++
}

// forgeState stores a snapshot with a changed account or network, and a right MAC: the key was read from the disk.
func (f *forger) forgeState(data []byte) suspects {
	f.t.Helper()
	right := &event.BillingState{}
	decode(f.t, data, right)
	fold, err := account.Restore(proto.Clone(right).(*event.BillingState))
	if err != nil {
		f.t.Fatal(err)
	}
	for range 1000 {
		state := proto.Clone(right).(*event.BillingState)
		if n := f.random.IntN(len(state.Accounts) + len(state.Networks)); n < len(state.Accounts) {
			editMessage(f.random, state.Accounts[n].ProtoReflect())
		} else {
			editMessage(f.random, state.Networks[n-len(state.Accounts)].ProtoReflect())
		}
		forged, err := account.Restore(state)
		if err != nil {
			continue // it is damaged
		}
		image, err := forged.Image()
		if err != nil {
			continue
		}
		want := suspects{}
		err = fold.Compare(image, func(_, id uint64, _, _ []byte) { want.principals = append(want.principals, fmt.Sprint(id)) })
		if err != nil {
			f.t.Fatal(err)
		}
		if len(want.principals) == 0 {
			continue
		}
		key, _, err := snapshots.New(f.blobs, f.views, "BILLING_0", slog.New(slog.DiscardHandler)).Write(f.t.Context(), image)
		if err != nil {
			f.t.Fatal(err)
		}
		want.keys = []string{key}
		return want
	}
	f.t.Fatal("no state can be forged")
	return suspects{}
}

// tamperState has billing start with a forged state, audits, and has it start with the right one.
func (f *forger) tamperState() {
	f.t.Helper()
	f.running.stop()
	before := f.stored()
	newest := slices.Max(slices.Collect(maps.Keys(before)))
	for key := range before {
		f.remove(key)
	}
	want := f.forgeState(before[newest])
	f.running = f.start(f.cfg, f.offset)
	if fault := want.named(f.audit(), true); fault != "" {
		f.t.Errorf("tampering %d, live state: %s", f.total(), fault)
	}
	f.running.stop()
	f.restoreSnapshots(before)
	for collection, list := range f.rows { // a forged state may have had effects
		sqlitetest.Replace(f.t, f.path, collection, list)
	}
	f.running = f.start(f.cfg, f.offset)
	f.counts["live state, forged"]++
}
