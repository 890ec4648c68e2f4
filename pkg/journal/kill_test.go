package journal_test

import (
	"bufio"
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

// Where the child of the kill test finds its folder and its round.
const (
	killFolderEnv = "JOURNAL_TEST_KILL_FOLDER"
	killRoundEnv  = "JOURNAL_TEST_KILL_ROUND"
	killRounds    = 3
)

// TestKilledProcessLosesNothingItHadAcknowledgedOrDelivered kills a process
// that runs the server, an appender and a follower, in the middle of its
// writes, and looks into its stream.
func TestKilledProcessLosesNothingItHadAcknowledgedOrDelivered(t *testing.T) {
	folder := t.TempDir()
	var acked []uint64
	seen := map[uint64]uint32{}
	for round := 1; round <= killRounds; round++ {
		runUntilKilled(t, folder, round, &acked, seen)
	}
	nc := journaltest.Start(t, journaltest.WithFolder(folder)).Conn(t)
	j := journal.Open(nc, "BILLING_0")
	_, folded := stored(t, j)
	mustHoldOnce(t, folded, acked)
	for sequence, sum := range seen {
		m, err := j.Get(t.Context(), sequence)
		if err != nil {
			t.Fatalf("message %d was delivered and is gone: %v", sequence, err)
		}
		if crc32.ChecksumIEEE(m.Data) != sum {
			t.Fatalf("message %d was delivered with other bytes", sequence)
		}
	}
	t.Logf("%d acknowledged, %d delivered, %d stored", len(acked), len(seen), len(folded))
}

// runUntilKilled collects the reports of a child until it is killed.
func runUntilKilled(t *testing.T, folder string, round int, acked *[]uint64, seen map[uint64]uint32) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillChild$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), killFolderEnv+"="+folder, killRoundEnv+"="+strconv.Itoa(round))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	before, killed := len(*acked), false
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // the last line may be cut off
		}
		var id uint64
		var sum uint32
		if n, _ := fmt.Sscanf(line, "acked %d\n", &id); n == 1 {
			*acked = append(*acked, id)
		} else if n, _ := fmt.Sscanf(line, "seen %d %d\n", &id, &sum); n == 2 {
			seen[id] = sum
		}
		if !killed && len(*acked)-before >= 500 {
			killed = true
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = cmd.Wait()
	if !killed {
		t.Fatalf("the child ended by itself: %v", err)
	}
}

// TestKillChild is the process that is killed. It ends in no other way.
func TestKillChild(t *testing.T) {
	folder := os.Getenv(killFolderEnv)
	if folder == "" {
		t.Skip("runs as the child of another test")
	}
	round, err := strconv.ParseUint(os.Getenv(killRoundEnv), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	s := withFiles(journaltest.Start(t, journaltest.WithFolder(folder)))
	if round == killRounds { // the others follow in the files
		s.files = nil
	}
	nc := s.Conn(t)
	ensure(t, nc, billing(0))
	cfg := s.config(new(outcomes))
	cfg.MaxItems = 20
	cfg.Encode = encode(round) // each process is a separate source
	cfg.Acked = func(items []item, _, _ uint64) {
		var lines strings.Builder
		for _, it := range items {
			fmt.Fprintf(&lines, "acked %d\n", it.id)
		}
		_, _ = os.Stdout.WriteString(lines.String()) // the parent reads until the end
	}
	follow(t, s.files.Open(s.Conn(t), "BILLING_0"), 0, func(_ context.Context, m journal.Message) error {
		_, err := fmt.Printf("seen %d %d\n", m.Sequence, crc32.ChecksumIEEE(m.Data))
		return err
	})
	a, _ := start(t, nc, cfg)
	var next atomic.Uint64
	for {
		add(t, a, item{id: round<<32 | next.Add(1), padding: 300})
	}
}
