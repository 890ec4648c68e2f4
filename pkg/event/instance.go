package event

import "fmt"

// InstancesSubject asks all billing instances at once; each answers with an Instance as JSON. The
// request is empty.
const InstancesSubject = "billing.instances.query"

// ReplicaSubject takes Query requests to the replica of a partition in one instance. QuerySubject takes
// them to any replica.
func ReplicaSubject(partition int, instance string) string {
	return fmt.Sprintf("billing.%d-%s.query", partition, instance)
}

// Instance is the answer of a billing instance about itself.
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
}
