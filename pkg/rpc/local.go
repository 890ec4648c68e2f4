package rpc

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// Local delivers messages from Publish to Listen within a process. Otherwise they go through the NATS server of the process,
// where delivering each involves five goroutines. Safe for concurrent use.
type Local struct {
	mu            sync.RWMutex
	subscriptions []*localSubscription
}

type localSubscription struct {
	subject string // or a pattern that ends in .>
	to      chan<- *nats.Msg
}

// localOf returns the deliveries of the process whose NATS server nc is connected to, if that server is in this process and its
// connection provider (nats.InProcessServer) has a method Local; else nil.
func localOf(nc *nats.Conn) *Local {
	if provider, ok := nc.Opts.InProcessServer.(interface{ Local() *Local }); ok {
		return provider.Local()
	}
	return nil
}

// errNoRoom means that a subscriber is too slow. Core NATS drops messages of such a subscriber too.
var errNoRoom = errors.New("a subscriber in this process is too slow")

// Publish sends a message like nc. If it has listeners in this process, by Listen, they get it before Publish returns, and
// nobody else does. It never blocks, and a message may be lost.
func Publish(nc *nats.Conn, subject string, data []byte) error {
	if local := localOf(nc); local != nil {
		if found, err := local.publish(subject, data); found {
			return err
		}
	}
	return nc.Publish(subject, data)
}

func (l *Local) publish(subject string, data []byte) (found bool, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, s := range l.subscriptions {
		if !s.matches(subject) {
			continue
		}
		found = true
		select {
		case s.to <- &nats.Msg{Subject: subject, Data: bytes.Clone(data)}:
		default:
			err = errNoRoom
		}
	}
	return found, err
}

func (s *localSubscription) matches(subject string) bool {
	if prefix, isPattern := strings.CutSuffix(s.subject, ">"); isPattern {
		return strings.HasPrefix(subject, prefix)
	}
	return s.subject == subject
}

// Listen sends the messages on a subject, or on a pattern that ends in .>, to a channel until stop is called: those from
// Publish and from the server, each once. Messages that one connection sent with Publish stay in order.
func Listen(nc *nats.Conn, subject string, to chan *nats.Msg) (stop func(), err error) {
	subscription, err := nc.ChanSubscribe(subject, to)
	if err != nil {
		return nil, err
	}
	unsubscribe := func() { _ = subscription.Unsubscribe() } // fails only if the connection is closed
	local := localOf(nc)
	if local == nil {
		return unsubscribe, nil
	}
	s := &localSubscription{subject, to}
	local.mu.Lock()
	defer local.mu.Unlock()
	local.subscriptions = append(local.subscriptions, s)
	return func() {
		unsubscribe()
		local.forget(s)
	}, nil
}

func (l *Local) forget(s *localSubscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscriptions = slices.DeleteFunc(l.subscriptions, func(other *localSubscription) bool { return other == s })
}
