package recent

// Compare compares the records of an image with those that a replay of the journal made. compares selects records. differ gets
// each difference: a nil record is missing on that side.
//
// The image may begin later than the replay, in each account's list: a start without an image begins anew. From its first record
// on, a list must be the same.
func (i *Image) Compare(replayed *Log, compares func(account uint64, r *Record) bool, differ func(account uint64, expected, found *Record)) {
	last := map[uint64]Ref{} // in the replay, of each account's last compared record
	for ref := i.oldest; ref != 0; {
		found := &i.chunks[ref/chunkEntries][ref%chunkEntries]
		if ref = found.after; !compares(found.account, &found.Record) {
			continue
		}
		at, begun := last[found.account]
		expected := replayed.newerThan(at)
		if expected == 0 || replayed.slab.at(expected).Request != found.Request {
			expected = replayed.Find(found.account, found.Request)
		}
		if expected == 0 {
			differ(found.account, nil, &found.Record)
			continue
		}
		last[found.account] = expected
		for missing := replayed.newerThan(at); begun && missing != expected; missing = replayed.newerThan(missing) {
			if missing == 0 { // it is older than the record before
				differ(found.account, nil, &found.Record)
				last[found.account] = at
				break
			}
			differ(found.account, &replayed.slab.at(missing).Record, nil)
		}
		if have := replayed.slab.at(expected).Record; have != found.Record {
			differ(found.account, &have, &found.Record)
		}
	}
	for account, at := range last {
		for missing := replayed.newerThan(at); missing != 0; missing = replayed.newerThan(missing) {
			differ(account, &replayed.slab.at(missing).Record, nil)
		}
	}
}

// newerThan is the next record of the same account, or 0.
func (l *Log) newerThan(ref Ref) Ref {
	if ref == 0 {
		return 0
	}
	return l.slab.at(ref).newer
}
