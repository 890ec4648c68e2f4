package recent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"quire.dev/pkg/event"
)

const (
	start = 1_800_000_000_000
	roomy = 64 << 20
)

func id(n int) (id event.RequestID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

func record(n int, millis int64) Record {
	return Record{Request: id(n), TimeMillis: millis, QuotaKey: 1, Decision: 1, Charge: 1, Status: Open, Remaining: int64(n)}
}

// list is the numbers of an account's requests.
func list(l *Log, account uint64) (numbers []int) {
	l.Each(account, func(r *Record) bool {
		numbers = append(numbers, int(binary.BigEndian.Uint64(r.Request[8:])))
		return true
	})
	return numbers
}

// down is the numbers from n down to least.
func down(n, least int) (numbers []int) {
	for ; n >= least; n-- {
		numbers = append(numbers, n)
	}
	return numbers
}

func TestAnAccountHasItsLastThousand(t *testing.T) {
	l := New(roomy)
	for n := 1; n <= PerAccount; n++ {
		l.Add(7, record(n, start))
		l.Add(8, record(n, start))
	}
	if got := list(l, 7); !slices.Equal(got, down(PerAccount, 1)) {
		t.Fatalf("%d requests", len(got))
	}
	l.Add(7, record(PerAccount+1, start))
	if got := list(l, 7); !slices.Equal(got, down(PerAccount+1, 2)) {
		t.Errorf("one more: %d requests, from %d to %d", len(got), got[0], got[len(got)-1])
	}
	if got := list(l, 8); !slices.Equal(got, down(PerAccount, 1)) {
		t.Errorf("another account has %d requests", len(got))
	}
	if got := list(l, 9); got != nil {
		t.Errorf("an account without requests has %v", got)
	}
}

func TestRequestsLeaveAfterTwoDays(t *testing.T) {
	l := New(roomy)
	l.Add(7, record(1, start))
	l.Add(8, record(2, start+1))
	l.Add(7, record(3, start+KeepMillis-1))
	if got := list(l, 7); !slices.Equal(got, []int{3, 1}) {
		t.Errorf("a millisecond before: %v", got)
	}
	l.Add(9, record(4, start+KeepMillis))
	if a, b := list(l, 7), list(l, 8); !slices.Equal(a, []int{3}) || !slices.Equal(b, []int{2}) {
		t.Errorf("after two days: %v and %v", a, b)
	}
}

func TestTheOldestOfAllLeaveAFullLog(t *testing.T) {
	const accounts = 10
	perAccount := entryBytes + accountBytes
	l := New(accounts * perAccount)
	for n := 1; n <= accounts; n++ {
		l.Add(uint64(n), record(n, start))
	}
	if l.Len() != accounts || l.Bytes() != accounts*perAccount {
		t.Fatalf("%d requests in %d bytes", l.Len(), l.Bytes())
	}
	l.Add(accounts+1, record(11, start))
	if l.Len() != accounts || len(list(l, 1)) != 0 || len(list(l, 2)) != 1 || len(list(l, accounts+1)) != 1 {
		t.Errorf("%d requests, the first account has %v", l.Len(), list(l, 1))
	}
	for n := range 100_000 {
		l.Add(uint64(n%37), record(n, start))
		if l.Bytes() > l.budget {
			t.Fatalf("%d bytes after %d requests", l.Bytes(), n)
		}
	}
	if len(l.slab.chunks) != 1 {
		t.Errorf("%d chunks for %d requests", len(l.slab.chunks), l.Len())
	}
}

func TestALogWithoutRoomKeepsTheLastRequest(t *testing.T) {
	l := New(0)
	for n := 1; n <= 3; n++ {
		l.Add(7, record(n, start))
	}
	if got := list(l, 7); !slices.Equal(got, []int{3}) {
		t.Errorf("%v", got)
	}
}

func TestARequestThatIsAskedAgainHasOneRecord(t *testing.T) {
	held := record(1, start)
	held.Status = Held
	t.Run("held", func(t *testing.T) { askedAgain(t, held) })
	for _, d := range []event.Decision{event.Decision_IDEMPOTENCY_IN_FLIGHT, event.Decision_IDEMPOTENCY_SERVED} {
		refused := record(1, start)
		refused.Status, refused.Decision, refused.Charge = Refused, uint8(d), 0
		t.Run(d.String(), func(t *testing.T) { askedAgain(t, refused) })
	}
}

func askedAgain(t *testing.T, held Record) {
	l := New(roomy)
	l.Add(7, held)
	l.Add(7, record(2, start))
	l.Add(7, held)
	admitted := record(1, start+900)
	l.Add(7, admitted)
	if got := list(l, 7); !slices.Equal(got, []int{1, 2}) { // the newest decision first
		t.Fatalf("%v", got)
	}
	if r := l.Edit(0, 7, id(1)); *r != admitted {
		t.Errorf("it is %+v", *r)
	}
	l.Add(7, record(1, start+950)) // which is not expected any more
	if got := list(l, 7); !slices.Equal(got, []int{1, 1, 2}) || l.Len() != 3 {
		t.Fatalf("%v of %d", got, l.Len())
	}
	l.Add(8, held) // the same id of another account is another request
	if got := list(l, 8); !slices.Equal(got, []int{1}) {
		t.Errorf("the other account has %v", got)
	}
	for n := range 10 { // what is expected is forgotten
		held.Request, held.TimeMillis = id(100+n), start+int64(n)*againMillis
		l.Add(7, held)
	}
	if n := len(l.again) + len(l.againBefore); n > 2 {
		t.Errorf("%d refusals are expected again", n)
	}
	for n := range 2*maxAgain + 1 {
		held.Request = id(1000 + n)
		l.Add(7, held)
	}
	if n := len(l.again) + len(l.againBefore); n > 2*maxAgain {
		t.Errorf("%d refusals of a moment are expected again", n)
	}
	final := record(5, start)
	final.Status, final.Decision = Refused, uint8(event.Decision_QUOTA_EXHAUSTED)
	before := l.Len()
	l.Add(9, final)
	l.Add(9, final) // another request, as far as anybody knows
	if l.Len() != before+2 {
		t.Errorf("%d records of two final refusals", l.Len()-before)
	}
}

// TestTheListIsInTheOrderOfTheDecisions, whichever requests are retried, and survives encoding.
func TestTheListIsInTheOrderOfTheDecisions(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	l := New(50 * entryBytes)
	var waiting []int
	for n := range 20_000 {
		r := record(n, start+int64(n))
		if len(waiting) > 0 && random.IntN(2) == 0 {
			i := random.IntN(len(waiting))
			r.Request = id(waiting[i])
			waiting = slices.Delete(waiting, i, i+1)
		}
		account := binary.BigEndian.Uint64(r.Request[8:]) % 3
		if random.IntN(3) == 0 {
			r.Status = Held
			waiting = append(waiting, int(binary.BigEndian.Uint64(r.Request[8:])))
		}
		l.Add(account, r)
		count := 0
		for account := range uint64(3) {
			last := int64(start + 20_000)
			l.Each(account, func(r *Record) bool {
				if count++; r.TimeMillis >= last {
					t.Fatalf("after %d requests %d has one of %d behind one of %d", n+1, account, r.TimeMillis, last)
				}
				last = r.TimeMillis
				return true
			})
		}
		if count != l.Len() || l.Bytes() > l.budget {
			t.Fatalf("%d requests are listed of %d, in %d bytes", count, l.Len(), l.Bytes())
		}
	}
	var data bytes.Buffer
	if err := l.Image().Encode(&data); err != nil {
		t.Fatal(err)
	}
	loaded := New(50 * entryBytes)
	if err := loaded.Load(&data); err != nil || !slices.Equal(whole(loaded), whole(l)) {
		t.Errorf("loaded as %v, %v", whole(loaded), err)
	}
}

func TestARecordIsFoundByItsPlaceOrItsRequest(t *testing.T) {
	l := New(roomy)
	first := l.Add(7, record(1, start))
	for n := 2; n <= PerAccount+1; n++ {
		l.Add(7, record(n, start))
	}
	if r := l.Edit(first, 7, id(1)); r != nil {
		t.Errorf("a request that has left is %+v", r)
	}
	if r := l.Edit(first, 7, id(500)); r == nil || r.Request != id(500) {
		t.Error("another one's place hides a request")
	}
	if r := l.Edit(0, 8, id(500)); r != nil {
		t.Error("a request is another account's too")
	}
}

// TestAnImageIsTheLogAsItWas: later changes do not show, and a loaded log continues like the original.
func TestAnImageIsTheLogAsItWas(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l := New(200 * entryBytes)
	step := func(logs ...*Log) {
		n, account := random.IntN(1_000_000), uint64(random.IntN(20))
		r := record(n, start+random.Int64N(1000))
		r.CostMicros, r.Key = random.Uint64(), random.Uint32()
		if r.Status = Status(random.IntN(int(statuses))); r.Status == Held {
			r.Remaining = 0
		}
		for _, l := range logs {
			l.Add(account, r)
		}
	}
	for range 5000 {
		step(l)
	}
	before := whole(l)
	image := l.Image()
	for range 5000 {
		step(l)
	}
	if slices.Equal(whole(l), before) {
		t.Fatal("nothing has changed")
	}
	var data bytes.Buffer
	if err := image.Encode(&data); err != nil {
		t.Fatal(err)
	}
	loaded := New(200 * entryBytes)
	if err := loaded.Load(bytes.NewReader(data.Bytes())); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(whole(loaded), before) || loaded.Len() != image.Len() {
		t.Errorf("%d requests were loaded of %d", loaded.Len(), image.Len())
	}
	twin := New(200 * entryBytes)
	if err := twin.Load(bytes.NewReader(data.Bytes())); err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		step(loaded, twin)
	}
	if !slices.Equal(whole(loaded), whole(twin)) {
		t.Error("two logs of one image differ later")
	}
}

func whole(l *Log) (all []Record) {
	for account := range uint64(20) {
		l.Each(account, func(r *Record) bool {
			all = append(all, *r)
			return true
		})
	}
	return all
}

func TestADamagedImageIsRefused(t *testing.T) {
	l := New(roomy)
	for n := 1; n <= 3; n++ {
		l.Add(uint64(n), record(n, start))
	}
	var data bytes.Buffer
	if err := l.Image().Encode(&data); err != nil {
		t.Fatal(err)
	}
	whole := data.Bytes()
	other := bytes.Clone(whole)
	other[0] = version + 1
	status := bytes.Clone(whole)
	status[len(status)-1] = byte(statuses)
	tests := map[string][]byte{"another version": other, "an unknown status": status, "more at its end": append(bytes.Clone(whole), 0)}
	for i := range whole {
		tests["cut at byte "+string(rune('0'+i%10))+" of "+string(rune('0'+i/10))] = whole[:i]
	}
	for name, data := range tests {
		loaded := New(roomy)
		if err := loaded.Load(bytes.NewReader(data)); !errors.Is(err, ErrImage) {
			t.Errorf("%s: %v", name, err)
		}
		if loaded.Len() != 0 {
			t.Errorf("%s: %d requests", name, loaded.Len())
		}
	}
}

func TestARequestTakesNoMemoryOfItsOwn(t *testing.T) {
	l := New(2 * PerAccount * entryBytes)
	n := 0
	add := func() {
		n++
		l.Add(uint64(n%2), record(n, start))
	}
	for range 3 * PerAccount {
		add()
	}
	if each := testing.AllocsPerRun(1000, add); each != 0 {
		t.Errorf("%v allocations", each)
	}
}

func BenchmarkAdd(b *testing.B) {
	for name, accounts := range map[string]int{"one account": 1, "many accounts": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 2))
			l := New(roomy)
			b.ReportAllocs()
			for n := range b.N {
				account := uint64(random.IntN(accounts))
				ref := l.Add(account, record(n, start))
				l.Edit(ref, account, id(n)).Status = Served
			}
		})
	}
}
