// Package datafolder creates, locks and checks the folder with all data of one quire process.
//
//	VERSION      the number of the format, the fingerprint of the secret, the names of the journals
//	LOCK         is locked by the running process; has its id and URL
//	journal.sock is the socket of the journal server, for commands on this machine
//	secret       signs API keys, tokens and sessions; missing if QUIRE_SECRET was set
//	admin-token  the administrator's bearer token; missing if QUIRE_ADMIN_TOKEN was set
//	checkpoint-key
//	             signs the log's checkpoints; missing if QUIRE_CHECKPOINT_KEY was set
//	CLEAN        exists while no process runs, if the last one stopped in order
//	SUSPECT      exists from when a journal was found damaged in use until all journals were found whole
//	nats/        the journals
//	views/       the read models
//	blobs/       large content and files
//	torn/        copies of unacknowledged ends of journal files, made before the ends are cut off
//	deleted/     generations of journals whose deletion a kill interrupted, until the archive is known to have their messages
//
// A folder with a fault is refused, and nothing in it is changed.
package datafolder

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"quire.dev/services/standalone/internal/durable"
)

// Format is the number of this layout. A folder with a larger number is refused.
const Format = 1

// Errors that Open's errors wrap.
var (
	ErrInUse   = errors.New("data folder is in use")
	ErrNewer   = errors.New("data folder was created by a newer quire")
	ErrDamaged = errors.New("data folder is damaged")
	ErrSecret  = errors.New("the secret is not the data folder's")
)

const (
	versionFile = "VERSION"
	lockFile    = "LOCK"
	secretFile  = "secret"
	adminFile   = "admin-token"
	keyFile     = "checkpoint-key"
	cleanFile   = "CLEAN"
	suspectFile = "SUSPECT"
)

// Options replace values kept in the folder. An empty one stands for the folder's value, which the first start creates.
type Options struct {
	Secret        string   // QUIRE_SECRET
	Previous      [][]byte // QUIRE_SECRET_PREVIOUS
	AdminToken    string   // QUIRE_ADMIN_TOKEN
	CheckpointKey string   // QUIRE_CHECKPOINT_KEY
}

// Folder is an open, locked data folder. Its methods are for one goroutine.
type Folder struct {
	Path       string
	First      bool // created by this Open
	Clean      bool // the last process stopped in order
	Suspect    bool // a journal was found damaged
	Secret     []byte
	AdminToken string
	// CheckpointKey is the secret of the log's key.
	CheckpointKey string

	lock *os.File

	mu      sync.Mutex // of Streams, Record and Welcome
	version version
}

// NATS is the folder of the embedded journal server.
func (f *Folder) NATS() string { return filepath.Join(f.Path, "nats") }

// Views is the folder of the embedded read models.
func (f *Folder) Views() string { return filepath.Join(f.Path, "views") }

// Blobs is the folder of the embedded blob store.
func (f *Folder) Blobs() string { return filepath.Join(f.Path, "blobs") }

// Torn is the folder with the copies of torn ends of journal files.
func (f *Folder) Torn() string { return filepath.Join(f.Path, "torn") }

// Deleted is the folder with generations of billing journals whose deletion a kill interrupted, until the archive is known to have their
// messages.
func (f *Folder) Deleted() string { return filepath.Join(f.Path, "deleted") }

// AdminTokenFile is the file with the admin token.
func (f *Folder) AdminTokenFile() string { return filepath.Join(f.Path, adminFile) }

// Streams returns the names of the journals recorded by earlier starts.
func (f *Folder) Streams() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.version.streams)
}

// CheckUsed returns an error that wraps ErrDamaged if the file is missing or empty although an earlier start has written it.
func (f *Folder) CheckUsed(path string) error {
	if len(f.version.streams) == 0 {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return fmt.Errorf("%w: %s is missing or empty, unlike before. Nothing was changed; restore the data folder from a backup, with `quire restore`",
		ErrDamaged, path)
}

func parts() []string { return []string{"nats", "views", "blobs"} }

// Open creates or opens the folder at path and locks it. Errors wrap ErrInUse, ErrNewer, ErrDamaged or ErrSecret, or come from
// the operating system.
func Open(path string, opts Options) (*Folder, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data folder %s: %w", path, err)
	}
	f := &Folder{Path: abs}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, fmt.Errorf("create data folder: %w", err)
	}
	// Refuse a folder of other files before creating a lock file in it.
	made, err := f.readVersion()
	if err != nil {
		return nil, err
	}
	if err := f.acquire(); err != nil {
		return nil, err
	}
	if err := f.open(made, opts); err != nil {
		return nil, errors.Join(err, f.lock.Close())
	}
	return f, nil
}

func (f *Folder) open(made bool, opts Options) error {
	if !made {
		// Another process may have created it before this one got the lock.
		var err error
		if made, err = f.readVersion(); err != nil {
			return err
		}
	}
	if !made {
		if err := f.create(opts); err != nil {
			return err
		}
	} else if err := f.check(opts); err != nil {
		return err
	}
	f.Clean = f.First || exists(filepath.Join(f.Path, cleanFile))
	f.Suspect = exists(filepath.Join(f.Path, suspectFile))
	var err error
	if f.AdminToken, err = f.loadToken(adminFile, opts.AdminToken, "qa_", "delete it to get a new one"); err != nil {
		return err
	}
	f.CheckpointKey, err = f.loadToken(keyFile, opts.CheckpointKey, "", "put it back from a backup, since the log can't go on with another one")
	return err
}

// Started records that the folder is in use. It must be called before anything is written to the folder.
func (f *Folder) Started() error {
	if err := os.Remove(filepath.Join(f.Path, cleanFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("mark data folder as in use: %w", err)
	}
	return durable.SyncFolder(f.Path)
}

// Stopped records an orderly stop. The next start then accepts no torn file.
func (f *Folder) Stopped() error {
	return durable.Write(filepath.Join(f.Path, cleanFile), nil)
}

// SetSuspect records that a journal was found damaged, or that all were found whole. Like Streams, Record and Welcome, and unlike the other
// methods, it is safe for concurrent use.
func (f *Folder) SetSuspect(suspect bool) error {
	file := filepath.Join(f.Path, suspectFile)
	if suspect {
		return durable.Write(file, nil)
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record that the journals are whole: %w", err)
	}
	return nil
}

// Record records the names of the journals' streams, in place of those recorded before. A later start fails if one of them is missing.
func (f *Folder) Record(streams []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := f.version
	next.streams = slices.Sorted(slices.Values(streams))
	if slices.Equal(next.streams, f.version.streams) {
		return nil
	}
	return f.save(next)
}

// Welcomed reports whether Welcome was called, by this process or an earlier one.
func (f *Folder) Welcomed() bool { return f.version.welcome }

// Welcome records that the first account was created and its key shown.
func (f *Folder) Welcome() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := f.version
	next.welcome = true
	return f.save(next)
}

func (f *Folder) save(next version) error {
	if err := durable.Write(filepath.Join(f.Path, versionFile), next.encode()); err != nil {
		return err
	}
	f.version = next
	return nil
}

// Announce writes the URLs of this process and of its admin API to the lock file, where other commands of quire read them.
func (f *Folder) Announce(url, adminURL string) error {
	text := fmt.Sprintf("%d\n%s\n%s\n", os.Getpid(), url, adminURL)
	if err := f.lock.Truncate(0); err != nil {
		return fmt.Errorf("announce in %s: %w", f.lock.Name(), err)
	}
	if _, err := f.lock.WriteAt([]byte(text), 0); err != nil {
		return fmt.Errorf("announce in %s: %w", f.lock.Name(), err)
	}
	return nil
}

// Close releases the lock.
func (f *Folder) Close() error { return f.lock.Close() }

// acquire takes the lock. The operating system releases it however the process ends.
func (f *Folder) acquire() error {
	file, err := os.OpenFile(filepath.Join(f.Path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock data folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			holder, _ := readHolder(file)
			return fmt.Errorf("%w: %s belongs to process %s; stop that process or set another QUIRE_DATA",
				ErrInUse, f.Path, holder.describe())
		}
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	f.lock = file
	return f.Announce("", "")
}

// Holder is the process that has a folder open.
type Holder struct {
	PID int
	URL string // empty while it starts

	AdminURL string // empty while it starts
}

func (h Holder) describe() string {
	if h.PID == 0 {
		return "(unknown)"
	}
	if h.URL != "" {
		return fmt.Sprintf("%d, which listens on %s", h.PID, h.URL)
	}
	return strconv.Itoa(h.PID)
}

// Running returns the process that has the folder at path open. It returns false if no process or folder exists.
func Running(path string) (Holder, bool, error) {
	file, err := os.Open(filepath.Join(path, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("read the lock: %w", err)
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		h, err := readHolder(file)
		return h, true, err
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("read the lock %s: %w", file.Name(), err)
	}
	return Holder{}, false, nil
}

func readHolder(file *os.File) (Holder, error) {
	buf := make([]byte, 1024)
	n, _ := file.ReadAt(buf, 0) // shorter than buf: io.EOF
	lines := strings.Split(string(buf[:n]), "\n")
	pid, err := strconv.Atoi(lines[0])
	if err != nil {
		return Holder{}, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	h := Holder{PID: pid}
	if len(lines) > 2 {
		h.URL, h.AdminURL = lines[1], lines[2]
	}
	return h, nil
}

// Secrets reads the secrets that the folder at path keeps, if any.
func Secrets(path string) (secrets []string, err error) {
	files, err := readFiles(path, secretFile, adminFile, keyFile)
	for _, data := range files {
		secrets = append(secrets, strings.TrimSpace(string(data)))
	}
	return secrets, err
}

// AdminToken reads the admin token of the folder at path.
func AdminToken(path string) (string, error) {
	data, err := os.ReadFile(filepath.Join(path, adminFile))
	if err != nil {
		return "", fmt.Errorf("read the admin token: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// readVersion reads VERSION. It returns false if the folder has yet to be created, and an error if that is impossible.
func (f *Folder) readVersion() (bool, error) {
	data, err := os.ReadFile(filepath.Join(f.Path, versionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, f.checkUnmade()
	}
	if err != nil {
		return false, f.damageError("VERSION can't be read: %v", err)
	}
	v, err := decodeVersion(data)
	if err != nil {
		return false, f.damageError("VERSION: %v", err)
	}
	if v.format > Format {
		return false, fmt.Errorf("%w: %s has format %d, and this quire reads formats up to %d: "+
			"start the newer quire again, or restore a backup from before the upgrade",
			ErrNewer, f.Path, v.format, Format)
	}
	f.version = v
	return true, nil
}

// checkUnmade accepts an empty folder, and one whose first start ended before it stored data.
func (f *Folder) checkUnmade() error {
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return fmt.Errorf("read data folder: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == lockFile || name == secretFile || name == adminFile || name == keyFile || strings.HasSuffix(name, ".tmp"):
		case slices.Contains(parts(), name):
			inside, err := os.ReadDir(filepath.Join(f.Path, name))
			if err != nil {
				return fmt.Errorf("read data folder: %w", err)
			}
			if len(inside) > 0 {
				return f.damageError("VERSION is missing, and %s is not empty", name)
			}
		default:
			return fmt.Errorf("%s is not a data folder of quire: it contains %s; set another QUIRE_DATA", f.Path, name)
		}
	}
	return nil
}

// create writes the content of a new folder. VERSION comes last, so a folder with that file is complete.
func (f *Folder) create(opts Options) error {
	f.First = true
	for _, part := range parts() {
		if err := os.MkdirAll(filepath.Join(f.Path, part), 0o700); err != nil {
			return fmt.Errorf("create data folder: %w", err)
		}
	}
	if err := os.Chmod(f.Path, 0o700); err != nil { //nolint:gosec // a folder
		return fmt.Errorf("create data folder: %w", err)
	}
	f.Secret = []byte(opts.Secret)
	if opts.Secret == "" {
		f.Secret = []byte(token())
		if err := durable.Write(filepath.Join(f.Path, secretFile), append(slices.Clone(f.Secret), '\n')); err != nil {
			return err
		}
	}
	f.version = version{format: Format, secret: fingerprint(f.Secret)}
	return durable.Write(filepath.Join(f.Path, versionFile), f.version.encode())
}

// check compares an existing folder with the layout, and loads the secret.
func (f *Folder) check(opts Options) error {
	for _, part := range parts() {
		info, err := os.Stat(filepath.Join(f.Path, part))
		if err != nil || !info.IsDir() {
			return f.damageError("its folder %s is missing", part)
		}
	}
	f.Secret = []byte(opts.Secret)
	if opts.Secret == "" {
		data, err := os.ReadFile(filepath.Join(f.Path, secretFile))
		if errors.Is(err, fs.ErrNotExist) {
			return f.damageError("its file secret is missing: put it back, or set QUIRE_SECRET to its content; " +
				"with another secret no API key would be valid")
		}
		if err != nil {
			return f.damageError("its file secret can't be read: %v", err)
		}
		f.Secret = []byte(strings.TrimSpace(string(data)))
		if fingerprint(f.Secret) != f.version.secret {
			return f.damageError("its file secret was changed: put the old content back")
		}
	}
	if fingerprint(f.Secret) == f.version.secret {
		return nil
	}
	for _, previous := range opts.Previous {
		if fingerprint(previous) == f.version.secret {
			return f.replaceSecret()
		}
	}
	return fmt.Errorf("%w: set QUIRE_SECRET to the secret last used with %s, or add that one to QUIRE_SECRET_PREVIOUS; "+
		"without it no API key would be valid", ErrSecret, f.Path)
}

// replaceSecret records that the folder uses another secret from now on.
func (f *Folder) replaceSecret() error {
	f.version.secret = fingerprint(f.Secret)
	return durable.Write(filepath.Join(f.Path, versionFile), f.version.encode())
}

// loadToken returns the token that is set, or else the one in a file, which it creates. wayOut says what to do about an empty file.
func (f *Folder) loadToken(name, set, prefix, wayOut string) (string, error) {
	if set != "" {
		return set, nil
	}
	path := filepath.Join(f.Path, name)
	data, err := os.ReadFile(path)
	if err == nil {
		if kept := strings.TrimSpace(string(data)); kept != "" {
			return kept, nil
		}
		return "", f.damageError("its file %s is empty: %s", name, wayOut)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", f.damageError("its file %s can't be read: %v", name, err)
	}
	drawn := prefix + token()
	return drawn, durable.Write(path, []byte(drawn+"\n"))
}

func (f *Folder) damageError(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s. Nothing was changed; restore the folder from a backup, with `quire restore`", ErrDamaged, f.Path, fmt.Sprintf(format, args...))
}

// token returns 260 random bits.
func token() string { return strings.ToLower(rand.Text() + rand.Text()) }

// fingerprint identifies a secret without revealing it.
func fingerprint(secret []byte) string {
	h := sha256.Sum256(append([]byte("quire data folder\x00"), secret...))
	return hex.EncodeToString(h[:16])
}
