package account

import "quire.dev/pkg/event"

// DeletionMillis is how long the owner of an account can cancel its deletion, at least.
const DeletionMillis = 14 * 24 * 60 * 60 * 1000

// deletion executes a command about the deletion of an account. The journal decides between an owner who cancels it and the job
// that erases: the first one wins.
func (a *account) deletion(b *base, c *event.Command) event.CommandStatus {
	switch c.Action.(type) {
	case *event.Command_DeleteAccount:
		if a.deletes == 0 {
			a.deletes = b.time + DeletionMillis
		}
	case *event.Command_KeepAccount:
		a.deletes = 0
	case *event.Command_EraseAccount:
		if a.deletes == 0 || b.time < a.deletes {
			return event.CommandStatus_COMMAND_INVALID
		}
		a.erase(b)
	}
	return event.CommandStatus_COMMAND_OK
}

// erase ends the account permanently: no key is valid, and no command changes it. Its counters, ledger and storage stay, so
// that its documents can leave the bill as they are deleted.
func (a *account) erase(b *base) {
	a.erased, a.deletes = max(b.time, 1), 0
	a.keyVersion, a.fingerprint, a.keyPrefix, a.keyCreated = 0, 0, "", 0
	a.suspended, a.suspensionReason = 0, ""
	b.release(a)
	a.alerts, a.keys, a.keyUsed, a.topUp = nil, nil, 0, nil
}

// barred reports whether admissions are refused because the account is suspended or about to be deleted.
func (a *account) barred() bool { return a.suspended != 0 || a.deletes != 0 }
