package doctor

import (
	"strings"
	"testing"

	"quire.dev/pkg/views/mongo"
)

func TestMongoDBIsJudged(t *testing.T) {
	good := mongo.Server{Version: "8.0.21", ReplicaSet: "quire", Members: 3}
	for detail, c := range map[string]struct {
		change func(*mongo.Server)
		result Result
	}{
		"in no replica set": {func(s *mongo.Server) { s.ReplicaSet, s.Members = "", 0 }, Fail},
		"only 2 members":    {func(s *mongo.Server) { s.Members = 2 }, Warn},
		"an arbiter":        {func(s *mongo.Server) { s.Arbiters = 1 }, Warn},
		"may do more":       {func(s *mongo.Server) { s.Wide = true }, Warn},
	} {
		s := good
		c.change(&s)
		found := judgeMongoDB(s)
		if len(found) != 2 || found[1].Result != c.result || !strings.Contains(found[1].Detail, detail) || found[1].Advice == "" {
			t.Errorf("%s: %+v", detail, found)
		}
	}
	if found := judgeMongoDB(good); len(found) != 1 || found[0].Result != OK {
		t.Errorf("%+v", found)
	}
}
