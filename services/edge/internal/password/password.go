// Package password hashes and checks passwords, with limited concurrency.
package password

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"
	"golang.org/x/sync/semaphore"

	"quire.dev/pkg/num"
	"quire.dev/services/edge/internal/endpoint"
)

// The cost of a password hash: the minimum that RFC 9106 and OWASP recommend for argon2id, 19 MiB and two passes.
const (
	argonMemoryKiB = 19 * 1024
	argonTime      = 2
	argonThreads   = 1
	argonKeyBytes  = 32
	argonSaltBytes = 16

	hashWait = 5 * time.Second // for a turn
)

var errPasswordHash = errors.New("stored password hash is not argon2id")

// Hasher hashes and checks one kind of passwords. Each kind has its own concurrency limit, so that guesses at one don't delay
// another. A call that waits longer than hashWait fails with 503.
type Hasher struct{ turns *semaphore.Weighted }

// New returns a hasher that computes at most so many hashes at a time.
func New(most int) *Hasher { return &Hasher{turns: semaphore.NewWeighted(int64(most))} }

// Hash returns the argon2id hash in PHC form.
func (h *Hasher) Hash(ctx context.Context, password string) ([]byte, error) {
	salt := make([]byte, argonSaltBytes)
	rand.Read(salt)
	sum, err := h.argon(ctx, password, salt, argonCost{argonMemoryKiB, argonTime, argonThreads, argonKeyBytes})
	if err != nil {
		return nil, err
	}
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Appendf(nil, "$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version,
		argonMemoryKiB, argonTime, argonThreads, encode(salt), encode(sum)), nil
}

// Check reports whether hash is a hash of password.
func (h *Hasher) Check(ctx context.Context, hash []byte, password string) (bool, error) {
	cost, salt, want, err := parsePHC(string(hash))
	if err != nil {
		return false, err
	}
	got, err := h.argon(ctx, password, salt, cost)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}

type argonCost struct {
	memoryKiB, time uint32
	threads         uint8
	keyBytes        uint32
}

func (h *Hasher) argon(ctx context.Context, password string, salt []byte, cost argonCost) ([]byte, error) {
	wait, cancel := context.WithTimeout(ctx, hashWait)
	defer cancel()
	if err := h.turns.Acquire(wait, 1); err != nil {
		return nil, endpoint.Unavailable(err)
	}
	defer h.turns.Release(1)
	return argon2.IDKey([]byte(password), salt, cost.time, cost.memoryKiB, cost.threads, cost.keyBytes), nil
}

// parsePHC parses $argon2id$v=19$m=…,t=…,p=…$salt$hash. It rejects costs that no release has used, since any caller may have
// a hash checked.
func parsePHC(text string) (cost argonCost, salt, sum []byte, err error) {
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return cost, nil, nil, errPasswordHash
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &cost.memoryKiB, &cost.time, &cost.threads); err != nil {
		return cost, nil, nil, errPasswordHash
	}
	salt, err1 := base64.RawStdEncoding.DecodeString(parts[4])
	sum, err2 := base64.RawStdEncoding.DecodeString(parts[5])
	if err1 != nil || err2 != nil || len(sum) == 0 || cost.memoryKiB > 64<<10 || cost.time == 0 || cost.time > 8 || cost.threads == 0 {
		return cost, nil, nil, errPasswordHash
	}
	cost.keyBytes = num.Uint32(len(sum))
	return cost, salt, sum, nil
}
