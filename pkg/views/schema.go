package views

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

const maxNameBytes = 48

// Schema is a validated set of collections. A store builds one when it is
// opened and checks every request against it. It is immutable.
type Schema struct {
	collections map[string]Collection
	keys        map[string][]string
}

// NewSchema checks the declarations and reports all faults at once.
func NewSchema(collections []Collection) (Schema, error) {
	s := Schema{collections: map[string]Collection{}, keys: map[string][]string{}}
	var faults []error
	names := map[string]bool{}
	for _, c := range collections {
		faults = append(faults, checkName("collection", c.Name, names))
		indexes := map[string]bool{}
		var keys []string
		for _, index := range c.Indexes {
			faults = append(faults, checkName("index of "+c.Name, index.Name, indexes))
			if len(index.Keys) == 0 {
				faults = append(faults, fmt.Errorf("index %s of %s has no keys", index.Name, c.Name))
			}
			used := map[string]bool{}
			for _, key := range index.Keys {
				faults = append(faults, checkName("key of "+c.Name+"."+index.Name, key, used))
				if !slices.Contains(keys, key) {
					keys = append(keys, key)
				}
			}
		}
		slices.Sort(keys)
		s.collections[c.Name], s.keys[c.Name] = c, keys
	}
	if err := errors.Join(faults...); err != nil {
		return Schema{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return s, nil
}

// checkName refuses upper-case letters, since SQLite ignores case.
func checkName(what, name string, seen map[string]bool) error {
	if seen[name] {
		return fmt.Errorf("%s: %q is declared twice", what, name)
	}
	seen[name] = true
	ok := name != "" && len(name) <= maxNameBytes
	for i, r := range name {
		letter := r >= 'a' && r <= 'z'
		ok = ok && (letter || i > 0 && (r == '_' || r >= '0' && r <= '9'))
	}
	if !ok {
		return fmt.Errorf("%s: invalid name %q: need a letter from a to z, then letters, digits and underscores, %d at most", what, name, maxNameBytes)
	}
	return nil
}

// Collections returns the declarations, sorted by name.
func (s Schema) Collections() []Collection {
	list := make([]Collection, 0, len(s.collections))
	for _, c := range s.collections {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Collection) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Keys returns the names of all index keys of a collection, sorted.
func (s Schema) Keys(collection string) []string { return s.keys[collection] }

// CheckLoad checks the arguments of Store.Load.
func (s Schema) CheckLoad(collection string, ids []string) error {
	if _, ok := s.collections[collection]; !ok {
		return fmt.Errorf("%w: load from unknown collection %q", ErrInvalid, collection)
	}
	if len(ids) > MaxLoad {
		return fmt.Errorf("%w: load of %d documents, %d at most", ErrInvalid, len(ids), MaxLoad)
	}
	for _, id := range ids {
		if err := checkText("id", id, MaxIDBytes); err != nil {
			return err
		}
	}
	return nil
}

// CheckQuery checks the arguments of Store.List and returns the index.
func (s Schema) CheckQuery(collection string, q Query) (Index, error) {
	c, ok := s.collections[collection]
	if !ok {
		return Index{}, fmt.Errorf("%w: list of unknown collection %q", ErrInvalid, collection)
	}
	at := slices.IndexFunc(c.Indexes, func(index Index) bool { return index.Name == q.Index })
	if at < 0 {
		return Index{}, fmt.Errorf("%w: %s has no index %q", ErrInvalid, collection, q.Index)
	}
	index := c.Indexes[at]
	if len(q.Equal) > len(index.Keys) {
		return Index{}, fmt.Errorf("%w: %d values for the %d keys of %s.%s", ErrInvalid, len(q.Equal), len(index.Keys), collection, q.Index)
	}
	positioned := len(q.After) > 0 || q.AfterID != ""
	if rest := len(index.Keys) - len(q.Equal); positioned && len(q.After) != rest {
		return Index{}, fmt.Errorf("%w: position of %d values where %s.%s has %d remaining keys", ErrInvalid, len(q.After), collection, q.Index, rest)
	}
	if q.Limit < 1 || q.Limit > MaxList {
		return Index{}, fmt.Errorf("%w: limit %d, must be 1 to %d", ErrInvalid, q.Limit, MaxList)
	}
	for _, v := range slices.Concat(q.Equal, q.After) {
		if err := checkValue(v); err != nil {
			return Index{}, err
		}
	}
	if len(q.AfterID) > MaxIDBytes || !utf8.ValidString(q.AfterID) {
		return Index{}, fmt.Errorf("%w: position %q is not an id", ErrInvalid, q.AfterID)
	}
	return index, nil
}

// CheckDoc checks a document before it is written.
func (s Schema) CheckDoc(collection string, d Doc) error {
	if _, ok := s.collections[collection]; !ok {
		return fmt.Errorf("%w: write to unknown collection %q", ErrInvalid, collection)
	}
	if err := checkText("id", d.ID, MaxIDBytes); err != nil {
		return err
	}
	if err := checkSeq(d.Seq); err != nil {
		return err
	}
	for i, key := range d.Keys {
		if !slices.Contains(s.keys[collection], key.Name) {
			return fmt.Errorf("%w: no index of %s has key %q", ErrInvalid, collection, key.Name)
		}
		if _, twice := d.Keys[:i].Find(key.Name); twice {
			return fmt.Errorf("%w: key %q is given twice", ErrInvalid, key.Name)
		}
		if err := checkValue(key.Value); err != nil {
			return err
		}
	}
	if size := d.SizeBytes(); size > MaxDocBytes {
		return fmt.Errorf("%w: document of %d bytes, %d at most", ErrTooLarge, size, MaxDocBytes)
	}
	return s.checkIndexes(collection, d.Keys)
}

// checkIndexes bounds the document's entries in the indexes.
func (s Schema) checkIndexes(collection string, keys Keys) error {
	all := 0
	for i := range keys {
		all += len(keys[i].Value.text)
	}
	if all <= MaxIndexBytes {
		return nil
	}
	for _, index := range s.collections[collection].Indexes {
		size := 0
		for _, key := range index.Keys {
			size += len(keys.Get(key).text)
		}
		if size > MaxIndexBytes {
			return fmt.Errorf("%w: values of %d bytes in the index %s, %d at most", ErrInvalid, size, index.Name, MaxIndexBytes)
		}
	}
	return nil
}

// CheckBatch checks the argument of Store.Commit.
func (s Schema) CheckBatch(b Batch) error {
	if b.Stream != "" {
		if err := checkText("stream", b.Stream, MaxIDBytes); err != nil {
			return err
		}
		if b.To <= b.From {
			return fmt.Errorf("%w: checkpoint of %s from %d to %d does not grow", ErrInvalid, b.Stream, b.From, b.To)
		}
		if err := checkSeq(b.To); err != nil {
			return err
		}
	}
	for _, p := range b.Puts {
		if err := s.CheckDoc(p.Collection, p.Doc); err != nil {
			return err
		}
	}
	for _, d := range b.Deletes {
		if err := s.CheckDoc(d.Collection, Doc{ID: d.ID, Seq: d.Seq}); err != nil {
			return err
		}
	}
	if size := b.SizeBytes(); size > MaxBatchBytes {
		return fmt.Errorf("%w: batch of %d bytes, %d at most", ErrTooLarge, size, MaxBatchBytes)
	}
	return nil
}

func checkText(what, text string, limit int) error {
	if text == "" {
		return fmt.Errorf("%w: empty %s", ErrInvalid, what)
	}
	if len(text) > limit {
		return fmt.Errorf("%w: %s of %d bytes, %d at most", ErrInvalid, what, len(text), limit)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("%w: %s %q is not UTF-8", ErrInvalid, what, text)
	}
	return nil
}

func checkValue(v Value) error {
	if len(v.text) > MaxValueBytes {
		return fmt.Errorf("%w: value of %d bytes, %d at most", ErrInvalid, len(v.text), MaxValueBytes)
	}
	if !utf8.ValidString(v.text) {
		return fmt.Errorf("%w: value %s is not UTF-8", ErrInvalid, v)
	}
	return nil
}

func checkSeq(seq uint64) error {
	if seq > math.MaxInt64 {
		return fmt.Errorf("%w: sequence %d above %d", ErrInvalid, seq, int64(math.MaxInt64))
	}
	return nil
}

// Upper bounds of the bytes that BSON, the larger of the two encodings, adds to
// the contents.
const (
	changeOverheadBytes = 160 // a change: names and types of the fields, name of the collection
	keyOverheadBytes    = 16  // a key of a change
)

// SizeBytes returns an upper bound of the encoded size of the batch, which
// Commit compares with MaxBatchBytes.
func (b Batch) SizeBytes() int {
	size := changeOverheadBytes + len(b.Stream)
	for _, p := range b.Puts {
		size += p.Doc.SizeBytes()
	}
	for _, d := range b.Deletes {
		size += Doc{ID: d.ID}.SizeBytes()
	}
	return size
}

// SizeBytes returns how much a put of the document adds to Batch.SizeBytes. A
// Delete adds as much as a document with only an id.
func (d Doc) SizeBytes() int {
	size := changeOverheadBytes + len(d.ID) + len(d.Head) + len(d.Body)
	for _, key := range d.Keys {
		size += keyOverheadBytes + len(key.Name) + len(key.Value.text)
	}
	return size
}
