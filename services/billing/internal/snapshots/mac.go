package snapshots

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/views"
)

// Snapshots are trusted: their balances are not folded again. So each ends with a MAC, under a key in billing's read model,
// where no other service can read it. With write access to the blob store alone nobody can forge one, or pass one journal's
// snapshot to another journal.
//
// The MAC is a field of the encoded event.BillingState that no version declares: decoders ignore it.

const (
	keys        = "billing_keys"
	keyDocument = "snapshots"
	secretBytes = 32
	macField    = 1000
)

// Collections returns the read model's collections for this package.
func Collections() []views.Collection { return []views.Collection{{Name: keys}} }

// macKey is the key of the MACs.
type macKey []byte

// keyring loads the key on first use, and creates it if needed.
type keyring struct {
	store views.Store

	mu    sync.Mutex
	key   macKey // nil: not loaded yet
	drawn bool   // there was none before
}

func (k *keyring) get(ctx context.Context) (macKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != nil {
		return k.key, nil
	}
	key, err := k.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load the key of the snapshots: %w", err)
	}
	k.key = key
	return key, nil
}

func (k *keyring) load(ctx context.Context) (macKey, error) {
	for range 2 {
		docs, err := k.store.Load(ctx, keys, []string{keyDocument}, views.Heads)
		if err != nil {
			return nil, err
		}
		if len(docs) > 0 {
			return parseKey(docs[0].Head)
		}
		secret := make([]byte, secretBytes)
		rand.Read(secret)
		err = k.store.Insert(ctx, keys, views.Doc{ID: keyDocument, Head: secret})
		k.drawn = err == nil
		if err != nil && !errors.Is(err, views.ErrExists) { // else another instance was faster
			return nil, err
		}
	}
	return nil, views.Unavailable("load the key", errors.New("it is there, and not shown"))
}

func parseKey(head []byte) (macKey, error) {
	if len(head) != secretBytes {
		return nil, fmt.Errorf("the key has %d bytes", len(head))
	}
	return head, nil
}

// start begins the MAC of the snapshot with this key in the blob store.
func (k macKey) start(blobKey string) hash.Hash {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(blobKey))
	mac.Write([]byte{0})
	return mac
}

// trailerHead is the beginning of the MAC's field.
func trailerHead() []byte {
	return append(binary.AppendUvarint(nil, macField<<3|bytesType), sha256.Size)
}

// sign returns the encoded image with its MAC.
func (k macKey) sign(blobKey string, data []byte) []byte {
	mac := k.start(blobKey)
	mac.Write(data)
	return mac.Sum(append(data, trailerHead()...))
}

// open returns the image in a snapshot. The reader reports EOF only after a valid MAC, and otherwise ErrDamaged.
func (k macKey) open(r io.Reader, info blob.Info) io.Reader {
	trailer := min(info.Size, int64(len(trailerHead())+sha256.Size))
	return &opened{in: r, mac: k.start(info.Key), left: info.Size - trailer, trailer: make([]byte, trailer)}
}

type opened struct {
	in      io.Reader
	mac     hash.Hash
	left    int64  // bytes of the image before the trailer
	trailer []byte // contains the MAC
	ended   bool
}

func (o *opened) Read(p []byte) (int, error) {
	if o.left > 0 {
		n, err := o.in.Read(p[:min(int64(len(p)), o.left)])
		o.mac.Write(p[:n])
		if o.left -= int64(n); errors.Is(err, io.EOF) && o.left > 0 {
			return n, fmt.Errorf("%w: %w", ErrDamaged, io.ErrUnexpectedEOF)
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return n, err
	}
	if !o.ended {
		if err := o.end(); err != nil {
			return 0, err
		}
		o.ended = true
	}
	return 0, io.EOF
}

func (o *opened) end() error {
	if _, err := io.ReadFull(o.in, o.trailer); err != nil {
		return damaged(unexpected(err))
	}
	if sum, signed := bytes.CutPrefix(o.trailer, trailerHead()); signed && hmac.Equal(sum, o.mac.Sum(nil)) {
		return nil
	}
	return fmt.Errorf("%w: it has no MAC of this billing", ErrDamaged)
}
