package httpin

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
)

const (
	keeps  = false
	closes = true
)

// hostileRow is what a client sends, and what it gets: one answer with that status, and then an open or a closed connection.
type hostileRow struct {
	raw    string
	status int
	closed bool
	shows  string // part of the answer
}

func lineRow(line string, status int, closed bool, shows string) hostileRow {
	return hostileRow{line + "\r\nHost: a\r\n\r\n", status, closed, shows}
}

func fieldRow(fields string, status int, closed bool, shows string) hostileRow {
	return hostileRow{"GET /there HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n\r\n", status, closed, shows}
}

func hostRow(host string, status int) hostileRow {
	row := hostileRow{"GET /there HTTP/1.1\r\nHost:" + host + "\r\n\r\n", status, status != 200, ""}
	if row.closed {
		row.shows = badHost[:10]
	}
	return row
}

func bodyRow(fields, body string, status int, closed bool, shows string) hostileRow {
	return hostileRow{"POST /there HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n\r\n" + body, status, closed, shows}
}

func chunkRow(body string, status int, closed bool, shows string) hostileRow {
	return bodyRow("Transfer-Encoding: chunked", body, status, closed, shows)
}

// hostileRows are requests in the spirit of the public tests of llhttp, http-parser and net/http, each beside valid forms.
func hostileRows() []hostileRow {
	var all []hostileRow
	for _, rows := range [][]hostileRow{
		hostileLines(), hostileHosts(), hostileFields(), hostileLengths(), hostileChunks(), hostileRest(),
	} {
		all = append(all, rows...)
	}
	return all
}

func hostileLines() []hostileRow {
	return []hostileRow{
		lineRow("GET /there HTTP/1.1", 200, keeps, "/there"),
		lineRow("GET /there HTTP/1.0", 200, closes, "/there"),
		lineRow("\r\n\r\nGET /there HTTP/1.1", 200, keeps, ""),
		lineRow("get /there HTTP/1.1", 405, keeps, ""),
		lineRow("M-SEARCH /there HTTP/1.1", 405, keeps, ""),
		lineRow("!#$%&'*+-.^_`|~ /there HTTP/1.1", 405, keeps, ""),
		lineRow("G(T /there HTTP/1.1", 400, closes, badMethod),
		lineRow("GET: /there HTTP/1.1", 400, closes, badMethod),
		lineRow("G\tT /there HTTP/1.1", 400, closes, badMethod),
		lineRow("G\x80T /there HTTP/1.1", 400, closes, badMethod),
		lineRow("\"GET\" /there HTTP/1.1", 400, closes, badMethod),
		lineRow(" GET /there HTTP/1.1", 400, closes, ""),
		lineRow("\tGET /there HTTP/1.1", 400, closes, ""),
		lineRow("GET  /there HTTP/1.1", 400, closes, "one space"),
		lineRow("GET /there  HTTP/1.1", 400, closes, "one space"),
		lineRow("GET /there HTTP/1.1 ", 400, closes, unknownVersion),
		lineRow("GET\t/there\tHTTP/1.1", 400, closes, ""),
		lineRow("GET /the re HTTP/1.1", 400, closes, "one space"),
		lineRow("GET /the\tre HTTP/1.1", 400, closes, "visible ASCII"),
		lineRow("GET /the\x0bre HTTP/1.1", 400, closes, "control"),
		lineRow("GET /the\x7fre HTTP/1.1", 400, closes, "control"),
		lineRow("GET /th\xc3\xa9re HTTP/1.1", 400, closes, "visible ASCII"),
		lineRow("GET /there?\xff HTTP/1.1", 400, closes, "visible ASCII"),
		lineRow("GET /there\xc2\xa0HTTP/1.1", 400, closes, ""),
		lineRow("GET /there#x HTTP/1.1", 400, closes, "fragment"),
		lineRow("GET /there?a=1#x HTTP/1.1", 400, closes, "fragment"),
		lineRow("GET # HTTP/1.1", 400, closes, ""),
		lineRow("GET /%74here HTTP/1.1", 200, keeps, "/there"),
		lineRow("GET /%74%68%65%72%65 HTTP/1.1", 200, keeps, "/there"),
		lineRow("GET /%2Fthere HTTP/1.1", 404, keeps, ""),
		lineRow("GET /there%00 HTTP/1.1", 404, keeps, ""),
		lineRow("GET /there% HTTP/1.1", 400, closes, "hexadecimal"),
		lineRow("GET /there%7 HTTP/1.1", 400, closes, "hexadecimal"),
		lineRow("GET /there%zz HTTP/1.1", 400, closes, "hexadecimal"),
		lineRow("GET /there%u0041 HTTP/1.1", 400, closes, "hexadecimal"),
		lineRow("GET /there?a=100% HTTP/1.1", 400, closes, "hexadecimal"),
		lineRow("GET /there?a=%25%20b|c HTTP/1.1", 200, keeps, "/there"),
		lineRow("GET there HTTP/1.1", 400, closes, "must be a path"),
		lineRow("GET ?a HTTP/1.1", 400, closes, "must be a path"),
		lineRow("GET a:80 HTTP/1.1", 400, closes, "must be a path"),
		lineRow("GET //there HTTP/1.1", 404, keeps, ""),
		lineRow("GET //evil/there?x=http://a HTTP/1.1", 400, closes, "two slashes"),
		{"GET //evil/there HTTP/1.0\r\n\r\n", 400, closes, "two slashes"},
		lineRow("GET /../there HTTP/1.1", 404, keeps, ""),
		lineRow("GET http://a/there HTTP/1.1", 200, keeps, "/there"),
		lineRow("GET HTTPS://A/%74here HTTP/1.1", 200, keeps, "/there"),
		{"GET http://a/there HTTP/1.0\r\n\r\n", 200, closes, "/there"},
		lineRow("GET http://b/there HTTP/1.1", 400, closes, "differs"),
		lineRow("GET http://a:80/there HTTP/1.1", 400, closes, "differs"),
		lineRow("GET http://u@a/there HTTP/1.1", 400, closes, "Host must"),
		lineRow("GET http:///there HTTP/1.1", 400, closes, "Host must"),
		lineRow("GET http://a?x HTTP/1.1", 400, closes, "must be a path"),
		lineRow("GET http:/a/there HTTP/1.1", 400, closes, "must be a path"),
		lineRow("GET ftp://a/there HTTP/1.1", 400, closes, "must be a path"),
		lineRow("GET javascript:alert(1) HTTP/1.1", 400, closes, "must be a path"),
		lineRow("OPTIONS * HTTP/1.1", 204, keeps, ""),
		lineRow("GET * HTTP/1.1", 400, closes, "OPTIONS"),
		lineRow("OPTIONS *a HTTP/1.1", 400, closes, "must be a path"),
		lineRow("CONNECT a:443 HTTP/1.1", 404, keeps, ""),
		lineRow("CONNECT a HTTP/1.1", 400, closes, "CONNECT"),
		lineRow("CONNECT /there HTTP/1.1", 400, closes, "CONNECT"),
		lineRow("CONNECT http://a/there HTTP/1.1", 400, closes, "CONNECT"),
		lineRow("GET /there HTTP/1.2", 400, closes, "HTTP/1.1"),
		lineRow("GET /there HTTP/0.9", 400, closes, "HTTP/1.1"),
		lineRow("GET /there HTTP/2.0", 400, closes, "HTTP/1.1"),
		lineRow("GET /there HTTP/1.1.1", 400, closes, "HTTP/1.1"),
		lineRow("GET /there HTTP/01.1", 400, closes, "HTTP/1.1"),
		lineRow("GET /there HTTP/1.1x", 400, closes, "HTTP/1.1"),
		lineRow("GET /there http/1.1", 400, closes, "HTTP/1.1"),
		lineRow("GET /there HTTP/1,1", 400, closes, "HTTP/1.1"),
		lineRow("GET /there HTTP/+1.1", 400, closes, "HTTP/1.1"),
		lineRow("GET /there ICE/1.0", 400, closes, "HTTP/1.1"),
		lineRow("GET /there", 400, closes, "HTTP/1.1"),
		lineRow("GET HTTP/1.1", 400, closes, ""),
		lineRow("HTTP/1.1 200 OK", 400, closes, "HTTP/1.1"),
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, closes, "HTTP/1.1"},
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400, closes, "control"},
		{"\nGET /there HTTP/1.1\r\nHost: a\r\n\r\n", 400, closes, "LF"},
	}
}

func hostileHosts() []hostileRow {
	rows := []hostileRow{
		{"GET /there HTTP/1.1\r\n\r\n", 400, closes, "missing"},
		{"GET /nowhere HTTP/1.1\r\n\r\n", 400, closes, "missing"},
		{"GET /nowhere HTTP/1.1\r\nHost: a b\r\n\r\n", 400, closes, "Host must"},
		{"GET /there HTTP/1.0\r\n\r\n", 200, closes, ""},
		{"GET /there HTTP/1.0\r\nHost: \r\n\r\n", 400, closes, "Host must"},
		{"GET /there HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, closes, "more than one Host"},
		{"GET /there HTTP/1.0\r\nhost: a\r\nHOST: b\r\n\r\n", 400, closes, "more than one Host"},
		{"GET http://a/there HTTP/1.1\r\n\r\n", 400, closes, "missing"},
		{"GET /there HTTP/1.1\r\nHost: " + strings.Repeat(strings.Repeat("a", 63)+".", 4)[:255] + "\r\n\r\n", 200, keeps, ""},
		{"GET /there HTTP/1.1\r\nHost: " + strings.Repeat(strings.Repeat("a", 63)+".", 4) + "\r\n\r\n", 400, closes, "Host must"},
	}
	for _, host := range []string{
		"a", "\ta", " a\t", "a:1", "a:65535", "A.b-c_d.example.", "127.0.0.1:80", "[::1]", "[2001:db8::1]:8080", "1a", "1.a", "xn--bcher-kva.example", strings.Repeat("a", 63), strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + ".c",
	} {
		rows = append(rows, hostRow(host, 200))
	}
	for _, host := range []string{
		"", " ", "a:", "a:0", "a:65536", "a:080", "a:8x", "a:-1", "a:80:80", ":80", "a,b", "a b", "a\tb", "a/b", "a?b", "a#b", "a\\b", "u@a", "http://a",
		"a..b", ".a", ".", "127.1", "0177.0.0.1", "256.0.0.1", "1.2.3.4.5", "0x7f.1", "1", "::1", "[::1", "::1]", "[]", "[::1]a", "[fe80::1%25eth0]",
		"[127.0.0.1]", "[v1.a]", "%61", "b\xc3\xbccher", "a;b", "a(b)", "\"a\"", "<a>", "*", strings.Repeat("a", 64), "a." + strings.Repeat("b", 64) + ".c",
	} {
		rows = append(rows, hostRow(host, 400))
	}
	return rows
}

func hostileFields() []hostileRow {
	return []hostileRow{
		fieldRow("X-Key:\tk", 200, keeps, `"key":"k"`),
		fieldRow("X-Key: \t k\t \t", 200, keeps, `"key":"k"`),
		fieldRow("X-Key:k", 200, keeps, `"key":"k"`),
		fieldRow("x-kEY: a\tb c", 200, keeps, `"key":"a\tb c"`),
		fieldRow("X-Key:\t", 200, keeps, `"key":""`),
		fieldRow("X-Key:", 200, keeps, `"key":""`),
		fieldRow("X-Key: :a:", 200, keeps, `"key":":a:"`),
		fieldRow("X-Key: caf\xc3\xa9", 200, keeps, "café"),
		fieldRow("!#$%&'*+-.^_`|~: a", 200, keeps, ""),
		fieldRow("X-Key : k", 400, closes, "colon"),
		fieldRow("X-Key\t: k", 400, closes, "colon"),
		fieldRow("X Key: k", 400, closes, "colon"),
		fieldRow(": k", 400, closes, "colon"),
		fieldRow("X-Key", 400, closes, "colon"),
		fieldRow("X-K(e)y: k", 400, closes, "colon"),
		fieldRow("X-K\xc3\xa9y: k", 400, closes, "colon"),
		fieldRow("\"X-Key\": k", 400, closes, "colon"),
		fieldRow("X@Key: k", 400, closes, "colon"),
		fieldRow("A: b\r\n X-Key: k", 400, closes, "folded"),
		fieldRow("A: b\r\n\tX-Key: k", 400, closes, "folded"),
		fieldRow("A: b\r\n ", 400, closes, "folded"),
		{"GET /there HTTP/1.1\r\n Host: a\r\n\r\n", 400, closes, "folded"},
		fieldRow("A: b\nX-Key: k", 400, closes, "LF"),
		fieldRow("A: b\n\nGET /there HTTP/1.1\r\nHost: a", 400, closes, "LF"),
		fieldRow("A: b\rX-Key: k", 400, closes, "CR"),
		fieldRow("A: b\r\r\nX-Key: k", 400, closes, "CR"),
		fieldRow("A\r: b", 400, closes, "CR"),
		fieldRow("A: b\x00c", 400, closes, "NUL"),
		fieldRow("A\x00: b", 400, closes, "NUL"),
		fieldRow("A: b\x01", 400, closes, "control"),
		fieldRow("A:\x0bb", 400, closes, "control"),
		fieldRow("A: b\x0c", 400, closes, "control"),
		fieldRow("A: b\x1bc", 400, closes, "control"),
		fieldRow("A: b\x7fc", 400, closes, "control"),
		fieldRow("X-Key: a\r\nx-key: a", 400, closes, "more than one X-Key"),
		fieldRow("X-Key:\r\nX-KEY: b", 400, closes, "more than one X-Key"),
		fieldRow("X-Keys: a\r\nX-Key: b\r\nX-Keys: c", 200, keeps, `"key":"b"`),
		fieldRow("Accept: a/b\r\nAccept: c/d", 200, keeps, ""),
		fieldRow("Connection: close", 200, closes, ""),
		fieldRow("Connection: Close", 200, closes, ""),
		fieldRow("Connection: keep-alive,\tCLOSE", 200, closes, ""),
		fieldRow("Connection: keep-alive\r\nConnection: close", 200, closes, ""),
		fieldRow("Connection: closed", 200, keeps, ""),
		fieldRow("Connection: Upgrade\r\nUpgrade: h2c", 200, keeps, ""),
		fieldRow("Trailer: X-Key", 200, keeps, ""),
		fieldRow("Trailer: Content-Length", 400, closes, "HTTP"),
		{"GET /there HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, keeps, ""},
		{"GET /there HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", 200, closes, ""},
		fieldRow("A: "+strings.Repeat("a", DefaultHeaderBytes), 431, closes, "headers_too_large"),
		fieldRow("A: "+strings.Repeat("a", DefaultHeaderBytes/2), 200, keeps, ""),
		lineRow("GET /"+strings.Repeat("a", DefaultHeaderBytes)+" HTTP/1.1", 431, closes, "headers_too_large"),
	}
}

func hostileLengths() []hostileRow {
	return []hostileRow{
		bodyRow("Content-Length: 5", "hello", 200, keeps, `"hello"`),
		bodyRow("Content-Length:\t5", "hello", 200, keeps, `"hello"`),
		bodyRow("Content-Length:5 \t", "hello", 200, keeps, `"hello"`),
		bodyRow("Content-Length: 005", "hello", 200, keeps, `"hello"`),
		bodyRow("Content-Length: 0", "", 200, keeps, `"size":0`),
		bodyRow("content-LENGTH: 5", "hello", 200, keeps, `"hello"`),
		bodyRow("Content-Length: +5", "hello", 400, closes, "digits"),
		bodyRow("Content-Length: -5", "hello", 400, closes, "digits"),
		bodyRow("Content-Length: -1", "hello", 400, closes, "digits"),
		bodyRow("Content-Length: 5,5", "hello", 400, closes, "digits"),
		bodyRow("Content-Length: 5, 5", "hello", 400, closes, "digits"),
		bodyRow("Content-Length: 5 5", "hello", 400, closes, "digits"),
		bodyRow("Content-Length: 5;", "hello", 400, closes, "digits"),
		bodyRow("Content-Length: 5.0", "hello", 400, closes, "digits"),
		bodyRow("Content-Length: 0x5", "hello", 400, closes, "digits"),
		bodyRow("Content-Length: 1_0", "hello", 400, closes, "digits"),
		bodyRow("Content-Length: \xd9\xa5", "hello", 400, closes, "digits"),
		bodyRow("Content-Length: \x0b5", "hello", 400, closes, "control"),
		bodyRow("Content-Length: \xc2\xa05", "hello", 400, closes, "digits"),
		bodyRow("Content-Length:", "hello", 400, closes, "digits"),
		bodyRow("Content-Length: abc", "hello", 400, closes, "digits"),
		bodyRow("Content-Length: 42949672960000000000", "", 400, closes, "digits"),
		bodyRow("Content-Length: 18446744073709551621", "hello", 400, closes, "digits"),
		bodyRow("Content-Length: 999999999999999999", "hello", 413, closes, "too_large"),
		bodyRow("Content-Length: 5\r\nContent-Length: 5", "hello", 400, closes, "more than one Content-Length"),
		bodyRow("Content-Length: 5\r\nContent-Length: 6", "hello", 400, closes, "more than one Content-Length"),
		bodyRow("Content-Length: 0\r\ncontent-length: 40", "GET /there HTTP/1.1\r\nHost: a\r\n\r\n", 400, closes, "more than one Content-Length"),
		bodyRow("Content-Length : 5", "hello", 400, closes, "colon"),
		bodyRow("Content-Length\t: 5", "hello", 400, closes, "colon"),
		bodyRow("Content-Length: 1001", strings.Repeat("a", 1001), 413, keeps, "too_large"),
		bodyRow("Content-Length: 1001", "a", 413, closes, "too_large"),
		bodyRow("Content-Length: 1000", strings.Repeat("a", 1000), 200, keeps, ""),
		fieldRow("Content-Length: 6\r\nX-Key: k", 200, closes, ""), // its body never arrives
		{"GET /there HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", 200, keeps, ""},
		{"GET /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, closes, "both"},
		bodyRow("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n", 400, closes, "both"),
		bodyRow("Transfer-Encoding: chunked\r\nContent-Length: 0", "0\r\n\r\n", 400, closes, "both"),
	}
}

func hostileChunks() []hostileRow {
	rows := []hostileRow{
		chunkRow("5\r\nhello\r\n0\r\n\r\n", 200, keeps, `"hello"`),
		chunkRow("0\r\n\r\n", 200, keeps, `"size":0`),
		chunkRow("2\r\nhe\r\n3\r\nllo\r\n000\r\n\r\n", 200, keeps, `"hello"`),
		chunkRow("a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", 200, keeps, `"size":20`),
		chunkRow("5;a=b;c;d=\"e;\\\"f\"\r\nhello\r\n0;x\r\n\r\n", 200, keeps, `"hello"`),
		chunkRow("5 ; a = b\r\nhello\r\n0\r\n\r\n", 200, keeps, `"hello"`),
		chunkRow("5\r\nhello\r\n0\r\nX-Key: k\r\nContent-Length: 9\r\n\r\n", 200, keeps, `"key":""`),
		chunkRow("3e8\r\n"+strings.Repeat("a", 1000)+"\r\n0\r\n\r\n", 200, keeps, `"size":1000`),
		chunkRow("3e9\r\n", 413, closes, "too_large"),
		chunkRow("3e8\r\n"+strings.Repeat("a", 1000)+"\r\n1\r\n", 413, closes, "too_large"),
		chunkRow("fffffffffffffff\r\n", 413, closes, "too_large"),
		chunkRow("ffffffffffffffff\r\n", 400, closes, "chunk"),
		chunkRow("8000000000000005\r\nhello\r\n", 400, closes, "chunk"),
		chunkRow("10000000000000005\r\nhello\r\n", 400, closes, "chunk"),
		chunkRow("0000000000000005\r\nhello\r\n", 400, closes, "chunk"),
		chunkRow("+5\r\nhello\r\n0\r\n\r\n", 400, closes, "chunk"),
		chunkRow("-5\r\nhello\r\n0\r\n\r\n", 400, closes, "chunk"),
		chunkRow("0x5\r\nhello\r\n0\r\n\r\n", 400, closes, "chunk"),
		chunkRow("5_0\r\nhello\r\n0\r\n\r\n", 400, closes, "chunk"),
		chunkRow("g\r\nhello\r\n0\r\n\r\n", 400, closes, "chunk"),
		chunkRow("\r\nhello\r\n0\r\n\r\n", 400, closes, "chunk"),
		chunkRow(" 5\r\nhello\r\n0\r\n\r\n", 400, closes, "chunk"),
		chunkRow("5 \r\nhello\r\n0\r\n\r\n", 400, closes, "chunk"),
		chunkRow("5\t\r\nhello\r\n0\r\n\r\n", 400, closes, "chunk"),
		chunkRow("5\nhello\r\n0\r\n\r\n", 400, closes, "LF"),
		chunkRow("5\r\nhello\n0\r\n\r\n", 400, closes, "LF"),
		chunkRow("5\r\nhello0\r\n\r\n", 400, closes, "chunk"),
		chunkRow("5\r\nhelloxx\r\n0\r\n\r\n", 400, closes, ""),
		chunkRow("5\r\nhello\rx0\r\n\r\n", 400, closes, ""),
		chunkRow("5\r\nhello\r\n0\r\n\n", 400, closes, "LF"),
		chunkRow("5\r\r\nhello\r\n0\r\n\r\n", 400, closes, "chunk"),
		chunkRow("5;\r\nhello\r\n0\r\n\r\n", 400, closes, "extension"),
		chunkRow("5;a=\r\nhello\r\n0\r\n\r\n", 400, closes, "extension"),
		chunkRow("5;a=\"b\r\nhello\r\n0\r\n\r\n", 400, closes, "extension"),
		chunkRow("5;a=\"b\"c\r\nhello\r\n0\r\n\r\n", 400, closes, "extension"),
		chunkRow("5;a=\"b\x01\"\r\nhello\r\n0\r\n\r\n", 400, closes, "extension"),
		chunkRow("5;a\nb\r\nhello\r\n0\r\n\r\n", 400, closes, "LF"),
		chunkRow("5;"+strings.Repeat("a", maxChunkLine-2)+"\r\nhello\r\n0\r\n\r\n", 200, keeps, ""),
		chunkRow("5;"+strings.Repeat("a", maxChunkLine-1)+"\r\nhello\r\n0\r\n\r\n", 400, closes, "too long"),
		chunkRow(strings.Repeat("1;"+strings.Repeat("a", 200)+"\r\nx\r\n", 80)+"0\r\n\r\n", 200, keeps, ""),
		chunkRow(strings.Repeat("1;"+strings.Repeat("a", 200)+"\r\nx\r\n", 100)+"0\r\n\r\n", 400, closes, "extensions"),
		chunkRow("0\r\nX Key: k\r\n\r\n", 400, closes, "colon"),
		chunkRow("0\r\nX-Key : k\r\n\r\n", 400, closes, "colon"),
		chunkRow("0\r\nX-Key\r\n\r\n", 400, closes, "colon"),
		chunkRow("0\r\nA: b\r\n c\r\n\r\n", 400, closes, "folded"),
		chunkRow("0\r\nA: b\nc: d\r\n\r\n", 400, closes, "LF"),
		chunkRow("0\r\nA: b\x00\r\n\r\n", 400, closes, "NUL"),
		chunkRow("0\r\nA: b\rc\r\n\r\n", 400, closes, "CR"),
		chunkRow("0\r\n"+strings.Repeat("A: b\r\n", maxTrailerLines)+"\r\n", 200, keeps, ""),
		chunkRow("0\r\n"+strings.Repeat("A: b\r\n", maxTrailerLines+1)+"\r\n", 400, closes, "trailer"),
		chunkRow("0\r\n"+strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 8)+"\r\n", 200, keeps, ""),
		chunkRow("0\r\n"+strings.Repeat("A: "+strings.Repeat("b", 1000)+"\r\n", 9)+"\r\n", 400, closes, "too long"),
		{"POST /there HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200, closes, `"hello"`},
	}
	for _, coding := range []string{"chunked", "Chunked", "CHUNKED", "\tchunked", " chunked \t"} {
		rows = append(rows, bodyRow("Transfer-Encoding:"+coding, "5\r\nhello\r\n0\r\n\r\n", 200, keeps, `"hello"`))
	}
	for _, coding := range []string{
		"", "identity", "gzip", "gzip, chunked", "chunked, chunked", "chunked,", ",chunked", "chunked;a=b", "\"chunked\"", "'chunked'", "xchunked", "chunke",
		"chunked\xc2\xa0", "\xc2\xa0chunked", "\xa0chunked", "chun\xe2\x84\xaaed", "chunked gzip", "chun ked", "chunked\x85", "\xef\xbc\xa3hunked",
	} {
		rows = append(rows, bodyRow("Transfer-Encoding: "+coding, "5\r\nhello\r\n0\r\n\r\n", 400, closes, "must be chunked"))
	}
	for _, coding := range []string{"\x0bchunked", "chunked\x0c", "chunked\x00", "chu\rnked"} {
		rows = append(rows, bodyRow("Transfer-Encoding: "+coding, "5\r\nhello\r\n0\r\n\r\n", 400, closes, "control"))
	}
	return append(rows,
		bodyRow("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "0\r\n\r\n", 400, closes, "more than one Transfer-Encoding"),
		bodyRow("Transfer-Encoding: chunked\r\ntransfer-encoding: identity", "0\r\n\r\n", 400, closes, "more than one Transfer-Encoding"),
		bodyRow("Transfer-Encoding : chunked", "0\r\n\r\n", 400, closes, "colon"),
		bodyRow("Transfer-Encoding\x0b: chunked", "0\r\n\r\n", 400, closes, "control"),
		bodyRow("Transfer-Encoding:\n chunked", "0\r\n\r\n", 400, closes, "LF"),
		bodyRow("A: b\rTransfer-Encoding: chunked", "0\r\n\r\n", 400, closes, "CR"),
		bodyRow("X-Transfer-Encoding: chunked", "", 200, keeps, `"size":0`),
	)
}

func hostileRest() []hostileRow {
	return []hostileRow{
		bodyRow("Expect: 100-continue\r\nContent-Length: 5", "hello", 100, keeps, ""),
		bodyRow("Expect: 100-Continue\r\nContent-Length: 5", "hello", 100, keeps, ""),
		bodyRow("Expect: 100-continue\r\nContent-Length: 1001", "", 413, closes, "too_large"),
		bodyRow("Expect: 100-continue", "", 200, keeps, ""),
		bodyRow("Expect: 100-continue, x\r\nContent-Length: 5", "hello", 400, closes, "Expect"),
		bodyRow("Expect: 200-ok\r\nContent-Length: 5", "hello", 400, closes, "Expect"),
		bodyRow("Expect:\r\nContent-Length: 5", "hello", 400, closes, "Expect"),
		bodyRow("Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 5", "hello", 400, closes, "more than one Expect"),
		{"POST /there HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", 200, closes, `"hello"`},
		{"POST /there HTTP/1.0\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200, closes, `"hello"`},
		{"POST /there HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", 200, closes, ""},
		{"GET /there HTTP/1.1\r\nHost: a\r\nX-Hidden-Body: 100\r\n\r\n", 200, keeps, ""},
		{"HEAD /there HTTP/1.1\r\nHost: a\r\n\r\n", 200, keeps, ""},
	}
}

func TestHostileRequestsAreTakenOrRefusedAsTheTableSays(t *testing.T) {
	addr := startServer(t, Config{Single: []string{"X-Key"}}, func(s *Server) {
		take := func(c *fiber.Ctx) error {
			b, err := s.ReadBody(c, Limit{1000, "1000 bytes"})
			if err != nil {
				return err
			}
			c.Set("X-Path", c.Path())
			return c.JSON(map[string]any{"size": len(b), "body": string(b[:min(len(b), 100)]), "path": c.Path(), "key": c.Get("X-Key")})
		}
		s.Handle("POST", "/there", take)
		s.Handle("GET", "/there", func(c *fiber.Ctx) error {
			return c.JSON(map[string]any{"path": c.Path(), "key": c.Get("X-Key")})
		})
		s.Handle("GET", "/next", func(c *fiber.Ctx) error { return c.SendString("next") })
	})
	rows := hostileRows()
	if len(rows) < 150 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		if err := row.check(addr); err != nil {
			t.Errorf("%.64q: %v", row.raw, err)
		}
	}
}

func (row *hostileRow) check(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil { // shorter than any time-out of the server
		return err
	}
	if _, err := io.WriteString(c, row.raw); err != nil {
		return err
	}
	r := bufio.NewReader(c)
	method, _, _ := strings.Cut(strings.TrimLeft(row.raw, "\r\n"), " ")
	asked := &http.Request{Method: method}
	want := row.status
	if want == 100 {
		if line, err := r.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
			return fmt.Errorf("%q, want 100: %w", line, err)
		}
		if _, err := r.ReadString('\n'); err != nil {
			return err
		}
		want = 200
	}
	res, err := http.ReadResponse(r, asked)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	switch {
	case res.StatusCode != want:
		return fmt.Errorf("%d %s, want %d", res.StatusCode, body, want)
	case !strings.Contains(string(body), row.shows):
		return fmt.Errorf("%s does not show %q", body, row.shows)
	case res.Header.Get("X-Request-Id") == "":
		return errors.New("no request id")
	case want >= 400 && !json.Valid(body):
		return fmt.Errorf("%q is no JSON", body)
	case res.Close != row.closed && res.ProtoMinor == 1:
		return fmt.Errorf("the answer says that the connection ends: %v", res.Close)
	}
	return row.checkConnection(c, r)
}

// checkConnection checks whether the connection takes another request, and that nothing after the request was answered.
func (row *hostileRow) checkConnection(c net.Conn, r *bufio.Reader) error {
	if row.closed {
		if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
			return fmt.Errorf("the connection is not closed: %q: %w", rest, err)
		}
		return nil
	}
	if _, err := io.WriteString(c, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return err
	}
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return fmt.Errorf("the connection is not kept: %w", err)
	}
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "next" {
		return fmt.Errorf("the next answer is %d %s: %w", res.StatusCode, body, err)
	}
	return nil
}
