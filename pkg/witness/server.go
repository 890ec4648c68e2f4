package witness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	// sizeType: 'The response MUST have a Content-Type of text/x.tlog.size.'
	sizeType = "text/x.tlog.size"
	// turnTimeout is how long a request waits for earlier ones of its log, each of which syncs a file.
	turnTimeout   = 10 * time.Second
	readTimeout   = 10 * time.Second // for a request: 64 KB
	writeTimeout  = 30 * time.Second // from the end of its header: reading, its turn, and the answer
	idleTimeout   = 2 * time.Minute  // logs make a checkpoint once a minute, and "witnesses SHOULD support HTTP keep-alive"
	stopTimeout   = 10 * time.Second // for requests in flight at a stop
	maxHeaderSize = 8 << 10
)

// Server is a witness. It handles POST /add-checkpoint.
type Server struct {
	folder  *folder
	key     key
	created bool
	logs    map[string]*witnessedLog // by origin
	log     *slog.Logger
}

// witnessedLog is a log that a Server cosigns.
type witnessedLog struct {
	origin string
	keys   note.Verifiers
	// turn holds one value, which the request that works on the log has. "Checking the old size against the latest checkpoint and
	// persisting the new checkpoint must be performed atomically."
	turn chan struct{}
	last tlog.Tree // cosigned and on the disk; the turn's
}

// Open opens the witness in a folder, or creates it. Errors wrap ErrInUse or ErrDamaged, report faults of the configuration, or come
// from the operating system. Close the server after use.
func Open(c Config) (*Server, error) {
	keys, err := c.verifiers()
	if err != nil {
		return nil, err
	}
	f, err := openFolder(c.Folder)
	if err != nil {
		return nil, err
	}
	s := &Server{folder: f, logs: map[string]*witnessedLog{}, log: c.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.load(c.Name, keys); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return s, nil
}

func (s *Server) load(name string, keys map[string][]note.Verifier) (err error) {
	if s.key, s.created, err = s.folder.key(name); err != nil {
		return err
	}
	for origin, list := range keys {
		l := &witnessedLog{origin: origin, keys: note.VerifierList(list...), turn: make(chan struct{}, 1)}
		if l.last, err = s.folder.load(origin, s.key.signer.Verifier()); err != nil {
			return err
		}
		l.turn <- struct{}{}
		s.logs[origin] = l
		s.log.Info("witness of a log", "origin", origin, "size", l.last.N, "root", l.last.Hash.String())
	}
	return nil
}

// Close lets another process use the folder. Call it after Serve has returned.
func (s *Server) Close() error { return s.folder.close() }

// VerifierKey is the key that verifies this witness's cosignatures: name+hash+base64, of the type of Ed25519 cosignatures.
func (s *Server) VerifierKey() string { return s.key.verifier }

// Created reports whether Open has created the key.
func (s *Server) Created() bool { return s.created }

// Serve serves HTTP until ctx ends, and then finishes requests in flight. It closes the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderSize,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // what clients do wrong below HTTP
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the witness: %w", err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if server.Shutdown(stopping) != nil {
		server.Close()
	}
	<-failed //nolint:errcheck // it is http.ErrServerClosed
	return nil
}

// refusal is an answer other than 200.
type refusal struct {
	status int
	reason string
	size   int64 // of 409: what the log continues from
}

// Error implements error.
func (r *refusal) Error() string { return r.reason }

func refuse(status int, reason string) error { return &refusal{status: status, reason: reason} }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/add-checkpoint" {
		http.Error(w, "not found: a witness has /add-checkpoint", http.StatusNotFound)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "use POST", http.StatusMethodNotAllowed)
		return
	}
	line, err := s.add(r.Context(), http.MaxBytesReader(w, r.Body, maxBody))
	var refused *refusal
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(line) // a client that is gone asks again
	case errors.As(err, &refused) && refused.status == http.StatusConflict:
		w.Header().Set("Content-Type", sizeType)
		w.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprintf(w, "%d\n", refused.size) // as above
	case errors.As(err, &refused):
		http.Error(w, refused.reason, refused.status)
	default:
		s.log.Error("a checkpoint could not be cosigned", "error", err)
		http.Error(w, "the witness could not save the checkpoint: try again later", http.StatusInternalServerError)
	}
}

// add returns the cosignature for the body of a request, or a refusal. Any other error is of the disk.
func (s *Server) add(ctx context.Context, body io.Reader) ([]byte, error) {
	data, err := io.ReadAll(body)
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", maxBody))
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the body ended early")
	}
	r, err := parseRequest(data)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, err.Error())
	}
	// "If the checkpoint origin is unknown, the witness MUST respond with a 404 Not Found."
	l := s.logs[r.checkpoint.origin]
	if l == nil {
		return nil, refuse(http.StatusNotFound, "unknown log")
	}
	// "It MUST ignore signatures from unknown keys. If none of the signatures verify against a trusted public key, the witness MUST
	// respond with a 403 Forbidden." A signature that a known key did not make refuses the whole note, which
	// https://c2sp.org/signed-note asks for.
	signed, err := note.Open(r.note, l.keys)
	if err != nil {
		return nil, refuse(http.StatusForbidden, "not signed by the log: "+err.Error())
	}
	// "The old size MUST be equal to or lower than the checkpoint size. Otherwise, the witness MUST respond with a 400 Bad Request."
	if r.old > r.checkpoint.tree.N {
		return nil, refuse(http.StatusBadRequest, "the old size is above the checkpoint's size")
	}
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	select {
	case <-l.turn:
		defer func() { l.turn <- struct{}{} }()
		return s.cosign(l, r, signed)
	case <-ctx.Done():
		return nil, refuse(http.StatusServiceUnavailable, "too many checkpoints of this log at once: try again later")
	}
}

// cosign verifies that a checkpoint continues the last one of its log, saves it and cosigns it. The caller has the log's turn.
func (s *Server) cosign(l *witnessedLog, r request, signed *note.Note) ([]byte, error) {
	if err := l.continues(r); err != nil {
		s.logRefusal(l, r, signed, err)
		return nil, err
	}
	signed.UnverifiedSigs = nil // of anyone
	cosigned, err := note.Sign(signed, s.key.signer)
	if err != nil {
		return nil, fmt.Errorf("cosign checkpoint of %s: %w", l.origin, err)
	}
	// "The witness MUST persist the new checkpoint before responding." One of the same tree changes nothing, and gets a cosignature
	// with the present time.
	if next := r.checkpoint.tree; next != l.last {
		if err := s.folder.save(l.origin, cosigned); err != nil {
			return nil, err
		}
		l.last = next
		s.log.Info("cosigned a checkpoint", "origin", l.origin, "size", next.N, "root", next.Hash.String())
	}
	return lastLine(cosigned), nil
}

// continues returns a refusal unless the checkpoint continues the last one of the log.
func (l *witnessedLog) continues(r request) error {
	next := r.checkpoint.tree
	conflict := &refusal{status: http.StatusConflict, size: l.last.N, reason: "the old size is not the size of the last checkpoint"}
	switch {
	// "The witness MUST check that the old size matches the size of the latest checkpoint it cosigned for the checkpoint's origin (or
	// zero if it never cosigned a checkpoint for that origin). If it doesn't match, the witness MUST respond with a 409 Conflict."
	case r.old != l.last.N:
		return conflict
	// "If the old size matches the checkpoint size, the witness MUST check that the root hashes are also identical. If they don't
	// match, the witness MUST respond with a 409 Conflict." A tree of size zero has one root, so this holds for the first too.
	case next.N == l.last.N && next.Hash != l.last.Hash:
		conflict.reason = reasonFork
		return conflict
	// "The proof MUST be empty if the old size is zero." Anything continues the empty tree.
	case r.old == 0 && len(r.proof) > 0:
		return refuse(http.StatusUnprocessableEntity, "a proof from size 0 is empty")
	case r.old == 0:
		return nil
	}
	// "If the Merkle Consistency Proof doesn't verify, the witness MUST respond with a 422 Unprocessable Entity."
	if err := tlog.CheckTree(r.proof, next.N, next.Hash, l.last.N, l.last.Hash); err != nil {
		return refuse(http.StatusUnprocessableEntity, "the consistency proof does not verify")
	}
	return nil
}

const reasonFork = "another root for the size of the last checkpoint"

// logRefusal logs checkpoints that the log has signed and that may be evidence against it: "The witness MAY log the request even if
// the consistency proof doesn't verify, as it might be proof of log misbehavior." Two roots of one size are proof.
func (s *Server) logRefusal(l *witnessedLog, r request, signed *note.Note, err error) {
	var refused *refusal
	if !errors.As(err, &refused) || refused.status == http.StatusConflict && refused.reason != reasonFork {
		return // a log that has not heard of the last cosignature
	}
	level, message := slog.LevelWarn, "a checkpoint does not continue the last one"
	if refused.reason == reasonFork {
		level, message = slog.LevelError, "the log has signed two histories"
	}
	var signatures []string
	for _, sig := range signed.Sigs {
		signatures = append(signatures, "— "+sig.Name+" "+sig.Base64)
	}
	s.log.Log(context.Background(), level, message, "origin", l.origin, "reason", refused.reason,
		"cosignedSize", l.last.N, "cosignedRoot", l.last.Hash.String(), "old", r.old, "refused", signed.Text, "signatures", signatures)
}

// lastLine is the last line of a signed note: the signature of the last signer.
func lastLine(signed []byte) []byte {
	text := strings.TrimSuffix(string(signed), "\n")
	return []byte(text[strings.LastIndexByte(text, '\n')+1:] + "\n")
}
