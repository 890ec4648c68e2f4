// Command secrets writes the passwords and certificates of a cluster that has its own stores. It is for Compose and the
// development overlay. In production an operator provides them.
//
// It keeps a complete folder as it is, so that it can be run before every start.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "", "folder to write to")
	store := flag.String("store", "postgres", "server of the read models: postgres or mongo")
	flag.Parse()
	if *store != "postgres" && *store != "mongo" {
		fmt.Fprintln(os.Stderr, "secrets: -store must be postgres or mongo")
		os.Exit(2)
	}
	if *out == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "secrets: -out must name the folder to write to")
		os.Exit(2)
	}
	if err := run(*out, *store); err != nil {
		fmt.Fprintln(os.Stderr, "secrets:", err)
		os.Exit(1)
	}
}

// marker is written last. A folder without it is incomplete, and is written again.
const marker = "complete"

func run(out, store string) error {
	_, err := os.Stat(filepath.Join(out, marker))
	if err == nil {
		fmt.Println(out, "exists and is kept")
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, err := generate(store)
	if err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		// Containers read the files as different users, so only the folder keeps others out.
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	if err := os.Chmod(out, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, marker), nil, 0o600)
}
