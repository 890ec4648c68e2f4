package standalone

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPartsOfTwoInstallationsAreNotStarted: a folder contains a part of another one, as after a failed restore.
func TestPartsOfTwoInstallationsAreNotStarted(t *testing.T) {
	t.Parallel()
	for part, name := range map[string]string{"blobs": "the blob store", "views/paste.db": "the read model of paste"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			mine, theirs := filepath.Join(t.TempDir(), "mine"), filepath.Join(t.TempDir(), "theirs")
			for _, folder := range []string{mine, theirs} {
				if err := launch(t, folder).end(t, syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			kept, swapped := filepath.Join(mine, part), filepath.Join(mine, part+".kept")
			if err := errors.Join(os.Rename(kept, swapped), os.Rename(filepath.Join(theirs, part), kept)); err != nil {
				t.Fatal(err)
			}
			_, text, code := quire(t, mine, []string{"QUIRE_LISTEN=127.0.0.1:0"})
			for _, want := range []string{"belong to different installations", "the journals (BILLING_0) to ", name + " to "} {
				if code == 0 || !strings.Contains(text, want) {
					t.Errorf("exit %d, %q does not say %q", code, text, want)
				}
			}
			if err := errors.Join(os.RemoveAll(kept), os.Rename(swapped, kept)); err != nil {
				t.Fatal(err)
			}
			use(t, launch(t, mine).base)
		})
	}
}
