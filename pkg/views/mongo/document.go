package mongo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
)

// document is the stored form of a views.Doc. With gone, the time of its
// deletion, it is a tombstone: without keys and contents, and invisible to
// reads.
type document struct {
	ID   string     `bson:"_id"`
	Seq  int64      `bson:"seq"`
	Gone *time.Time `bson:"gone,omitempty"`
	Keys bson.D     `bson:"k,omitempty"`
	Head []byte     `bson:"h,omitempty"`
	Body []byte     `bson:"b,omitempty"`
}

func keyField(key string) string { return "k." + key }

func newDocument(d views.Doc) document {
	stored := document{ID: d.ID, Seq: num.Int64(d.Seq), Head: d.Head, Body: d.Body}
	for _, key := range d.Keys {
		stored.Keys = append(stored.Keys, bson.E{Key: key.Name, Value: key.Value.Any()})
	}
	slices.SortFunc(stored.Keys, func(a, b bson.E) int { return strings.Compare(a.Key, b.Key) })
	return stored
}

// doc returns the document without keys that are no longer declared.
func (d document) doc(declared []string) (views.Doc, error) {
	out := views.Doc{ID: d.ID, Seq: num.Uint64(d.Seq), Head: d.Head, Body: d.Body}
	for _, e := range d.Keys {
		if !slices.Contains(declared, e.Key) {
			continue
		}
		if out.Keys == nil {
			out.Keys = make(views.Keys, 0, len(d.Keys))
		}
		switch v := e.Value.(type) {
		case int64:
			out.Keys = append(out.Keys, views.Key{Name: e.Key, Value: views.Int(v)})
		case string:
			out.Keys = append(out.Keys, views.Key{Name: e.Key, Value: views.String(v)})
		default:
			return views.Doc{}, fmt.Errorf("key %s of %q is a %T", e.Key, d.ID, v)
		}
	}
	return out, nil
}

// change is a document or tombstone to write.
type change struct {
	Collection string   `bson:"c"`
	Document   document `bson:"d"`
	size       int      // upper bound of its encoded bytes
}

// redo is a batch, or a chunk of a large one, as recorded until it is written.
type redo struct {
	Changes []change `bson:"changes"`
}

// encodeRedo encodes changes, whose sizes are an upper bound of the result.
func encodeRedo(changes []change) ([]byte, error) {
	data, err := bson.Marshal(redo{Changes: changes})
	if err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	return data, nil
}

func decodeRedo(data []byte) ([]change, error) {
	var r redo
	if err := bson.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("decode batch: %w", err)
	}
	return r.Changes, nil
}

// changesOf returns the changes of the batch that count, one for each document, so that one command can write several.
func changesOf(b views.Batch, now time.Time) []change {
	now = now.UTC().Truncate(time.Millisecond)
	all := b.Changes()
	changes := make([]change, len(all))
	for i, c := range all {
		changes[i] = change{Collection: c.Collection, Document: newDocument(c.Doc), size: c.Doc.SizeBytes()}
		if c.Deleted {
			changes[i].Document.Gone = &now
		}
	}
	return changes
}

func byID(id string) bson.D { return bson.D{{Key: "_id", Value: id}} }

func byIDs(ids []string) bson.D {
	if len(ids) == 1 {
		return byID(ids[0])
	}
	return bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}
}

func exists(yes bool) bson.D { return bson.D{{Key: "$exists", Value: yes}} }

// guard matches the stored document if the change may replace it. A deletion
// wins over a put of the same sequence.
func (d document) guard() bson.D {
	if d.Gone != nil {
		return append(byID(d.ID), bson.E{Key: "seq", Value: bson.D{{Key: "$lte", Value: d.Seq}}})
	}
	return append(byID(d.ID), bson.E{Key: "$or", Value: bson.A{
		bson.D{{Key: "seq", Value: bson.D{{Key: "$lt", Value: d.Seq}}}},
		bson.D{{Key: "seq", Value: d.Seq}, {Key: "gone", Value: exists(false)}},
	}})
}

// replaces reports whether guard matches the stored document.
func (d document) replaces(stored document) bool {
	if stored.Seq != d.Seq {
		return stored.Seq < d.Seq
	}
	return d.Gone != nil || stored.Gone == nil
}

// listFilter selects one contiguous range of the index. The remaining keys must
// be strings or integers, which excludes documents without them. Unlike $exists
// this also bounds the index scan, which would otherwise read those documents
// one by one.
func listFilter(index views.Index, q views.Query) bson.D {
	filter := bson.D{}
	for i, v := range q.Equal {
		filter = append(filter, bson.E{Key: keyField(index.Keys[i]), Value: v.Any()})
	}
	rest := index.Keys[len(q.Equal):]
	positioned := len(q.After) > 0 || q.AfterID != ""
	beyond, from := "$gt", "$gte"
	if q.Desc {
		beyond, from = "$lt", "$lte"
	}
	for i, key := range rest {
		condition := bson.D{{Key: "$type", Value: bson.A{"long", "string"}}}
		if positioned && i == 0 {
			// Implied by $or, but lets the scan start there.
			condition = bson.D{{Key: from, Value: q.After[0].Any()}}
		}
		filter = append(filter, bson.E{Key: keyField(key), Value: condition})
	}
	if !positioned {
		return filter
	}
	if len(rest) == 0 {
		return append(filter, bson.E{Key: "_id", Value: bson.D{{Key: beyond, Value: q.AfterID}}})
	}
	// (a, b, id) > (x, y, z): a > x, or a = x and b > y, or both and id > z.
	var either bson.A
	var equal bson.D
	for i, key := range rest {
		either = append(either, append(slices.Clone(equal), bson.E{Key: keyField(key), Value: bson.D{{Key: beyond, Value: q.After[i].Any()}}}))
		equal = append(equal, bson.E{Key: keyField(key), Value: q.After[i].Any()})
	}
	either = append(either, append(equal, bson.E{Key: "_id", Value: bson.D{{Key: beyond, Value: q.AfterID}}}))
	return append(filter, bson.E{Key: "$or", Value: either})
}

func listSort(index views.Index, q views.Query) bson.D {
	direction := 1
	if q.Desc {
		direction = -1
	}
	var sort bson.D
	for _, key := range index.Keys[len(q.Equal):] {
		sort = append(sort, bson.E{Key: keyField(key), Value: direction})
	}
	return append(sort, bson.E{Key: "_id", Value: direction})
}

// chunksOfIDs returns the distinct ids, in chunks for one find each.
func chunksOfIDs(ids []string) [][]string {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	return slices.Collect(slices.Chunk(ids, loadChunk))
}
