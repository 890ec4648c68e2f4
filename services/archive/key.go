package archive

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"quire.dev/pkg/proof"
)

// logKey signs one log.
type logKey struct {
	note.Signer
	verifier note.Verifier
	public   string // the verifier key as text, for people
}

// deriveKey returns the Ed25519 key of an installation's log. docs/proof.md specifies it, so that the key outlives this program. The
// name of the key, and so of the log, is another one with another secret: witnesses remember logs by it.
func deriveKey(secret, installation string) (k logKey, err error) {
	if len(secret) < proof.MinSecretBytes {
		return k, fmt.Errorf("the secret of the log's key has %d bytes, at least %d are needed", len(secret), proof.MinSecretBytes)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("quire log key\n" + installation))
	seed := mac.Sum(nil)
	public, ok := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	if !ok {
		return k, errors.New("no Ed25519 key")
	}
	sum := sha256.Sum256(public)
	origin := fmt.Sprintf("quire/%s/%x", installation, sum[:4])
	if k.public, err = note.NewEd25519VerifierKey(origin, public); err != nil {
		return k, err
	}
	if k.verifier, err = note.NewVerifier(k.public); err != nil {
		return k, err
	}
	// PRIVATE+KEY+<name>+<hash>+<base64 of the algorithm and the seed>
	hash, _, _ := strings.Cut(strings.TrimPrefix(k.public, origin+"+"), "+")
	k.Signer, err = note.NewSigner("PRIVATE+KEY+" + origin + "+" + hash + "+" + base64.StdEncoding.EncodeToString(append([]byte{algorithmEd25519}, seed...)))
	return k, err
}

// algorithmEd25519 is the first byte of keys in package note.
const algorithmEd25519 = 1
