package account

import "quire.dev/pkg/event"

// DeletionMillis is how long the holder of an account may take its deletion back.
const DeletionMillis = 14 * 24 * 60 * 60 * 1000

// deletion carries out a command about the deletion of an account. The journal decides between a holder who takes it back and
// the job that erases: whichever comes first counts.
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

// erase ends the account for ever: no key is its key, and no command changes it. Its counters, ledger and storage stay, so that
// its documents can be taken out of the bill as they go.
func (a *account) erase(b *base) {
	a.erased, a.deletes = max(b.time, 1), 0
	a.keyVersion, a.fingerprint, a.keyPrefix, a.keyCreated = 0, 0, "", 0
	a.suspended, a.suspensionReason = 0, ""
	a.alerts, a.keys, a.keyUsed = nil, nil, 0
}

// barred tells whether each admission of the account is refused, whatever its key.
func (a *account) barred() bool { return a.suspended != 0 || a.deletes != 0 }
