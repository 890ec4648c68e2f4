package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/gofiber/fiber/v2"
)

// recorded is an answer of quire that the bare handler repeats. Paths may have Fiber's parameters.
type recorded struct {
	Method, Path string
	Status       int
	Body         []byte
	File         string // streams this file instead of Body
}

// Paths of the bare handler that quire does not have. The refusals have separate paths, since it ignores keys.
const (
	bareGet       = "/api/dev/paste-lite/get/"
	bareCreate    = "/api/dev/paste-lite/create"
	bareBadKey    = "/bad-key"
	bareExhausted = "/exhausted"
	bareFile      = "/file"
)

// serveBare serves Fiber handlers that repeat answers of quire, listed in a file, and do nothing else. It runs in a
// separate process, as quire does.
func serveBare(list string) error {
	data, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	var answers []recorded
	if err := json.Unmarshal(data, &answers); err != nil {
		return err
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	for _, a := range answers {
		app.Add(a.Method, a.Path, a.handle)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("bare handler listens on http://%s\n", listener.Addr())
	return app.Listener(listener)
}

func (a *recorded) handle(c *fiber.Ctx) error {
	if a.File == "" {
		c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		return c.Status(a.Status).Send(a.Body)
	}
	f, err := os.Open(a.File)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEOctetStream)
	return c.SendStream(f, int(info.Size())) // it closes the file
}

// record sends quire a request and keeps its answer for a path of the bare handler.
func record(request *http.Request, path string) (recorded, error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return recorded{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return recorded{Method: request.Method, Path: path, Status: response.StatusCode, Body: body}, err
}
