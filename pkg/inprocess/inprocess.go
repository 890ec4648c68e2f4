// Package inprocess has what services in one process share to bypass the NATS server between them. The program that wires the
// services passes it to each; without it they take the plain path over NATS, as in a cluster.
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
	// Reads answers an edge's read from a document service's memory. It returns nil if the document is not there, and the read
	// is sent over NATS. It must not block, and callers must not modify the document.
	Reads func(d event.Domain, partition int, read *event.Read, after uint64, nowMS int64) *event.ReadAnswer
}
