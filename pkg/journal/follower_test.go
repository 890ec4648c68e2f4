package journal

import (
	"errors"
	"testing"
	"time"

	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/wait"
)

// TestAFollowerKeepsWhatItKnowsOfReplicas: a stream of several is doubted for longer. A server that does not know the stream may be
// one that was just elected.
func TestAFollowerKeepsWhatItKnowsOfReplicas(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	f := &follower{journal: Open(nc, "NONE"), next: 1, replicas: 3, timeout: wait.Backoff{Initial: time.Minute, Max: time.Minute}}
	if err := f.once(t.Context(), nil); !errors.Is(err, ErrNoStream) || f.replicas != 3 {
		t.Errorf("%v, then %d replicas", err, f.replicas)
	}
}
