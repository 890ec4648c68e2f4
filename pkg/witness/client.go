package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	f_note "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Errors that Client.Cosign wraps, beside ConflictError. The checkpoint has no cosignature in each case.
var (
	// ErrUnavailable: the witness was not reached, was busy or failed, or its answer makes no sense. It may have remembered the
	// checkpoint. Try again later.
	ErrUnavailable = errors.New("witness unavailable")
	// ErrRefused: the witness doesn't know the log, doesn't accept its key, or finds the request malformed. A retry is refused too.
	ErrRefused = errors.New("the witness refused the checkpoint")
	// ErrProof: the witness can't verify that the checkpoint continues the one it knows: the proof is wrong, or the log has
	// another history.
	ErrProof = errors.New("the witness refused the consistency proof")
	// ErrFork: the witness knows another root for the checkpoint's size. The log has two histories.
	ErrFork = errors.New("the witness knows another history of the log")
	// ErrCosignature: the answer has no cosignature that the witness's key made of this checkpoint.
	ErrCosignature = errors.New("no valid cosignature in the witness's answer")
	// ErrInvalid: the arguments are no request. Nothing was sent.
	ErrInvalid = errors.New("invalid checkpoint for a witness")
)

// ConflictError means that the last checkpoint that the witness knows has another size than the old size given. Ask again with
// Size and the proof from there. If Size is above the log's own, the log was set back, or is not the one that the witness knows.
type ConflictError struct {
	Size int64
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("the witness knows the log at size %d", e.Size)
}

// Client asks one witness. It is safe for concurrent use.
type Client struct {
	key  note.Verifier
	url  string
	http *http.Client
}

const (
	// clientTimeout bounds a call whose context has no earlier deadline. Logs make a checkpoint once a minute.
	clientTimeout   = 20 * time.Second
	maxReason       = 200 // bytes of a refusal's text in an error
	maxResponseHead = 16 << 10
)

// NewClient returns a client of the witness with a verifier key, at the URL that add-checkpoint is below. The key may be of type
// 0x04, as `quire witness key` prints it, or any other that github.com/transparency-dev/formats verifies cosignatures with.
func NewClient(verifierKey, address string) (*Client, error) {
	key, err := parseKey(verifierKey)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is not a URL like https://witness.example", address)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1, IdleConnTimeout: idleTimeout, TLSHandshakeTimeout: clientTimeout / 2,
		MaxResponseHeaderBytes: maxResponseHead, ForceAttemptHTTP2: true,
	}
	return &Client{
		key: key, url: u.JoinPath("add-checkpoint").String(),
		http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// parseKey parses the verifier key of a witness.
func parseKey(text string) (note.Verifier, error) {
	if cosigner, err := f_note.VKeyToCosignatureV1(text); err == nil {
		text = cosigner // of plain Ed25519, with another hash
	}
	key, err := f_note.NewVerifierForCosignatureV1(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not the verifier key of a witness (name+hash+base64): %w", text, err)
	}
	// The library computes the hash and ignores the one in the text, so a typing error would be noticed by no cosignature.
	if !strings.HasPrefix(text, fmt.Sprintf("%s+%08x+", key.Name(), key.KeyHash())) {
		return nil, fmt.Errorf("%q is not the verifier key of a witness: its hash is not of its name and key", text)
	}
	return key, nil
}

// Name is the name of the witness's key.
func (c *Client) Name() string { return c.key.Name() }

// Verifier verifies the witness's cosignatures in a checkpoint.
func (c *Client) Verifier() note.Verifier { return c.key }

// Cosign posts a signed checkpoint with the proof that it extends the tree of size oldSize, and returns the witness's verified
// cosignature: one line with its newline, to append to the checkpoint. The proof is empty if oldSize is 0 or the checkpoint's size.
// Errors are a *ConflictError, or wrap one of the errors above.
func (c *Client) Cosign(ctx context.Context, oldSize int64, proof []tlog.Hash, signed []byte) (line []byte, err error) {
	sent := formatRequest(oldSize, proof, signed)
	r, err := parseRequest(sent)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(sent) > maxBody {
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrInvalid, maxBody)
	}
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	answer, err := c.post(ctx, sent)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, c.Name(), err)
	}
	if answer.status == http.StatusOK {
		line, err := c.verify(r.checkpoint, answer.body)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrCosignature, c.Name(), err)
		}
		return line, nil
	}
	return nil, fmt.Errorf("%s: %w", c.Name(), answer.err(r))
}

// answer is the answer of a witness.
type answer struct {
	status      int
	contentType string
	body        []byte
}

func (c *Client) post(ctx context.Context, body []byte) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "text/plain; charset=utf-8")
	request.Header.Set("User-Agent", "Quire")
	response, err := c.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err != nil {
		return answer{}, fmt.Errorf("read the answer: %w", err)
	}
	if len(data) > maxBody {
		return answer{}, fmt.Errorf("the answer has more than %d bytes", maxBody)
	}
	return answer{status: response.StatusCode, contentType: response.Header.Get("Content-Type"), body: data}, nil
}

// verify returns the line with the witness's cosignature of a checkpoint. "The client MUST ignore any cosignatures from unknown
// keys."
func (c *Client) verify(of checkpoint, lines []byte) ([]byte, error) {
	// Without the checkpoint's own signatures: one by this witness may be among them, of an earlier call.
	opened, err := note.Open([]byte(of.text+"\n"+string(lines)), note.VerifierList(c.key))
	if err != nil {
		return nil, err
	}
	// An empty line in the answer moves the text's end.
	if opened.Text != of.text {
		return nil, errors.New("it is of another text")
	}
	sig := opened.Sigs[0]
	return []byte("— " + sig.Name + " " + sig.Base64 + "\n"), nil
}

// err is the error for an answer other than 200.
func (a answer) err(r request) error {
	said := fmt.Sprintf("status %d, %q", a.status, strings.TrimSpace(string(a.body[:min(len(a.body), maxReason)])))
	switch {
	case a.status == http.StatusConflict && a.contentType == sizeType:
		size, err := parseSize(strings.TrimSuffix(string(a.body), "\n"))
		switch {
		case err != nil:
			return fmt.Errorf("%w: %s", ErrUnavailable, said)
		case size != r.old:
			return &ConflictError{Size: size}
		// The old size matches, so only the roots can differ. Without this case a caller would retry forever.
		case size == r.checkpoint.tree.N:
			return fmt.Errorf("%w: at size %d", ErrFork, size)
		}
		return fmt.Errorf("%w: it refuses the size that it names: %s", ErrUnavailable, said)
	case a.status == http.StatusConflict && r.old == r.checkpoint.tree.N:
		return fmt.Errorf("%w: at size %d", ErrFork, r.old) // without a size, which the specification asks for at other conflicts only
	case a.status == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %s", ErrProof, said)
	case a.status == http.StatusRequestTimeout || a.status == http.StatusTooManyRequests || a.status == http.StatusConflict || a.status >= http.StatusInternalServerError:
		return fmt.Errorf("%w: %s", ErrUnavailable, said)
	}
	return fmt.Errorf("%w: %s", ErrRefused, said)
}
