package limit

import (
	"sync"

	"quire.dev/pkg/event"
)

// Listeners bounds how many clients of an account, and of the edge, are notified at a time. Each has billing asked once
// a second. It is safe for concurrent use.
type Listeners struct {
	ofAccount, ofEdge int

	mu       sync.Mutex
	all      int
	accounts map[event.AccountID]int
}

// NewListeners lets so many listen at a time.
func NewListeners(ofAccount, ofEdge int) *Listeners {
	return &Listeners{ofAccount: ofAccount, ofEdge: ofEdge, accounts: make(map[event.AccountID]int)}
}

// Begin tells whether one more may listen. Where it may, End must follow.
func (l *Listeners) Begin(account event.AccountID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.ofEdge || l.accounts[account] >= l.ofAccount {
		return false
	}
	l.all++
	l.accounts[account]++
	return true
}

// End takes one back that Begin let listen.
func (l *Listeners) End(account event.AccountID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.accounts[account]--; l.accounts[account] == 0 {
		delete(l.accounts, account)
	}
}
