// Package mongo keeps read models in MongoDB.
//
// It asks little of the server: documents are replaced by _id, and read by _id
// or by indexed equality with a sort and a limit. It uses no transactions,
// change streams, TTL or partial indexes.
//
// A batch is atomic because its checkpoint, a single document, carries it, or
// names the documents that carry a batch too large for one. So moving the
// checkpoint records the changes, and a process that reads a checkpoint whose
// batch may not be written yet writes it first. Writing it twice or late is
// harmless, since a document is never replaced by one with a smaller sequence.
package mongo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"quire.dev/pkg/views"
)

const (
	defaultTimeout = 10 * time.Second
	// tombstoneAge is how long a deletion is remembered: longer than any commit
	// in progress with an older state of the document.
	tombstoneAge  = time.Hour
	sweepInterval = 5 * time.Minute
	// loadChunk bounds the ids of one find.
	loadChunk = 1000
	// Collections of the store itself. Names of a views.Collection begin with a
	// letter.
	checkpointCollection = "_checkpoints"
	looseCollection      = "_batches"
	chunkCollection      = "_chunks"
)

// Config is the address of the server and the schema of the database.
type Config struct {
	URI         string
	Database    string
	Collections []views.Collection
	Timeout     time.Duration    // of a call whose context has no deadline; 0: 10 s
	Logger      *slog.Logger     // of the failures of Run; nil: silent
	Now         func() time.Time // ages deletions; nil: time.Now

	monitor *event.CommandMonitor // for tests, which interrupt calls
}

// Store is a views.Store in one database. Reads and writes go to the primary
// and count once a majority has them.
type Store struct {
	schema views.Schema
	client *mongo.Client
	db     *mongo.Database
	logger *slog.Logger
	now    func() time.Time
	close  func() error
	// recordBytes bounds the changes that one document records. It is
	// MaxDocBytes, and less in tests.
	recordBytes int

	mu          sync.Mutex
	completions map[string]*completion // by stream: the last one
}

var _ views.Store = (*Store)(nil)

// Open connects, creates missing indexes, and completes batches without a
// stream that a crash left half written. Indexes that are no longer declared
// stay, since instances of an older version may still use them.
func Open(ctx context.Context, config Config) (*Store, error) {
	schema, err := views.NewSchema(config.Collections)
	if err != nil {
		return nil, err
	}
	if config.Database == "" {
		return nil, fmt.Errorf("%w: no database named", views.ErrInvalid)
	}
	if config.Timeout == 0 {
		config.Timeout = defaultTimeout
	}
	client, err := mongo.Connect(options.Client().
		ApplyURI(config.URI).
		SetMonitor(config.monitor).
		SetTimeout(config.Timeout).
		SetServerSelectionTimeout(config.Timeout).
		SetReadPreference(readpref.Primary()).
		SetReadConcern(readconcern.Majority()).
		SetWriteConcern(writeconcern.Majority()))
	if err != nil {
		return nil, fmt.Errorf("%w: connect to MongoDB: %w", views.ErrInvalid, err)
	}
	s := &Store{schema: schema, client: client, db: client.Database(config.Database), logger: config.Logger, now: config.Now, recordBytes: views.MaxDocBytes, completions: map[string]*completion{}}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.close = sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), config.Timeout)
		defer cancel()
		return client.Disconnect(ctx)
	})
	if err := s.createIndexes(ctx); err != nil {
		return nil, errors.Join(failure(ctx, "create indexes", err), s.close())
	}
	if err := s.completeLoose(ctx, s.now()); err != nil {
		return nil, errors.Join(failure(ctx, "complete batches", err), s.close())
	}
	return s, nil
}

// createIndexes puts the keys of an index into its name, so that changed keys
// under the same name create another index.
func (s *Store) createIndexes(ctx context.Context) error {
	for _, c := range s.schema.Collections() {
		models := []mongo.IndexModel{{
			Keys:    bson.D{{Key: "gone", Value: 1}},
			Options: options.Index().SetName("gone").SetSparse(true),
		}}
		for _, index := range c.Indexes {
			name, keys := index.Name, bson.D{}
			for _, key := range index.Keys {
				name += "." + key
				keys = append(keys, bson.E{Key: keyField(key), Value: 1})
			}
			models = append(models, mongo.IndexModel{
				Keys:    append(keys, bson.E{Key: "_id", Value: 1}),
				Options: options.Index().SetName(name),
			})
		}
		// One at a time: FerretDB fails on several existing ones.
		for _, model := range models {
			if _, err := s.db.Collection(c.Name).Indexes().CreateOne(ctx, model); err != nil {
				return fmt.Errorf("collection %s: %w", c.Name, err)
			}
		}
	}
	return nil
}

// failure wraps an error of the driver.
func failure(ctx context.Context, what string, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	return views.Unavailable(what, err)
}

// Close closes the connections. It may be called more than once.
func (s *Store) Close() error {
	if err := s.close(); err != nil {
		return views.Unavailable("close", err)
	}
	return nil
}

// Load implements views.Store.
func (s *Store) Load(ctx context.Context, collection string, ids []string, parts views.Parts) ([]views.Doc, error) {
	if err := s.schema.CheckLoad(collection, ids); err != nil {
		return nil, err
	}
	what := "load from " + collection
	found := options.Find()
	if parts == views.Heads {
		found.SetProjection(bson.D{{Key: "b", Value: 0}})
	}
	var docs []views.Doc
	for _, chunk := range chunksOfIDs(ids) {
		more, err := s.find(ctx, collection, byIDs(chunk), found)
		if err != nil {
			return nil, failure(ctx, what, err)
		}
		docs = append(docs, more...)
	}
	return docs, nil
}

// List implements views.Store.
func (s *Store) List(ctx context.Context, collection string, q views.Query) ([]views.Doc, error) {
	index, err := s.schema.CheckQuery(collection, q)
	if err != nil {
		return nil, err
	}
	what := "list " + collection + "." + q.Index
	docs, err := s.find(ctx, collection, listFilter(index, q), options.Find().
		SetSort(listSort(index, q)).SetLimit(int64(q.Limit)).SetProjection(bson.D{{Key: "b", Value: 0}}))
	if err != nil {
		return nil, failure(ctx, what, err)
	}
	return docs, nil
}

func (s *Store) find(ctx context.Context, collection string, filter bson.D, found *options.FindOptionsBuilder) ([]views.Doc, error) {
	cursor, err := s.db.Collection(collection).Find(ctx, filter, found)
	if err != nil {
		return nil, err
	}
	var stored []document
	if err := cursor.All(ctx, &stored); err != nil {
		return nil, err
	}
	keys := s.schema.Keys(collection)
	docs := make([]views.Doc, 0, len(stored))
	for _, d := range stored {
		if d.Gone != nil {
			continue
		}
		doc, err := d.doc(keys)
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

// Insert implements views.Store.
func (s *Store) Insert(ctx context.Context, collection string, d views.Doc) error {
	if err := s.schema.CheckDoc(collection, d); err != nil {
		return err
	}
	what := "insert into " + collection
	stored := newDocument(d)
	// A tombstone may be swept between the two steps. The next iteration then
	// finds the id free.
	for range 3 {
		_, err := s.db.Collection(collection).InsertOne(ctx, stored)
		if err == nil {
			return nil
		}
		if !mongo.IsDuplicateKeyError(err) {
			return failure(ctx, what, err)
		}
		filter := append(byID(d.ID), bson.E{Key: "gone", Value: exists(true)}, bson.E{Key: "seq", Value: bson.D{{Key: "$lte", Value: stored.Seq}}})
		result, err := s.db.Collection(collection).ReplaceOne(ctx, filter, stored)
		if err != nil {
			return failure(ctx, what, err)
		}
		if result.MatchedCount == 1 {
			return nil
		}
		headers, err := s.headers(ctx, collection, []string{d.ID})
		if err != nil {
			return failure(ctx, what, err)
		}
		if found, ok := headers[d.ID]; ok && (found.Gone == nil || found.Seq > stored.Seq) {
			return fmt.Errorf("insert %q: %w", d.ID, views.ErrExists)
		}
	}
	return views.Unavailable(what, errors.New("the document is repeatedly inserted and deleted"))
}

// headers returns the sequences and deletion times of the stored documents,
// including tombstones.
func (s *Store) headers(ctx context.Context, collection string, ids []string) (map[string]document, error) {
	cursor, err := s.db.Collection(collection).Find(ctx, byIDs(ids), options.Find().
		SetProjection(bson.D{{Key: "seq", Value: 1}, {Key: "gone", Value: 1}}))
	if err != nil {
		return nil, err
	}
	var found []document
	if err := cursor.All(ctx, &found); err != nil {
		return nil, err
	}
	headers := make(map[string]document, len(found))
	for _, d := range found {
		headers[d.ID] = d
	}
	return headers, nil
}
