package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// errNoLeader is in ErrUnavailable of a stream whose servers know no leader.
var errNoLeader = errors.New("it has no leader")

// Replica is one server's copy of a stream, as seen by the stream's leader.
type Replica struct {
	Server string // its name; its id in the cluster if the leader does not know the name
	// Current: it has every message that a majority has stored, and was heard
	// from in the last ten seconds. Under load the slower follower often lacks a
	// message or two.
	Current bool
	Offline bool          // the server is not connected to the cluster
	Lag     uint64        // operations that a majority has stored and it has not
	Active  time.Duration // since it was last heard from; 0 for the leader
}

// Replication is the extent of a stream and its copies, as reported by its
// leader.
type Replication struct {
	State

	Leader string    // name of the server
	Peers  []Replica // servers that hold the stream, the leader first
}

// streamInfo is the part of an answer to STREAM.INFO that matters.
type streamInfo struct {
	Error   *apiError `json:"error"`
	State   State     `json:"state"`
	Created time.Time `json:"created"`
	Config  struct {
		Replicas int               `json:"num_replicas"`
		Subjects []string          `json:"subjects"`
		Metadata map[string]string `json:"metadata"`
		FirstSeq uint64            `json:"first_seq"` // of a generation after the first one
	} `json:"config"`
	Cluster struct {
		Leader   string `json:"leader"`
		Replicas []struct {
			Name    string        `json:"name"`
			Peer    string        `json:"peer"`
			Current bool          `json:"current"`
			Offline bool          `json:"offline"`
			Active  time.Duration `json:"active"`
			Lag     uint64        `json:"lag"`
		} `json:"replicas"`
	} `json:"cluster"`
}

// unnamed begins the name of a peer that the answering server has not heard
// from since its start.
const unnamed = "Server name unknown"

// Replication asks the stream's leader, like State and with the same errors. Of a journal with generations it describes the open one.
// The single server of an unreplicated stream is its leader and only peer.
func (j *Journal) Replication(ctx context.Context) (Replication, error) {
	list, err := j.extents(ctx)
	if err != nil {
		return Replication{}, err
	}
	return whole(list), nil
}

// replication refuses the answer of a member that knows no leader: its store
// may be stale, and it knows nothing of the other members.
func (i *streamInfo) replication() (Replication, error) {
	r := Replication{State: i.State, Leader: i.Cluster.Leader}
	r.Replicas = max(i.Config.Replicas, 1)
	if r.Leader == "" {
		if r.Replicas > 1 {
			return Replication{}, fmt.Errorf("%w: %w", ErrUnavailable, errNoLeader)
		}
		return r, nil
	}
	r.Peers = append(r.Peers, Replica{Server: r.Leader, Current: true})
	for _, p := range i.Cluster.Replicas {
		name := p.Name
		if name == "" || strings.HasPrefix(name, unnamed) {
			name = p.Peer
		}
		r.Peers = append(r.Peers, Replica{Server: name, Current: p.Current && !p.Offline, Offline: p.Offline, Lag: p.Lag, Active: p.Active})
	}
	return r, nil
}
