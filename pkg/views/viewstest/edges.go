package viewstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"quire.dev/pkg/views"
)

func testContents(t *testing.T, open Open) {
	s, reopen := open(t)
	random := rand.New(rand.NewPCG(1, 2))
	huge := make([]byte, 9<<20)
	for i := range huge {
		huge[i] = byte(random.Uint32())
	}
	docs := []views.Doc{
		{ID: "nothing", Seq: 1},
		{ID: "empty", Seq: 1, Head: []byte{}, Body: []byte{}},
		{ID: "zeros", Seq: 1, Head: make([]byte, 3), Body: make([]byte, 100)},
		{ID: "head", Seq: 1, Head: huge[:1<<20]},
		{ID: "huge", Seq: 1, Head: []byte("h"), Body: huge},
	}
	for _, d := range docs {
		put(t, s, d)
	}
	for range 2 {
		same(t, load(t, s, views.Full, "nothing", "empty", "zeros", "head", "huge"), docs...)
		s = reopen()
	}
	small := views.Doc{ID: "huge", Seq: 2, Body: []byte("now small")}
	put(t, s, small)
	same(t, load(t, s, views.Full, "huge"), small)
}

func testUnicode(t *testing.T, open Open) {
	s, reopen := open(t)
	texts := []string{
		"plain", "Ünïcödé", "日本語", "👩‍👩‍👧", "\u0000nul\u0000", "$dollar.dot", "a'b\"c\\d", "%_*?", " ", "\n\t\r",
		"\ufeffbom", "\u202eright to left", "e\u0301", "\u00e9", "\U0010FFFF", strings.Repeat("長", 100),
	}
	var docs []views.Doc
	for i, text := range texts {
		docs = append(docs, views.Doc{
			ID: text, Seq: uint64(i),
			Keys: views.Keys{{Name: word, Value: views.String(text)}, {Name: owner, Value: views.String(text + "!")}},
			Head: []byte(text), Body: []byte(text),
		})
	}
	put(t, s, docs...)
	stream := "stream " + strings.Join(texts[:5], " ")
	commit(t, s, views.Batch{Stream: stream, To: 3})
	s = reopen()
	same(t, load(t, s, views.Full, texts...), docs...)
	for _, d := range docs {
		same(t, list(t, s, views.Query{Index: byWord, Equal: []views.Value{d.Keys.Get(word)}, Limit: 2}), headOnly(d))
	}
	stands(t, s, stream, 3)
	remove(t, s, 99, texts...)
	same(t, load(t, s, views.Full, texts...))
}

func testLimits(t *testing.T, open Open) {
	s, _ := open(t)
	ctx := t.Context()
	var docs []views.Doc
	for i := range 1001 {
		docs = append(docs, views.Doc{ID: fmt.Sprintf("%04d", i), Seq: 1, Keys: views.Keys{{Name: end, Value: views.Int(1)}}})
	}
	put(t, s, docs...)
	if got := list(t, s, views.Query{Index: byEnd, Limit: views.MaxList}); len(got) != views.MaxList {
		t.Errorf("list of at most %d returned %d", views.MaxList, len(got))
	}
	ann := views.String("ann")
	for name, q := range map[string]views.Query{
		"no limit":           {Index: byOwner},
		"limit too large":    {Index: byOwner, Limit: views.MaxList + 1},
		"unknown index":      {Index: "nothing", Limit: 1},
		"too many values":    {Index: byOwner, Limit: 1, Equal: []views.Value{ann, ann, ann}},
		"position too short": {Index: byOwner, Limit: 1, After: []views.Value{ann}, AfterID: "x"},
		"position too long":  {Index: byEnd, Limit: 1, After: []views.Value{ann, ann}, AfterID: "x"},
		"position of an id":  {Index: byOwner, Limit: 1, AfterID: "x"},
		"value not UTF-8":    {Index: byOwner, Limit: 1, Equal: []views.Value{views.String("\xff")}},
	} {
		_, err := s.List(ctx, items, q)
		refused(t, name, err, views.ErrInvalid)
	}
	_, err := s.List(ctx, "nowhere", views.Query{Index: byOwner, Limit: 1})
	refused(t, "list of an unknown collection", err, views.ErrInvalid)
	_, err = s.Load(ctx, "nowhere", []string{"x"}, views.Full)
	refused(t, "load from an unknown collection", err, views.ErrInvalid)
	_, err = s.Load(ctx, items, make([]string, views.MaxLoad+1), views.Full)
	refused(t, "load of too many", err, views.ErrInvalid)
	for name, d := range map[string]views.Doc{
		"empty id":       {},
		"long id":        {ID: strings.Repeat("i", views.MaxIDBytes+1)},
		"id not UTF-8":   {ID: "\xff"},
		"long value":     {ID: "x", Keys: views.Keys{{Name: word, Value: views.String(strings.Repeat("v", views.MaxValueBytes+1))}}},
		"key twice":      {ID: "x", Keys: views.Keys{{Name: word, Value: ann}, {Name: word, Value: ann}}},
		"undeclared key": {ID: "x", Keys: views.Keys{{Name: "nothing", Value: ann}}},
	} {
		refused(t, name, s.Insert(ctx, items, d), views.ErrInvalid)
	}
	testTooLarge(t, s)
}

// testWideIndex has values that can't be compressed.
func testWideIndex(t *testing.T, open Open) {
	s, _ := open(t)
	random := rand.New(rand.NewPCG(3, 4))
	text := func(length int) string {
		b := make([]byte, length)
		for i := range b {
			b[i] = byte(' ' + random.IntN(95))
		}
		return string(b)
	}
	const most = views.MaxValueBytes
	of := func(c string) views.Doc {
		return views.Doc{ID: text(views.MaxIDBytes), Keys: views.Keys{
			{Name: "a", Value: views.String(text(most))}, {Name: "b", Value: views.String(text(most - 1))}, {Name: "c", Value: views.String(c)},
		}}
	}
	d := of("x")
	refused(t, "insert of values at the limit", s.Insert(t.Context(), wide, d), nil)
	refused(t, "insert of values above the limit", s.Insert(t.Context(), wide, of("xy")), views.ErrInvalid)
	docs, err := s.List(t.Context(), wide, views.Query{Index: "by_all", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	same(t, docs, d)
}

func testTooLarge(t *testing.T, s views.Store) {
	t.Helper()
	// Many documents share one body, so that an oversized batch takes no memory.
	d := views.Doc{Seq: 1, Body: make([]byte, views.MaxDocBytes-1024)}
	b := views.Batch{Stream: "large", To: 1}
	for i := range views.MaxBatchBytes/views.MaxDocBytes + 1 {
		d.ID = fmt.Sprint("large-", i)
		b.Puts = append(b.Puts, views.Put{Collection: items, Doc: d})
	}
	refused(t, "commit of a batch above the limit", s.Commit(t.Context(), b), views.ErrTooLarge)
	d.Body = make([]byte, views.MaxDocBytes)
	insert(t, s, d, views.ErrTooLarge)
	b.Puts = []views.Put{{Collection: items, Doc: d}}
	refused(t, "commit of a document above the limit", s.Commit(t.Context(), b), views.ErrTooLarge)
	same(t, load(t, s, views.Heads, "large-0", d.ID))
	stands(t, s, "large", 0)
}

// calls returns every call of a store that may have to wait.
func calls(s views.Store) map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"load": func(ctx context.Context) error {
			_, err := s.Load(ctx, items, []string{"a"}, views.Full)
			return err
		},
		"list": func(ctx context.Context) error {
			_, err := s.List(ctx, items, views.Query{Index: byOwner, Limit: 1})
			return err
		},
		"commit": func(ctx context.Context) error {
			return s.Commit(ctx, views.Batch{Stream: "s", To: 1, Puts: []views.Put{{Collection: items, Doc: doc("new", 1, "ann", 1)}}})
		},
		"insert": func(ctx context.Context) error { return s.Insert(ctx, items, doc("new", 1, "ann", 1)) },
		"checkpoint": func(ctx context.Context) error {
			_, err := s.Checkpoint(ctx, "s")
			return err
		},
	}
}

func testContext(t *testing.T, open Open) {
	s, _ := open(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	for name, call := range calls(s) {
		err := call(cancelled)
		refused(t, name+", cancelled", err, views.ErrUnavailable)
		refused(t, name+", cancelled", err, context.Canceled)
		err = call(expired)
		refused(t, name+", expired", err, views.ErrUnavailable)
		refused(t, name+", expired", err, context.DeadlineExceeded)
	}
	same(t, load(t, s, views.Full, "new"))
	stands(t, s, "s", 0)
	for _, name := range []string{"load", "list", "commit", "checkpoint"} {
		refused(t, name+", afterwards", calls(s)[name](t.Context()), nil)
	}
}

func testClosed(t *testing.T, open Open) {
	s, _ := open(t)
	for range 2 {
		refused(t, "close", s.Close(), nil)
	}
	for name, call := range calls(s) {
		refused(t, name, call(t.Context()), views.ErrUnavailable)
	}
}

// testConcurrent runs streams, inserts and readers concurrently. Every stream
// replaces one counter document and adds another document in every batch.
func testConcurrent(t *testing.T, open Open) {
	s, reopen := open(t)
	const streams, batches = 4, 15
	var wait sync.WaitGroup
	for n := range streams {
		name := fmt.Sprint("stream-", n)
		wait.Go(func() {
			for seq := uint64(1); seq <= batches; seq++ {
				err := s.Commit(t.Context(), views.Batch{Stream: name, From: seq - 1, To: seq, Puts: []views.Put{
					{Collection: items, Doc: doc(name, seq, "counters", int64(n))},
					{Collection: items, Doc: doc(fmt.Sprintf("%s-%03d", name, seq), seq, name, int64(seq))},
				}})
				if err != nil {
					t.Errorf("commit: %v", err)
					return
				}
			}
		})
		wait.Go(func() {
			for i := range batches {
				if err := s.Insert(t.Context(), plain, views.Doc{ID: fmt.Sprint(name, "/", i)}); err != nil {
					t.Errorf("insert: %v", err)
				}
				docs, err := s.List(t.Context(), items, views.Query{Index: byOwner, Equal: []views.Value{views.String(name)}, Limit: 1000})
				if err != nil {
					t.Errorf("list: %v", err)
				}
				for i, d := range docs {
					if want := uint64(i + 1); d.Seq != want {
						t.Errorf("%s lists seq %d where %d belongs", name, d.Seq, want)
					}
				}
			}
		})
	}
	wait.Wait()
	s = reopen()
	for n := range streams {
		name := fmt.Sprint("stream-", n)
		stands(t, s, name, batches)
		same(t, load(t, s, views.Full, name), doc(name, batches, "counters", int64(n)))
		q := views.Query{Index: byOwner, Equal: []views.Value{views.String(name)}, Limit: 1000}
		if got := list(t, s, q); len(got) != batches {
			t.Errorf("%s has %d documents, want %d", name, len(got), batches)
		}
	}
}
