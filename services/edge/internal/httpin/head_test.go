package httpin

import (
	"bufio"
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// judgeBy judges a header that arrives in steps of so many bytes, and returns what the connection would give to fasthttp and
// the remaining bytes.
func judgeBy(in []byte, step int, names *fieldNames) (h head, out, rest []byte) {
	b := bytes.Clone(in)
	for come := 0; come < len(b) && !h.done && h.refusal == nil; {
		come = min(come+step, len(b))
		h.judge(b[:come], names)
	}
	if !h.done {
		return h, nil, nil
	}
	return h, b[h.start:h.at], b[h.at:]
}

// TestAHeaderIsJudgedTheSameHoweverItArrives shows what fasthttp gets of a header: nothing if it is refused.
func TestAHeaderIsJudgedTheSameHoweverItArrives(t *testing.T) {
	names := newFieldNames([]string{"X-Api-Key"})
	for _, tc := range []struct{ in, out, rest, refusal, field string }{
		{in: "GET / HTTP/1.1\r\nHost: a\r\n\r\nbody", out: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", rest: "body"},
		{in: "\r\n\r\nGET / HTTP/1.0\r\n\r\nbody\r\n", out: "GET / HTTP/1.0\r\n\r\n", rest: "body\r\n"},
		{in: "GET / HTTP/1.0\r\nA: \r\n\r\n\r\n", out: "GET / HTTP/1.0\r\nA: \r\n\r\n", rest: "\r\n"},
		{in: "GET / HTTP/1.0\r\nA:\t \tb\tc\t\r\n\r\n\x00", out: "GET / HTTP/1.0\r\nA:   b\tc \r\n\r\n", rest: "\x00"},
		{in: "GET /q/%72%2F%7e?%72 HTTP/1.0\r\n\r\n", out: "GET /q/r%2F~?%72 HTTP/1.0\r\n\r\n"},
		{in: "\r\nGET /%41%2541 HTTP/1.0\r\n\r\n", out: "GET /A%2541 HTTP/1.0\r\n\r\n"},
		{in: "%41B%2 http://a/%41 HTTP/1.0\r\n\r\n", out: "%41B%2 http://a/A HTTP/1.0\r\n\r\n"},
		{in: "GET / HTTP/1.1\r\nHost: a\r\nHosts: b\r\nX-Host: c\r\nHo: d\r\n\r\n", out: "GET / HTTP/1.1\r\nHost: a\r\nHosts: b\r\nX-Host: c\r\nHo: d\r\n\r\n"},
		{in: "GET / HTTP/1.1\r\nA: b\r\n"},
		{in: "GET / HTTP/1.1\nHost: a\n\n", refusal: bareLineFeed},
		{in: "GET / HTTP/1.1\r\nHost: a\n\r\n", refusal: bareLineFeed},
		{in: "GET / HTTP/1.1\r\nHost: a\r\n\n", refusal: bareLineFeed},
		{in: "\nGET / HTTP/1.0\r\n\r\n", refusal: bareLineFeed},
		{in: "GET / HTTP/1.1\r\nHost: a\r\n\r\r\n", refusal: controlInLine},
		{in: "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", refusal: controlInLine},
		{in: "GET / HTTP/1.1\r\nA: b\r\r\n\r\n", refusal: controlInLine},
		{in: "GET / HTTP/1.1\r\nA: b\x00\r\n\r\n", refusal: controlInLine},
		{in: "GET / HTTP/1.1\r\nA: b\x7f\r\n\r\n", refusal: controlInLine},
		{in: "\x16\x03\x01\x02\x00", refusal: controlInLine},
		{in: "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", refusal: foldedLine},
		{in: "GET / HTTP/1.1\r\n A: b\r\n\r\n", refusal: foldedLine},
		{in: "GET / HTTP/1.1\r\n\r\n", refusal: noHost},
		{in: "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nhOST:a\r\n\r\n", refusal: "The request has more than one Host header.", field: "Host"},
		{in: "GET / HTTP/1.0\r\nx-api-key: a\r\nX-API-KEY: a\r\n\r\n", refusal: "The request has more than one X-Api-Key header.", field: "X-Api-Key"},
		{in: "GET / HTTP/1.2\r\n\r\n", refusal: unknownVersion},
	} {
		for step := 1; step <= len(tc.in); step++ {
			h, out, rest := judgeBy([]byte(tc.in), step, &names)
			refusal, field := "", ""
			if h.refusal != nil {
				refusal, field = h.refusal.Message, h.refusal.Field
			}
			if string(out) != tc.out || string(rest) != tc.rest && step == len(tc.in) || refusal != tc.refusal || field != tc.field {
				t.Errorf("%q by %d: %q, left %q, refused %q %s", tc.in, step, out, rest, refusal, field)
			}
		}
	}
}

// FuzzWhatIsTakenIsReadTheSame: fasthttp reads an accepted header as the judge does, and so does net/http's server if it
// accepts it.
func FuzzWhatIsTakenIsReadTheSame(f *testing.F) {
	for _, row := range hostileRows() {
		f.Add([]byte(row.raw), 7)
	}
	names := newFieldNames([]string{"X-Api-Key", "Content-Type"})
	f.Fuzz(func(t *testing.T, in []byte, step int) {
		whole, out, rest := judgeBy(in, len(in)+1, &names)
		stepped, again, _ := judgeBy(in, max(1, step%64), &names)
		if whole.done != stepped.done || (whole.refusal == nil) != (stepped.refusal == nil) || !bytes.Equal(out, again) {
			t.Fatalf("judged in another way when it comes in steps: %q and %q", out, again)
		}
		if !whole.done {
			return
		}
		if len(out)+whole.start+len(rest) != len(in) {
			t.Fatalf("%d bytes of %d", len(out)+whole.start+len(rest), len(in))
		}
		readByFasthttp(t, &whole, out)
		readByNet(t, &whole, out)
	})
}

func readByFasthttp(t *testing.T, h *head, out []byte) {
	t.Helper()
	var req fasthttp.Request
	r := bufio.NewReaderSize(bytes.NewReader(append(bytes.Clone(out), "beyond"...)), len(out)+6)
	if err := req.Header.Read(r); err != nil {
		if strings.Contains(strings.ToLower(string(out)), "\ntrailer:") { // it rejects some field names there
			return
		}
		t.Fatalf("fasthttp refuses %q: %v", out, err)
	}
	if r.Buffered() != len("beyond") {
		t.Fatalf("fasthttp reads %q to another end: %d bytes are left", out, r.Buffered())
	}
	length := int64(max(0, req.Header.ContentLength()))
	if (req.Header.ContentLength() == -1) != h.chunked || length != h.length {
		t.Fatalf("length %d for fasthttp, %d here, of %q", req.Header.ContentLength(), h.length, out)
	}
	path := out[h.line.method+1:]
	path = path[:bytes.IndexByte(path, ' ')]
	if got := req.Header.RequestURI(); !bytes.Equal(got, path) {
		t.Fatalf("target %q for fasthttp, %q here", got, path)
	}
	path, _, _ = bytes.Cut(path, []byte("?"))
	host := req.Header.Host()
	if authority := h.line.authorityOf(out); len(authority) > 0 {
		host = authority
		path = path[bytes.Index(path, authority)+len(authority):]
		if len(path) == 0 {
			path = []byte("/")
		}
	}
	if got := req.URI().PathOriginal(); !bytes.Equal(got, path) {
		t.Fatalf("path %q for fasthttp, %q here, of %q", got, path, out)
	}
	if got := req.URI().Host(); !bytes.EqualFold(got, host) {
		t.Fatalf("host %q for fasthttp, %q here, of %q", got, host, out)
	}
}

func readByNet(t *testing.T, h *head, out []byte) {
	t.Helper()
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(out)))
	if err != nil {
		return // it is stricter in places
	}
	if h.chunked != (len(req.TransferEncoding) > 0) && !h.line.http10 || !h.chunked && req.ContentLength != h.length {
		t.Fatalf("length %d and %v for net/http, %d and %v here, of %q", req.ContentLength, req.TransferEncoding, h.length, h.chunked, out)
	}
	target := out[h.line.method+1:]
	target = target[:bytes.IndexByte(target, ' ')]
	if req.RequestURI != string(target) {
		t.Fatalf("target %q for net/http, %q here", req.RequestURI, target)
	}
	if authority := h.line.authorityOf(out); len(authority) > 0 && req.Host != string(authority) {
		t.Fatalf("host %q for net/http, %q here", req.Host, authority)
	}
}

// TestAnEncodedUnreservedCharacterIsItself for each such byte, and no other byte is decoded.
func TestAnEncodedUnreservedCharacterIsItself(t *testing.T) {
	const hex = "0123456789abcdefABCDEF"
	var names fieldNames
	for _, high := range hex {
		for _, low := range hex {
			encoded := "%" + string(high) + string(low)
			plain, err := url.PathUnescape(encoded)
			if err != nil {
				t.Fatal(err)
			}
			want := encoded
			if c := plain[0]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
				want = plain
			}
			_, out, _ := judgeBy([]byte("GET /"+encoded+"b?"+encoded+" HTTP/1.0\r\n\r\n"), 100, &names)
			if string(out) != "GET /"+want+"b?"+encoded+" HTTP/1.0\r\n\r\n" {
				t.Errorf("%s: %q", encoded, out)
			}
		}
	}
}

var kept head // keeps the compiler from removing the benchmark's work

func BenchmarkAPlainHeader(b *testing.B) {
	raw := []byte("POST /api/dev/pastes/create?title=a HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: 512\r\n" +
		"Content-Type: application/json\r\nX-Api-Key: qk_" + strings.Repeat("k", 59) + "\r\nIdempotency-Key: 0123456789abcdef\r\nAccept-Encoding: gzip\r\n\r\n")
	names := newFieldNames([]string{"X-Api-Key", "Content-Type", "Idempotency-Key", "Authorization", "If-Match", "Range", "Accept-Encoding"})
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		kept = head{}
		kept.judge(raw, &names)
	}
	if !kept.done {
		b.Fatal(kept.refusal)
	}
}
