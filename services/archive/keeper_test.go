package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/proof"
	"quire.dev/pkg/tilelog"
	"quire.dev/pkg/witness"
)

// TestAnOvertakenInstanceChangesNothing: it slept while others made and deleted the cut that it is about to make.
func TestAnOvertakenInstanceChangesNothing(t *testing.T) {
	s := newStack(t)
	slept, awake := s.service(s.blobs), s.service(s.blobs)
	slept.keepCuts, awake.keepCuts = 2, 2
	s.publish(0)
	s.must(slept)
	for range 6 {
		s.publish(1)
		s.must(awake)
	}
	before := s.checkpoint()
	s.publish(2)
	after := s.must(slept) // it opens the log again, and goes on from where the others are
	s.consistent(before, after)
	s.check(after)
	s.check(s.must(awake))
}

// TestAStrayCutIsNotAdded: an instance that was overtaken left the cut that it created when it ended.
func TestAStrayCutIsNotAdded(t *testing.T) {
	s := newStack(t)
	one, two := s.service(s.blobs), s.service(s.blobs)
	one.keepCuts, two.keepCuts = 2, 2
	s.publish(0)
	s.must(one)
	s.must(two)
	for range 6 {
		s.publish(1)
		s.must(one)
	}
	stray := []byte(`{"number":2,"positions":[{"partition":0,"sequence":1},{"partition":1,"sequence":3}]}`)
	if err := s.blobs.Create(t.Context(), cutKey(2), stray); err != nil {
		t.Fatal(err)
	}
	s.publish(2)
	s.check(s.must(two))
	s.check(s.must(s.service(s.blobs)))
}

func TestALogThatWasEditedIsNotContinued(t *testing.T) {
	s, random := newStack(t), seeded(t)
	s.publish(0)
	s.must(s.service(s.blobs))
	stateBefore, err := read(t.Context(), s.blobs.Store, stateKey, maxRecord)
	if err != nil {
		t.Fatal(err)
	}
	s.publish(0)
	s.publishAll(random, 300)
	kept := s.must(s.service(s.blobs))
	put := func(key string, data []byte) {
		t.Helper()
		if data == nil {
			err = s.blobs.Store.Delete(t.Context(), key)
		} else {
			_, err = s.blobs.Store.Put(t.Context(), key, bytes.NewReader(data), int64(len(data)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stateNow, err := read(t.Context(), s.blobs.Store, stateKey, maxRecord)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key  string
		data []byte
		want error
	}{
		"state removed":          {stateKey, nil, ErrIncomplete},
		"state of another log":   {stateKey, bytes.Replace(stateNow, []byte(`"root":"`), []byte(`"root":"AAAA`), 1), nil},
		"state of another size":  {stateKey, bytes.Replace(stateNow, []byte(`"size":`), []byte(`"size":1`), 1), tilelog.ErrDamaged},
		"checkpoint not a note":  {proof.LogCheckpoint, []byte("quire/test\n1\n"), tilelog.ErrCheckpoint},
		"earlier state accepted": {stateKey, stateBefore, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := read(t.Context(), s.blobs.Store, c.key, maxRecord)
			if err != nil {
				t.Fatal(err)
			}
			put(c.key, c.data)
			err = s.round(s.service(s.blobs))
			switch {
			case name == "earlier state accepted" && err != nil: // its cuts are added once more
				t.Error(err)
			case name != "earlier state accepted" && (err == nil || c.want != nil && !errors.Is(err, c.want)):
				t.Errorf("got %v, want %v", err, c.want)
			}
			put(c.key, before)
		})
	}
	s.secret += " and another one"
	if err := s.round(s.service(s.blobs)); !errors.Is(err, tilelog.ErrCheckpoint) {
		t.Errorf("another key: %v", err)
	}
	s.secret = testSecret
	if got := s.checkpoint(); got != kept {
		t.Errorf("the checkpoint has changed from %v to %v", kept, got)
	}
	s.check(s.must(s.service(s.blobs)))
}

// TestAForkIsNotSigned: the log is that of its state, which lacks what is signed.
func TestAForkIsNotSigned(t *testing.T) {
	s := newStack(t)
	for range 3 {
		s.publish(0)
		s.must(s.service(s.blobs))
	}
	stateNow, err := read(t.Context(), s.blobs.Store, stateKey, maxRecord)
	if err != nil {
		t.Fatal(err)
	}
	s.publish(1)
	signed := s.must(s.service(s.blobs))
	// Somebody restores the state and the cuts of an earlier time, and another message comes first.
	if err := errors.Join(write(t.Context(), s.blobs.Store, stateKey, stateNow), s.blobs.Store.Delete(t.Context(), cutKey(4))); err != nil {
		t.Fatal(err)
	}
	s.publish(0)
	if err := s.round(s.service(s.blobs)); !errors.Is(err, ErrForked) {
		t.Errorf("got %v, want %v", err, ErrForked)
	}
	if got := s.checkpoint(); got != signed {
		t.Errorf("the checkpoint has changed from %v to %v", signed, got)
	}
}

func TestTheLogIsWitnessed(t *testing.T) {
	s := newStack(t)
	key, err := deriveKey(testSecret, "test")
	if err != nil {
		t.Fatal(err)
	}
	server, err := witness.Open(witness.Config{Folder: t.TempDir(), Name: "witness.example/w", Logs: []string{key.public}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	web := httptest.NewServer(server)
	t.Cleanup(web.Close)
	witnessed := func(service *Service) *Service {
		t.Helper()
		if service.witnesses, err = witness.ParseWitnesses(server.VerifierKey() + "@" + web.URL); err != nil {
			t.Fatal(err)
		}
		return service
	}
	signatures := func() int {
		t.Helper()
		data, err := read(t.Context(), s.blobs.Store, proof.LogCheckpoint, tilelog.MaxCheckpoint)
		if err != nil {
			t.Fatal(err)
		}
		n, err := note.Open(data, note.VerifierList(key.verifier, clientOf(t, server).Verifier()))
		if err != nil {
			t.Fatal(err)
		}
		return len(n.Sigs)
	}
	for range 3 {
		s.publish(0)
		s.publish(1)
		s.must(witnessed(s.service(s.blobs))) // each time one that does not know what the witness knows
		if n := signatures(); n != 2 {
			t.Fatalf("%d signatures", n)
		}
	}
	web.Close()
	s.publish(0)
	s.must(witnessed(s.service(s.blobs)))
	if n := signatures(); n != 1 {
		t.Errorf("%d signatures without a witness", n)
	}
	web = httptest.NewServer(server) // it is back, and is asked again although nothing is new
	t.Cleanup(web.Close)
	signed := s.must(witnessed(s.service(s.blobs)))
	if n := signatures(); n != 2 {
		t.Errorf("%d signatures with a witness that is back", n)
	}
	s.must(s.service(s.blobs)) // without a witness
	if n := signatures(); n != 2 {
		t.Errorf("%d signatures: one got lost", n)
	}
	// An earlier state of everything is restored: the witness knows a longer log, which is not signed twice.
	s.publish(1)
	s.must(witnessed(s.service(s.blobs)))
	early, err := tilelog.Sign(signed, key)
	if err != nil {
		t.Fatal(err)
	}
	root, err := json.Marshal(state{Cut: 4, Size: signed.N, Root: signed.Hash, Positions: positionsOf(t, s, signed)})
	if err := errors.Join(err, write(t.Context(), s.blobs.Store, proof.LogCheckpoint, early), write(t.Context(), s.blobs.Store, stateKey, root), s.blobs.Store.Delete(t.Context(), cutKey(5))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s.publish(0)
		if err := s.round(witnessed(s.service(s.blobs))); !errors.Is(err, ErrForked) {
			t.Errorf("another history than the witness's: %v", err)
		}
	}
	if got := s.checkpoint(); got != signed {
		t.Errorf("the checkpoint has %d entries, want %d", got.N, signed.N)
	}
}

// positionsOf are the positions of a log.
func positionsOf(t *testing.T, s *stack, tree tlog.Tree) []position {
	t.Helper()
	positions := make([]position, partitions)
	for p := range positions {
		positions[p].Partition = p
	}
	err := tilelog.NewReader(s.blobs.Store, proof.LogPrefix).Entries(t.Context(), 0, tree.N, tree.N, func(_ int64, entry []byte) error {
		decoded, err := proof.Decode(entry)
		if m, ok := decoded.(proof.Message); ok {
			hash := tlog.RecordHash(entry)
			positions[m.Partition] = position{Partition: m.Partition, Sequence: m.Sequence, Entry: &hash}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return positions
}

// clientOf is a client of a witness.
func clientOf(t *testing.T, server *witness.Server) *witness.Client {
	t.Helper()
	client, err := witness.NewClient(server.VerifierKey(), "https://unused.example")
	if err != nil {
		t.Fatal(err)
	}
	return client
}
