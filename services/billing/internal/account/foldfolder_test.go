package account

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var foldFolder = flag.String("fold", "", "folder of journals, as vectors without results, that TestFoldFolder folds")

// TestFoldFolder writes the results into each file of a folder. The tests of the verifier compare them with what it folds.
func TestFoldFolder(t *testing.T) {
	if *foldFolder == "" {
		t.Skip("no folder")
	}
	files, err := filepath.Glob(filepath.Join(*foldFolder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no journals: ", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var v vector
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		for i := range v.Messages {
			v.Messages[i].decode(t)
		}
		v.fold(t)
		if err := os.WriteFile(path, v.encode(t), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
