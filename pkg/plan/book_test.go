package plan

import "testing"

// TestABookListsALaterKeyOnceAPlanHasIt: a statement from before the key was added has no line for it.
func TestABookListsALaterKeyOnceAPlanHasIt(t *testing.T) {
	b := Published(10)
	for t := range b.Plans {
		b.Plans[t].Terms[FilesList] = Term{}
	}
	if b.lists(FilesList, LiteList) || !b.lists(LiteList, LiteList) || !b.lists(FilesList, FilesList) {
		t.Error("without a plan that has the key, it is listed if every book has it")
	}
	b.Plans[Max].Terms[FilesList] = Term{Limit: Unlimited}
	if !b.lists(FilesList, LiteList) {
		t.Error("a plan has the key, and it is not listed")
	}
	if got := len(b.QuotaKeys()); got != KeyCount-1 {
		t.Errorf("the built-in book lists %d keys, want all", got)
	}
}
