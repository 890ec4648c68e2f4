package main

import (
	"fmt"
	"net"
	"os"

	"github.com/gofiber/fiber/v2"
)

// serveBare serves a Fiber handler that returns the bytes that quire has returned, and does nothing else. It runs in a
// process of its own, as quire does.
func serveBare(getBody, createBody string) error {
	get, err := os.ReadFile(getBody)
	if err != nil {
		return err
	}
	create, err := os.ReadFile(createBody)
	if err != nil {
		return err
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Get("/api/dev/paste-lite/get/:ref", func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		return c.Send(get)
	})
	app.Post("/api/dev/paste-lite/create", func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
		return c.Status(fiber.StatusCreated).Send(create)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("bare handler listens on http://%s\n", listener.Addr())
	return app.Listener(listener)
}
