package viewstest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quire.dev/pkg/views"
)

// model is the simplest implementation of a store.
type model struct {
	docs        map[string]views.Doc
	gone        map[string]uint64 // sequence of the deletion
	checkpoints map[string]uint64
}

func newModel() *model {
	return &model{docs: map[string]views.Doc{}, gone: map[string]uint64{}, checkpoints: map[string]uint64{}}
}

// knows reports whether a document with the id exists or existed.
func (m *model) knows(id string) bool {
	_, is := m.docs[id]
	_, was := m.gone[id]
	return is || was
}

func (m *model) put(d views.Doc) {
	if old, ok := m.docs[d.ID]; ok && d.Seq < old.Seq {
		return
	}
	if seq, ok := m.gone[d.ID]; ok && d.Seq <= seq {
		return
	}
	delete(m.gone, d.ID)
	m.docs[d.ID] = d
}

func (m *model) remove(id string, seq uint64) {
	if old, ok := m.docs[id]; ok && seq < old.Seq {
		return
	}
	delete(m.docs, id)
	m.gone[id] = max(m.gone[id], seq)
}

func (m *model) insert(d views.Doc) error {
	_, taken := m.docs[d.ID]
	seq, removed := m.gone[d.ID]
	if taken || removed && d.Seq < seq {
		return views.ErrExists
	}
	delete(m.gone, d.ID)
	m.docs[d.ID] = d
	return nil
}

func (m *model) commit(b views.Batch) error {
	if b.Stream != "" {
		if m.checkpoints[b.Stream] != b.From {
			return views.ErrConflict
		}
		m.checkpoints[b.Stream] = b.To
	}
	for _, p := range b.Puts {
		m.put(p.Doc)
	}
	for _, d := range b.Deletes {
		m.remove(d.ID, d.Seq)
	}
	return nil
}

func (m *model) list(index views.Index, q views.Query) []string {
	order := func(a, b []views.Value) int { return slices.CompareFunc(a, b, views.Value.Compare) }
	var found []views.Doc
	for _, d := range m.docs {
		values, ok := valuesOf(index, d)
		if !ok || order(values[:len(q.Equal)], q.Equal) != 0 {
			continue
		}
		found = append(found, d)
	}
	compare := func(a, b views.Doc) int {
		av, _ := valuesOf(index, a)
		bv, _ := valuesOf(index, b)
		c := cmp.Or(order(av, bv), strings.Compare(a.ID, b.ID))
		if q.Desc {
			return -c
		}
		return c
	}
	slices.SortFunc(found, compare)
	if len(q.After) > 0 || q.AfterID != "" {
		position := views.Doc{ID: q.AfterID}
		for i, v := range slices.Concat(q.Equal, q.After) {
			position.Keys = append(position.Keys, views.Key{Name: index.Keys[i], Value: v})
		}
		found = slices.DeleteFunc(found, func(d views.Doc) bool { return compare(d, position) <= 0 })
	}
	return idsOf(found[:min(len(found), q.Limit)])
}

func valuesOf(index views.Index, d views.Doc) ([]views.Value, bool) {
	var values []views.Value
	for _, key := range index.Keys {
		v, ok := d.Keys.Find(key)
		if !ok {
			return nil, false
		}
		values = append(values, v)
	}
	return values, true
}

// machine runs the store and the model side by side.
type machine struct {
	model  *model
	store  views.Store
	reopen func() views.Store
	space  string // separates the ids of different runs
}

func testModel(t *testing.T, open Open) {
	store, reopen := open(t)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		// Each run starts without documents, as its model does, even after a
		// failed run.
		old := make([]string, 0, len(modelIDs()))
		for _, id := range modelIDs() {
			old = append(old, fmt.Sprintf("run%d/%s", runs, id))
		}
		remove(rt, store, 1000, old...)
		runs++
		m := &machine{model: newModel(), store: store, space: fmt.Sprintf("run%d/", runs)}
		m.reopen = func() views.Store {
			store = reopen()
			return store
		}
		rt.Repeat(map[string]func(*rapid.T){
			"commit": m.commit,
			"insert": m.insert,
			"list":   m.list,
			"load":   m.load,
			"reopen": m.reopenSometimes,
		})
		m.everything(rt)
	})
}

func modelIDs() []string { return []string{"a", "b", "c", "d", "e", "f", "ä"} }

func (m *machine) id(t *rapid.T) string {
	return m.space + rapid.SampledFrom(modelIDs()).Draw(t, "id")
}

func (m *machine) doc(t *rapid.T) views.Doc {
	d := views.Doc{ID: m.id(t), Seq: rapid.Uint64Range(0, 12).Draw(t, "seq")}
	keys := views.Keys{
		{Name: owner, Value: drawOwner(t)},
		{Name: created, Value: drawInt(t)},
		{Name: word, Value: drawWord(t)},
		{Name: end, Value: drawInt(t)},
	}
	for _, key := range rapid.Permutation(keys).Draw(t, "keys") {
		if rapid.IntRange(0, 3).Draw(t, "without "+key.Name) > 0 {
			d.Keys = append(d.Keys, key)
		}
	}
	d.Head = []byte(rapid.StringN(0, 5, -1).Draw(t, "head"))
	d.Body = []byte(rapid.StringN(0, 5, -1).Draw(t, "body"))
	return d
}

func drawOwner(t *rapid.T) views.Value {
	return views.String(rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "owner"))
}

func drawInt(t *rapid.T) views.Value {
	return views.Int(rapid.SampledFrom([]int64{-5, 0, 1, 2, 300}).Draw(t, "number"))
}

func drawWord(t *rapid.T) views.Value {
	return views.String(rapid.SampledFrom([]string{"", "a", "aa", "Z", "é"}).Draw(t, "word"))
}

func (m *machine) commit(t *rapid.T) {
	var b views.Batch
	if rapid.Bool().Draw(t, "with stream") {
		b.Stream = m.space + rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "stream")
		b.From = m.model.checkpoints[b.Stream]
		if rapid.IntRange(0, 4).Draw(t, "stale") == 0 {
			b.From = rapid.Uint64Range(0, b.From+2).Draw(t, "from")
		}
		b.To = b.From + rapid.Uint64Range(1, 5).Draw(t, "step")
	}
	for range rapid.IntRange(0, 4).Draw(t, "puts") {
		d := m.doc(t)
		named := slices.ContainsFunc(b.Puts, func(p views.Put) bool { return p.Doc.ID == d.ID })
		b.Puts = append(b.Puts, views.Put{Collection: items, Doc: d, New: !named && !m.model.knows(d.ID) && rapid.Bool().Draw(t, "said to be new")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "deletes") {
		b.Deletes = append(b.Deletes, views.Delete{Collection: items, ID: m.id(t), Seq: rapid.Uint64Range(0, 12).Draw(t, "seq")})
	}
	want := m.model.commit(b)
	refused(t, "commit", m.store.Commit(t.Context(), b), want)
}

func (m *machine) insert(t *rapid.T) {
	d := m.doc(t)
	insert(t, m.store, d, m.model.insert(d))
}

func (m *machine) list(t *rapid.T) {
	index := rapid.SampledFrom(Collections()[0].Indexes).Draw(t, "index")
	draw := map[string]func(*rapid.T) views.Value{owner: drawOwner, created: drawInt, word: drawWord, end: drawInt}
	q := views.Query{Index: index.Name, Desc: rapid.Bool().Draw(t, "desc"), Limit: rapid.IntRange(1, 8).Draw(t, "limit")}
	equal := rapid.IntRange(0, len(index.Keys)).Draw(t, "equal")
	for _, key := range index.Keys[:equal] {
		q.Equal = append(q.Equal, draw[key](t))
	}
	if rapid.Bool().Draw(t, "positioned") {
		for _, key := range index.Keys[equal:] {
			q.After = append(q.After, draw[key](t))
		}
		q.AfterID = m.id(t)
	}
	sameIDs(t, idsOf(list(t, m.store, q)), m.model.list(index, q)...)
}

func (m *machine) load(t *rapid.T) {
	parts := rapid.SampledFrom([]views.Parts{views.Heads, views.Full}).Draw(t, "parts")
	var ids []string
	var want []views.Doc
	for range rapid.IntRange(0, 5).Draw(t, "count") {
		id := m.id(t)
		if d, ok := m.model.docs[id]; ok && !slices.Contains(ids, id) {
			if parts == views.Heads {
				d = headOnly(d)
			}
			want = append(want, d)
		}
		ids = append(ids, id)
	}
	same(t, load(t, m.store, parts, ids...), want...)
}

func (m *machine) reopenSometimes(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "reopen") == 0 {
		m.store = m.reopen()
	}
	for stream, want := range m.model.checkpoints {
		stands(t, m.store, stream, want)
	}
}

func (m *machine) everything(t *rapid.T) {
	same(t, load(t, m.store, views.Full, slices.Sorted(maps.Keys(m.model.docs))...), slices.Collect(maps.Values(m.model.docs))...)
	for _, index := range Collections()[0].Indexes {
		q := views.Query{Index: index.Name, Limit: 1000}
		sameIDs(t, idsOf(list(t, m.store, q)), m.model.list(index, q)...)
	}
}
