// Command chart makes the templates of deploy/helm from the manifests in k8s, so that both install the same: values take the place of
// what an overlay patches. It writes the folder templates/made, which nobody edits.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", "../../..", "folder of the project")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(root string) error {
	manifests, err := Manifests(root)
	if err != nil {
		return err
	}
	made, err := Templates(manifests)
	if err != nil {
		return err
	}
	folder := filepath.Join(root, "deploy", "helm", "templates", "made")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range made {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
