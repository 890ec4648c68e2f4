package recent

import "unsafe"

const (
	chunkEntries = 1024
	entryBytes   = int(unsafe.Sizeof(entry{}))
)

type chunk [chunkEntries]entry

// slab is memory for entries. It grows by chunks, and a chunk shown by an image is copied before it is changed. So the fold
// does not pause while an image is written.
type slab struct {
	chunks []*chunk
	shown  []bool // by an image
	used   int    // number of entries ever used, including the reserved first one
}

func (s *slab) at(ref Ref) *entry { return &s.chunks[ref/chunkEntries][ref%chunkEntries] }

// edit is at for an entry to change.
func (s *slab) edit(ref Ref) *entry {
	i := ref / chunkEntries
	if s.shown[i] {
		c := *s.chunks[i]
		s.chunks[i], s.shown[i] = &c, false
	}
	return &s.chunks[i][ref%chunkEntries]
}

// grow returns an entry that was never used.
func (s *slab) grow() Ref {
	if s.used/chunkEntries == len(s.chunks) {
		s.chunks, s.shown = append(s.chunks, new(chunk)), append(s.shown, false)
	}
	s.used++
	return Ref(s.used - 1)
}
