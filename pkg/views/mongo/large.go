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

	"quire.dev/pkg/views"
)

// largeDocument is the record of a batch that is too large for one document. Its
// changes are in chunks, which are stored before the batch is decided. A batch
// with a stream is decided when the checkpoint names this record, one without a
// stream by Decided. The record is deleted last, after its chunks.
type largeDocument struct {
	ID      string    `bson:"_id"`
	At      time.Time `bson:"at"`
	Stream  string    `bson:"stream,omitempty"`
	From    int64     `bson:"from,omitempty"`
	To      int64     `bson:"to,omitempty"`
	Decided bool      `bson:"decided"`
	Chunks  int       `bson:"chunks"`
	Written int       `bson:"written"` // the first so many chunks
}

// chunkDocument is a part of a large batch.
type chunkDocument struct {
	ID    string `bson:"_id"`
	Batch string `bson:"batch"`
	Redo  []byte `bson:"redo"`
}

func chunkID(batch string, n int) string { return batch + "/" + strconv.Itoa(n) }

func (s *Store) large() *mongo.Collection { return s.db.Collection(largeCollection) }

func (s *Store) chunks() *mongo.Collection { return s.db.Collection(chunkCollection) }

// commitLarge records the batch in chunks, decides it and writes it.
func (s *Store) commitLarge(ctx context.Context, b views.Batch, changes []change) error {
	l, err := s.recordLarge(ctx, b, changes)
	if err != nil {
		return err
	}
	if b.Stream == "" {
		err = s.decideLarge(ctx, l)
	} else {
		err = s.move(ctx, b, checkpointDocument{Stream: b.Stream, Seq: l.To, Large: l.ID})
		if errors.Is(err, views.ErrConflict) {
			return errors.Join(err, s.dropLarge(ctx, l))
		}
	}
	if err != nil {
		return err
	}
	if err := s.at(stageRecorded); err != nil {
		return err
	}
	_, err = s.completeLarge(ctx, l.ID)
	return err
}

// recordLarge stores the record and then the chunks, so that Sweep finds the
// chunks that a crash leaves behind.
func (s *Store) recordLarge(ctx context.Context, b views.Batch, changes []change) (largeDocument, error) {
	parts := chunksOf(changes, s.recordBytes)
	l := largeDocument{ID: uuid.NewString(), At: s.now().UTC(), Stream: b.Stream, From: int64(b.From), To: int64(b.To), Chunks: len(parts)}
	if _, err := s.large().InsertOne(ctx, l); err != nil {
		return l, err
	}
	for n, part := range parts {
		data, err := encodeRedo(part)
		if err != nil {
			return l, err
		}
		if _, err := s.chunks().InsertOne(ctx, chunkDocument{ID: chunkID(l.ID, n), Batch: l.ID, Redo: data}); err != nil {
			return l, err
		}
		if n < len(parts)-1 {
			if err := s.at(stageStored); err != nil {
				return l, err
			}
		}
	}
	return l, nil
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

// decideLarge decides a batch without a stream, unless Sweep has given it up.
func (s *Store) decideLarge(ctx context.Context, l largeDocument) error {
	decided, err := s.replaceLarge(ctx, l, func(next *largeDocument) { next.Decided = true })
	if err == nil && !decided {
		err = errors.Join(errors.New("the batch was given up: storing its chunks took an hour"), s.dropLarge(ctx, l))
	}
	return err
}

// replaceLarge changes the record where it still is as l.
func (s *Store) replaceLarge(ctx context.Context, l largeDocument, change func(next *largeDocument)) (bool, error) {
	filter := append(byID(l.ID), bson.E{Key: "decided", Value: l.Decided}, bson.E{Key: "written", Value: l.Written})
	change(&l)
	result, err := s.large().ReplaceOne(ctx, filter, l)
	if err != nil {
		return false, err
	}
	return result.MatchedCount == 1, nil
}

// completeLarge writes a decided batch. It starts at the first chunk that is not
// noted as written, so that each attempt at a batch of many chunks gets further.
// It returns false where the record is gone, since another call has completed
// the batch. Several calls may do so at the same time.
func (s *Store) completeLarge(ctx context.Context, id string) (bool, error) {
	for missed := -1; ; {
		var l largeDocument
		if err := s.large().FindOne(ctx, byID(id)).Decode(&l); err != nil {
			if errors.Is(err, mongo.ErrNoDocuments) {
				return false, nil
			}
			return false, err
		}
		if l.Written == l.Chunks {
			return true, s.finishLarge(ctx, l)
		}
		var chunk chunkDocument
		err := s.chunks().FindOne(ctx, byID(chunkID(id, l.Written))).Decode(&chunk)
		if errors.Is(err, mongo.ErrNoDocuments) && missed != l.Written {
			missed = l.Written // another call may be further by now
			continue
		}
		if err != nil {
			return false, fmt.Errorf("chunk %d of a batch: %w", l.Written, err)
		}
		if err := s.writeChunk(ctx, l, chunk); err != nil {
			return false, err
		}
	}
}

func (s *Store) writeChunk(ctx context.Context, l largeDocument, chunk chunkDocument) error {
	changes, err := decodeRedo(chunk.Redo)
	if err != nil {
		return err
	}
	if err := s.apply(ctx, changes); err != nil {
		return err
	}
	if err := s.at(stagePart); err != nil {
		return err
	}
	if _, err := s.replaceLarge(ctx, l, func(next *largeDocument) { next.Written++ }); err != nil {
		return err
	}
	return s.at(stageNoted)
}

// finishLarge notes in the checkpoint that the batch is written. It deletes the
// record last, since after a crash in between the record is needed to go on.
func (s *Store) finishLarge(ctx context.Context, l largeDocument) error {
	if err := s.at(stageWritten); err != nil {
		return err
	}
	if err := s.dropChunks(ctx, l); err != nil {
		return err
	}
	if err := s.at(stageDropped); err != nil {
		return err
	}
	if l.Stream != "" {
		filter := append(byID(l.Stream), bson.E{Key: "large", Value: l.ID})
		if _, err := s.checkpoints().ReplaceOne(ctx, filter, checkpointDocument{Stream: l.Stream, Seq: l.To, Applied: true}); err != nil {
			return err
		}
	}
	if err := s.at(stageApplied); err != nil {
		return err
	}
	_, err := s.large().DeleteOne(ctx, byID(l.ID))
	return err
}

func (s *Store) dropChunks(ctx context.Context, l largeDocument) error {
	_, err := s.chunks().DeleteMany(ctx, bson.D{{Key: "batch", Value: l.ID}})
	return err
}

// dropLarge deletes a batch that can't be decided any more. If it fails, Sweep
// does it later.
func (s *Store) dropLarge(ctx context.Context, l largeDocument) error {
	if err := s.dropChunks(ctx, l); err != nil {
		return err
	}
	_, err := s.large().DeleteOne(ctx, byID(l.ID))
	return err
}

// sweepLarge completes the large batches that were recorded before then and are
// decided. It drops those that were not decided within an hour.
func (s *Store) sweepLarge(ctx context.Context, until time.Time) error {
	cursor, err := s.large().Find(ctx, bson.D{{Key: "at", Value: bson.D{{Key: "$lte", Value: until.UTC()}}}})
	if err != nil {
		return err
	}
	var found []largeDocument // few: one for each crash and each Commit under way
	if err := cursor.All(ctx, &found); err != nil {
		return err
	}
	for _, l := range found {
		if err := s.sweepOne(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) sweepOne(ctx context.Context, l largeDocument) error {
	var at checkpointDocument
	if l.Stream != "" {
		var err error
		if at, err = s.checkpoint(ctx, l.Stream); err != nil {
			return err
		}
	}
	switch {
	case l.Decided || at.Large == l.ID || l.Written == l.Chunks:
		_, err := s.completeLarge(ctx, l.ID)
		return err
	case l.At.After(s.now().Add(-tombstoneAge)):
		return nil // its Commit may be under way
	case l.Stream == "":
		// This change of the record keeps its Commit from deciding it later.
		abandoned, err := s.replaceLarge(ctx, l, func(next *largeDocument) { next.Decided, next.Written = true, next.Chunks })
		if err != nil || !abandoned {
			return err
		}
		return s.dropLarge(ctx, l)
	case at.Seq > l.From:
		return s.dropLarge(ctx, l) // the checkpoint can't move to it any more
	}
	return nil
}
