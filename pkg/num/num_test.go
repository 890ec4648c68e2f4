package num_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"quire.dev/pkg/num"
)

// TestConversionsNeverWrapAround compares each conversion with arithmetic without bounds, at all bounds, beside them, and at drawn numbers.
func TestConversionsNeverWrapAround(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var signed []int64
	var unsigned []uint64
	for bit := range 64 {
		for d := -2; d <= 2; d++ {
			unsigned = append(unsigned, 1<<bit+uint64(d))
			signed = append(signed, 1<<bit+int64(d), -(1<<bit)+int64(d))
		}
	}
	for range 1000 {
		unsigned = append(unsigned, random.Uint64()>>random.IntN(64))
		signed = append(signed, int64(random.Uint64())>>random.IntN(64))
	}
	for _, n := range signed {
		check(t, n, big.NewInt(n))
		check(t, int(n), big.NewInt(int64(int(n))))
		check(t, int32(n), big.NewInt(int64(int32(n))))
		check(t, int8(n), big.NewInt(int64(int8(n))))
		if back := num.FromBits(num.Bits(n)); back != n {
			t.Errorf("%d came back as %d", n, back)
		}
	}
	for _, n := range unsigned {
		check(t, n, new(big.Int).SetUint64(n))
		check(t, uint32(n), new(big.Int).SetUint64(uint64(uint32(n))))
		check(t, uint8(n), new(big.Int).SetUint64(uint64(uint8(n))))
	}
}

func check[N num.Integer](t *testing.T, n N, exact *big.Int) {
	t.Helper()
	within := func(name string, got, lowest, highest *big.Int) {
		want := exact
		if want.Cmp(lowest) < 0 {
			want = lowest
		}
		if want.Cmp(highest) > 0 {
			want = highest
		}
		if got.Cmp(want) != 0 {
			t.Errorf("%s of %T %d is %d, want %d", name, n, n, got, want)
		}
	}
	u := func(n uint64) *big.Int { return new(big.Int).SetUint64(n) }
	zero := big.NewInt(0)
	within("Int64", big.NewInt(num.Int64(n)), big.NewInt(math.MinInt64), big.NewInt(math.MaxInt64))
	within("Int", big.NewInt(int64(num.Int(n))), big.NewInt(math.MinInt), big.NewInt(math.MaxInt))
	within("Int32", big.NewInt(int64(num.Int32(n))), big.NewInt(math.MinInt32), big.NewInt(math.MaxInt32))
	within("Uint64", u(num.Uint64(n)), zero, u(math.MaxUint64))
	within("Uint32", u(uint64(num.Uint32(n))), zero, u(math.MaxUint32))
	within("Uint16", u(uint64(num.Uint16(n))), zero, u(math.MaxUint16))
	within("Uint8", u(uint64(num.Uint8(n))), zero, u(math.MaxUint8))
	if got, want := u(num.Abs(n)), new(big.Int).Abs(exact); got.Cmp(want) != 0 {
		t.Errorf("Abs of %T %d is %d, want %d", n, n, got, want)
	}
}
