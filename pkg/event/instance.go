package event

import "fmt"

// InstancesSubject asks all billing instances at once; each answers with an Instance as JSON. The
// request is empty.
const InstancesSubject = "billing.instances.query"

// ReplicaSubject takes Query requests to one replica of a partition, the one in that instance. QuerySubject
// takes them to any replica.
func ReplicaSubject(partition int, instance string) string {
	return fmt.Sprintf("billing.%d-%s.query", partition, instance)
}

// Instance is what a billing instance says of itself.
type Instance struct {
	Name       string   `json:"name"`           // drawn anew at each start
	Partitions int      `json:"partitions"`     // of every journal; its streams were found to be of as many
	Serves     []int    `json:"serves"`         // those that it folds and answers for, sorted
	Live       []string `json:"live,omitempty"` // all that it knows to be alive, itself included; empty where it knows of none
}
