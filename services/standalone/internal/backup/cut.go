package backup

// need says that a message of a journal is only whole with another one: a document's with its admission, a settlement with its
// document.
type need struct {
	sequence uint64 // of the message
	stream   string // of the message that it needs
	at       uint64
}

// cut shortens the journals, each to the given end, until no message before an end needs one after an end. needs has those of each
// journal, ascending. The result is the greatest consistent cut within the ends: every other one is nowhere longer.
func cut(ends map[string]uint64, needs map[string][]need) {
	for changed := true; changed; {
		changed = false
		for name, list := range needs {
			for _, n := range list {
				if n.sequence > ends[name] {
					break
				}
				if n.at > ends[n.stream] {
					ends[name] = n.sequence - 1
					changed = true
					break
				}
			}
		}
	}
}
