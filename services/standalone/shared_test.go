package standalone

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/inprocess"
)

// TestEachServiceUsesWhatIsShared: with it, the services do without consumers and without messages to the edge, and reads are answered
// from their memory. Without it all of them work over NATS.
func TestEachServiceUsesWhatIsShared(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"shared": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var read, answered sync.Map // domains, and the last parts of the subjects of answers
			share := func(s inprocess.Shared) inprocess.Shared {
				if plain {
					return inprocess.Shared{}
				}
				reads := s.Reads
				s.Reads = func(d event.Domain, partition int, r *event.Read, after uint64, nowMS int64) *event.ReadAnswer {
					answer := reads(d, partition, r, after, nowMS)
					if answer != nil {
						read.Store(d, true)
					}
					return answer
				}
				return s
			}
			log, err := runWith(t, filepath.Join(t.TempDir(), "data"), Deps{Shared: share}, func(q *Quire) {
				nc := connectTo(t, q)
				_, err := nc.Subscribe(event.AnswerSubjects("*"), func(m *nats.Msg) {
					answered.Store(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], true)
				})
				if err != nil {
					t.Fatal(err)
				}
				use(t, q.URL())
				if err := nc.Flush(); err != nil {
					t.Fatal(err)
				}
				if n := consumers(t, q); plain != (n >= 4) || !plain && n > 0 { // of billing, paste, lite and file
					t.Errorf("%d consumers", n)
				}
			})
			if err != nil {
				t.Errorf("%v\n%s", err, log)
			}
			for _, subject := range []string{"verdict", "command", string(event.Paste), string(event.Lite), string(event.File)} {
				if _, passed := answered.Load(subject); passed != plain {
					t.Errorf("answers of %s pass the server: %v", subject, passed)
				}
			}
			for _, d := range event.Documents() {
				if _, called := read.Load(d); called == plain {
					t.Errorf("reads of %s are calls: %v", d, called)
				}
			}
		})
	}
}
