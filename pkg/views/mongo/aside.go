package mongo

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"quire.dev/pkg/views"
)

// SetAside implements views.Resetter. Collections called aside_<name>_<collection> keep the documents. The checkpoints go last: a
// service that starts between finds them beyond the documents, which an audit notices, and the call may be repeated.
func (s *Store) SetAside(ctx context.Context, name string, collections, streams []string) error {
	for _, stream := range streams {
		if _, err := s.settledCheckpoint(ctx, stream); err != nil {
			return views.Unavailable("set aside", err)
		}
	}
	for _, collection := range collections {
		all := bson.D{}
		cursor, err := s.db.Collection(collection).Find(ctx, all)
		if err != nil {
			return views.Unavailable("set aside", err)
		}
		kept := s.db.Collection("aside_" + name + "_" + collection)
		for cursor.Next(ctx) {
			if _, err = kept.InsertOne(ctx, cursor.Current); err != nil {
				break
			}
		}
		if err == nil {
			err = cursor.Err()
		}
		_ = cursor.Close(ctx)
		if err == nil {
			_, err = s.db.Collection(collection).DeleteMany(ctx, all)
		}
		if err != nil {
			return views.Unavailable(fmt.Sprintf("set %s aside", collection), err)
		}
	}
	for _, stream := range streams {
		if _, err := s.checkpoints().DeleteOne(ctx, byID(stream)); err != nil {
			return views.Unavailable("forget the checkpoint of "+stream, err)
		}
	}
	return nil
}
