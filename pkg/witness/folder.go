package witness

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	f_note "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Files of a folder. A file ending in .tmp is what a kill has left of a write; the next write replaces it.
const (
	lockFile  = "LOCK"
	keyFile   = "key"   // the note signer key
	logFolder = "logs"  // one file per log: the last checkpoint with this witness's cosignature
	knownFile = "known" // the names of these files, a line each, so that a lost one is noticed
)

// folder is the witness's memory.
type folder struct {
	path string
	lock *os.File
}

// openFolder creates or opens the folder and locks it.
func openFolder(path string) (*folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("folder of the witness: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create folder of the witness: %w", err)
	}
	if err := checkOwn(path); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock folder of the witness: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s. Stop the other process, or use another folder", ErrInUse, path)
		}
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return &folder{path: path, lock: lock}, nil
}

func (f *folder) close() error { return f.lock.Close() }

// key reads the key, or creates one with the name if this is the first start.
func (f *folder) key(name string) (k key, created bool, err error) {
	k, err = readKey(f.path)
	switch {
	case err == nil && name != "" && name != k.signer.Name():
		return key{}, false, fmt.Errorf("the witness in %s has the name %q: its cosignatures need it, so it can't become %q", f.path, k.signer.Name(), name)
	case err == nil:
		return k, false, f.checkLogs()
	case !errors.Is(err, ErrNoKey):
		return key{}, false, err
	}
	if err := f.createLogs(); err != nil {
		return key{}, false, err
	}
	if err := checkName(name); err != nil {
		return key{}, false, err
	}
	secret, _, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		return key{}, false, fmt.Errorf("create key: %w", err)
	}
	if err := f.createKey(secret); err != nil {
		return key{}, false, err
	}
	k, err = readKey(f.path)
	return k, err == nil, err
}

// checkOwn refuses a folder without a key that belongs to another program, before anything is created in it.
func checkOwn(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("read folder of the witness: %w", err)
	}
	other := ""
	for _, e := range entries {
		switch e.Name() {
		case keyFile:
			return nil
		case lockFile, logFolder, knownFile, keyFile + ".tmp", "lost+found":
		default:
			other = e.Name()
		}
	}
	if other != "" {
		return fmt.Errorf("%s is not the folder of a witness: it has %s. Use an empty folder", path, other)
	}
	return nil
}

// createLogs creates the folder of checkpoints. If it has some, the key beside them is lost, and a new one would begin without them.
func (f *folder) createLogs() error {
	path := filepath.Join(f.path, logFolder)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("create folder of the witness: %w", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("read folder of the witness: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%w: %s has checkpoints but no key. Put back the file %q, or start a new witness in another folder", ErrDamaged, f.path, keyFile)
	}
	return nil
}

// checkLogs refuses a folder that has a key but no folder of checkpoints.
func (f *folder) checkLogs() error {
	path := filepath.Join(f.path, logFolder)
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return fmt.Errorf("%w: %s is missing. Put it back, or start a new witness in another folder: this one would cosign a second history", ErrDamaged, path)
	}
	return nil
}

// createKey writes the key. A link, unlike a rename, fails if there is a key.
func (f *folder) createKey(secret string) error {
	path := filepath.Join(f.path, keyFile)
	err := writeFile(path+".tmp", []byte(secret+"\n"))
	if err == nil {
		err = os.Link(path+".tmp", path)
	}
	if err != nil {
		return fmt.Errorf("create key: %w", err)
	}
	_ = os.Remove(path + ".tmp") // the same file as the key
	return syncFolder(f.path)
}

// logPath is the file of a log. An origin may have any characters, so the name is a hash.
func (f *folder) logPath(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return filepath.Join(f.path, logFolder, hex.EncodeToString(sum[:])+".checkpoint")
}

// load returns the last tree of a log that was cosigned, or the empty one.
func (f *folder) load(origin string, own note.Verifier) (tlog.Tree, error) {
	path := f.logPath(origin)
	signed, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		known, err := f.knows(path)
		if err != nil {
			return tlog.Tree{}, err
		}
		if !known {
			return emptyTree()
		}
	} else if err != nil {
		return tlog.Tree{}, fmt.Errorf("read checkpoint of %s: %w", origin, err)
	}
	// The cosignature covers each byte of the checkpoint, so it is the file's checksum too.
	opened, err := note.Open(signed, note.VerifierList(own))
	var c checkpoint
	if err == nil {
		c, err = parseCheckpoint(opened.Text)
	}
	if err == nil && c.origin != origin {
		err = fmt.Errorf("it is of %s", c.origin)
	}
	if err != nil {
		return tlog.Tree{}, fmt.Errorf("%w: %s is not a checkpoint of %s that this witness has cosigned: %w. Replace the file by the newest such checkpoint "+
			"that the log or its readers have, with the cosignature. If there is none, start a new witness in another folder: this one would cosign a second history",
			ErrDamaged, path, origin, err)
	}
	return c.tree, nil
}

// save replaces the checkpoint of a log. Once it returns nil, a crash can't bring the earlier one back.
func (f *folder) save(origin string, signed []byte) error {
	path := f.logPath(origin)
	err := f.know(path)
	if err == nil {
		err = writeFile(path+".tmp", signed)
	}
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("save checkpoint of %s: %w", origin, err)
	}
	return nil
}

// knows reports whether the file of a log was written before.
func (f *folder) knows(path string) (bool, error) {
	data, err := os.ReadFile(filepath.Join(f.path, knownFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read which logs the witness knows: %w", err)
	}
	// A kill may have cut the last line off. Then its file was not written.
	return slices.Contains(strings.SplitAfter(string(data), "\n"), filepath.Base(path)+"\n"), nil
}

// know records that the file of a log is written from now on.
func (f *folder) know(path string) error {
	known, err := f.knows(path)
	if known || err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(f.path, knownFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString("\n" + filepath.Base(path) + "\n") // after what a kill has cut off
	return errors.Join(err, file.Sync(), file.Close(), syncFolder(f.path))
}

func emptyTree() (tlog.Tree, error) {
	root, err := tlog.TreeHash(0, nil)
	return tlog.Tree{Hash: root}, err
}

// writeFile writes a file and syncs it.
func writeFile(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// key is the witness's key. The file has a note signer key of plain Ed25519, whose hash shows damage; cosignatures and the
// verifier key have the type of a cosignature.
type key struct {
	signer   *f_note.Signer
	verifier string
}

// ReadKey returns the verifier key of the witness in a folder, which may be running.
func ReadKey(folder string) (string, error) {
	k, err := readKey(folder)
	return k.verifier, err
}

func readKey(folder string) (key, error) {
	path := filepath.Join(folder, keyFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return key{}, fmt.Errorf("%w in %s", ErrNoKey, folder)
	}
	if err != nil {
		return key{}, fmt.Errorf("read key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return key{}, fmt.Errorf("read key: others may read %s: anyone with it can cosign in this witness's name. Run chmod 600 %s", path, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return key{}, fmt.Errorf("read key: %w", err)
	}
	secret := strings.TrimSuffix(string(data), "\n")
	plain, err := note.NewSigner(secret)
	if err != nil {
		return key{}, fmt.Errorf("%w: %s is not a note signer key: %w. Put back a copy of it, or start a new witness in another folder", ErrDamaged, path, err)
	}
	signer, err := f_note.NewSignerForCosignatureV1(secret)
	if err != nil {
		return key{}, fmt.Errorf("read key: %w", err)
	}
	verifier, err := verifierKey(plain.Name(), secret)
	if err != nil {
		return key{}, fmt.Errorf("read key: %w", err)
	}
	return key{signer: signer, verifier: verifier}, nil
}

// verifierKey returns the verifier key, with the type of an Ed25519 cosignature, of a note signer key that note.NewSigner accepts.
func verifierKey(name, secret string) (string, error) {
	fields := strings.SplitN(secret, "+", 5) // PRIVATE+KEY+name+hash+base64
	seed, err := base64.StdEncoding.DecodeString(fields[len(fields)-1])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return "", errors.New("not the seed of an Ed25519 key")
	}
	public, ok := ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey)
	if !ok {
		return "", errors.New("not an Ed25519 key")
	}
	plain, err := note.NewEd25519VerifierKey(name, public)
	if err != nil {
		return "", err
	}
	return f_note.VKeyToCosignatureV1(plain)
}
