package members

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var names = rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9]{1,12}`), 1, 12, rapid.ID)

// TestOwnersDependOnTheSetAlone: instances that know the same members agree, in any order of the names.
func TestOwnersDependOnTheSetAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := names.Draw(t, "members")
		other := append(rapid.Permutation(set).Draw(t, "order"), set[0]) // named twice counts once
		partition, replicas := rapid.IntRange(0, 1000).Draw(t, "partition"), rapid.IntRange(1, 4).Draw(t, "replicas")
		owners := Owners(set, partition, replicas)
		if got := Owners(other, partition, replicas); !slices.Equal(got, owners) {
			t.Fatalf("%v own it, in another order %v", owners, got)
		}
		if want := min(replicas, len(set)); len(owners) != want || len(slices.Compact(slices.Sorted(slices.Values(owners)))) != want {
			t.Fatalf("owners %v, want %d different ones", owners, want)
		}
		for _, o := range owners {
			if !slices.Contains(set, o) {
				t.Fatalf("owner %q is no member", o)
			}
		}
	})
}

// TestOneMemberMovesOnlyItsOwnPartitions: if a member leaves, only partitions that it owned get other owners. The same
// two sets in the other order show a member that joins.
func TestOneMemberMovesOnlyItsOwnPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := names.Draw(t, "members")
		gone := rapid.SampledFrom(set).Draw(t, "gone")
		rest := slices.DeleteFunc(slices.Clone(set), func(n string) bool { return n == gone })
		replicas := rapid.IntRange(1, 4).Draw(t, "replicas")
		for p := range 64 {
			before, after := Owners(set, p, replicas), Owners(rest, p, replicas)
			kept := slices.DeleteFunc(slices.Clone(before), func(n string) bool { return n == gone })
			if !slices.Equal(after[:len(kept)], kept) {
				t.Fatalf("partition %d went from %v to %v without %q", p, before, after, gone)
			}
		}
	})
}

// TestOwnersAreBalanced even if names differ in one character, like names of pods.
func TestOwnersAreBalanced(t *testing.T) {
	const partitions, replicas = 4096, 2
	for _, count := range []int{2, 3, 5, 8, 16} {
		for _, pattern := range []string{"billing-%d", "%d", "aaaaaaaa%08b"} {
			var set []string
			for i := range count {
				set = append(set, fmt.Sprintf(pattern, i))
			}
			share, first := map[string]int{}, map[string]int{}
			for p := range partitions {
				owners := Owners(set, p, replicas)
				first[owners[0]]++
				for _, o := range owners {
					share[o]++
				}
			}
			for _, name := range set {
				// Six standard deviations of a fair draw are below a fifth here, except with 16 members.
				fair := float64(partitions*replicas) / float64(count)
				if got := float64(share[name]); got < 0.75*fair || got > 1.25*fair {
					t.Errorf("of %d members %s folds %v of %d partitions, %v is fair", count, name, got, partitions, fair)
				}
				if got := float64(first[name]); got < 0.6*fair/replicas || got > 1.4*fair/replicas {
					t.Errorf("of %d members %s comes first in %v of %d partitions", count, name, got, partitions)
				}
			}
		}
	}
}

// TestOwnersNeverChange: two versions run side by side during a rolling upgrade and must agree.
func TestOwnersNeverChange(t *testing.T) {
	set := []string{"a", "b", "c", "d"}
	var got []string
	for p := range 8 {
		got = append(got, Owners(set, p, 1)...)
	}
	if want := []string{"a", "c", "a", "a", "c", "a", "d", "a"}; !slices.Equal(got, want) {
		t.Errorf("owners %q, want %q", got, want)
	}
}

func TestOwnersOfNobody(t *testing.T) {
	for _, replicas := range []int{-1, 0, 2} {
		if got := Owners(nil, rand.IntN(100), replicas); len(got) != 0 {
			t.Errorf("owners %v among nobody", got)
		}
	}
	if got := Owners([]string{"a"}, 1, 0); len(got) != 0 {
		t.Errorf("owners %v where none is wanted", got)
	}
}
