package rpc

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// Local delivers messages from Publish to Listen within a process. A nil Local sends them through the NATS server, where
// delivering each involves five goroutines. Safe for concurrent use.
type Local struct {
	mu            sync.RWMutex
	subscriptions []*localSubscription
}

type localSubscription struct {
	subject string // or a pattern that ends in .>
	to      chan<- *nats.Msg
}

// errNoRoom means that a subscriber is too slow. Core NATS drops messages of such a subscriber too.
var errNoRoom = errors.New("a subscriber in this process is too slow")

// Publish sends a message like nc. If it has listeners in this process, by Listen, they get it before Publish returns, and
// nobody else does. It never blocks, and a message may be lost.
func (l *Local) Publish(nc *nats.Conn, subject string, data []byte) error {
	if l != nil {
		if found, err := l.publish(subject, data); found {
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

// Listen has the messages to a subject, or to a pattern that ends in .>, sent to a channel until stop is called: those sent with
// Publish and those that come through the server, each once. Publish keeps the order of each connection.
func (l *Local) Listen(nc *nats.Conn, subject string, to chan *nats.Msg) (stop func(), err error) {
	subscription, err := nc.ChanSubscribe(subject, to)
	if err != nil {
		return nil, err
	}
	unsubscribe := func() { _ = subscription.Unsubscribe() } // fails only if the connection is closed
	if l == nil {
		return unsubscribe, nil
	}
	s := &localSubscription{subject, to}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscriptions = append(l.subscriptions, s)
	return func() {
		unsubscribe()
		l.forget(s)
	}, nil
}

func (l *Local) forget(s *localSubscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscriptions = slices.DeleteFunc(l.subscriptions, func(other *localSubscription) bool { return other == s })
}
