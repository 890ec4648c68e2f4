package journal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/natsfiles"
	"quire.dev/pkg/wait"
)

// Files are the files of a NATS server in this process. A follower reads messages from them instead of having a consumer
// deliver them: a server keeps each block read by consumers in memory for ten seconds, which is 1.2 KB for each creation of 1
// KiB.
//
// A message is read once the server is known to have stored it, from an appender or a State. Safe for concurrent use.
type Files struct {
	folder string // of the server

	mu     sync.Mutex
	stored map[string]*wait.Position // by stream
}

// NewFiles names the server's folder without opening anything.
func NewFiles(folder string) *Files {
	return &Files{folder: folder, stored: map[string]*wait.Position{}}
}

// Open is journal.Open for a Journal that is followed in the files. Every appender to the stream must have them too, or followers
// learn of its messages a second later. nil files: the server's consumers deliver.
func (f *Files) Open(nc *nats.Conn, stream string) *Journal {
	j := Open(nc, stream)
	j.files = f
	return j
}

// storedIn is the position of the last message of a stream known to be stored.
func (f *Files) storedIn(stream string) *wait.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.position(stream)
}

// position is storedIn for a caller that holds mu.
func (f *Files) position(stream string) *wait.Position {
	p := f.stored[stream]
	if p == nil {
		p = new(wait.Position)
		f.stored[stream] = p
	}
	return p
}

// learn records that the stream has stored all messages up to a sequence. It does nothing for nil files.
func (f *Files) learn(stream string, sequence uint64) {
	if f == nil || stream == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.position(stream); sequence > p.Get() {
		p.Set(sequence)
	}
}

// fromFile converts a message. Headers that can't be read are left out: nothing that is decided depends on them.
func fromFile(m natsfiles.Message) Message {
	out := Message{Sequence: m.Sequence, Time: m.Time, Subject: m.Subject, Data: m.Data}
	if len(m.Header) > 0 {
		out.Header, _ = nats.DecodeHeadersMsg(m.Header)
	}
	return out
}

// lookAgain is how often a follower that gets no notifications polls the end of its stream.
const lookAgain = time.Second

// readFiles follows a stream in its files until something ends it.
func (f *follower) readFiles(ctx context.Context, stream string, status <-chan nats.Status) error {
	j := f.journal
	stored := j.files.storedIn(stream)
	reader := natsfiles.NewReader(j.files.folder, stream)
	defer reader.Close()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		next := stored.Next()
		for last := stored.Get(); f.next <= last; {
			if err := ctx.Err(); err != nil {
				return err
			}
			m, err := reader.Read(f.next)
			if err != nil {
				f.unreadable = true // a consumer finds out whether the message is gone
				return reattach(fmt.Errorf("read message %d of %s: %w", f.next, stream, err))
			}
			if err := f.take(ctx, stream, fromFile(m)); err != nil {
				return err
			}
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		case s := <-status:
			return j.statusError(s)
		case <-look.C:
			asking, cancel := context.WithTimeout(ctx, f.timeout.Next())
			state, err := j.State(asking) // which learns the end
			cancel()
			if err == nil && state.Last+1 < f.next {
				err = ErrTruncated
			}
			if err != nil {
				return reattach(err)
			}
			f.timeout.Reset()
		}
	}
}
