// Package inprocess has what services that run in one process share to skip the NATS server between them. Whoever wires the
// services gives it to each of them; without it they take the plain path over NATS, as in a cluster.
package inprocess

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/rpc"
)

// Shared is given by value to every service of a process, the same to each. Each field is a fast path of its own, and nil where
// the services do without: the zero value is the plain path. What is stored, decided and answered is the same either way.
type Shared struct {
	// Files are those of the embedded NATS server. Followers read the journals there, and appenders notify them.
	Files *journal.Files
	// Answers delivers verdicts, outcomes and announcements to the edge by a call.
	Answers *rpc.Local
	// Reads answers a read of the edge from the memory of a document service. It returns nil where the document is not there,
	// and the read is sent. It must not block, and the document must not be changed.
	Reads func(d event.Domain, partition int, read *event.Read, after uint64, nowMS int64) *event.ReadAnswer
}
