package standalone

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/witness"
)

// witnessedLog is a log with its stored hashes.
type witnessedLog struct {
	signer note.Signer
	key    string
	hashes []tlog.Hash
}

func newWitnessedLog(t *testing.T, entries ...string) *witnessedLog {
	t.Helper()
	secret, key, err := note.GenerateKey(rand.Reader, "quire.example/log")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	return (&witnessedLog{signer: signer, key: key}).with(t, entries...)
}

// with is a log of the same key with these entries.
func (l *witnessedLog) with(t *testing.T, entries ...string) *witnessedLog {
	t.Helper()
	other := &witnessedLog{signer: l.signer, key: l.key}
	for i, entry := range entries {
		hashes, err := tlog.StoredHashes(int64(i), []byte(entry), other)
		if err != nil {
			t.Fatal(err)
		}
		other.hashes = append(other.hashes, hashes...)
	}
	return other
}

// ReadHashes implements tlog.HashReader.
func (l *witnessedLog) ReadHashes(indexes []int64) (out []tlog.Hash, _ error) {
	for _, i := range indexes {
		out = append(out, l.hashes[i])
	}
	return out, nil
}

// cosign asks a running witness for the cosignature of a size.
func (l *witnessedLog) cosign(t *testing.T, c *child, old, size int64) error {
	t.Helper()
	root, err := tlog.TreeHash(size, l)
	if err != nil {
		t.Fatal(err)
	}
	var proof tlog.TreeProof
	if old > 0 {
		if proof, err = tlog.ProveTree(size, old, l); err != nil {
			t.Fatal(err)
		}
	}
	signed, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", l.signer.Name(), size, root)}, l.signer)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := witness.ParseWitnesses(verifierKeyOf(c) + "@" + c.base)
	if err != nil {
		t.Fatal(err)
	}
	_, err = clients[0].Cosign(t.Context(), old, proof, signed)
	return err
}

// verifierKeyOf is the key that a witness has printed.
func verifierKeyOf(c *child) string {
	_, key, _ := strings.Cut(c.stdout.String(), "verifier key: ")
	key, _, _ = strings.Cut(key, "\n")
	return key
}

// TestAWitnessRunsByItself: it needs a folder and no settings. A kill and a stop leave what it has cosigned.
func TestAWitnessRunsByItself(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "witness")
	log := newWitnessedLog(t, "a", "b", "c")
	fork := log.with(t, "a", "x", "y")
	args := []string{"witness", "--data", folder, "--log", log.key, "--name", "witness.example/w1", "--listen", "127.0.0.1:0"}
	c := launchCommand(t, args, "QUIRE_PARTITIONS=none")
	if !strings.Contains(c.stdout.String(), "created a key in "+folder) {
		t.Errorf("%q", c.stdout)
	}
	key, errs, code := quire(t, folder, nil, "witness", "key", "--data", folder)
	if code != 0 || key != verifierKeyOf(c)+"\n" || !strings.HasPrefix(key, "witness.example/w1+") {
		t.Errorf("witness key: %d %q %q, want %q", code, key, errs, verifierKeyOf(c))
	}
	if _, errs, code := quire(t, folder, nil, args...); code != 1 || !strings.Contains(errs, "in use") {
		t.Errorf("a second process: %d %q", code, errs)
	}
	if err := log.cosign(t, c, 0, 2); err != nil {
		t.Error(err)
	}
	_ = c.end(t, syscall.SIGKILL) // "signal: killed"
	c = launchCommand(t, args)
	if key != verifierKeyOf(c)+"\n" || strings.Contains(c.stdout.String(), "created") {
		t.Errorf("after a kill: %q", c.stdout)
	}
	var conflict *witness.ConflictError
	if err := log.cosign(t, c, 0, 1); !errors.As(err, &conflict) || conflict.Size != 2 {
		t.Errorf("a rollback: %v", err)
	}
	if err := fork.cosign(t, c, 2, 2); !errors.Is(err, witness.ErrFork) {
		t.Errorf("a fork: %v", err)
	}
	if err := fork.cosign(t, c, 2, 3); !errors.Is(err, witness.ErrProof) {
		t.Errorf("a fork that has grown: %v", err)
	}
	if err := log.cosign(t, c, 2, 3); err != nil {
		t.Error(err)
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("orderly stop: %v\n%s", err, c.stderr)
	}
	for _, line := range []string{"the log has signed two histories", "cosigned a checkpoint", "size=3"} {
		if !strings.Contains(c.stderr.String(), line) {
			t.Errorf("%q is not in\n%s", line, c.stderr)
		}
	}
}

func TestAWitnessSaysWhyItDoesNotStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	log := newWitnessedLog(t)
	folder := filepath.Join(t.TempDir(), "witness")
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "set --data"},
		{[]string{"--data", folder}, 2, "--log"},
		{[]string{"key"}, 2, "set --data"},
		{[]string{"key", "--data", folder}, 1, "no key of a witness in " + folder},
		{[]string{"serve"}, 2, "arguments"},
		{[]string{"--data", folder, "--log", "quire.example+0+AQ=="}, 1, `"quire.example+0+AQ=="`},
		{[]string{"--data", folder, "--log", log.key, "--listen", taken.Addr().String()}, 1, "address already in use"},
		{[]string{"--data", folder, "--log", log.key, "--listen", "nowhere"}, 1, "--listen"},
		{[]string{"--data", filepath.Dir(binary(t)), "--log", log.key, "--listen", "127.0.0.1:0"}, 1, "is not the folder of a witness"},
	} {
		_, errs, code := quire(t, folder, nil, append([]string{"witness"}, test.args...)...)
		if code != test.code || !strings.Contains(errs, test.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: exit %d, %q, want %d and %q", test.args, code, errs, test.code, test.says)
		}
		if entries, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(entries) > 0 {
			t.Errorf("%q created %v, %v", test.args, entries, err)
		}
	}
}
