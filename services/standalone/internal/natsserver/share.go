package natsserver

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// Share connects every connection that the listener accepts to the server, until ctx ends. It closes the listener and all
// connections.
func (s *Server) Share(ctx context.Context, listener net.Listener) error {
	var connections sync.WaitGroup
	defer connections.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })() // Accept reports it
	for {
		outer, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		inner, err := s.InProcessConn()
		if err != nil { // the server restarts: the client tries again
			_ = outer.Close()
			continue
		}
		connections.Go(func() { join(ctx, outer, inner) })
	}
}

// join copies between two connections until one of them or ctx ends, and closes both.
func join(ctx context.Context, a, b net.Conn) {
	end := sync.OnceValue(func() error { return errors.Join(a.Close(), b.Close()) })
	defer context.AfterFunc(ctx, func() { _ = end() })()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // however it ends
			_ = end()
		})
	}
	both.Wait()
}
