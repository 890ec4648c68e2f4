package compare

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/projection"
)

// maxNamed bounds the rows that a second pass keeps, unless one bucket has more.
const maxNamed = 50_000

// repairedRows is how many rows a batch of a repair writes.
const repairedRows = 200

// Naming is the result of the second pass: the rows of the buckets that differ.
type Naming struct {
	cfg  Config
	sums *Sums
	bad  map[int]bool
	left [tables]int // buckets that differ and are not looked at
	kept map[rowKey]*pair
	part map[rowKey]*pair // expected, of the part being folded
}

type rowKey struct {
	table table
	key   string
}

// pair is a row as it is expected and found.
type pair struct {
	expected *views.Doc
	day      *event.UsageDay // expected, of the days
	found    []views.Doc     // more than one: the row is doubled
	ahead    bool            // as of sink.findDay
}

func newNaming(cfg Config, s *Sums) *Naming {
	n := &Naming{cfg: cfg, sums: s, bad: map[int]bool{}, kept: map[rowKey]*pair{}}
	rows := 0
	for i, b := range s.buckets {
		if b.expected == b.found {
			continue
		}
		if rows += int(b.rows); rows > maxNamed && len(n.bad) > 0 {
			n.left[i/perTable]++
			continue
		}
		n.bad[i] = true
	}
	return n
}

func at(m map[rowKey]*pair, k rowKey) *pair {
	if m[k] == nil {
		m[k] = &pair{}
	}
	return m[k]
}

func (n *Naming) find(t table, key string, doc views.Doc) {
	if n.bad[n.sums.bucketOf(t, key)] {
		p := at(n.kept, rowKey{t, key})
		p.found = append(p.found, doc)
	}
}

func (n *Naming) expect(t table, key string, doc views.Doc) {
	if n.bad[n.sums.bucketOf(t, key)] {
		at(n.part, rowKey{t, key}).expected = &doc
	}
}

func (n *Naming) findDay(k dayKey, _ *event.UsageDay, doc views.Doc, ahead bool) {
	if n.bad[n.sums.dayBucket(k)] {
		p := at(n.kept, rowKey{days, doc.ID})
		p.found, p.ahead = append(p.found, doc), p.ahead || ahead
	}
}

func (n *Naming) expectDay(d account.UsageDelta) {
	if !n.bad[n.sums.dayBucket(dayKey{uint64(d.Account), d.Day})] {
		return
	}
	p := at(n.part, rowKey{days, projection.DayID(d.Account, d.Day)})
	if p.day == nil {
		p.day = &event.UsageDay{Day: d.Day}
	}
	projection.AddDelta(p.day, d)
}

// Begin is Sums.Begin.
func (n *Naming) Begin(first bool) {
	n.part = map[rowKey]*pair{}
	if first {
		for k, p := range n.kept {
			if p.expected, p.day = nil, nil; len(p.found) == 0 {
				delete(n.kept, k)
			}
		}
	}
}

// Keep is Sums.Keep.
func (n *Naming) Keep() {
	for k, p := range n.part { // the order has no effect
		kept := at(n.kept, k)
		kept.expected, kept.day = p.expected, p.day
	}
	n.part = nil
}

// row is a row that differs.
type row struct {
	rowKey
	*pair
}

// rows returns the rows that differ, by table and key. Of the days it fills in what is expected.
func (n *Naming) rows(upTo uint64) (list []row, err error) {
	for k, p := range n.kept { // sorted below
		if k.table == days {
			if err := p.expectDay(n.cfg.Stream, k.key, upTo); err != nil {
				return nil, err
			}
		}
		if !p.equal() {
			list = append(list, row{k, p})
		}
	}
	slices.SortFunc(list, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.key, b.key))
	})
	return list, nil
}

// expectDay turns the sum of the changes of a day into its row. A day without usage may have a row.
func (p *pair) expectDay(stream, id string, upTo uint64) error {
	sequence := upTo
	if len(p.found) > 0 && !p.ahead {
		sequence = p.found[0].Seq
	}
	owner, number := dayOfID(id)
	if p.day == nil && projection.DayID(owner, number) != id {
		return nil // it is no day's id
	}
	day := p.day
	if day == nil {
		day = &event.UsageDay{Day: number}
	}
	if len(day.Usage) == 0 && len(p.found) == 0 {
		return nil
	}
	doc, err := projection.DayDoc(stream, owner, day, sequence)
	p.expected = &doc
	return err
}

func (p *pair) equal() bool {
	if p.expected == nil || len(p.found) != 1 {
		return p.expected == nil && len(p.found) == 0
	}
	a, b := p.expected, p.found[0]
	return a.ID == b.ID && a.Seq == b.Seq && bytes.Equal(a.Head, b.Head) && bytes.Equal(a.Body, b.Body) &&
		slices.Equal(sorted(a.Keys), sorted(b.Keys))
}

func sorted(keys views.Keys) views.Keys {
	return slices.SortedFunc(slices.Values(keys), func(a, b views.Key) int { return strings.Compare(a.Name, b.Name) })
}

// Differences adds the rows that differ to the tables, and returns the first differences, most at most.
func (n *Naming) Differences(upTo uint64, list []*event.AuditTable, most int) (first []*event.AuditDifference, err error) {
	rows, err := n.rows(upTo)
	if err != nil {
		return nil, err
	}
	for t := range tables {
		list[t].Differences, list[t].More = num.Uint64(n.left[t]), n.left[t] > 0
	}
	for _, r := range rows {
		list[r.table].Differences++
		if len(first) < most {
			found := r.differences()
			first = append(first, found[:min(len(found), most-len(first))]...)
		}
	}
	return first, nil
}

// Repair writes the rows that differ again, as the journal has them, and deletes those that it does not have. It returns their
// number in list. commit is projection.Repair.
func (n *Naming) Repair(ctx context.Context, upTo uint64, commit func(context.Context, string, []views.Doc, views.Batch) error, list []*event.AuditTable) error {
	if !n.cfg.Exact || n.cfg.Table == "" {
		return fmt.Errorf("repair %q: it needs one table, and all accounts in one fold", n.cfg.Table)
	}
	rows, err := n.rows(upTo)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(rows, repairedRows) { // of one table
		collection := chunk[0].table.collection()
		var b views.Batch
		var before []views.Doc
		for _, r := range chunk {
			before = append(before, r.found...)
			if r.expected != nil {
				b.Puts = append(b.Puts, views.Put{Collection: collection, Doc: *r.expected})
				continue
			}
			for _, doc := range r.found {
				b.Deletes = append(b.Deletes, views.Delete{Collection: collection, ID: doc.ID, Seq: doc.Seq})
			}
		}
		if err := commit(ctx, collection, before, b); err != nil {
			return err
		}
		for _, r := range chunk {
			list[r.table].Repaired++
		}
	}
	return nil
}
