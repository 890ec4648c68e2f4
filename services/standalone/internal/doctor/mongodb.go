package doctor

import (
	"context"
	"fmt"
	"time"

	"quire.dev/pkg/views/mongo"
)

// mongoDB examines the server of the read models, asked through its primary.
func mongoDB(ctx context.Context, cfg Config) []Finding {
	begun := time.Now()
	s, err := mongo.Inspect(ctx, cfg.Settings.MongoURL)
	if err != nil {
		return []Finding{failed("MongoDB", err, "Check QUIRE_MONGO_URL, its user and password. docs/mongodb.md has what Quire needs.")}
	}
	return append([]Finding{clock(cfg, "clock of MongoDB", s.Now, begun)}, judgeMongoDB(s)...)
}

func judgeMongoDB(s mongo.Server) []Finding {
	const name = "MongoDB"
	found := []Finding{ok(name, "version %s", s.Version)}
	add := func(result Result, detail, advice string) {
		found = append(found, Finding{Check: name, Result: result, Detail: detail, Advice: advice})
	}
	switch {
	case s.ReplicaSet == "":
		add(Fail, "the server is in no replica set: with it, what exists nowhere else is lost, such as users", "Make it a replica set of three.")
	case s.Members < 3:
		add(Warn, fmt.Sprintf("only %d members of the replica set hold data", s.Members), "Add members until three do: with two, the loss of one stops all writes.")
	}
	if s.Arbiters > 0 {
		add(Warn, "the replica set has an arbiter: when a member with data is down, no write gets a majority", "Replace the arbiter by a member with data.")
	}
	if s.Wide {
		add(Warn, "the user may do more than read and write Quire's databases", "Give each service its own user, as deploy/mongodb/init.js does.")
	}
	return found
}
