package views

// Change is what a batch does to one document.
type Change struct {
	Collection string
	Doc        Doc // of a deletion only ID and Seq
	Deleted    bool
}

// Changes returns the one change that counts for each document of the batch, in the order of the documents' first changes.
func (b Batch) Changes() []Change {
	type name struct{ collection, id string }
	at := make(map[name]int, len(b.Puts)+len(b.Deletes))
	changes := make([]Change, 0, len(b.Puts)+len(b.Deletes))
	add := func(c Change) {
		n := name{c.Collection, c.Doc.ID}
		i, ok := at[n]
		if !ok {
			at[n] = len(changes)
			changes = append(changes, c)
		} else if c.Doc.Seq >= changes[i].Doc.Seq {
			changes[i] = c
		}
	}
	for _, p := range b.Puts {
		add(Change{Collection: p.Collection, Doc: p.Doc})
	}
	for _, d := range b.Deletes {
		add(Change{Collection: d.Collection, Doc: Doc{ID: d.ID, Seq: d.Seq}, Deleted: true})
	}
	return changes
}
