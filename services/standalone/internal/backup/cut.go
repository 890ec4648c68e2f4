package backup

// need says that a message of a journal depends on another one: a document on its admission, a settlement on its document.
type need struct {
	sequence uint64 // of the message
	stream   string // of the message that it needs
	at       uint64
}

// cut moves the ends of the journals back until no message before an end needs one after an end. needs lists the needs of each journal,
// ascending. The result is the greatest consistent cut within the given ends: no other one is longer in any journal.
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
