package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"quire.dev/tools/cluster"
)

var before = flag.String("chaos.before", "", "folder with the services' programs of the version to upgrade from")

// refusal is what a version of billing says that does not know the rules which the journal has reached.
const refusal = "the journal's rules are newer than this program's"

// TestUpgrade upgrades a cluster of an earlier version in the order of docs/operations.md while clients work, rolls it back, and upgrades
// it again. The earlier billing may refuse to fold what the later one wrote, in words, before anything else is rolled back.
func TestUpgrade(t *testing.T) {
	if !*run || *before == "" {
		t.Skip("make chaos-cluster BASE=<commit>")
	}
	if wanted, err := regexp.MatchString(*only, "upgrade"); err != nil || !wanted {
		t.Skip("it is not among FAULTS")
	}
	b := newBench(t, *before)
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	now := filepath.Join(root, "bin")
	var table strings.Builder
	refused := false
	upgrade := func(t *testing.T, b *bench) error {
		return errors.Join(b.c.Provision(t.Context(), now), replace(t, now, b.c.Processes("edge", "paste", "lite", "file", "archive", "billing")...), last(t))
	}
	for _, f := range []fault{
		{name: "upgrade", inject: upgrade, unnoticed: true},
		{name: "roll back", unnoticed: true, inject: func(t *testing.T, b *bench) (err error) {
			if refused, err = b.rollBack(t, *before, now); refused {
				return err
			}
			return errors.Join(err, replace(t, *before, b.c.Processes("archive", "file", "lite", "paste", "edge")...), last(t))
		}},
		{name: "upgrade again", inject: upgrade, unnoticed: true},
	} {
		t.Run(f.name, func(t *testing.T) { b.try(t, f, &table) })
	}
	t.Run("at rest", b.rest)
	t.Logf("what clients saw (seed %d):\n%s%s", *seed, heading, table.String())
	t.Logf("the earlier version refused to be rolled back to: %t", refused)
}

// replace restarts processes one by one, with the programs in bin.
func replace(t *testing.T, bin string, processes ...*cluster.Process) error {
	for _, p := range processes {
		p.Use(bin)
	}
	return rolling(t, processes)
}

// rollBack replaces billing's instances by the earlier version's. Where the first of them refuses to start, it has to say why, and the
// later version takes its place again.
func (b *bench) rollBack(t *testing.T, earlier, later string) (refused bool, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	instances := b.c.Processes("billing")
	first := instances[0]
	if err := first.Stop(ctx); err != nil {
		return false, err
	}
	first.Use(earlier)
	if err := first.Start(ctx); err != nil {
		if first.Running() || !strings.Contains(first.Tail(), refusal) {
			return false, fmt.Errorf("the earlier version did not start, and did not say why: %w", err)
		}
		first.Use(later)
		return true, first.Start(ctx)
	}
	return false, replace(t, earlier, instances[1:]...)
}
