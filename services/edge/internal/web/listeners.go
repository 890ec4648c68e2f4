package web

import (
	"sync"

	"quire.dev/pkg/event"
)

// listeners bounds how many clients of an account, and of the edge, are told of something at a time. Each has billing asked once
// a second. It is safe for concurrent use.
type listeners struct {
	ofAccount, ofEdge int

	mu       sync.Mutex
	all      int
	accounts map[event.AccountID]int
}

func newListeners(ofAccount, ofEdge int) *listeners {
	return &listeners{ofAccount: ofAccount, ofEdge: ofEdge, accounts: make(map[event.AccountID]int)}
}

// begin tells whether one more may listen. Where it may, end must follow.
func (l *listeners) begin(account event.AccountID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.ofEdge || l.accounts[account] >= l.ofAccount {
		return false
	}
	l.all++
	l.accounts[account]++
	return true
}

func (l *listeners) end(account event.AccountID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.accounts[account]--; l.accounts[account] == 0 {
		delete(l.accounts, account)
	}
}
