// Package inprocess has what services that run in one process share to skip the NATS server between them. Whoever wires the
// services gives it to each of them; without it they take the plain path over NATS, as in a cluster.
package inprocess

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/rpc"
)

// Shared is passed by value to every service of a process. Each field is an independent fast path, or nil to use the plain path,
// as the zero value does. What is stored, decided and answered is the same either way.
type Shared struct {
	// Files are the embedded NATS server's files. Followers read the journals there, and appenders notify them.
	Files *journal.Files
	// Answers delivers verdicts, outcomes and announcements to the edge by a call.
	Answers *rpc.Local
	// Reads answers a read of the edge from the memory of a document service. It returns nil where the document is not there,
	// and the read is sent. It must not block, and the document must not be changed.
	Reads func(d event.Domain, partition int, read *event.Read, after uint64, nowMS int64) *event.ReadAnswer
}
