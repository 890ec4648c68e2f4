package endpointtest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// Answer is the answer to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Exchange sends raw bytes and reads n answers.
func Exchange(t *testing.T, addr, raw string, n int) []Answer {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(raw)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	var out []Answer
	for range n {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", len(out)+1, err)
		}
		b, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			t.Fatal(err)
		}
		out = append(out, Answer{res.StatusCode, res.Header, string(b)})
	}
	return out
}
