package event

import "fmt"

// InstancesSubject asks all billing instances at once; each answers with an Instance as JSON. The
// request is empty, or AskHealth.
const InstancesSubject = "billing.instances.query"

// AskHealth is a request on InstancesSubject, or on Domain.InstancesSubject, that asks for Instance.Folds too.
const AskHealth = "health"

// InstancesSubject asks all instances of the domain's service at once, as the constant does billing's.
func (d Domain) InstancesSubject() string {
	if d == Billing {
		return InstancesSubject
	}
	return string(d) + ".instances.list" // its last word is that of lists: the edge's and the service's NATS users have the right to those
}

// ReplicaSubject takes Query requests to the replica of a partition in one instance. QuerySubject takes
// them to any replica.
func ReplicaSubject(partition int, instance string) string {
	return fmt.Sprintf("billing.%d-%s.query", partition, instance)
}

// Instance is the answer of an instance about itself. An instance of a document service leaves out Installation, Rules and Book.
type Instance struct {
	Name       string   `json:"name"`           // drawn anew at each start
	Partitions int      `json:"partitions"`     // partition count; its streams were made with the same
	Serves     []int    `json:"serves"`         // partitions that it folds and answers for, sorted
	Live       []string `json:"live,omitempty"` // the live instances that it knows, with itself; empty without members
	// Installation is the id of the installation; empty of an instance that tells none.
	Installation string `json:"installation,omitempty"`
	// Rules is the newest version of billing's rules that it can fold; 0: the first.
	Rules uint32 `json:"rules,omitempty"`
	// Book is a hash of the price book that it was configured with, as text; empty of an instance that tells none.
	Book string `json:"book,omitempty"`
	// Folds are the partitions that it works on, sorted. They are left out unless AskHealth was the request.
	Folds []Fold `json:"folds,omitempty"`
}

// Fold is the state of one partition in an instance.
type Fold struct {
	Partition int  `json:"partition"`
	Serves    bool `json:"serves,omitempty"` // else it catches up with the journal, or waits for the instance before it
	// Lag is the number of journal messages that are not folded yet. nil: unknown, since the replica has just started or the
	// journal does not answer.
	Lag *uint64 `json:"lag,omitempty"`
	// Holds is the number of open holds. nil: unknown, since the replica has just started, or none can be, as in a document service.
	Holds *int `json:"holds,omitempty"`
}
