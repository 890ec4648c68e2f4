package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"quire.dev/pkg/admin"
)

// headFile is the file of quire audit --head: docs/formats/heads.md.
type headFile struct {
	Heads []admin.Head `json:"heads"`
}

// readHeads reads the file of an earlier audit. It returns none if there is no file yet.
func (c *command) readHeads(path string) ([]admin.Head, error) {
	if path == "" {
		return nil, nil
	}
	cfg, _, err := c.settings()
	if err != nil {
		return nil, err
	}
	if within(cfg.Data, path) {
		return nil, fmt.Errorf("%s is in the data folder %s: anyone who can edit the journals there can edit it too. Keep it elsewhere", path, cfg.Data)
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read heads: %w", err)
	}
	var file headFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("read heads: %s: %w", path, err)
	}
	seen := map[int]bool{}
	for _, h := range file.Heads {
		chain, err := hex.DecodeString(h.Chain)
		if err != nil || len(chain) != 32 || h.Sequence == 0 || h.Partition < 0 || seen[h.Partition] {
			return nil, fmt.Errorf("read heads: %s is no file of quire audit --head: partition %d, sequence %d, chain %q", path, h.Partition, h.Sequence, h.Chain)
		}
		seen[h.Partition] = true
	}
	if len(file.Heads) == 0 {
		return nil, fmt.Errorf("read heads: %s has none", path)
	}
	return file.Heads, nil
}

// within reports whether a path is in a folder. It doesn't follow links.
func within(folder, path string) bool {
	inside, err1 := filepath.Abs(path)
	outside, err2 := filepath.Abs(folder)
	if err1 != nil || err2 != nil {
		return false
	}
	relative, err := filepath.Rel(outside, inside)
	return err == nil && filepath.IsLocal(relative)
}

// errHeads means that the heads are of other journals, or of longer ones.
var errHeads = errors.New("the journals are not those that the heads were taken of")

// compareHeads compares an audit with heads, or writes its heads to the file if there were none.
func (c *command) compareHeads(path string, heads []admin.Head, result admin.Audit) error {
	switch {
	case path == "":
		return nil
	case heads == nil:
		return c.writeHeads(path, result)
	}
	fits := true
	for _, p := range result.Partitions {
		i := slices.IndexFunc(heads, func(h admin.Head) bool { return h.Partition == p.Partition })
		if i < 0 {
			fmt.Fprintf(c.stdout, "partition %d: %s has NO head of it\n", p.Partition, path)
			fits = false
			continue
		}
		h := heads[i]
		switch {
		case p.LastSequence < h.Sequence:
			fmt.Fprintf(c.stdout, "partition %d: is CUT OFF: the journal ends at sequence %d, its head was at %d\n", p.Partition, p.LastSequence, h.Sequence)
		case p.HeadChain == "":
			return errors.New("the audit began again without the heads. Run it again")
		case p.HeadChain != h.Chain:
			fmt.Fprintf(c.stdout, "partition %d: DIFFERS from its head at sequence %d\n  head   %s\n  replay %s\n", p.Partition, h.Sequence, h.Chain, p.HeadChain)
		default:
			fmt.Fprintf(c.stdout, "partition %d: has the head of sequence %d, %s\n", p.Partition, h.Sequence, h.Time)
			continue
		}
		fits = false
	}
	if !fits {
		return errHeads
	}
	return nil
}

func (c *command) writeHeads(path string, result admin.Audit) error {
	var file headFile
	for _, p := range result.Partitions {
		if p.LastSequence > 0 {
			file.Heads = append(file.Heads, admin.Head{Partition: p.Partition, Sequence: p.LastSequence, Chain: p.Chain, Time: p.Time})
		}
	}
	data, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // others compare the heads
	if err != nil {
		return fmt.Errorf("write heads: %w", err)
	}
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write heads: %w", err)
	}
	fmt.Fprintf(c.stdout, "heads of %d partitions written to %s\n", len(file.Heads), path)
	return nil
}
