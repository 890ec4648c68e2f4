package standalone

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/host"
	"quire.dev/pkg/journal/journaltest"
)

// text is a log that several goroutines write.
type text struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (x *text) Write(line []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all.Write(line)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all.String()
}

// TestOneProcessOnANATSClusterKeepsAsManyCopiesAsItIsTold, and warns if each journal is on only one server.
func TestOneProcessOnANATSClusterKeepsAsManyCopiesAsItIsTold(t *testing.T) {
	t.Parallel()
	cluster := journaltest.StartCluster(t, 3)
	const warning = "set QUIRE_REPLICAS"
	for _, replicas := range []int{1, 3} { // the second start adds the copies
		var log text
		q, err := New(host.Settings{
			Listen: "127.0.0.1:0", Data: t.TempDir(), Partitions: 1, Replicas: replicas, NATSURL: cluster.Node(0).URL(), AnonymousLimit: 10,
		}, Deps{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- q.Run(ctx) }()
		select {
		case <-q.Ready():
		case err := <-ended:
			t.Fatalf("it ended with %v\n%s", err, &log)
		}
		js, err := jetstream.New(cluster.Conn(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"BILLING_0", "PASTE_0", "LITE_0", "FILE_0"} {
			eventually.True(t, fmt.Sprintf("%d copies of %s", replicas, name), func() bool {
				stream, err := js.Stream(t.Context(), name)
				return err == nil && stream.CachedInfo().Config.Replicas == replicas
			})
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("stop: %v", err)
		}
		if warned := strings.Contains(log.String(), warning); warned != (replicas == 1) {
			t.Errorf("with %d copies it warned: %v\n%s", replicas, warned, &log)
		}
	}
}
