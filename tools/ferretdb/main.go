// Command ferretdb is a server of the MongoDB protocol: FerretDB over SQLite, patched by build.sh. It replaces MongoDB in
// tests and trials on one machine. Do not keep data in it that you need.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:27017", "address")
	data := flag.String("data", "", "folder of the databases")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *data); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "ferretdb:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen, data string) error {
	folder, err := filepath.Abs(data)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	location := url.URL{Scheme: "file", OmitHost: true, Path: folder + "/", RawQuery: "_pragma=synchronous(normal)"}
	server, err := ferretdb.New(&ferretdb.Config{
		Listener: ferretdb.ListenerConfig{TCP: listen}, Handler: "sqlite", SQLiteURL: location.String(),
	})
	if err != nil {
		return err
	}
	return server.Run(ctx)
}
