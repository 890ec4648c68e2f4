package document_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/inprocess"
	"quire.dev/pkg/rpc"
)

func titles(l *event.ListAnswer) []string {
	var all []string
	for _, d := range l.Documents {
		all = append(all, d.Title)
	}
	return all
}

func TestListFilters(t *testing.T) {
	w := newWorld(t, fold.QuickPastes())
	w.start()
	e := w.newEdge("edge1")
	for _, d := range []*event.Document{
		{Title: "Ärger im Büro", Language: "de", Visibility: uint32(event.Public), Tags: []string{"a", "b"}},
		{Title: "main.go", Language: "go", Visibility: uint32(event.Private), Tags: []string{"b"}},
		{Title: "MAIN.c", Language: "c", Visibility: uint32(event.Unlisted)},
	} {
		d.Content = &event.Content{Inline: []byte("never listed"), SizeBytes: 12}
		e.want(event.OutcomeStatus_OK, create(alice, d))
	}
	e.want(event.OutcomeStatus_OK, create(bob, text("x")))
	nobody := create(0, text("x"))
	nobody.Charge = nil
	e.want(event.OutcomeStatus_OK, nobody)
	for name, c := range map[string]struct {
		request *event.ListRequest
		want    []string
	}{
		"all, newest first":    {&event.ListRequest{Account: alice}, []string{"MAIN.c", "main.go", "Ärger im Büro"}},
		"all, oldest first":    {&event.ListRequest{Account: alice, Ascending: true}, []string{"Ärger im Büro", "main.go", "MAIN.c"}},
		"title":                {&event.ListRequest{Account: alice, TitleContains: "Main"}, []string{"MAIN.c", "main.go"}},
		"title, not ASCII":     {&event.ListRequest{Account: alice, TitleContains: "äRGER IM BÜ"}, []string{"Ärger im Büro"}},
		"tag":                  {&event.ListRequest{Account: alice, Tag: "b"}, []string{"main.go", "Ärger im Büro"}},
		"tag is not a part":    {&event.ListRequest{Account: alice, Tag: ""}, []string{"MAIN.c", "main.go", "Ärger im Büro"}},
		"language":             {&event.ListRequest{Account: alice, Language: "go"}, []string{"main.go"}},
		"visibility":           {&event.ListRequest{Account: alice, Visibility: new(uint32(event.Public))}, []string{"Ärger im Büro"}},
		"several":              {&event.ListRequest{Account: alice, TitleContains: "main", Tag: "b"}, []string{"main.go"}},
		"of another":           {&event.ListRequest{Account: bob}, []string{"t"}},
		"of nobody":            {&event.ListRequest{Account: 0}, nil},
		"of somebody unknown":  {&event.ListRequest{Account: 77}, nil},
		"nothing that matches": {&event.ListRequest{Account: alice, TitleContains: "zzz"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.request.Limit = 10
			got := w.list(c.request)
			if !slices.Equal(titles(got), c.want) || got.More {
				t.Errorf("listed %v, more %v; want %v", titles(got), got.More, c.want)
			}
			for _, d := range got.Documents {
				if len(d.Content.GetInline()) > 0 || d.Content.GetSizeBytes() == 0 {
					t.Errorf("listed with content %v", d.Content)
				}
			}
		})
	}
}

// TestPagesAreStable pages through a list while documents come and go, some created in one millisecond.
func TestPagesAreStable(t *testing.T) {
	for _, ascending := range []bool{false, true} {
		t.Run(fmt.Sprintf("ascending %v", ascending), func(t *testing.T) {
			w := newWorld(t, fold.QuickPastes())
			w.bounds.ListScan = 7
			w.start()
			e := w.newEdge("edge1")
			var batch []*event.Request
			stay := map[string]bool{}
			for i := range 40 {
				r := create(alice, text("x"))
				r.GetCreate().Document.Title = fmt.Sprint(i % 2)
				batch = append(batch, r)
				stay[r.Item] = true
			}
			e.do(batch...)
			request := &event.ListRequest{Account: alice, Limit: 3, Ascending: ascending}
			if ascending {
				request.TitleContains = "1" // so that the bound of the scan is met
				for i, r := range batch {
					if i%2 == 0 {
						delete(stay, r.Item)
					}
				}
			}
			seen := map[string]int{}
			var last *event.Document
			for page := 0; ; page++ {
				answer := w.list(request)
				for _, d := range answer.Documents {
					seen[d.Id]++
					if last != nil {
						if later := d.CreatedOrder > last.CreatedOrder; later != ascending {
							t.Errorf("%s of %d follows %s of %d", d.Id, d.CreatedOrder, last.Id, last.CreatedOrder)
						}
					}
					last = d
				}
				if len(answer.Documents) > 3 {
					t.Errorf("a page of %d", len(answer.Documents))
				}
				if !answer.More {
					break
				}
				request.AfterPosition, request.AfterId = answer.ScannedPosition, answer.ScannedId
				if page == 2 { // the last one seen, an earlier one, and a new one
					e.do(remove(alice, last.Id), remove(alice, batch[20].Item), create(alice, text("new")))
					delete(stay, last.Id)
					delete(stay, batch[20].Item)
				}
				if page > 100 {
					t.Fatal("the list has no end")
				}
			}
			for item := range stay {
				if seen[item] != 1 {
					t.Errorf("%s was listed %d times", item, seen[item])
				}
			}
			for item, n := range seen {
				if n > 1 {
					t.Errorf("%s was listed %d times", item, n)
				}
			}
		})
	}
}

// TestAListAfterAnAnswerShowsItsDocument lists an account's documents at the moment at which a creation is answered. The answer is
// sent by the goroutine that decides, so it is held up there: a listener without room makes it log.
func TestAListAfterAnAnswerShowsItsDocument(t *testing.T) {
	w := newWorld(t, fold.QuickPastes())
	answers := &rpc.Local{}
	stop, err := answers.Listen(w.nc, event.AnswerSubjects("edge1"), make(chan *nats.Msg))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var listed []string
	log := slog.New(&onLog{Handler: slog.DiscardHandler, message: "outcomes were not sent", do: func() {
		listed = titles(w.list(&event.ListRequest{Account: alice, Limit: 10}))
	}})
	engine, err := document.New(
		document.Config{Policy: w.policy, PartitionCount: w.count, Bounds: w.bounds},
		document.Deps{NC: w.server.Conn(t), Views: w.views, Blobs: w.blobs, Shared: inprocess.Shared{Answers: answers}, Logger: log},
	)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	eventually.True(t, "the engine serves", engine.Serving)
	r := create(alice, text("x"))
	r.Charge = nil // a charged one is projected once it is settled, which follows the answer
	w.newEdge("edge1").send(r)
	eventually.True(t, "the document is decided", func() bool { return w.get(alice, r.Item).Document != nil })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(listed, []string{"t"}) {
		t.Errorf("listed %q at the answer", listed)
	}
}

// onLog is a log that calls a function at a message.
type onLog struct {
	slog.Handler
	message string
	do      func()
}

func (h *onLog) Enabled(context.Context, slog.Level) bool { return true }

func (h *onLog) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h *onLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message {
		h.do()
	}
	return nil
}

func TestBigAnswersComeInParts(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	running := w.start()
	e := w.newEdge("edge1")
	content := bytes.Repeat([]byte("x"), event.InlineContentBytes)
	var reads []*event.Read
	for range 5 {
		var batch []*event.Request
		for range 8 {
			r := create(alice, text(string(content)))
			batch = append(batch, r)
			reads = append(reads, &event.Read{Item: r.Item, Requester: bob})
		}
		e.do(batch...)
	}
	check := func(from string) {
		t.Helper()
		for i, a := range w.read(reads...) {
			if !bytes.Equal(a.Document.GetContent().GetInline(), content) {
				t.Errorf("%s, %d: %d bytes", from, i, len(a.Document.GetContent().GetInline()))
			}
		}
	}
	check("from memory")
	w.projected()
	w.stop(running)
	w.start()
	check("from the read model")
	check("from the cache")
	var burns []*event.Request
	for _, r := range reads {
		burns = append(burns, burn(bob, r.Item, 1))
	}
	for i, o := range e.do(burns...) {
		if !bytes.Equal(o.Document.GetContent().GetInline(), content) {
			t.Errorf("outcome %d shows %d bytes", i, len(o.Document.GetContent().GetInline()))
		}
	}
}

func TestReadSeesWhatItsEdgeHasSeen(t *testing.T) {
	w := newWorld(t, fold.Pastes())
	w.start()
	e := w.newEdge("edge1")
	for range 20 {
		made := create(alice, text("x"))
		e.send(made)
		sequence := e.number // one edge, one batch a message
		answers := w.readAfter(sequence, &event.Read{Item: made.Item, Requester: alice})
		if answers[0].Status != event.OutcomeStatus_OK {
			t.Fatalf("read after %d: %v", sequence, answers[0])
		}
	}
	eventually.True(t, "the last is answered", func() bool { return e.outcome(e.number, 0) != nil })
}
