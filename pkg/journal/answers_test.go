package journal

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/journal/journaltest"
)

// TestConfirmationsDoNotHideTheNextAcknowledgement: the fold answers each item of a batch by itself, so one batch is confirmed many
// times. What is left of these when the batch ends must not take the room of the answer to the next one, which would then
// wait for AckWait although it is stored. The answers come here before Run's goroutine looks, as on a busy machine.
func TestConfirmationsDoNotHideTheNextAcknowledgement(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	a, err := NewAppender(nc, Config[int]{
		Subject: "billing.0.usage", AckWait: time.Hour, Logger: slog.New(slog.DiscardHandler),
		Encode: func(uint64, []int) ([]byte, error) { return []byte("batch"), nil },
		Size:   func(int) int { return 5 },
		Failed: func([]int, uint64, error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	a.timer = time.NewTimer(time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	const items = 100
	for number := range uint64(3) {
		a.number = number + 1
		a.begin(a.number)
		a.receive(&nats.Msg{Subject: a.reply(a.number, 1), Data: fmt.Appendf(nil, `{"stream":"BILLING_0","seq":%d}`, a.number)})
		for range items {
			a.Confirm(a.number)
		}
		if sequence, err := a.publish(ctx, keptBatch{data: []byte("batch")}, nil); err != nil || sequence != a.number {
			t.Fatalf("batch %d: stored as %d, %v", a.number, sequence, err)
		}
		a.Confirm(a.number) // still of this batch, whose end Run's goroutine is about to note
		a.end()
		a.Confirm(a.number)
	}
}
