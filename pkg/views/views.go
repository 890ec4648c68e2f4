// Package views defines the read models: documents that a service projects from
// its journal, loaded by id and listed by index.
//
// Three stores implement it, [quire.dev/pkg/views/sqlite] inside the process,
// [quire.dev/pkg/views/postgres] and [quire.dev/pkg/views/mongo] for a deployment;
// quire.dev/pkg/views/viewstest verifies the same guarantees for all of them.
//
// Everything here is safe for concurrent use. The caller owns the results of a
// call. It must not change the arguments later, since a write may continue
// after the caller's deadline.
package views

import (
	"context"
	"errors"
	"fmt"
)

// Bounds that all stores enforce, so that a service that works with one works
// with the others.
const (
	// MaxList is the largest Query.Limit.
	MaxList = 1000
	// MaxLoad is the largest number of ids in one Load.
	MaxLoad = 10_000
	// MaxDocBytes bounds Doc.SizeBytes: MongoDB takes no document above 16 MB.
	MaxDocBytes = 12 << 20
	// MaxBatchBytes bounds Batch.SizeBytes. It exceeds the changes of one
	// journal message, which have to be one batch: 4,096 requests, each of
	// which replaces a document of 64 KiB and keeps the previous version, make
	// 560 MB.
	MaxBatchBytes = 1 << 30
	// MaxIDBytes is the longest document id and stream name.
	MaxIDBytes = 512
	// MaxValueBytes is the longest string in Doc.Keys.
	MaxValueBytes = 1024
	// MaxIndexBytes bounds the strings of a document in one index, all together: an entry of a PostgreSQL index has 2,704 bytes
	// at most, id included.
	MaxIndexBytes = 2 * MaxValueBytes
)

var (
	// ErrExists means that Insert found the id taken.
	ErrExists = errors.New("views: document exists")
	// ErrConflict means that the checkpoint of the stream is not Batch.From:
	// another process projects this stream, or an earlier attempt at the same
	// commit, whose outcome was unknown, has succeeded. Nothing was changed.
	// Read the checkpoint and continue from there.
	ErrConflict = errors.New("views: checkpoint has moved")
	// ErrUnavailable is wrapped, together with the cause, by every error of a
	// store that fails, hangs or runs out of time. The outcome of a write that
	// returns it is unknown: all of it happened, or nothing did.
	ErrUnavailable = errors.New("views: store unavailable")
	// ErrInvalid is wrapped by errors about a request that every store refuses,
	// such as an unknown collection: a bug of the caller, not worth a retry.
	// Nothing was changed.
	ErrInvalid = errors.New("views: invalid request")
	// ErrTooLarge is wrapped by the error for a document above MaxDocBytes or
	// a batch above MaxBatchBytes. Nothing was changed.
	ErrTooLarge = errors.New("views: too large")
)

// Collection is a named set of documents, declared once by the service that
// owns it, when it opens the store.
//
// Indexes may be added later: the store builds them when it opens. A document
// that was written without a key enters an index over that key only when it is
// written again.
type Collection struct {
	Name    string // a letter from a to z, then such letters, digits and underscores; 48 at most
	Indexes []Index
}

// Index orders the documents of a collection by some of their keys, in the
// given order, and then by id. It contains only documents that have all of
// these keys.
type Index struct {
	Name string   // named like a Collection
	Keys []string // names in Doc.Keys; named like a Collection
}

// Doc is one document.
type Doc struct {
	ID string // not empty, valid UTF-8
	// Seq is the journal sequence of the last event that touched the document.
	// A write with a smaller Seq than the stored one is ignored, one with an
	// equal Seq rewrites the document. A deletion counts as newer than a Put of
	// the same Seq, so that a repeated Put can't resurrect a deleted document.
	// Documents without a journal may all have 0.
	Seq uint64
	// Keys are the index values, in any order; only keys of declared indexes
	// are allowed, each once. Within a collection, one key is always a string
	// or always an integer. A document without a key is not in the indexes that
	// need it.
	Keys Keys
	Head []byte // returned by lists too; nil and empty are equivalent
	Body []byte // the large part, returned on request; nil and empty are equivalent
}

// Keys is a list rather than a map, since every write creates one and it has a
// few keys at most.
type Keys []Key

// Key is one index value of a document.
type Key struct {
	Name  string
	Value Value
}

// Find returns the value of the key, or false.
func (k Keys) Find(name string) (Value, bool) {
	for i := range k {
		if k[i].Name == name {
			return k[i].Value, true
		}
	}
	return Value{}, false
}

// Get returns the value of the key, or the zero Value.
func (k Keys) Get(name string) Value {
	v, _ := k.Find(name)
	return v
}

// Parts selects how much of a document Load returns.
type Parts int

const (
	// Heads omits Body.
	Heads Parts = iota
	// Full is the whole document.
	Full
)

// Query requests a page of one index.
//
// The documents whose first index keys equal Equal are sorted by the remaining
// keys, then by id, all in the same direction; strings by their bytes. A
// query's range has no end: a caller that needs one stops reading.
type Query struct {
	Index string
	Equal []Value // values of the first keys of the index; may be empty
	// After and AfterID are an exclusive position in that order: values of all
	// keys after Equal, then an id. Both empty: from the beginning. An empty
	// AfterID sorts before every id.
	After   []Value
	AfterID string
	Desc    bool
	Limit   int // 1 to MaxList
}

// NextAfter returns q advanced past d, the last document of its page.
func (q Query) NextAfter(index Index, d Doc) Query {
	q.After = nil
	for _, key := range index.Keys[len(q.Equal):] {
		q.After = append(q.After, d.Keys.Get(key))
	}
	q.AfterID = d.ID
	return q
}

// Lister is the part of a Store, or of a Snapshot, that Each reads from.
type Lister interface {
	List(ctx context.Context, collection string, q Query) ([]Doc, error)
}

// ErrStop, returned by the callback of Each, ends it without an error.
var ErrStop = errors.New("views: stop")

// Each calls take for every document after the position of q, in the order of q. It stops at the first error that take returns, and
// returns it, or nil for ErrStop. It lists q.Limit documents at a time, MaxList if that is 0; q.Index is set to index. A document
// that is written meanwhile may be left out, or come twice if its place in the index changes.
func Each(ctx context.Context, store Lister, collection string, index Index, q Query, take func(Doc) error) error {
	q.Index = index.Name
	if q.Limit == 0 {
		q.Limit = MaxList
	}
	for {
		docs, err := store.List(ctx, collection, q)
		if err != nil {
			return fmt.Errorf("list %s: %w", collection, err)
		}
		for _, doc := range docs {
			if err := take(doc); errors.Is(err, ErrStop) {
				return nil
			} else if err != nil {
				return err
			}
		}
		if len(docs) < q.Limit {
			return nil
		}
		q = q.NextAfter(index, docs[len(docs)-1])
	}
}

// Put writes a document, new or not.
type Put struct {
	Collection string
	Doc        Doc
	// New promises that no document ever had this id, so that a store need not
	// look for one. A wrong promise can leave two documents under the id.
	// Insert is for callers that don't know.
	New bool
}

// Delete removes a document, known or not. For at least an hour, a Put with the
// same or a smaller Seq is ignored.
type Delete struct {
	Collection string
	ID         string
	Seq        uint64
}

// Batch is a set of changes applied together. Among several changes to one
// document, the largest Seq counts, then a Delete, then the later Put.
type Batch struct {
	// Stream names the checkpoint that moves with the batch: the stored one
	// must be From, and becomes To, which must be larger. A new stream is at 0.
	// An empty Stream involves no checkpoint.
	Stream   string
	From, To uint64
	Puts     []Put
	Deletes  []Delete
}

// Store holds the collections it was opened with. Errors other than the
// documented ones wrap ErrInvalid or ErrUnavailable.
type Store interface {
	// Load returns the existing documents among ids, in any order.
	Load(ctx context.Context, collection string, ids []string, parts Parts) ([]Doc, error)
	// List returns one page of an index, without bodies. Fewer documents than
	// Limit mean the end.
	List(ctx context.Context, collection string, q Query) ([]Doc, error)
	// Commit applies the batch, all or nothing, also across a crash. It returns
	// ErrConflict or an error wrapping ErrTooLarge.
	//
	// With the MongoDB store a concurrent reader may see part of a batch. A
	// batch that a crash left half written is completed by the next Checkpoint
	// or Commit of its stream, in any process, so that a service that reads
	// Checkpoint before it serves sees only whole batches.
	Commit(ctx context.Context, b Batch) error
	// Insert adds a document unless its id is taken, in which case it returns
	// ErrExists: of concurrent calls for an id, exactly one succeeds. A deleted
	// id is free, unless it was deleted with a larger Seq.
	Insert(ctx context.Context, collection string, d Doc) error
	// Checkpoint returns the position of a stream, 0 for an unknown one.
	//
	// With the MongoDB store it may, like all reads, miss the last commits for
	// a moment after an election. Without an election in between, later reads
	// are no older than the checkpoint.
	Checkpoint(ctx context.Context, stream string) (uint64, error)
	// Close releases the store's connections. Calls in progress are finished or
	// fail; later ones fail.
	Close() error
}

// Snapshot is a read model at one point in time, unaffected by later writes,
// including other processes'. Unlike a Store, only one goroutine may use it.
// Its errors wrap ErrUnavailable, except for errors of the caller's take.
type Snapshot interface {
	// Checkpoints returns the positions of all streams.
	Checkpoints(ctx context.Context) (map[string]uint64, error)
	// Each calls take with every document of a collection, in no particular
	// order, and returns its first error. The caller owns the document.
	Each(ctx context.Context, collection string, take func(Doc) error) error
	// Load and List are like Store's.
	Load(ctx context.Context, collection string, ids []string, parts Parts) ([]Doc, error)
	List(ctx context.Context, collection string, q Query) ([]Doc, error)
	Close() error
}

// Unavailable wraps the cause with ErrUnavailable and the name of the attempt.
func Unavailable(attempt string, cause error) error {
	return fmt.Errorf("%s: %w: %w", attempt, ErrUnavailable, cause)
}

// Resetter is implemented by all stores of this project, for repairs.
type Resetter interface {
	// SetAside empties collections and forgets the checkpoints of streams, so that their service makes both again. The documents
	// stay under other names, which begin with "aside" and name, where only people look: letters from a to z and digits. All
	// services of the store are stopped, and the next call is Close. A call that failed may be repeated under another name.
	SetAside(ctx context.Context, name string, collections, streams []string) error
}
