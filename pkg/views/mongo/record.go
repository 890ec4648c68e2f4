package mongo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
)

// record holds the changes of a batch, in the document that decides the batch,
// until they are written. A larger batch is first stored in chunks, which the
// document names.
type record struct {
	Redo    []byte   `bson:"redo,omitempty"`
	Large   *chunked `bson:"large,omitempty"`
	changes []change // of Redo, where they need not be decoded
}

// chunked names the chunks of a large batch.
type chunked struct {
	ID      string `bson:"id"`
	Count   int    `bson:"count"`
	Written int    `bson:"written"` // number of chunks written
}

// chunkDocument is a part of a large batch. It is deleted once all parts are written.
type chunkDocument struct {
	ID     string    `bson:"_id"`
	Batch  string    `bson:"batch"`
	Stream string    `bson:"stream,omitempty"`
	From   int64     `bson:"from,omitempty"`
	At     time.Time `bson:"at"`
	Redo   []byte    `bson:"redo"`
}

func chunkID(batch string, n int) string { return batch + "/" + strconv.Itoa(n) }

func (s *Store) chunks() *mongo.Collection { return s.db.Collection(chunkCollection) }

// record builds the record of a batch, and stores the chunks of a large one.
func (s *Store) record(ctx context.Context, b views.Batch, changes []change) (record, error) {
	if b.SizeBytes() <= s.recordBytes {
		data, err := encodeRedo(changes)
		return record{Redo: data, changes: changes}, err
	}
	parts := chunksOf(changes, s.recordBytes)
	l := &chunked{ID: uuid.NewString(), Count: len(parts)}
	for n, part := range parts {
		data, err := encodeRedo(part)
		if err != nil {
			return record{}, err
		}
		chunk := chunkDocument{ID: chunkID(l.ID, n), Batch: l.ID, Stream: b.Stream, From: num.Int64(b.From), At: s.now().UTC(), Redo: data}
		if _, err := s.chunks().InsertOne(ctx, chunk); err != nil {
			return record{}, err
		}
	}
	return record{Large: l}, nil
}

// chunksOf splits the changes into runs of at most maxBytes, or of one change.
func chunksOf(changes []change, maxBytes int) [][]change {
	var parts [][]change
	first, size := 0, 0
	for i, c := range changes {
		if size += c.size; size > maxBytes && i > first {
			parts = append(parts, changes[first:i])
			first, size = i, c.size
		}
	}
	return append(parts, changes[first:])
}

// write writes the batch recorded in the document with that id, from the change
// written on, which it advances. Instead, the chunks of a large batch are
// marked in the document when written, so that every attempt gets further.
// Several calls may do so at the same time: one that falls behind may find its
// chunk deleted, and fails.
func (s *Store) write(ctx context.Context, in *mongo.Collection, id string, r record, written *int) error {
	if r.Large == nil {
		changes, err := r.changes, error(nil)
		if changes == nil {
			changes, err = decodeRedo(r.Redo)
		}
		if err != nil {
			return err
		}
		return s.apply(ctx, changes[*written:], written)
	}
	for n := r.Large.Written; n < r.Large.Count; n++ {
		var chunk chunkDocument
		if err := s.chunks().FindOne(ctx, byID(chunkID(r.Large.ID, n))).Decode(&chunk); err != nil {
			return fmt.Errorf("load chunk %d of a batch: %w", n, err)
		}
		changes, err := decodeRedo(chunk.Redo)
		if err != nil {
			return err
		}
		if err := s.apply(ctx, changes, new(int)); err != nil {
			return err
		}
		before := append(byID(id), bson.E{Key: "large.id", Value: r.Large.ID}, bson.E{Key: "large.written", Value: n})
		if _, err := in.UpdateOne(ctx, before, bson.D{{Key: "$set", Value: bson.D{{Key: "large.written", Value: n + 1}}}}); err != nil {
			return err
		}
	}
	return s.dropChunks(ctx, r)
}

func (s *Store) dropChunks(ctx context.Context, r record) error {
	if r.Large == nil {
		return nil
	}
	_, err := s.chunks().DeleteMany(ctx, bson.D{{Key: "batch", Value: r.Large.ID}})
	return err
}

// sweepChunks deletes chunks, stored up to until, of batches that were never
// decided.
func (s *Store) sweepChunks(ctx context.Context, until time.Time) error {
	old := bson.D{{Key: "at", Value: bson.D{{Key: "$lte", Value: until.UTC()}}}}
	cursor, err := s.chunks().Find(ctx, old, options.Find().SetProjection(bson.D{{Key: "redo", Value: 0}}))
	if err != nil {
		return err
	}
	var found []chunkDocument // few: only crashes leave any
	if err := cursor.All(ctx, &found); err != nil {
		return err
	}
	for _, c := range found {
		needed, err := s.needs(ctx, c)
		if err == nil && !needed {
			_, err = s.chunks().DeleteOne(ctx, byID(c.ID))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// needs reports whether the chunk's batch is decided, or may still be.
func (s *Store) needs(ctx context.Context, c chunkDocument) (bool, error) {
	if c.Stream == "" {
		err := s.loose().FindOne(ctx, byID(c.Batch)).Err()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return false, nil
		}
		return true, err
	}
	at, err := s.checkpoint(ctx, c.Stream)
	return at.Seq <= c.From || at.Batch.Large != nil && at.Batch.Large.ID == c.Batch, err
}
