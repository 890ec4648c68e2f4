package scenario

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quire.dev/client"
	"quire.dev/pkg/wait"
)

// driverCommand has a client in another language make the calls: see clients/README.md.
var driverCommand = flag.String("driver", "", "a command that makes the calls of the clients' scenarios, such as \"node clients/ts/driver.mjs\"")

// driver makes a call by a client, with the operations, arguments and results of clients/README.md.
type driver interface {
	call(ctx context.Context, op string, args object) (object, error)
}

// driverKind makes drivers that call a base URL with an API key.
type driverKind struct {
	name    string
	make    func(t *testing.T, base, key string) driver
	without string // an operation that it does not have
}

func driverKinds() []driverKind {
	kinds := []driverKind{{name: "http", make: newRawDriver}, {name: "go", make: newGoDriver}, {name: "command line", make: newCommandDriver, without: "getFile"}}
	if *driverCommand != "" {
		kinds = append(kinds, driverKind{name: "process", make: newProcessDriver})
	}
	return kinds
}

// rawDriver calls as docs/guides/idempotency-and-retries.md says, without a client.
type rawDriver struct {
	base, key string
	http      *http.Client
}

func newRawDriver(_ *testing.T, base, key string) driver {
	return &rawDriver{base: base, key: key, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: callLimit}}
}

// rawTries is how often a call is sent at most.
const rawTries = 10

func (d *rawDriver) call(ctx context.Context, op string, args object) (object, error) {
	arg := func(name string) string { s, _ := args[name].(string); return s }
	texts, quick := "/api/dev/pastes/", strings.Contains(op, "QuickPaste")
	if quick {
		texts = "/api/dev/paste-lite/"
	}
	switch strings.Replace(op, "QuickPaste", "Paste", 1) {
	case "createPaste":
		return d.send(ctx, "POST", texts+"create", object{"content": args["content"], "title": args["title"]})
	case "getPaste":
		got, err := d.send(ctx, "GET", texts+"get/"+arg("id"), nil)
		if err != nil {
			return nil, err
		}
		return got["paste"].(object), nil
	case "updatePaste":
		return d.send(ctx, "PUT", texts+"update/"+arg("id"), object{"title": args["title"]})
	case "deletePaste":
		return d.send(ctx, "DELETE", texts+"delete/"+arg("id"), nil)
	case "listPastes":
		return d.list(ctx, texts+"list?limit=2&q="+url.QueryEscape(arg("q")), "pastes")
	case "uploadFile":
		content, err := os.ReadFile(arg("path"))
		if err != nil {
			return nil, err
		}
		return d.send(ctx, "POST", "/api/dev/files/upload?name="+url.QueryEscape(arg("name")), content)
	case "getFile":
		got, err := d.send(ctx, "GET", "/api/dev/files/get/"+arg("id"), nil)
		if err != nil {
			return nil, err
		}
		return got["file"].(object), nil
	case "downloadFile":
		return d.download(ctx, arg("id"), arg("path"))
	case "deleteFile":
		return d.send(ctx, "DELETE", "/api/dev/files/delete/"+arg("id"), nil)
	}
	return nil, fmt.Errorf("operation %s", op)
}

func (d *rawDriver) list(ctx context.Context, path, items string) (object, error) {
	var ids []any
	for cursor := ""; ; {
		page, err := d.send(ctx, "GET", path+cursor, nil)
		if err != nil {
			return nil, err
		}
		for _, item := range page[items].([]any) {
			ids = append(ids, item.(object)["id"])
		}
		next, _ := page["nextCursor"].(string)
		if next == "" {
			return object{"ids": ids}, nil
		}
		cursor = "&cursor=" + url.QueryEscape(next)
	}
}

// download reads a file's bytes, all under one key, from where the last answer ended.
func (d *rawDriver) download(ctx context.Context, id, path string) (object, error) {
	var content []byte
	key := rand.Text()
	for range rawTries {
		header := map[string]string{"Idempotency-Key": key}
		if len(content) > 0 {
			header["Range"] = fmt.Sprintf("bytes=%d-", len(content))
		}
		status, part, err := d.try(ctx, "GET", "/api/dev/files/get/"+id+"?download=1", nil, header)
		if status == http.StatusOK || status == http.StatusPartialContent {
			content = append(content, part...)
		} else if err == nil && !worthRepeating(status, part) {
			return nil, fmt.Errorf("%d %s", status, part)
		}
		if err == nil && status < 300 {
			return object{"sha256": sha256Of(content)}, os.WriteFile(path, content, 0o600)
		}
		wait.For(ctx, 100*time.Millisecond)
	}
	return nil, errors.New("no answer")
}

// send repeats a call under one key until it is answered.
func (d *rawDriver) send(ctx context.Context, method, path string, body any) (object, error) {
	header := map[string]string{"Idempotency-Key": rand.Text()}
	for range rawTries {
		status, content, err := d.try(ctx, method, path, body, header)
		if err == nil && !worthRepeating(status, content) {
			if status >= http.StatusMultipleChoices {
				return nil, fmt.Errorf("%d %s", status, content)
			}
			var out object
			return out, json.Unmarshal(content, &out)
		}
		wait.For(ctx, 100*time.Millisecond)
	}
	return nil, errors.New("no answer")
}

func worthRepeating(status int, content []byte) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout ||
		status == http.StatusConflict && bytes.Contains(content, []byte("idempotency_in_flight"))
}

// try sends a call once. The content is what arrived of the answer, also beside an error.
func (d *rawDriver) try(ctx context.Context, method, path string, body any, header map[string]string) (int, []byte, error) {
	encoded, contentType, err := encodeBody(body)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, d.base+path, encoded)
	if err != nil {
		return 0, nil, err
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	r.Header.Set("x-api-key", d.key)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer, err := d.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, content, err
}

// goDriver calls by the Go client.
type goDriver struct{ c *client.Client }

func newGoDriver(t *testing.T, base, key string) driver {
	t.Helper()
	c, err := client.New(key, client.WithBaseURL(base))
	if err != nil {
		t.Fatal(err)
	}
	return &goDriver{c}
}

func (d *goDriver) call(ctx context.Context, op string, args object) (object, error) {
	arg := func(name string) string { s, _ := args[name].(string); return s }
	texts := d.c.Pastes
	if strings.Contains(op, "QuickPaste") {
		texts = d.c.QuickPastes
	}
	switch strings.Replace(op, "QuickPaste", "Paste", 1) {
	case "createPaste":
		return asObject(texts.Create(ctx, client.NewPaste{Content: arg("content"), Title: arg("title")}))
	case "getPaste":
		return asObject(texts.Get(ctx, arg("id")))
	case "updatePaste":
		return asObject(texts.Update(ctx, arg("id"), client.PasteChange{Title: client.Set(arg("title"))}))
	case "deletePaste":
		return asObject(texts.Delete(ctx, arg("id")))
	case "listPastes":
		var ids []any
		for p, err := range texts.List(ctx, client.ListFilter{PageSize: 2, TitleContains: arg("q")}) {
			if err != nil {
				return nil, err
			}
			ids = append(ids, p.ID)
		}
		return object{"ids": ids}, nil
	case "uploadFile":
		f, err := os.Open(arg("path"))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return asObject(d.c.Files.Upload(ctx, client.NewFile{Name: arg("name"), Content: f}))
	case "getFile":
		return asObject(d.c.Files.Get(ctx, arg("id")))
	case "downloadFile":
		f, err := os.Create(arg("path"))
		if err != nil {
			return nil, err
		}
		file, err := d.c.Files.Download(ctx, arg("id"), f, nil)
		return asObject(file, cmp.Or(err, f.Close()))
	case "deleteFile":
		return asObject(d.c.Files.Delete(ctx, arg("id")))
	}
	return nil, fmt.Errorf("operation %s", op)
}

// asObject is a result of the Go client in JSON.
func asObject[T any](result *T, err error) (object, error) {
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	var out object
	return out, json.Unmarshal(data, &out)
}

// processDriver has another process make the calls.
type processDriver struct {
	mu      sync.Mutex
	in      io.Writer
	answers *bufio.Scanner
	number  int
}

// longestLine is the longest answer of a driver, in bytes.
const longestLine = 32 << 20

func newProcessDriver(t *testing.T, base, key string) driver {
	t.Helper()
	words := strings.Fields(*driverCommand)
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir = "../../.."
	cmd.Env = append(slices.Clone(os.Environ()), "QUIRE_URL="+base, "QUIRE_API_KEY="+key)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %q: %v", *driverCommand, err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil && t.Context().Err() == nil {
			t.Errorf("the driver ended with %v", err)
		}
	})
	d := &processDriver{in: in, answers: bufio.NewScanner(out)}
	d.answers.Buffer(nil, longestLine)
	return d
}

func (d *processDriver) call(_ context.Context, op string, args object) (object, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.number++
	line, err := json.Marshal(object{"id": d.number, "op": op, "args": args})
	if err != nil {
		return nil, err
	}
	if _, err := d.in.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	if !d.answers.Scan() {
		return nil, fmt.Errorf("the driver has ended: %w", cmp.Or(d.answers.Err(), io.ErrUnexpectedEOF))
	}
	var answer struct {
		ID     int
		OK     bool
		Result object
		Error  object
	}
	if err := json.Unmarshal(d.answers.Bytes(), &answer); err != nil || answer.ID != d.number {
		return nil, fmt.Errorf("the driver answered %q to call %d: %w", d.answers.Bytes(), d.number, err)
	}
	if !answer.OK {
		return nil, fmt.Errorf("the client failed: %v", answer.Error)
	}
	return answer.Result, nil
}
