package standalone

import (
	"bufio"
	"crypto/sha256"
	bigendian "encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quire.dev/services/standalone/internal/export"
)

// TestAnExportHasTheHeadOfTheAudit: the chain over an exported journal, computed as docs/journal.md says, is the one that the audit
// comes to, of a running process and of a stopped one. Exporting adds no message.
func TestAnExportHasTheHeadOfTheAudit(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	settings := []string{"QUIRE_ADMIN_TOKEN=" + testAdminToken, "QUIRE_PARTITIONS=2"}
	c := launch(t, folder, settings...)
	for _, s := range newShelves(t, c.base, 3, rand.New(rand.NewPCG(1, 2))) {
		for range 5 {
			s.step(t.Context())
		}
	}
	first := exportedHeads(t, folder, settings)
	if first[0] < 1 || first[1] < 1 || first[0]+first[1] < 10 { // it may be that all accounts are in one partition
		t.Fatalf("messages by partition: %v", first)
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	stopped := runExport(t, folder, settings)
	again := runExport(t, folder, settings, "--partition", "1")
	if len(again.Journals) != 1 || again.Journals[0] != stopped.Journals[1] {
		t.Errorf("partition 1 alone is %+v, with the other one %+v", again.Journals, stopped.Journals)
	}
	exportedHeads(t, folder, settings)

	for says, args := range map[string][]string{
		"has files":           {"--to", filepath.Dir(folder)},
		"no partition 2":      {"--to", t.TempDir(), "--partition", "2"},
		"--to is required":    nil,
		"must be 0 or higher": {"--to", t.TempDir(), "--partition", "-1"},
	} {
		if out, errs, code := quire(t, folder, settings, append([]string{"journal", "export"}, args...)...); code == 0 || !strings.Contains(errs, says) {
			t.Errorf("want an error that says %q: %d %q %q", says, code, out, errs)
		}
	}
}

// exportedHeads audits and then exports, and compares the heads. It returns the messages by partition.
func exportedHeads(t *testing.T, folder string, settings []string) (messages map[int]uint64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "heads.json")
	if out, errs, code := quire(t, folder, settings, "audit", "--head", path); code != 0 {
		t.Fatalf("audit: %d %q %q", code, out, errs)
	}
	var audited struct {
		Heads []struct {
			Partition int
			Sequence  uint64
			Chain     string
		}
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &audited)
	}
	if err != nil || len(audited.Heads) != 2 {
		t.Fatalf("heads of the audit: %s, %v", data, err)
	}
	to := filepath.Join(t.TempDir(), "export")
	m := exportTo(t, folder, settings, to)
	messages = map[int]uint64{}
	for i, h := range audited.Heads {
		j := m.Journals[i]
		chains := chainsOf(t, filepath.Join(to, j.File), j)
		if uint64(len(chains)) <= h.Sequence || chains[h.Sequence] != h.Chain {
			t.Errorf("partition %d: the audit has %s at %d, the export has %d messages", h.Partition, h.Chain, h.Sequence, len(chains)-1)
		}
		if j.Partition != h.Partition || chains[len(chains)-1] != j.Chain || uint64(len(chains)-1) != j.Messages {
			t.Errorf("the manifest says %+v, the file has %d messages", j, len(chains)-1)
		}
		messages[j.Partition] = j.Messages
	}
	return messages
}

func runExport(t *testing.T, folder string, settings []string, args ...string) *export.Manifest {
	t.Helper()
	return exportTo(t, folder, settings, filepath.Join(t.TempDir(), "export"), args...)
}

func exportTo(t *testing.T, folder string, settings []string, to string, args ...string) *export.Manifest {
	t.Helper()
	if out, errs, code := quire(t, folder, settings, append([]string{"journal", "export", "--to", to}, args...)...); code != 0 {
		t.Fatalf("export: %d %q %q", code, out, errs)
	}
	data, err := os.ReadFile(filepath.Join(to, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	m := &export.Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// chainsOf computes the chain after each message of a file from the document alone, with the bytes and the sum of the file.
func chainsOf(t *testing.T, path string, j export.Journal) []string {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(file); int64(len(file)) != j.Bytes || hex.EncodeToString(sum[:]) != j.SHA256 {
		t.Errorf("%s is not what the manifest says: %+v", path, j)
	}
	kinds := map[string]byte{"usage": 1, "account": 2, "prices": 3, "settle.paste": 4, "settle.lite": 5, "settle.file": 6}
	chains, chain := []string{""}, [sha256.Size]byte{}
	lines := bufio.NewScanner(strings.NewReader(string(file)))
	lines.Buffer(nil, 32<<20)
	for lines.Scan() {
		var m struct {
			Sequence uint64 `json:",string"`
			Time     uint64 `json:",string"`
			Subject  string
			Data     []byte
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		if m.Sequence != uint64(len(chains)) {
			t.Fatalf("line %d has sequence %d", len(chains), m.Sequence)
		}
		head := bigendian.BigEndian.AppendUint64(nil, m.Sequence)
		head = bigendian.BigEndian.AppendUint64(head, m.Time)
		head = append(head, kinds[strings.TrimPrefix(m.Subject, fmt.Sprintf("billing.%d.", j.Partition))])
		head = bigendian.BigEndian.AppendUint16(head, uint16(len(m.Subject)))
		digest := sha256.Sum256(append(append(head, m.Subject...), m.Data...))
		chain = sha256.Sum256(append(chain[:], digest[:]...))
		chains = append(chains, hex.EncodeToString(chain[:]))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return chains
}
