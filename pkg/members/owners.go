package members

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"

	"quire.dev/pkg/num"
)

// Owners returns the members that fold a partition: the requested number with the highest scores, highest first, or all if
// there are fewer. Their order in the list does not matter. A member that joins or leaves moves only partitions that it will
// own or has owned.
func Owners(members []string, partition, replicas int) []string {
	type ranked struct {
		member string
		score  uint64
	}
	ranking := make([]ranked, 0, len(members))
	for _, m := range members {
		ranking = append(ranking, ranked{m, score(m, partition)})
	}
	slices.SortFunc(ranking, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.member, b.member))
	})
	ranking = slices.Compact(ranking)
	owners := make([]string, 0, max(min(replicas, len(ranking)), 0))
	for _, r := range ranking[:cap(owners)] {
		owners = append(owners, r.member)
	}
	return owners
}

// score must be the same in every process and version. Members with different scores would both fold a partition, or neither
// would.
func score(member string, partition int) uint64 {
	return mix(xxhash.Sum64String(member) ^ mix(num.Uint64(partition)))
}

// mix spreads neighboring numbers over all 64 bits: the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
