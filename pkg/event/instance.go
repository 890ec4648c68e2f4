package event

import "fmt"

// InstancesSubject asks all billing instances at once; each answers with an Instance as JSON. The
// request is empty, or AskHealth.
const InstancesSubject = "billing.instances.query"

// AskHealth is a request on InstancesSubject, or on Domain.InstancesSubject, that asks for Instance.Folds too.
const AskHealth = "health"

// InstancesSubject asks all instances of the domain's service, as the constant does for billing.
func (d Domain) InstancesSubject() string {
	if d == Billing {
		return InstancesSubject
	}
	return string(d) + ".instances.list" // ends in "list", for which the NATS users of edges and services have permissions
}

// ReplicaSubject takes Query requests to one instance's replica of a partition. QuerySubject takes them to any replica.
func ReplicaSubject(partition int, instance string) string {
	return fmt.Sprintf("billing.%d-%s.query", partition, instance)
}

// Instance is an instance's answer about itself. Document services leave out Installation, Rules and Book.
type Instance struct {
	Name       string   `json:"name"`              // random, new at each start
	Partitions int      `json:"partitions"`        // number of partitions that its streams were created with
	Serves     []int    `json:"serves"`            // partitions that it answers for, sorted
	Stalled    []int    `json:"stalled,omitempty"` // partitions that it works on whose journal takes no writes, sorted
	Live       []string `json:"live,omitempty"`    // live instances as far as it knows, including itself; empty without members
	// Installation is the id of the installation, if known.
	Installation string `json:"installation,omitempty"`
	// Rules is the newest version of billing's rules that it supports; 0 means the first.
	Rules uint32 `json:"rules,omitempty"`
	// Book is a hash of its configured price book, if known.
	Book string `json:"book,omitempty"`
	// Folds are the partitions it works on, sorted, if the request was AskHealth.
	Folds []Fold `json:"folds,omitempty"`
}

// Fold is the state of one partition in an instance.
type Fold struct {
	Partition int  `json:"partition"`
	Serves    bool `json:"serves,omitempty"` // else it is catching up, or waiting for the previous instance
	// Lag is the number of journal messages not folded yet. nil: unknown, since the replica has just started or the journal
	// does not answer.
	Lag *uint64 `json:"lag,omitempty"`
	// Holds is the number of open holds. nil: unknown, since the replica has just started, or not applicable, as in a document
	// service.
	Holds *int `json:"holds,omitempty"`
}
