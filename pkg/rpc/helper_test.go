package rpc_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/rpc"
)

// The tests request the double of a number. Requests travel as varints, answers as pairs of index and double.

func encodeNumbers(numbers []uint64) ([]byte, error) {
	var b []byte
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return b, nil
}

func decodeNumbers(data []byte) (numbers []uint64, err error) {
	for len(data) > 0 {
		v, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, errors.New("bad varint")
		}
		numbers = append(numbers, v)
		data = data[n:]
	}
	return numbers, nil
}

func decodeAnswers(data []byte) (answers []uint64, indexes []int, err error) {
	pairs, err := decodeNumbers(data)
	if err != nil || len(pairs)%2 != 0 {
		return nil, nil, errors.Join(err, errors.New("bad answer"))
	}
	for i := 0; i < len(pairs); i += 2 {
		indexes = append(indexes, int(pairs[i]))
		answers = append(answers, pairs[i+1])
	}
	return answers, indexes, nil
}

// doubles is the answer to the requests from <= i < to.
func doubles(numbers []uint64, from, to int) []byte {
	var b []byte
	for i := from; i < to; i++ {
		b = binary.AppendUvarint(b, uint64(i))
		b = binary.AppendUvarint(b, 2*numbers[i])
	}
	return b
}

func config() rpc.Config[uint64, uint64] {
	return rpc.Config[uint64, uint64]{Subject: "paste.0.read", Encode: encodeNumbers, Decode: decodeAnswers}
}

func batcher(t testing.TB, nc *nats.Conn, cfg rpc.Config[uint64, uint64]) *rpc.Batcher[uint64, uint64] {
	t.Helper()
	b, err := rpc.NewBatcher(nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// serve answers batches until the test ends.
func serve(t testing.TB, nc *nats.Conn, handle func(r *rpc.Request, numbers []uint64)) *rpc.Server {
	t.Helper()
	s, err := rpc.ServeBatch(nc, "paste.0.read", "paste", func(r *rpc.Request) {
		numbers, err := decodeNumbers(r.Payload)
		if err != nil {
			_ = r.Fail(err)
			return
		}
		handle(r, numbers)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return s
}

func serveDoubles(t testing.TB, nc *nats.Conn) *rpc.Server {
	t.Helper()
	return serve(t, nc, func(r *rpc.Request, numbers []uint64) {
		_ = r.Reply(doubles(numbers, 0, len(numbers)))
	})
}
