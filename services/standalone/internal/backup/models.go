package backup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
)

// dumpModels copies the read models of a moment. Their copies are the same for every kind of store.
func (w *work) dumpModels(ctx context.Context, m *moment) error {
	w.manifest.Models = nil
	for _, service := range event.Domains() {
		model := Model{Service: string(service), Checkpoints: m.checkpoints[service]}
		if service == event.Billing {
			if err := w.aloneCheckpoints(ctx, m, model.Checkpoints); err != nil {
				return err
			}
		}
		from, to := io.Pipe()
		dumped := make(chan struct{})
		go func() {
			defer close(dumped)
			out := bufio.NewWriterSize(to, 1<<16)
			err := w.dump(ctx, m, service, func(collection string, d views.Doc) error {
				model.Documents++
				if model.Documents%1024 == 0 {
					w.from.Progress("copying the read model of "+string(service), model.Documents, 0)
				}
				_, err := out.Write(appendDoc(nil, collection, d))
				return err
			})
			if err == nil {
				err = out.Flush()
			}
			_ = to.CloseWithError(err) // never fails
		}()
		part, err := w.to.put(ctx, fmt.Sprintf("models/%s-%s", service, w.name), from, -1)
		_ = from.CloseWithError(errEnded) // ends the goroutine; never fails
		<-dumped                          // it uses the snapshot
		if err != nil {
			return fmt.Errorf("copy the read model of %s: %w", service, err)
		}
		model.Part = part
		w.manifest.Models = append(w.manifest.Models, model)
	}
	return nil
}

var errEnded = errors.New("the copy has ended")

// aloneCheckpoints replaces the checkpoints that belong to no journal.
func (w *work) aloneCheckpoints(ctx context.Context, m *moment, checkpoints map[string]uint64) error {
	alone, err := m.alone.Checkpoints(ctx)
	if err != nil {
		return err
	}
	for name, sequence := range alone {
		if w.journals[name] == nil {
			checkpoints[name] = sequence
		}
	}
	return nil
}

func (w *work) dump(ctx context.Context, m *moment, service event.Domain, take func(collection string, d views.Doc) error) error {
	for _, c := range w.from.Collections(service) {
		s := m.models[service]
		if service == event.Billing && w.from.Alone(c.Name) {
			s = m.alone
		}
		if err := s.Each(ctx, c.Name, func(d views.Doc) error { return take(c.Name, d) }); err != nil {
			return err
		}
	}
	return nil
}

// appendDoc encodes a document after its length: collection, id, sequence, number of keys, keys, head, body. Numbers are varints, and
// strings and bytes follow their length. A key is its name, its type ('i' or 's') and its value.
func appendDoc(b []byte, collection string, d views.Doc) []byte {
	text := func(out []byte, s []byte) []byte { return append(binary.AppendUvarint(out, uint64(len(s))), s...) }
	doc := text(nil, []byte(collection))
	doc = text(doc, []byte(d.ID))
	doc = binary.AppendUvarint(doc, d.Seq)
	doc = binary.AppendUvarint(doc, uint64(len(d.Keys)))
	for _, key := range d.Keys {
		doc = text(doc, []byte(key.Name))
		switch v := key.Value.Any().(type) {
		case int64:
			doc = binary.AppendVarint(append(doc, 'i'), v)
		case string:
			doc = text(append(doc, 's'), []byte(v))
		}
	}
	doc = text(text(doc, d.Head), d.Body)
	return text(b, doc)
}

// maxDoc bounds an encoded document.
const maxDoc = views.MaxDocBytes + 1<<20

// readDoc returns io.EOF at the end.
func readDoc(in *bufio.Reader) (collection string, d views.Doc, err error) {
	size, err := binary.ReadUvarint(in)
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrDamaged
		}
		return "", d, err
	}
	if size > maxDoc {
		return "", d, ErrDamaged
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(in, data); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrDamaged
		}
		return "", d, err
	}
	f := docFields{bytes.NewReader(data), nil}
	collection, d.ID, d.Seq = string(f.text()), string(f.text()), f.number()
	for range min(f.number(), size) {
		key := views.Key{Name: string(f.text())}
		switch kind, err := f.r.ReadByte(); {
		case err == nil && kind == 'i':
			n, err := binary.ReadVarint(f.r)
			f.fail(err)
			key.Value = views.Int(n)
		case err == nil && kind == 's':
			key.Value = views.String(string(f.text()))
		default:
			f.fail(ErrDamaged)
		}
		d.Keys = append(d.Keys, key)
	}
	d.Head, d.Body = f.text(), f.text()
	if f.err != nil || f.r.Len() > 0 {
		return "", d, ErrDamaged
	}
	return collection, d, nil
}

// docFields reads the fields of a document.
type docFields struct {
	r   *bytes.Reader
	err error
}

func (f *docFields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *docFields) number() uint64 {
	n, err := binary.ReadUvarint(f.r)
	f.fail(err)
	return n
}

func (f *docFields) text() []byte {
	n := f.number()
	if n > num.Uint64(f.r.Len()) {
		f.fail(ErrDamaged)
	}
	if f.err != nil {
		return nil
	}
	b := make([]byte, n)
	_, err := io.ReadFull(f.r, b)
	f.fail(err)
	return b
}

// Bounds of one commit of a restore.
const (
	loadDocs  = 1000
	loadBytes = 8 << 20
)

// load fills an empty read model.
func (m Model) load(ctx context.Context, in io.Reader, store views.Store, without func(string) bool) error {
	reader := bufio.NewReaderSize(in, 1<<16)
	var batch views.Batch
	size, count := 0, uint64(0)
	commit := func() error {
		if len(batch.Puts) == 0 {
			return nil
		}
		err := store.Commit(ctx, batch)
		batch.Puts, size = nil, 0
		return err
	}
	for {
		collection, d, err := readDoc(reader)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", m.Key, err)
		}
		count++
		if without != nil && without(collection) {
			continue
		}
		batch.Puts = append(batch.Puts, views.Put{Collection: collection, Doc: d, New: true})
		if size += d.SizeBytes(); len(batch.Puts) >= loadDocs || size >= loadBytes {
			if err := commit(); err != nil {
				return err
			}
		}
	}
	if count != m.Documents {
		return fmt.Errorf("%w: %s has %d documents instead of %d", ErrDamaged, m.Key, count, m.Documents)
	}
	if err := commit(); err != nil {
		return err
	}
	// The checkpoints come last: a read model without them is folded anew, if the rest of the restore does not happen.
	for stream, sequence := range m.Checkpoints {
		if err := store.Commit(ctx, views.Batch{Stream: stream, To: sequence}); err != nil {
			return err
		}
	}
	return nil
}
