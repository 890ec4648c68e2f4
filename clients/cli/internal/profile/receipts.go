package profile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/lockedfile"

	"quire.dev/client"
)

// Kept are the receipts of one API key at one service. The zero value has none.
type Kept struct {
	Verified string `json:"verified"` // entries up to it were verified; at first, the first receipt that was seen
	Newest   string `json:"newest"`   // with the greatest number that was seen
	// The entries did not fit these receipts. They are the evidence: newer ones don't replace them.
	Mismatch bool `json:"mismatch,omitempty"`
}

// Receipts keeps the receipts of an API key at a service, in a file beside the profiles. The file has the SHA-256 of the key, not the
// key. Processes may change it at the same time.
type Receipts struct {
	path, url, keyHash string
}

// Receipts returns the kept receipts of an API key at a service.
func (s *Store) Receipts(url, key string) *Receipts {
	hash := sha256.Sum256([]byte(key))
	return &Receipts{filepath.Join(filepath.Dir(s.path), "receipts.json"), url, hex.EncodeToString(hash[:])}
}

// receiptsFormat is the format of the file. A file of another one is left as it is.
const receiptsFormat = 1

// receiptsFile is the content of the file.
type receiptsFile struct {
	Format   int                        `json:"format"`
	Services map[string]map[string]Kept `json:"services"` // by URL and SHA-256 of the API key
}

// Path is the file of the receipts.
func (r *Receipts) Path() string { return r.path }

// Get returns what is kept; zero if there is nothing. Receipts that can't be read are an error.
func (r *Receipts) Get() (Kept, error) {
	_, kept, err := r.read()
	return kept, err
}

// See keeps a receipt if it is newer than all before.
func (r *Receipts) See(receipt string) error {
	return r.update(func(k Kept) Kept {
		switch {
		case k == Kept{}:
			k.Verified, k.Newest = receipt, receipt
		case !k.Mismatch && newer(receipt, k.Newest):
			k.Newest = receipt
		}
		return k
	})
}

// Verified keeps that entries were verified from the receipts that Get returned to another one.
func (r *Receipts) Verified(from Kept, to string) error {
	return r.update(func(k Kept) Kept {
		if k.Mismatch && !from.Mismatch {
			return k // found by another process meanwhile
		}
		if !newer(k.Verified, to) {
			k.Verified = to
		}
		if newer(k.Verified, k.Newest) {
			k.Newest = k.Verified
		}
		k.Mismatch = false
		return k
	})
}

// Mismatched keeps receipts that Get returned, as those that the entries did not fit.
func (r *Receipts) Mismatched(kept Kept) error {
	kept.Mismatch = true
	return r.update(func(Kept) Kept { return kept })
}

// Restart keeps a receipt instead of those before; none if it is empty.
func (r *Receipts) Restart(receipt string) error {
	return r.update(func(Kept) Kept { return Kept{Verified: receipt, Newest: receipt} })
}

// newer tells whether a receipt has a greater number than another, which may be empty.
func newer(receipt, than string) bool {
	a, _ := client.ReceiptNumber(receipt) // 0 if it is none
	b, _ := client.ReceiptNumber(than)
	return a > b
}

// update changes what is kept. Other processes wait meanwhile, so that none undoes what another has kept.
func (r *Receipts) update(change func(Kept) Kept) error {
	if err := os.MkdirAll(filepath.Dir(r.path), onlyUserFolder); err != nil {
		return fmt.Errorf("write the receipts: %w", err)
	}
	lock, err := lockedfile.OpenFile(r.path+".lock", os.O_RDWR|os.O_CREATE, onlyUserFile)
	if err != nil {
		return fmt.Errorf("lock the receipts: %w", err)
	}
	defer lock.Close()
	f, kept, err := r.read()
	if err != nil {
		return err
	}
	changed := change(kept)
	if changed == kept {
		return nil
	}
	if f.Services[r.url] == nil {
		f.Services[r.url] = map[string]Kept{}
	}
	f.Services[r.url][r.keyHash] = changed
	if err := replace(r.path, f); err != nil {
		return fmt.Errorf("write the receipts: %w", err)
	}
	return nil
}

func (r *Receipts) read() (receiptsFile, Kept, error) {
	f := receiptsFile{}
	data, err := os.ReadFile(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return receiptsFile{receiptsFormat, map[string]map[string]Kept{}}, Kept{}, nil
	case err != nil:
		return f, Kept{}, fmt.Errorf("read the receipts: %w", err)
	}
	if err = json.Unmarshal(data, &f); err == nil && (f.Format != receiptsFormat || f.Services == nil) {
		err = fmt.Errorf("the format is %d, not %d", f.Format, receiptsFormat)
	}
	kept := f.Services[r.url][r.keyHash]
	if err == nil && kept != (Kept{}) {
		err = kept.check()
	}
	if err != nil {
		return f, Kept{}, fmt.Errorf("read the receipts in %s: %w. Move the file elsewhere to start anew", r.path, err)
	}
	return f, kept, nil
}

func (k Kept) check() error {
	_, err1 := client.ReceiptNumber(k.Verified)
	_, err2 := client.ReceiptNumber(k.Newest)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if newer(k.Verified, k.Newest) {
		return errors.New("the verified receipt is newer than the newest one")
	}
	return nil
}
