package httpin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofiber/fiber/v2"
)

func shareOf(source string) *share {
	return &share{source: Site(netip.MustParseAddr(source))}
}

// later takes bytes in the background, and returns a channel with the result.
func later(b *budget, s *share, bytes int64) <-chan error {
	out := make(chan error, 1)
	go func() { out <- b.take(context.Background(), s, bytes) }()
	return out
}

func TestTheBudgetIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(12<<20, budgetWait)
		sources := []*share{shareOf("1.2.3.4"), shareOf("1.2.3.5"), shareOf("1.2.3.6")}
		for _, s := range sources[:2] {
			if err := b.take(t.Context(), s, 4<<20); err != nil { // a third is one source's maximum
				t.Fatal(err)
			}
		}
		more := shareOf("1.2.3.4")
		if err := b.take(t.Context(), more, 1); !errors.Is(err, errBusy) {
			t.Errorf("more than a third for one source: %v", err)
		}
		if err := b.take(t.Context(), sources[2], 1<<20); err != nil {
			t.Errorf("three quarters for large shares: %v", err)
		}
		large := shareOf("1.2.3.7")
		if err := b.take(t.Context(), large, smallShareBytes+1); !errors.Is(err, errBusy) {
			t.Errorf("a large share beyond three quarters: %v", err)
		}
		small := shareOf("1.2.3.8")
		if err := b.take(t.Context(), small, smallShareBytes); err != nil {
			t.Errorf("a small share beyond three quarters: %v", err)
		}
		waiting := later(b, large, smallShareBytes+1)
		synctest.Wait()
		b.release(sources[0])
		if err := <-waiting; err != nil {
			t.Errorf("once there is room: %v", err)
		}
		for _, s := range append(sources, more, small, large) {
			b.release(s)
		}
		if b.all != (holding{}) || len(b.sources)+len(b.shares)+len(b.waiting) > 0 {
			t.Errorf("something is left: %+v", b)
		}
		alone := shareOf("1.2.3.9")
		if err := b.take(t.Context(), alone, 100<<20); err != nil {
			t.Errorf("a request that is alone: %v", err)
		}
	})
}

func TestSourcesOfAnIPv6SiteShareItsPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(12<<20, budgetWait)
		if err := b.take(t.Context(), shareOf("2001:db8:1:1::"), 4<<20); err != nil {
			t.Fatal(err)
		}
		if err := b.take(t.Context(), shareOf("2001:db8:1:2::"), 1); !errors.Is(err, errBusy) {
			t.Errorf("the same /48: %v", err)
		}
		if err := b.take(t.Context(), shareOf("2001:db8:2:1::"), 4<<20); err != nil {
			t.Errorf("another /48: %v", err)
		}
	})
}

// TestSharesThatWaitForEachOtherGoOn: one is refused, so that the others can proceed.
func TestSharesThatWaitForEachOtherGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(30, budgetWait)
		var shares []*share
		for n := range 3 {
			s := shareOf(fmt.Sprint("1.2.3.", n))
			shares = append(shares, s)
			if err := b.take(t.Context(), s, 8); err != nil {
				t.Fatal(err)
			}
		}
		b.perSource = 30
		started := time.Now()
		first := later(b, shares[0], 10)
		synctest.Wait()
		second := later(b, shares[1], 10)
		synctest.Wait()
		third := later(b, shares[2], 10)
		if err := <-third; !errors.Is(err, errBusy) {
			t.Errorf("the last one: %v", err)
		}
		b.release(shares[2])
		if err := <-first; err != nil {
			t.Errorf("the first one: %v", err)
		}
		b.release(shares[0])
		if err := <-second; err != nil {
			t.Errorf("the second one: %v", err)
		}
		if waited := time.Since(started); waited > 0 {
			t.Errorf("they waited for %v", waited)
		}
	})
}

// TestAnnouncedBytesTakeNoMemory: bodies count as they arrive, so large announcements block nobody.
func TestAnnouncedBytesTakeNoMemory(t *testing.T) {
	addr := startServer(t, Config{BodyBudgetBytes: 1 << 20}, func(s *Server) {
		s.Handle("POST", "/echo", echo(s, Limit{4 << 20, "4 MB"}))
	})
	for range 50 {
		c := dial(t, addr)
		fmt.Fprintf(c, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", 4<<20, strings.Repeat("x", 1000))
	}
	for range 20 {
		body := strings.Repeat("y", 200<<10)
		if a := exchange(t, addr, fmt.Sprintf("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body), 1)[0]; a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSlowBodiesAreCutWhileOthersWait: bodies that hold all the memory and send nothing end, and no other request does.
func TestSlowBodiesAreCutWhileOthersWait(t *testing.T) {
	for name, from := range map[string]func(n int) string{
		"of one source":   func(int) string { return "1.2.3.4" },
		"of many sources": func(n int) string { return fmt.Sprint("1.2.3.", n) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{BodyBudgetBytes: 3 << 20, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
			arrived := make(chan struct{}, 64)
			addr := startServer(t, cfg, func(s *Server) {
				s.Handle("POST", "/echo", func(c *fiber.Ctx) error {
					b, err := s.ReadBody(c, Limit{4 << 20, "4 MB"})
					if err != nil {
						return err
					}
					arrived <- struct{}{}
					return c.JSON(map[string]any{"size": len(b)})
				})
			})
			const crowd = 40
			ended := make(chan string, crowd)
			for n := range crowd {
				c := dial(t, addr)
				fmt.Fprintf(c, "POST /echo HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: %s\r\nContent-Length: %d\r\n\r\n%s", from(n), 4<<20, strings.Repeat("x", 70<<10))
				go func() {
					answer := bufio.NewReader(c)
					if res, err := http.ReadResponse(answer, nil); err == nil {
						body, _ := io.ReadAll(res.Body)
						ended <- fmt.Sprint(res.StatusCode, string(body))
					}
				}()
			}
			body := strings.Repeat("y", 100<<10)
			for n := range 20 {
				raw := fmt.Sprintf("POST /echo HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: %s\r\nContent-Length: %d\r\n\r\n%s", from(n), len(body), body)
				for try := 1; ; try++ {
					a := exchange(t, addr, raw, 1)[0]
					if a.status == 200 {
						break
					}
					if a.status != 503 || try == 20 { // on a busy machine clients ask again
						t.Fatalf("%d %s", a.status, a.body)
					}
				}
			}
			if len(arrived) != 20 {
				t.Errorf("%d bodies arrived", len(arrived))
			}
			for {
				got := <-ended
				if strings.HasPrefix(got, "408") && strings.Contains(got, "while other requests waited") {
					break
				}
				if !strings.HasPrefix(got, "503") {
					t.Fatalf("a body that never came: %s", got)
				}
			}
		})
	}
}

// TestSlowStreamsAreCutWhileOthersWait: a stream holds its memory while it runs, but not while it stalls.
func TestSlowStreamsAreCutWhileOthersWait(t *testing.T) {
	holding := make(chan struct{}, 64)
	addr := startServer(t, Config{StreamBudgetBytes: 3 << 20}, func(s *Server) {
		s.Handle("POST", "/stream", func(c *fiber.Ctx) error {
			if err := s.ReserveStream(c, 500<<10); err != nil {
				return err
			}
			holding <- struct{}{}
			n, err := io.Copy(io.Discard, BodyOf(c))
			if err != nil {
				return err
			}
			return c.JSON(map[string]any{"size": n})
		})
	})
	var slow []*bufio.Reader
	for range 2 { // the maximum of one source
		c := dial(t, addr)
		fmt.Fprint(c, "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nthe beginning")
		slow = append(slow, bufio.NewReader(c))
		<-holding
	}
	for range 3 {
		if a := exchange(t, addr, "POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nwhole", 1)[0]; a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	for _, r := range slow {
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 408 {
			t.Errorf("a slow stream: %v %v", res, err)
		}
	}
}

// TestABodyThatIsCutAtItsEndIsWhole: a body that was complete just as it was cut is whole, and its connection goes on.
func TestABodyThatIsCutAtItsEndIsWhole(t *testing.T) {
	addr := startServer(t, Config{}, func(s *Server) {
		s.Handle("POST", "/echo", func(c *fiber.Ctx) error {
			b := BodyOf(c)
			if b != nil {
				if _, err := b.Read(make([]byte, 100)); err != nil {
					return err
				}
				b.cut()
				b.settle()
			}
			return c.JSON(map[string]any{"success": true})
		})
	})
	raw := "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nfirst"
	c := dial(t, addr)
	answers := bufio.NewReader(c)
	for range 3 {
		fmt.Fprint(c, raw)
		res, err := http.ReadResponse(answers, nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("%v %v", res, err)
		}
		if _, err := answers.Discard(int(res.ContentLength)); err != nil {
			t.Fatal(err)
		}
	}
}
