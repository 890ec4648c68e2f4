package proofs

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
)

// TestSlowClientsHoldNoMoreThanMaxBillsProofs: a proof counts until its client has read it or is gone.
func TestSlowClientsHoldNoMoreThanMaxBillsProofs(t *testing.T) {
	edge := endpointtest.New(t, endpoint.Config{})
	s := New(edge.Base, nil, 1)
	data := []byte(strings.Repeat("proof", 8<<20/5)) // more than the connection's buffers
	addr := edge.Serve(t, endpoint.NewRow("GET", "/proof/:n", endpoint.Anybody, endpoint.Unmetered, endpoint.NoBody, endpoint.AnyQuery, func(c *endpoint.Call) error {
		n := event.AccountID(c.Param("n")[0])
		release, err := s.begin(n)
		if err != nil {
			return err
		}
		s.send(c, data, release)
		return nil
	}))
	get := func(n byte) (net.Conn, *http.Response) {
		t.Helper()
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := fmt.Fprintf(conn, "GET /proof/%c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", n); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		return conn, answer
	}
	var conns []net.Conn
	var answers []*http.Response
	for n := range byte(maxBills) {
		conn, answer := get('a' + n)
		if answer.StatusCode != 200 {
			t.Fatalf("proof %d: %d", n, answer.StatusCode)
		}
		conns, answers = append(conns, conn), append(answers, answer)
	}
	if _, answer := get('a'); answer.StatusCode != 429 {
		t.Errorf("a second one of an account: %d", answer.StatusCode)
	}
	if _, answer := get('z'); answer.StatusCode != 503 {
		t.Errorf("one more: %d", answer.StatusCode)
	}
	if n, err := io.Copy(io.Discard, answers[0].Body); err != nil || n != int64(len(data)) {
		t.Errorf("%d bytes of %d: %v", n, len(data), err)
	}
	_ = conns[1].Close()
	eventually.True(t, "what was read and what is gone is released", func() bool { return len(s.bills) == maxBills-2 })
}

func TestAProofHasATime(t *testing.T) {
	edge := endpointtest.New(t, endpoint.Config{})
	s := New(edge.Base, nil, 1)
	now := time.Now()
	release, err := s.begin(1)
	if err != nil {
		t.Fatal(err)
	}
	body := &sending{data: bytes.NewReader([]byte("ab")), now: func() time.Time { return now }, until: now, release: release}
	if n, err := body.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	now = now.Add(time.Nanosecond)
	if _, err := body.Read(make([]byte, 1)); err == nil {
		t.Error("it is sent after its time")
	}
	for range 2 {
		_ = body.Close()
	}
	if len(s.bills) != 0 {
		t.Errorf("%d are held", len(s.bills))
	}
}
