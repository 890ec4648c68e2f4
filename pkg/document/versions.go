package document

import (
	"context"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// A list of versions is a read, so that it follows all messages that its edge has seen. Version numbers have no gaps, so a page
// is a lookup of ids and needs no index.

// versionNumbers returns the version numbers requested by a read, newest first. more reports whether lower ones remain.
func versionNumbers(current *event.Document, read *event.Read) (numbers []uint64, more bool) {
	first, next := max(current.FirstVersionKept, 1), current.Version
	if read.BelowVersion != 0 && read.BelowVersion <= next {
		next = read.BelowVersion - 1
	}
	for limit := min(read.ListVersions, maxListLimit); next >= first && len(numbers) < int(limit); next-- {
		numbers = append(numbers, next)
	}
	return numbers, next >= first
}

// mayList returns OK if the reader may list the document's versions, and otherwise the refusal.
func mayList(current *event.Document, read *event.Read, nowMS int64) event.OutcomeStatus {
	return fold.MayOwn(current, fold.Reader{Account: read.Requester, NowMS: nowMS})
}

// loadListed returns the heads of the earlier versions listed by the job's reads, by versionID.
func (r *reader) loadListed(ctx context.Context, job *readJob, documents map[string]*entry) (map[string]*event.Document, error) {
	heads := map[string]*event.Document{}
	wanted := map[string]bool{}
	var ids []string
	for _, i := range job.indexes {
		read := job.batch.Reads[i]
		current := documents[read.Item]
		if read.ListVersions == 0 || current == nil || mayList(current.doc, read, job.batch.NowMs) != event.OutcomeStatus_OK {
			continue
		}
		numbers, _ := versionNumbers(current.doc, read)
		for _, n := range numbers {
			id := versionID(read.Item, n)
			if n == current.doc.Version || wanted[id] {
				continue
			}
			wanted[id] = true
			if e, _ := r.memory.get(id); e != nil {
				heads[id] = e.head()
				continue
			}
			ids = append(ids, id)
		}
	}
	err := r.loadCurrent(ctx, job, r.names.versions, ids, views.Heads, func(d views.Doc) (err error) {
		heads[d.ID], err = readDocument(d)
		return err
	})
	return heads, err
}

// versions answers with a list of versions. A missing one was deleted with its document after that was read.
func (a *answers) versions(index uint32, current *event.Document, heads map[string]*event.Document, read *event.Read, nowMS int64) {
	if refusal := mayList(current, read, nowMS); refusal != event.OutcomeStatus_OK {
		a.next(index, 0).Status = refusal
		return
	}
	numbers, more := versionNumbers(current, read)
	found := make([]*event.Document, 0, len(numbers))
	bytes := 0
	for _, n := range numbers {
		d := heads[versionID(read.Item, n)]
		if n == current.Version {
			d = current
		}
		if d == nil {
			continue
		}
		found = append(found, &event.Document{
			Version: n, Title: d.Title, Language: d.Language, UpdatedMs: d.UpdatedMs,
			Content: &event.Content{SizeBytes: d.GetContent().GetSizeBytes()},
		})
		bytes += found[len(found)-1].SizeVT()
	}
	answer := a.next(index, bytes)
	answer.Status, answer.Versions, answer.MoreVersions = event.OutcomeStatus_OK, found, more
}
