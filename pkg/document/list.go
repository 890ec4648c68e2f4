package document

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
	"quire.dev/pkg/wait"
)

const (
	maxListLimit = 100 // docs/api.md, Lists
	listPage     = 200 // heads per query of the read model
)

// lister answers lists of an account's documents from the read model.
type lister struct {
	*scope
	model      *readModel
	position   *wait.Position
	projection *projection
	lease      *lease
}

// list answers one ListRequest. It shows every decision made before the request came.
func (l *lister) list(ctx context.Context, payload []byte) ([]byte, error) {
	request := &event.ListRequest{}
	if err := event.Decode(payload, request); err != nil {
		return nil, &rpc.Error{Code: rpc.CodeInternal, Message: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Bounds.ReadWait)
	defer cancel()
	if request.NowMs == 0 {
		request.NowMs = l.now()
	}
	answer, err := l.answer(ctx, request)
	if err != nil {
		l.model.failBehind(err)
		l.metrics.failures.WithLabelValues("list").Inc()
		return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: err.Error()}
	}
	return event.Encode(answer)
}

func (l *lister) answer(ctx context.Context, request *event.ListRequest) (*event.ListAnswer, error) {
	sequence, err := l.lease.wait(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.position.Until(ctx, sequence); err != nil {
		return nil, fmt.Errorf("wait for message %d: %w", sequence, err)
	}
	if err := l.projection.wait(ctx, l.projection.lastDecision()); err != nil {
		return nil, fmt.Errorf("wait for the projection: %w", err)
	}
	answer, newest, err := l.scan(ctx, request)
	if err != nil {
		return nil, err
	}
	// Another replica may project ahead of this one. What a list shows, later reads show too.
	if err := l.position.Until(ctx, newest); err != nil {
		return nil, fmt.Errorf("wait for message %d: %w", newest, err)
	}
	if l.lease.isBarred() {
		return nil, errBarred
	}
	return answer, nil
}

// scan searches an account's documents for a page of matches and one more, which tells whether there are more pages. It stops
// after ListScan documents and returns how far it got. newest is the sequence of the last change it has seen.
func (l *lister) scan(ctx context.Context, request *event.ListRequest) (answer *event.ListAnswer, newest uint64, err error) {
	limit := min(max(int(request.Limit), 1), maxListLimit)
	wanted := newFilter(request)
	answer = &event.ListAnswer{ScannedPosition: request.AfterPosition, ScannedId: request.AfterId}
	if request.Account == 0 {
		return answer, 0, nil
	}
	q := views.Query{
		Index: indexAccount,
		Equal: []views.Value{views.Int(int64(l.number)), accountValue(request.Account)},
		Desc:  !request.Ascending,
		Limit: min(listPage, l.cfg.Bounds.ListScan),
	}
	if request.AfterPosition != 0 || request.AfterId != "" {
		q.After, q.AfterID = []views.Value{views.Int(request.AfterPosition)}, request.AfterId
	}
	if err := l.model.waitCurrent(ctx); err != nil {
		return nil, 0, err
	}
	for scanned := 0; ; {
		docs, err := l.deps.Views.List(ctx, l.names.documents, q)
		if err != nil {
			return nil, 0, fmt.Errorf("list %s: %w", l.names.documents, err)
		}
		for _, d := range docs {
			doc, err := readDocument(d)
			if err != nil {
				return nil, 0, err
			}
			scanned++
			newest = max(newest, d.Seq)
			matches := wanted.matches(doc)
			if matches && len(answer.Documents) == limit {
				answer.More = true
				return answer, newest, nil
			}
			if matches {
				answer.Documents = append(answer.Documents, doc)
			}
			if matches || len(answer.Documents) < limit {
				answer.ScannedPosition, answer.ScannedId = doc.ListPosition(), doc.Id
			}
			q.After, q.AfterID = []views.Value{views.Int(doc.ListPosition())}, doc.Id
		}
		if len(docs) < q.Limit {
			return answer, newest, nil
		}
		if scanned >= l.cfg.Bounds.ListScan {
			answer.More = true
			return answer, newest, nil
		}
	}
}

// filter selects the documents of a list.
type filter struct {
	nowMS      int64
	title      string // after foldCase
	tag        string
	language   string
	visibility *uint32
}

func newFilter(r *event.ListRequest) filter {
	return filter{nowMS: r.NowMs, title: foldCase(r.TitleContains), tag: r.Tag, language: r.Language, visibility: r.Visibility}
}

func (f filter) matches(d *event.Document) bool {
	switch {
	case fold.Expired(d, f.nowMS):
		return false
	case f.visibility != nil && *f.visibility != d.Visibility:
		return false
	case f.language != "" && f.language != d.Language:
		return false
	case f.tag != "" && !slices.Contains(d.Tags, f.tag):
		return false
	}
	return f.title == "" || strings.Contains(foldCase(d.Title), f.title)
}

// foldCase maps all cases of a letter to one, by Unicode's simple case folding.
func foldCase(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, s)
}
