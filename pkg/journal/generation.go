package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/num"
)

// A journal that is kept forever consists of generations: streams that follow one another without a gap in the sequences. The first one
// has the journal's name, the next one oddSuffix after it, and so on in turn: at most two exist. Readers see one journal, under its name.
const (
	forever   = "BILLING_" // begins the names of the journals that are kept forever
	oddSuffix = "_ODD"     // ends the names of generations 1, 3, 5, …
)

// Keys of the metadata of a generation.
const (
	generationKey = "quire-generation" // its number; missing: 0
	lastKey       = "quire-last"       // sequence of the last message of a closed one
	closedKey     = "quire-closed"     // time at which it was closed
	aloneKey      = "quire-alone"      // of an open one: time at which its predecessor was found to be deleted
	closerKey     = "quire-closer"     // id of the call that closes it, and since when
)

// closedToken ends the subject of the message that is the last one of a generation.
const closedToken = ".closed"

// silentWait is the time without an answer after which a server counts as lost. Servers are heard from each second.
const silentWait = 3 * time.Second

// ErrGenerations: the generation before the open one must be deleted first.
var ErrGenerations = errors.New("the generation before is still there")

// Generation is one stream of a journal that is kept forever.
type Generation struct {
	Stream      string    // its name
	Number      int       // counted from 0
	First, Last uint64    // Last is First-1 in an empty one
	Closed      time.Time // zero: it is open
	Created     time.Time
	Oldest      time.Time // time of the first message; zero: empty
	Alone       time.Time // when its predecessor was found to be deleted; zero: not yet
	Bytes       uint64
}

// Name is the name of the journal that a stream belongs to.
func Name(stream string) string { return strings.TrimSuffix(stream, oddSuffix) }

// OtherStream is the name of the generation before or after.
func OtherStream(stream string) string {
	if even, odd := strings.CutSuffix(stream, oddSuffix); odd {
		return even
	}
	return stream + oddSuffix
}

// ClosedSubject is the subject of the last message of a generation, whose only subject it is then.
func ClosedSubject(stream string) string {
	return strings.ToLower(strings.Replace(Name(stream), "_", ".", 1)) + closedToken
}

// IsClosing reports whether a stream with these subjects takes no message but the last one of its generation.
func IsClosing(stream string, subjects []string) bool {
	return slices.Equal(subjects, []string{ClosedSubject(stream)})
}

// closes reports whether a message is the last one of its generation, or was to be: an attempt that failed leaves one in between.
func closes(stream, subject string) bool {
	return strings.HasPrefix(stream, forever) && strings.HasSuffix(subject, closedToken)
}

// names are the names of a journal's streams. A journal without generations has one.
func names(stream string) []string {
	if !strings.HasPrefix(stream, forever) {
		return []string{stream}
	}
	return []string{stream, OtherStream(stream)}
}

// extent is one generation, as its leader reports it.
type extent struct {
	name    string
	number  int
	closed  bool // its last message is known: Last
	closing bool // it takes no messages, except for the last one
	Replication
	info *streamInfo
}

// extent asks for one stream.
func (j *Journal) extent(ctx context.Context, name string) (extent, error) {
	answer := &streamInfo{}
	if err := j.ask(ctx, "STREAM.INFO."+name, nil, answer); err != nil {
		return extent{}, err
	}
	if answer.Error != nil {
		return extent{}, j.apiFailure("read state of", answer.Error)
	}
	e := extent{name: name, info: answer}
	var err error
	if e.Replication, err = answer.replication(); err == nil {
		err = e.parse(answer)
	}
	if err != nil {
		return extent{}, j.metrics.count(fmt.Errorf("read state of %s: %w", name, err))
	}
	j.files.learn(name, e.Last)
	return e, nil
}

func (e *extent) parse(info *streamInfo) (err error) {
	if e.number, e.closed, err = generationOf(info.Config.Metadata); err != nil || !e.closed {
		e.closing = IsClosing(e.name, info.Config.Subjects)
		return err
	}
	e.closing = true
	last, err := strconv.ParseUint(info.Config.Metadata[lastKey], 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s is %q", ErrStreamConfig, lastKey, info.Config.Metadata[lastKey])
	}
	e.Last = last
	return nil
}

// generationOf returns what the metadata of a stream says about its generation.
func generationOf(metadata map[string]string) (number int, closed bool, err error) {
	if text := metadata[generationKey]; text != "" {
		if number, err = strconv.Atoi(text); err != nil || number < 0 {
			return 0, false, fmt.Errorf("%w: %s is %q", ErrStreamConfig, generationKey, text)
		}
	}
	return number, metadata[lastKey] != "", nil
}

// newest returns the generation that takes messages, or the last one that did while there is no next one yet. It asks one server, as
// long as the journal has one generation.
func (j *Journal) newest(ctx context.Context) (extent, error) {
	all := names(j.stream)
	at := int(j.open.Load()) % len(all)
	e, err := j.extent(ctx, all[at])
	missing := errors.Is(err, ErrNoStream)
	if err != nil && !missing || !missing && !e.closing || len(all) == 1 {
		return e, err
	}
	next, nextErr := j.extent(ctx, all[1-at])
	switch {
	case nextErr == nil && (missing || next.number > e.number):
		j.open.Store(num.Int32(1 - at))
		return next, nil
	case nextErr == nil || errors.Is(nextErr, ErrNoStream):
		return e, err
	}
	return extent{}, nextErr
}

// extents returns the generations that the servers have, oldest first.
func (j *Journal) extents(ctx context.Context) ([]extent, error) {
	newest, err := j.newest(ctx)
	if err != nil {
		return nil, err
	}
	if newest.number == 0 {
		return []extent{newest}, nil // there is no other one: newest has asked if it is closing
	}
	older, err := j.extent(ctx, OtherStream(newest.name))
	switch {
	case errors.Is(err, ErrNoStream):
		return []extent{newest}, nil
	case err != nil:
		return nil, err
	case older.number > newest.number: // opened meanwhile
		older, newest = newest, older
	}
	older.end(newest)
	return []extent{older, newest}, nil
}

// end has a generation end where the next one begins, whatever its leader knows of that.
func (e *extent) end(next extent) {
	e.closed, e.closing = true, true
	e.Last = next.info.Config.FirstSeq - 1
}

// whole is what the extents are together: the replication of the newest one, and the extent of all.
func whole(list []extent) Replication {
	r := list[len(list)-1].Replication
	for _, older := range list[:len(list)-1] {
		r.First = older.First
		r.Messages += older.Messages
		r.Bytes += older.Bytes
	}
	return r
}

// extentWith is the extent that has a message, or will have it.
func extentWith(list []extent, sequence uint64) extent {
	for _, e := range list {
		if e.closed && sequence <= e.Last {
			return e
		}
	}
	return list[len(list)-1]
}

// Generations returns the generations of a journal that the servers have, oldest first: one, or two.
func Generations(ctx context.Context, nc *nats.Conn, s Stream) ([]Generation, error) {
	extents, err := Open(nc, s.Name).extents(ctx)
	if err != nil {
		return nil, err
	}
	var list []Generation
	for _, e := range extents {
		g := Generation{
			Stream: e.name, Number: e.number, First: max(e.First, 1), Last: e.Last, Bytes: e.Bytes, Created: e.info.Created, Oldest: e.info.State.FirstTime,
		}
		for key, into := range map[string]*time.Time{closedKey: &g.Closed, aloneKey: &g.Alone} {
			text := e.info.Config.Metadata[key]
			if text == "" {
				continue
			}
			if *into, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return nil, fmt.Errorf("%w: %s of %s: %w", ErrStreamConfig, key, e.name, err)
			}
		}
		list = append(list, g)
	}
	return list, nil
}

// NoteAlone records in the open generation that its predecessor is deleted, unless it already says so.
func NoteAlone(ctx context.Context, nc *nats.Conn, open Generation) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("open jetstream: %w", err)
	}
	config, err := configOf(ctx, js, open.Stream)
	if err != nil {
		return fmt.Errorf("read %s: %w", open.Stream, err)
	}
	if config.Metadata[aloneKey] != "" {
		return nil
	}
	config.Metadata[aloneKey] = now()
	if _, err := js.UpdateStream(ctx, config); err != nil {
		return fmt.Errorf("update %s: %w", open.Stream, err)
	}
	return nil
}

// configOf reads the configuration of a stream. Its metadata may be changed.
func configOf(ctx context.Context, js jetstream.JetStream, stream string) (jetstream.StreamConfig, error) {
	existing, err := js.Stream(ctx, stream)
	if err != nil {
		return jetstream.StreamConfig{}, err
	}
	config := existing.CachedInfo().Config
	config.Metadata = maps.Clone(config.Metadata)
	return config, nil
}

// now is a time in metadata.
func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// generationName is the name of a generation's stream.
func generationName(stream string, number int) string {
	all := names(stream)
	return all[number%len(all)]
}

// DeleteGeneration deletes a closed generation. reading checks first that the stream of its name still is this generation, and that the
// next one is open. deleting, which need not have any other right, must not outlive the check for long: the name is used again.
func DeleteGeneration(ctx context.Context, reading, deleting *nats.Conn, g Generation) error {
	what := fmt.Sprintf("delete generation %d, %s", g.Number, g.Stream)
	list, err := Open(reading, Name(g.Stream)).extents(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case len(list) != 2 || list[1].closed:
		return fmt.Errorf("%s: %w: there is no open one after it", what, ErrNoStream)
	}
	if e := list[0]; e.name != g.Stream || e.number != g.Number || !e.closed || e.Last != g.Last || !e.info.Created.Equal(g.Created) {
		return fmt.Errorf("%s: %w: another one has its name", what, ErrNoStream)
	}
	var answer struct {
		Error *apiError `json:"error"`
	}
	del := Open(deleting, g.Stream)
	if err := del.ask(ctx, "STREAM.DELETE."+g.Stream, nil, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return del.apiFailure("delete", answer.Error)
	}
	return nil
}
