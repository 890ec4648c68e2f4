package archive

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"quire.dev/pkg/proof"
	"quire.dev/pkg/segment"
	"quire.dev/pkg/tilelog"
)

// rewrittenWithLog: a message, and its entry of the log.
func (f *forger) rewrittenWithLog() finding {
	rest := f.segment()
	partition := f.partition(rest[0].Stream)
	was, is := f.rewrite(rest[0])
	f.remade(rest, is)
	entry := func(m segment.Message) []byte {
		return proof.Digest(partition, m.Sequence, time.Unix(0, m.TimeNanos), m.Subject, m.Data).Encode()
	}
	index := f.editLog(func(_ int64, list [][]byte) int {
		i := slices.IndexFunc(list, func(e []byte) bool { return bytes.Equal(e, entry(was)) })
		if i >= 0 {
			list[i] = entry(is)
		}
		return i
	})
	if index < 0 {
		f.t.Fatalf("message %d of %s is not in the log", was.Sequence, rest[0].Stream)
	}
	return refused(tilelog.ErrDamaged, fmt.Sprintf("entry %d is another one", index))
}

// editLog edits the entries of the first bundle in which edit finds one, and returns the entry's index in the log, -1 without one.
func (f *forger) editLog(edit func(bundle int64, list [][]byte) int) int64 {
	for n, key := range f.entries {
		list := entriesOf(get(f.t, f.blobs, key))
		i := edit(int64(n), list)
		if i < 0 {
			continue
		}
		var data []byte
		for _, e := range list {
			data = append(binary.BigEndian.AppendUint16(data, uint16(len(e))), e...)
		}
		put(f.t, f.blobs, key, data)
		return int64(n)*tileEntries + int64(i)
	}
	return -1
}

// entriesOf are the entries of a bundle.
func entriesOf(data []byte) (list [][]byte) {
	for len(data) > 0 {
		end := 2 + int(binary.BigEndian.Uint16(data))
		list, data = append(list, data[2:end]), data[end:]
	}
	return list
}

// editedLog: a bit of the log's entries. One of a length may make an entry of what follows.
func (f *forger) editedLog() finding {
	n := f.random.IntN(len(f.entries))
	list := entriesOf(get(f.t, f.blobs, f.entries[n]))
	offset, index := f.flip(f.entries[n]), n*tileEntries
	for _, e := range list {
		if offset < 2+len(e) {
			break
		}
		offset -= 2 + len(e)
		index++
	}
	want := finding{
		errs:   []error{tilelog.ErrDamaged, proof.ErrEntry},
		places: []string{fmt.Sprintf("entry %d is another one", index), fmt.Sprintf("entry %d of the log", index)},
	}
	if offset < 2 {
		path := strings.TrimPrefix(f.entries[n], proof.LogPrefix)
		want.places = append(want.places, path+" ends early", fmt.Sprintf("entry %d of the log", index+1))
	}
	return want
}

// omittedLog: a bundle of the log's entries.
func (f *forger) omittedLog() finding {
	key := f.entries[f.random.IntN(len(f.entries))]
	remove(f.t, f.blobs, key)
	bundle, _, _ := strings.Cut(key, ".p/") // the complete one is looked for too
	return refused(tilelog.ErrDamaged, bundle)
}

// reorderedLog: two entries of the log.
func (f *forger) reorderedLog() finding {
	n := int64(f.random.IntN(len(f.entries)))
	index := f.editLog(func(bundle int64, list [][]byte) int {
		if bundle != n || len(list) < 2 {
			return -1
		}
		i := f.random.IntN(len(list) - 1)
		other := i + 1 + f.random.IntN(len(list)-1-i)
		list[i], list[other] = list[other], list[i]
		return i
	})
	if index < 0 {
		return f.reorderedLog()
	}
	return refused(tilelog.ErrDamaged, fmt.Sprintf("entry %d is another one", index))
}

// oldCheckpoint: the log ends earlier. It is signed, so that a check tells how many messages it has compared with nothing.
func (f *forger) oldCheckpoint() finding {
	put(f.t, f.blobs, proof.LogCheckpoint, f.older)
	ends := slices.Clone(f.ends)
	for p := range ends {
		ends[p].Logged = f.olderEnd[p].Logged
		ends[p].Unlogged = ends[p].Archived - ends[p].Logged
	}
	return finding{ends: ends}
}

// otherKey: the log is signed anew, and half of the time its key is replaced too, which only a reader with the secret can know.
func (f *forger) otherKey() finding {
	f.secret = ""
	key, err := deriveKey(fmt.Sprintf("another secret of the log's key %d", f.random.Uint64()), "test")
	if err != nil {
		f.t.Fatal(err)
	}
	signer, err := deriveKey(testSecret, "test")
	if err != nil {
		f.t.Fatal(err)
	}
	tree, err := tilelog.Parse(get(f.t, f.blobs, proof.LogCheckpoint), signer.verifier)
	if err != nil {
		f.t.Fatal(err)
	}
	checkpoint, err := tilelog.Sign(tree, key)
	if err != nil {
		f.t.Fatal(err)
	}
	put(f.t, f.blobs, proof.LogCheckpoint, checkpoint)
	if f.random.IntN(2) == 0 {
		f.secret = testSecret
		put(f.t, f.blobs, proof.LogKey, []byte(key.public+"\n"))
	}
	return refused(tilelog.ErrCheckpoint, proof.LogCheckpoint)
}
