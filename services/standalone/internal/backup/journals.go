package backup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"quire.dev/pkg/archived"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/num"
	"quire.dev/pkg/segment"
)

const (
	// segmentBytes is the size at which a segment ends.
	segmentBytes = 8 << 20
	// maxMessage bounds a message of a segment that is read.
	maxMessage = 16 << 20
)

// appendMessage encodes a message: sequence and time in Unix nanoseconds (8 bytes each), length of the subject (2), length of the data
// (4), subject, data. Numbers are big-endian.
func appendMessage(b []byte, m journal.Message) []byte {
	b = binary.BigEndian.AppendUint64(b, m.Sequence)
	b = binary.BigEndian.AppendUint64(b, uint64(m.Time.UnixNano()))
	b = binary.BigEndian.AppendUint16(b, num.Uint16(len(m.Subject)))
	b = binary.BigEndian.AppendUint32(b, num.Uint32(len(m.Data)))
	return append(append(b, m.Subject...), m.Data...)
}

const messageHead = 22

// readMessage returns io.EOF at the end.
func readMessage(r io.Reader) (journal.Message, error) {
	var head [messageHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrDamaged
		}
		return journal.Message{}, err
	}
	subject, data := int(binary.BigEndian.Uint16(head[16:])), int(binary.BigEndian.Uint32(head[18:]))
	if data > maxMessage {
		return journal.Message{}, ErrDamaged
	}
	text := make([]byte, subject+data)
	if _, err := io.ReadFull(r, text); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrDamaged
		}
		return journal.Message{}, err
	}
	return journal.Message{
		Sequence: binary.BigEndian.Uint64(head[:]), Time: time.Unix(0, num.FromBits(binary.BigEndian.Uint64(head[8:]))).UTC(),
		Subject: string(text[:subject]), Data: text[subject:],
	}, nil
}

// segmenter writes the segments of a journal.
type segmenter struct {
	ctx         context.Context
	work        *work
	entry       string // of the manifest
	buf         []byte
	at          int // of the last message in buf
	first, last uint64
}

func (s *segmenter) add(m journal.Message) error {
	if len(s.buf) == 0 {
		s.first = m.Sequence
	}
	s.at, s.last = len(s.buf), m.Sequence
	s.buf = appendMessage(s.buf, m)
	if len(s.buf) >= segmentBytes {
		return s.flush()
	}
	return nil
}

func (s *segmenter) flush() error {
	if len(s.buf) == 0 {
		return nil
	}
	key := fmt.Sprintf("journals/%s/%020d-%020d-%s", s.entry, s.first, s.last, s.work.name)
	part, err := s.work.to.put(s.ctx, key, bytes.NewReader(s.buf), int64(len(s.buf)))
	if err != nil {
		return err
	}
	j := s.work.manifest.journal(s.entry)
	j.Segments = append(j.Segments, Segment{Part: part, First: s.first, Last: s.last, End: digest(s.buf[s.at:])})
	j.Last = s.last
	s.buf = s.buf[:0]
	return nil
}

// describe adds a journal to the manifest.
func (w *work) describe(ctx context.Context, s stream) error {
	_, created, err := w.journals[s.name].Made(ctx)
	if err != nil {
		return err
	}
	w.manifest.journal(s.name).Created = created.UTC()
	return nil
}

// copyBilling copies billing's journals from their first messages up to their present ends, and their archives up to there. Segments of
// an earlier run are kept.
func (w *work) copyBilling(ctx context.Context) error {
	ends, err := w.ends(ctx, event.Billing)
	if err != nil {
		return err
	}
	firsts, err := w.firsts(ctx)
	if err != nil {
		return err
	}
	for _, s := range streamsOf(w.manifest.Partitions, event.Billing) {
		if err := w.describe(ctx, s); err != nil {
			return err
		}
		first := firsts[s.name]
		kept, err := w.keepSegments(ctx, s, first, ends[s.name])
		if err != nil {
			return err
		}
		j := w.manifest.journal(s.name)
		j.Segments, j.First, j.Last = kept, first, first-1
		if len(kept) > 0 {
			j.First, j.Last = kept[0].First, kept[len(kept)-1].Last
		}
		if err := w.extend(ctx, s, ends[s.name]); err != nil {
			return err
		}
		if err := w.save(ctx); err != nil {
			return err
		}
	}
	return nil
}

// firsts returns the first sequences of billing's journals, and copies the segments that have the messages before: what was archived
// since the blobs were copied may be no longer in a journal.
func (w *work) firsts(ctx context.Context) (map[string]uint64, error) {
	firsts := map[string]uint64{}
	for _, s := range streamsOf(w.manifest.Partitions, event.Billing) {
		state, err := w.journals[s.name].State(ctx)
		if err != nil {
			return nil, err
		}
		firsts[s.name] = max(state.First, 1)
	}
	if err := w.blobs.copyAll(ctx, segment.Root); err != nil {
		return nil, err
	}
	for name, first := range firsts {
		if err := archived.Has(ctx, w.from.Blobs, name, first-1); err != nil {
			return nil, fmt.Errorf("%s begins with message %d: %w", name, first, err)
		}
	}
	return firsts, nil
}

// extend copies the messages of a journal after what is copied, up to a sequence.
func (w *work) extend(ctx context.Context, s stream, to uint64) error {
	out := &segmenter{ctx: ctx, work: w, entry: s.name}
	err := w.journals[s.name].Replay(ctx, w.manifest.journal(s.name).Last, to, out.add, func(done, total uint64) {
		w.from.Progress("copying "+s.name, done, total)
	})
	if err != nil {
		return err
	}
	return out.flush()
}

// keepSegments returns the segments of an earlier run that are still a beginning of the journal, from the one with its first message on.
// They are not if the installation was restored since, from a cut before their end.
func (w *work) keepSegments(ctx context.Context, s stream, first, end uint64) ([]Segment, error) {
	for _, m := range w.to.earlier() {
		var kept []Segment
		j := m.journal(s.name)
		last := max(j.First, 1) - 1
		for _, one := range j.Segments {
			if last+1 == one.First && one.Last < first { // archived alone since
				last = one.Last
				continue
			}
			after := j.Cut > 0 && one.Last > j.Cut // messages that the journal has elsewhere
			if after || len(kept) == 0 && one.First > first || one.First != last+1 || one.Last > end || !w.to.has(one.Part) {
				break
			}
			same, err := w.isSame(ctx, s, one)
			if err != nil {
				return nil, err
			}
			if !same {
				break
			}
			kept, last = append(kept, one), one.Last
		}
		if len(kept) > 0 {
			return kept, nil
		}
	}
	return nil, nil
}

// isSame reports whether the journal has the segment's last message.
func (w *work) isSame(ctx context.Context, s stream, segment Segment) (same bool, err error) {
	err = w.journals[s.name].Replay(ctx, segment.Last-1, segment.Last, func(m journal.Message) error {
		same = digest(appendMessage(nil, m)) == segment.End
		return nil
	}, nil)
	return same, err
}

// copyDocuments copies the document journals from their checkpoints to the cut, and one message more at the beginning, if they still
// have it: a stream needs a message to go on from.
func (w *work) copyDocuments(ctx context.Context, m *moment) error {
	for _, s := range streamsOf(w.manifest.Partitions, event.Documents()...) {
		if err := w.describe(ctx, s); err != nil {
			return err
		}
		state, err := w.journals[s.name].State(ctx)
		if err != nil {
			return err
		}
		checkpoint := m.checkpoints[s.domain][s.name]
		first := max(checkpoint, state.First, 1)
		if first > checkpoint+1 {
			return fmt.Errorf("%s begins with message %d, and the read model ends with %d: it can't be brought up to date", s.name, first, checkpoint)
		}
		j := w.manifest.journal(s.name)
		j.Segments, j.First, j.Cut, j.Last = nil, first, m.cut[s.name], first-1
		if err := w.extend(ctx, s, j.Cut); err != nil {
			return err
		}
	}
	return nil
}

// finishBilling copies the rest of billing's journals up to the cut, and after it the settlements that were under way.
func (w *work) finishBilling(ctx context.Context, m *moment) error {
	billing := streamsOf(w.manifest.Partitions, event.Billing)
	for _, s := range billing {
		if err := w.extend(ctx, s, m.cut[s.name]); err != nil {
			return err
		}
	}
	for _, s := range streamsOf(w.manifest.Partitions, event.Documents()...) {
		last, err := w.lastDecision(ctx, s, m)
		if err != nil {
			return err
		}
		if err := w.awaitSettled(ctx, s, last); err != nil {
			return err
		}
	}
	ends, err := w.ends(ctx, event.Billing)
	if err != nil {
		return err
	}
	for _, s := range billing {
		j := w.manifest.journal(s.name)
		j.Cut = j.Last
		out := &segmenter{ctx: ctx, work: w, entry: s.name}
		next := j.Cut + 1
		err := w.journals[s.name].Replay(ctx, j.Cut, ends[s.name], func(message journal.Message) error {
			under := underWay(s, message, m.cut)
			if under == nil {
				return nil
			}
			data, err := event.Encode(under)
			if err != nil {
				return err
			}
			message.Sequence, message.Data = next, data
			next++
			return out.add(message)
		}, nil)
		if err != nil {
			return err
		}
		if err := out.flush(); err != nil {
			return err
		}
	}
	return nil
}

// underWay returns the settlements of a message that are about documents before the cut, or nil.
func underWay(s stream, m journal.Message, cut map[string]uint64) *event.UsageBatch {
	batch := settlementsOf(s, m)
	if batch == nil {
		return nil
	}
	batch.Settlements = slices.DeleteFunc(batch.Settlements, func(settled *event.Settlement) bool { return settled.Sequence > cut[batch.Source] })
	if len(batch.Settlements) == 0 {
		return nil
	}
	return batch
}

// lastDecision returns the last copied message of a document journal that decides anything. A read model need not go on after it.
func (w *work) lastDecision(ctx context.Context, s stream, m *moment) (last uint64, err error) {
	err = w.manifest.journal(s.name).each(ctx, w.to, func(message journal.Message) error {
		if len(requestsOf(s, message)) > 0 && message.Sequence > m.checkpoints[s.domain][s.name] {
			last = message.Sequence
		}
		return nil
	})
	return last, err
}

// each calls take with all messages of a copied journal.
func (j *Journal) each(ctx context.Context, store blob.Store, take func(journal.Message) error) error {
	for next := j.reader(ctx, store); ; {
		m, ok, err := next()
		if err != nil || !ok {
			return err
		}
		if err := take(m); err != nil {
			return err
		}
	}
}

// reader returns a function that returns the messages one by one, and false after the last one.
func (j *Journal) reader(ctx context.Context, store blob.Store) func() (journal.Message, bool, error) {
	segments, want := j.Segments, j.First
	var part io.ReadCloser
	var in *bufio.Reader
	return func() (journal.Message, bool, error) {
		for {
			if part == nil {
				if len(segments) == 0 {
					if want != j.Last+1 {
						return journal.Message{}, false, fmt.Errorf("%w: %s ends with message %d instead of %d", ErrDamaged, j.Stream, want-1, j.Last)
					}
					return journal.Message{}, false, nil
				}
				var err error
				if part, err = segments[0].Open(ctx, store); err != nil {
					return journal.Message{}, false, err
				}
				in, segments = bufio.NewReaderSize(part, 1<<16), segments[1:]
			}
			m, err := readMessage(in)
			switch {
			case errors.Is(err, io.EOF):
				err, part = part.Close(), nil
				if err != nil {
					return journal.Message{}, false, err
				}
				continue
			case err == nil && m.Sequence != want:
				err = fmt.Errorf("%w: %s has message %d instead of %d", ErrDamaged, j.Stream, m.Sequence, want)
			}
			if err != nil {
				return journal.Message{}, false, errors.Join(err, part.Close())
			}
			want++
			return m, true, nil
		}
	}
}
