package edge

import (
	_ "github.com/getkin/kin-openapi/openapi3"
	_ "github.com/getkin/kin-openapi/openapi3filter"
	_ "github.com/getkin/kin-openapi/routers/gorillamux"
	_ "github.com/gofiber/fiber/v2"
	_ "github.com/google/uuid"
	_ "github.com/maypok86/otter/v2"
	_ "github.com/nats-io/nats.go"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "golang.org/x/crypto/argon2"
	_ "golang.org/x/sync/semaphore"
	_ "quire.dev/pkg/event"
)
