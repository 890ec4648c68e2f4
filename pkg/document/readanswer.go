package document

import (
	"fmt"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
)

// answers collects the answers to one request and sends them in messages of bounded size.
type answers struct {
	r       *reader
	request *rpc.Request
	space   []event.ReadAnswer // of all answers, in one allocation
	batch   event.ReadAnswerBatch
	bytes   int
}

func (r *reader) newAnswers(request *rpc.Request, count int) *answers {
	return &answers{
		r: r, request: request, space: make([]event.ReadAnswer, count),
		batch: event.ReadAnswerBatch{Answers: make([]*event.ReadAnswer, 0, count)},
	}
}

// next returns space for one more answer of about the given size.
func (a *answers) next(index uint32, bytes int) *event.ReadAnswer {
	if len(a.batch.Answers) > 0 && a.bytes+bytes > a.r.cfg.Bounds.AnswerBytes {
		a.flush()
	}
	a.bytes += bytes
	answer := &a.space[0]
	a.space = a.space[1:]
	answer.Index = index
	a.batch.Answers = append(a.batch.Answers, answer)
	return answer
}

// document answers with the parts of e that the reader may see. A document that this read would burn is answered without its
// content, which the outcome of the burn holds.
func (a *answers) document(index uint32, e *entry, read *event.Read, nowMS int64) {
	if !fold.MayRead(e.doc, fold.Reader{Account: read.Requester, Version: read.Version, NowMS: nowMS, ByLink: read.ByLink}) {
		a.next(index, 0).Status = event.OutcomeStatus_NOT_FOUND
		return
	}
	if e.damaged && !read.WithoutContent {
		a.next(index, 0).Unavailable = true // before a burn too, which would lose content that can still be restored
		return
	}
	doc, bytes := e.doc, e.bytes
	if read.WithoutContent || fold.Burns(doc, read.Requester) {
		doc, bytes = e.head(), entryBytes
	}
	answer := a.next(index, bytes)
	answer.Status, answer.Document = event.OutcomeStatus_OK, doc
}

func (a *answers) version(index uint32, current *event.Document, version *entry, read *event.Read) {
	if version == nil || version.doc == nil {
		a.next(index, 0).Status = event.OutcomeStatus_NOT_FOUND
		return
	}
	if version.damaged && !read.WithoutContent {
		a.next(index, 0).Unavailable = true
		return
	}
	doc := fold.Earlier(current, version.doc)
	if read.WithoutContent {
		doc = fold.Head(doc)
	}
	answer := a.next(index, doc.SizeVT())
	answer.Status, answer.Document = event.OutcomeStatus_OK, doc
}

func (a *answers) outcome(index uint32, o *event.Outcome, nowMS int64) {
	if o == nil || nowMS >= o.DecidedMs+fold.KeepOutcomeMillis {
		a.next(index, 0).Status = event.OutcomeStatus_NOT_FOUND
		return
	}
	answer := a.next(index, o.SizeVT())
	answer.Status, answer.Outcome = event.OutcomeStatus_OK, o
}

// flush sends the collected answers, or refusals if another replica has begun to answer: the state behind them may hold
// decisions not yet known to that one.
func (a *answers) flush() {
	if len(a.batch.Answers) == 0 {
		return
	}
	if a.r.lease.isBarred() {
		for _, answer := range a.batch.Answers {
			index := answer.Index
			answer.Reset()
			answer.Index, answer.Unavailable = index, true
		}
	}
	buffer := a.r.buffers.Get().(*[]byte)
	size := a.batch.SizeVT()
	if cap(*buffer) < size {
		*buffer = make([]byte, size)
	}
	n, err := a.batch.MarshalToSizedBufferVT((*buffer)[:size])
	if err != nil {
		err = fmt.Errorf("encode %d answers: %w", len(a.batch.Answers), err)
	} else {
		err = a.request.Reply((*buffer)[size-n : size])
	}
	a.r.sent(err)
	a.r.buffers.Put(buffer)
	a.batch.Answers = a.batch.Answers[:0]
	a.bytes = 0
}
