package pkg

import (
	_ "github.com/cespare/xxhash/v2"
	_ "github.com/google/uuid"
	_ "github.com/maypok86/otter/v2"
	_ "github.com/minio/minio-go/v7"
	_ "github.com/nats-io/nats-server/v2/server"
	_ "github.com/nats-io/nats.go/jetstream"
	_ "github.com/planetscale/vtprotobuf/protohelpers"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "go.mongodb.org/mongo-driver/v2/mongo"
	_ "golang.org/x/crypto/argon2"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sync/semaphore"
	_ "golang.org/x/sys/unix"
	_ "google.golang.org/protobuf/proto"
	_ "modernc.org/sqlite"
	_ "pgregory.net/rapid"
)
