package mongo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"quire.dev/pkg/views"
)

// oldestMajor is the oldest version of MongoDB that Quire supports.
const oldestMajor = 6

// ErrOld means that the server's version is not supported.
var ErrOld = errors.New("MongoDB is older than version 6.0")

// Server is what an operator may have to know of a server.
type Server struct {
	Version    string
	Now        time.Time // the primary's clock
	ReplicaSet string    // its name; empty: none
	Members    int       // of the replica set, that hold data
	Arbiters   int
	Wide       bool // the user may do more than a service needs
}

// greeting has the fields of hello that Inspect uses.
type greeting struct {
	SetName   string    `bson:"setName"`
	Hosts     []string  `bson:"hosts"`
	Passives  []string  `bson:"passives"`
	Arbiters  []string  `bson:"arbiters"`
	LocalTime time.Time `bson:"localTime"`
}

// login has the fields of connectionStatus that Inspect uses.
type login struct {
	AuthInfo struct {
		Roles []role `bson:"authenticatedUserRoles"`
	} `bson:"authInfo"`
}

type role struct {
	Role string `bson:"role"`
	DB   string `bson:"db"`
}

// Inspect asks the primary about itself, and changes nothing. ErrOld if Quire does not run with it. It waits for no longer than
// ctx allows.
func Inspect(ctx context.Context, url string) (s Server, err error) {
	client, err := mongo.Connect(options.Client().ApplyURI(url).SetReadPreference(readpref.Primary()))
	if err != nil {
		return s, fmt.Errorf("%w: connect to MongoDB: %w", views.ErrInvalid, err)
	}
	defer func() { err = errors.Join(err, client.Disconnect(context.WithoutCancel(ctx))) }()
	admin := client.Database("admin")
	var hello greeting
	var build struct {
		Version string `bson:"version"`
	}
	var user login
	for _, ask := range []struct {
		command bson.D
		answer  any
	}{
		{bson.D{{Key: "hello", Value: 1}}, &hello},
		{bson.D{{Key: "buildInfo", Value: 1}}, &build},
		{bson.D{{Key: "connectionStatus", Value: 1}}, &user},
	} {
		if err := admin.RunCommand(ctx, ask.command).Decode(ask.answer); err != nil {
			return s, failure(ctx, "ask MongoDB about itself", err)
		}
	}
	s = Server{
		Version: build.Version, Now: hello.LocalTime, ReplicaSet: hello.SetName,
		Members: len(hello.Hosts) + len(hello.Passives), Arbiters: len(hello.Arbiters), Wide: isWide(user.AuthInfo.Roles),
	}
	return s, checkVersion(s.Version)
}

// isWide reports whether the roles allow more than reading and writing databases. A process that runs all services may have one user for
// all their databases.
func isWide(roles []role) bool {
	return slices.ContainsFunc(roles, func(r role) bool { return r.Role != "readWrite" || r.DB == "admin" })
}

func checkVersion(version string) error {
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < oldestMajor {
		return fmt.Errorf("%w: it is %q", ErrOld, version)
	}
	return nil
}
