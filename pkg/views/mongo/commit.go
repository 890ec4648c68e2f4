package mongo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
)

// bulkLimit bounds the documents of one command: FerretDB locks up on more than
// 50.
const bulkLimit = 32

// checkpointDocument is the position of a stream, plus the batch that moved it
// there until its documents are written.
type checkpointDocument struct {
	Stream  string `bson:"_id"`
	Seq     int64  `bson:"seq"`
	Applied bool   `bson:"applied"`
	Batch   record `bson:",inline"`
}

// looseDocument is a batch without a stream. It is deleted once its documents
// are written.
type looseDocument struct {
	ID    string    `bson:"_id"`
	At    time.Time `bson:"at"`
	Batch record    `bson:",inline"`
}

// Commit implements views.Store.
//
// A batch without a stream that names several documents is completed after a
// crash by the next Open or Sweep. Writes to the same documents should have
// increasing sequences. Otherwise the late completion undoes a later write of
// the same sequence.
func (s *Store) Commit(ctx context.Context, b views.Batch) error {
	if err := s.schema.CheckBatch(b); err != nil {
		return err
	}
	changes := changesOf(b, s.now())
	commit := s.commitStream
	if b.Stream == "" {
		commit = s.commitLoose
	}
	err := commit(ctx, b, changes)
	if err == nil || errors.Is(err, views.ErrConflict) {
		return err
	}
	return failure(ctx, "commit", err)
}

func (s *Store) commitStream(ctx context.Context, b views.Batch, changes []change) (err error) {
	next := checkpointDocument{Stream: b.Stream, Seq: num.Int64(b.To), Applied: len(changes) == 0}
	if !next.Applied {
		if next.Batch, err = s.record(ctx, b, changes); err != nil {
			return err
		}
	}
	err = s.move(ctx, b, next)
	if errors.Is(err, views.ErrConflict) {
		return errors.Join(err, s.dropChunks(ctx, next.Batch))
	}
	if err != nil || next.Applied {
		return err
	}
	return s.complete(ctx, next)
}

// move moves the checkpoint of the batch to next, or returns ErrConflict.
func (s *Store) move(ctx context.Context, b views.Batch, next checkpointDocument) error {
	for range 2 {
		moved, err := s.advance(ctx, num.Int64(b.From), next)
		if err != nil || moved {
			return err
		}
		// The previous batch may not be written yet.
		at, err := s.settledCheckpoint(ctx, b.Stream)
		if err != nil {
			return err
		}
		if at != num.Int64(b.From) {
			break
		}
	}
	return fmt.Errorf("commit %s from %d to %d: %w", b.Stream, b.From, b.To, views.ErrConflict)
}

func (s *Store) checkpoints() *mongo.Collection { return s.db.Collection(checkpointCollection) }

// advance moves the checkpoint. It returns false if the checkpoint is not at
// from, or its batch is not written yet.
func (s *Store) advance(ctx context.Context, from int64, next checkpointDocument) (bool, error) {
	if from == 0 {
		_, err := s.checkpoints().InsertOne(ctx, next)
		if mongo.IsDuplicateKeyError(err) {
			return false, nil
		}
		return err == nil, err
	}
	filter := append(byID(next.Stream), bson.E{Key: "seq", Value: from}, bson.E{Key: "applied", Value: true})
	result, err := s.checkpoints().ReplaceOne(ctx, filter, next)
	if err != nil {
		return false, err
	}
	return result.MatchedCount == 1, nil
}

// checkpoint returns the document of a stream, or the zero document.
func (s *Store) checkpoint(ctx context.Context, stream string) (found checkpointDocument, err error) {
	err = s.checkpoints().FindOne(ctx, byID(stream)).Decode(&found)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return checkpointDocument{Stream: stream, Applied: true}, nil
	}
	return found, err
}

// settledCheckpoint returns the checkpoint of a stream, after writing any batch that the
// checkpoint still carries.
func (s *Store) settledCheckpoint(ctx context.Context, stream string) (int64, error) {
	found, err := s.checkpoint(ctx, stream)
	if err != nil || found.Applied {
		return found.Seq, err
	}
	return found.Seq, s.complete(ctx, found)
}

// completion is a batch that its checkpoint still carries. All calls of a process share it and write in turn, each continuing
// where the previous one was cut off. Otherwise calls with a short deadline would each start over on a slow server, and keep it
// slow.
type completion struct {
	seq     int64
	turn    chan struct{} // held by the writing call
	written int           // number of changes, if not chunked
	done    bool
}

// completion returns the completion of the checkpoint's batch.
func (s *Store) completion(at checkpointDocument) *completion {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.completions[at.Stream]
	if c == nil || c.seq != at.Seq {
		c = &completion{seq: at.Seq, turn: make(chan struct{}, 1)}
		s.completions[at.Stream] = c
	}
	return c
}

// complete writes the batch of a checkpoint and marks it as written. Several
// processes may do so at the same time.
func (s *Store) complete(ctx context.Context, at checkpointDocument) error {
	c := s.completion(at)
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.done {
		return nil
	}
	if err := s.write(ctx, s.checkpoints(), at.Stream, at.Batch, &c.written); err != nil {
		return err
	}
	filter := append(byID(at.Stream), bson.E{Key: "seq", Value: at.Seq}, bson.E{Key: "applied", Value: false})
	_, err := s.checkpoints().ReplaceOne(ctx, filter, checkpointDocument{Stream: at.Stream, Seq: at.Seq, Applied: true})
	c.done = err == nil
	return err
}

// Checkpoint implements views.Store.
func (s *Store) Checkpoint(ctx context.Context, stream string) (uint64, error) {
	what := "checkpoint of " + stream
	at, err := s.settledCheckpoint(ctx, stream)
	if err != nil {
		return 0, failure(ctx, what, err)
	}
	return num.Uint64(at), nil
}

// apply writes the changes in order, one collection per command, and adds the
// number written to written. It skips changes older than the stored document.
func (s *Store) apply(ctx context.Context, changes []change, written *int) error {
	for len(changes) > 0 {
		collection := changes[0].Collection
		n := slices.IndexFunc(changes, func(c change) bool { return c.Collection != collection })
		if n < 0 {
			n = len(changes)
		}
		n = min(n, bulkLimit)
		if err := s.applyPart(ctx, collection, changes[:n]); err != nil {
			return fmt.Errorf("write to %s: %w", collection, err)
		}
		changes = changes[n:]
		*written += n
	}
	return nil
}

// applyPart writes the changes of one command. If a guard does not match, the
// upsert tries to add a second document with that id, and the server refuses
// the duplicate key: a newer document is stored, or another process has just
// added one. In the first case the change is skipped. In the second it is
// retried with all others: writing a document twice is harmless.
func (s *Store) applyPart(ctx context.Context, collection string, changes []change) error {
	for tries := 0; len(changes) > 0; {
		models := make([]mongo.WriteModel, 0, len(changes))
		for _, c := range changes {
			models = append(models, mongo.NewReplaceOneModel().SetFilter(c.Document.guard()).SetReplacement(c.Document).SetUpsert(true))
		}
		_, err := s.db.Collection(collection).BulkWrite(ctx, models, options.BulkWrite().SetOrdered(true))
		if err == nil {
			return nil
		}
		var refused mongo.BulkWriteException
		if !errors.As(err, &refused) || !mongo.IsDuplicateKeyError(err) || refused.WriteConcernError != nil {
			return err
		}
		left, lookErr := s.notOlder(ctx, collection, changes)
		if lookErr != nil {
			return errors.Join(err, lookErr)
		}
		if len(left) == len(changes) {
			if tries++; tries > 10 {
				return err
			}
		}
		changes = left
	}
	return nil
}

// notOlder returns the changes that may replace the stored documents.
func (s *Store) notOlder(ctx context.Context, collection string, changes []change) ([]change, error) {
	ids := make([]string, 0, len(changes))
	for _, c := range changes {
		ids = append(ids, c.Document.ID)
	}
	stored, err := s.headers(ctx, collection, ids)
	if err != nil {
		return nil, err
	}
	var left []change
	for _, c := range changes {
		if found, ok := stored[c.Document.ID]; !ok || c.Document.replaces(found) {
			left = append(left, c)
		}
	}
	return left, nil
}

func (s *Store) loose() *mongo.Collection { return s.db.Collection(looseCollection) }

func (s *Store) commitLoose(ctx context.Context, b views.Batch, changes []change) error {
	if len(changes) < 2 {
		return s.apply(ctx, changes, new(int))
	}
	loose := looseDocument{ID: uuid.NewString(), At: s.now().UTC()}
	var err error
	if loose.Batch, err = s.record(ctx, b, changes); err != nil {
		return err
	}
	if loose.Batch.Large != nil {
		loose.ID = loose.Batch.Large.ID
		if s.now().Sub(loose.At) > chunkAge/2 {
			return errors.New("storing the batch took too long; its chunks may have been deleted")
		}
	}
	if _, err := s.loose().InsertOne(ctx, loose); err != nil {
		return err
	}
	return s.finishLoose(ctx, loose)
}

func (s *Store) finishLoose(ctx context.Context, loose looseDocument) error {
	if err := s.write(ctx, s.loose(), loose.ID, loose.Batch, new(int)); err != nil {
		return err
	}
	_, err := s.loose().DeleteOne(ctx, byID(loose.ID))
	return err
}

// completeLoose completes the loose batches recorded up to until.
func (s *Store) completeLoose(ctx context.Context, until time.Time) error {
	// They are few: one for each crash and each Commit in progress.
	filter := bson.D{{Key: "at", Value: bson.D{{Key: "$lte", Value: until.UTC()}}}}
	for {
		var found looseDocument
		err := s.loose().FindOne(ctx, filter).Decode(&found)
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		if err == nil {
			err = s.finishLoose(ctx, found)
		}
		if err != nil {
			return err
		}
	}
}
