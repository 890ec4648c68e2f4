package httpin

import (
	"net"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
)

func TestAHandlerIsToldOfAClientThatHangsUp(t *testing.T) {
	waiting, closed, told := make(chan bool), make(chan struct{}), make(chan bool, 1)
	addr := startServer(t, Config{}, func(s *Server) {
		s.Handle("GET", "/", func(c *fiber.Ctx) error {
			waiting <- HungUp(c)
			<-closed
			limit := time.After(20 * time.Second)
			look := time.NewTicker(time.Millisecond) // the close takes a moment to arrive
			defer look.Stop()
			for !HungUp(c) {
				select {
				case <-look.C:
				case <-limit:
					told <- false
					return nil
				}
			}
			told <- true
			return nil
		})
	})
	client, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if <-waiting {
		t.Error("told while the client waits")
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	close(closed)
	if !<-told {
		t.Error("not told")
	}
}
