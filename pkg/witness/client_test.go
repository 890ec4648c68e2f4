package witness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	f_note "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

// TestALogCatchesUp: a log that has lost an answer hears the witness's size, and goes on from there.
func TestALogCatchesUp(t *testing.T) {
	l := newLog(t, origin).grow(20, "a")
	s := open(t, t.TempDir(), l.key)
	c := client(t, s.VerifierKey(), serve(t, s)+"/")
	if _, err := c.Cosign(t.Context(), 0, nil, l.checkpoint(7)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Cosign(t.Context(), 3, l.proof(3, 20), l.checkpoint(20))
	var conflict *ConflictError
	if !errors.As(err, &conflict) || conflict.Size != 7 {
		t.Fatalf("got %v", err)
	}
	line, err := c.Cosign(t.Context(), conflict.Size, l.proof(conflict.Size, 20), l.checkpoint(20))
	if err != nil || !strings.HasPrefix(string(line), "— witness.example/w1 ") || strings.Count(string(line), "\n") != 1 {
		t.Errorf("%q, %v", line, err)
	}
	fork := l.fork(5).grow(20, "b")
	if _, err := c.Cosign(t.Context(), 20, nil, fork.checkpoint(20)); !errors.Is(err, ErrFork) {
		t.Errorf("a fork: %v", err)
	}
	fork.grow(30, "b")
	if _, err := c.Cosign(t.Context(), 20, fork.proof(20, 30), fork.checkpoint(30)); !errors.Is(err, ErrProof) {
		t.Errorf("a fork that has grown: %v", err)
	}
	if _, err := c.Cosign(t.Context(), 0, nil, newLog(t, "x").grow(1, "a").checkpoint(1)); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "unknown log") {
		t.Errorf("an unknown log: %v", err)
	}
}

// TestWitnessesThatMisbehave: whatever they answer, a line is returned only if their key made it of the checkpoint.
func TestWitnessesThatMisbehave(t *testing.T) {
	l := newLog(t, origin).grow(20, "a")
	s := open(t, t.TempDir(), l.key)
	signed := l.checkpoint(20)
	cosign := func(text string) string {
		line, err := note.Sign(&note.Note{Text: text}, s.key.signer)
		if err != nil {
			t.Fatal(err)
		}
		return string(lastLine(line))
	}
	c, err := parseNote(signed)
	if err != nil {
		t.Fatal(err)
	}
	good := cosign(c.text)
	filler := func(length int) string { return "— x " + strings.Repeat("A", length-len("— x \n")) + "\n" }
	for name, test := range map[string]struct {
		status   int
		kind     string
		body     string
		old      int64
		want     error
		conflict int64
	}{
		"good":                               {200, "", good, 0, nil, 0},
		"among those of others":              {200, "", string(lastLine(signed)) + good + string(lastLine(signed)), 0, nil, 0},
		"nothing":                            {200, "", "", 0, ErrCosignature, 0},
		"of another checkpoint":              {200, "", cosign("x\n" + c.text), 0, ErrCosignature, 0},
		"of a longer text":                   {200, "", "more\n\n" + cosign(c.text+"\nmore\n"), 0, ErrCosignature, 0},
		"of others":                          {200, "", string(lastLine(signed)), 0, ErrCosignature, 0},
		"no newline":                         {200, "", strings.TrimSuffix(good, "\n"), 0, ErrCosignature, 0},
		"not a signature":                    {200, "", "<html>\n", 0, ErrCosignature, 0},
		"as large as the limit":              {200, "", filler(maxBody-len(good)-(maxBody-len(good)-len("— x \n"))%4) + good, 0, nil, 0},
		"above the limit":                    {200, "", filler(maxBody+1-len(good)) + good, 0, ErrUnavailable, 0},
		"another size":                       {409, sizeType, "7\n", 3, nil, 7},
		"above the log":                      {409, sizeType, "99\n", 3, nil, 99},
		"size without newline":               {409, sizeType, "7", 3, nil, 7},
		"the same size for ever":             {409, sizeType, "3\n", 3, ErrUnavailable, 0},
		"no size":                            {409, sizeType, "x\n", 3, ErrUnavailable, 0},
		"negative size":                      {409, sizeType, "-7\n", 3, ErrUnavailable, 0},
		"conflict without the type":          {409, "", "7\n", 3, ErrUnavailable, 0},
		"fork":                               {409, sizeType, "20\n", 20, ErrFork, 0},
		"fork without a size":                {409, "", "", 20, ErrFork, 0},
		"proof":                              {422, "", "", 3, ErrProof, 0},
		"key":                                {403, "", "", 3, ErrRefused, 0},
		"redirect":                           {302, "", "", 3, ErrRefused, 0},
		"busy":                               {429, "", "", 3, ErrUnavailable, 0},
		"broken":                             {500, "", "", 3, ErrUnavailable, 0},
		"text of a refusal that has no end ": {404, "", strings.Repeat("x", 1000), 3, ErrRefused, 0},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/add-checkpoint" {
					t.Errorf("asked for %s", r.URL.Path)
				}
				w.Header().Set("Content-Type", test.kind)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			}))
			line, err := client(t, s.VerifierKey(), url).Cosign(t.Context(), test.old, l.proof(test.old, 20), signed)
			var conflict *ConflictError
			switch {
			case test.conflict != 0:
				if !errors.As(err, &conflict) || conflict.Size != test.conflict {
					t.Errorf("got %v", err)
				}
			case !errors.Is(err, test.want) || errors.As(err, &conflict):
				t.Errorf("got %v, want %v", err, test.want)
			case err == nil && string(line) != good || err != nil && (line != nil || !strings.Contains(err.Error(), "witness.example/w1") || len(err.Error()) > 500):
				t.Errorf("%q, %v", line, err)
			}
		})
	}
}

// TestAnEarlierCosignatureIsNotTakenForTheAnswer: it has another time.
func TestAnEarlierCosignatureIsNotTakenForTheAnswer(t *testing.T) {
	l := newLog(t, origin).grow(3, "a")
	s := open(t, t.TempDir(), l.key)
	url := serve(t, s)
	c := client(t, s.VerifierKey(), url)
	signed := l.checkpoint(3)
	first, err := c.Cosign(t.Context(), 0, nil, signed)
	if err != nil {
		t.Fatal(err)
	}
	signed = append(signed, first...)
	if _, err := c.Cosign(t.Context(), 3, nil, signed); err != nil {
		t.Fatal(err)
	}
	silent := client(t, s.VerifierKey(), serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	if _, err := silent.Cosign(t.Context(), 3, nil, signed); !errors.Is(err, ErrCosignature) {
		t.Errorf("no answer: %v", err)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	l := newLog(t, origin).grow(3, "a")
	s := open(t, t.TempDir(), l.key)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	url := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		<-release
	}))
	t.Cleanup(func() { close(release) }) // before the server closes
	if _, err := client(t, s.VerifierKey(), url).Cosign(ctx, 0, nil, l.checkpoint(3)); !errors.Is(err, context.Canceled) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	gone := httptest.NewServer(s)
	gone.Close()
	if _, err := client(t, s.VerifierKey(), gone.URL).Cosign(t.Context(), 0, nil, l.checkpoint(3)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a witness that is down: %v", err)
	}
}

func TestWhatIsNoRequestIsNotSent(t *testing.T) {
	l := newLog(t, origin).grow(70, "a")
	s := open(t, t.TempDir(), l.key)
	c := client(t, s.VerifierKey(), "http://127.0.0.1:1")
	for name, err := range map[string]error{
		"negative size": second(c.Cosign(t.Context(), -1, nil, l.checkpoint(3))),
		"64 hashes":     second(c.Cosign(t.Context(), 1, append(l.proof(1, 70), l.hashes[:64]...), l.checkpoint(70))),
		"no note":       second(c.Cosign(t.Context(), 0, nil, []byte("x\n"))),
		"too large":     second(c.Cosign(t.Context(), 0, nil, l.checkpoint(3, strings.Repeat("x", maxBody)+"\n"))),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second(_ []byte, err error) error { return err }

// TestAWitnessMayHaveAPostQuantumKey: the library verifies cosignatures of ML-DSA-44 too.
func TestAWitnessMayHaveAPostQuantumKey(t *testing.T) {
	l := newLog(t, origin).grow(3, "a")
	secret, key, err := f_note.GenerateMLDSAKey("pq.example")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := f_note.NewMLDSASigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	signed := l.checkpoint(3)
	answer, err := note.Sign(&note.Note{Text: string(signed[:strings.Index(string(signed), "\n\n")+1])}, signer)
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(lastLine(answer)) }))
	clients, err := ParseWitnesses(key + "@" + url)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := clients[0].Cosign(t.Context(), 0, nil, signed); err != nil || len(line) < 2420 {
		t.Errorf("%d bytes, %v", len(line), err)
	}
}

func TestWitnessesAreParsed(t *testing.T) {
	var keys []string
	for _, name := range []string{"w1.example", "op@w2.example/x"} {
		_, key, err := note.GenerateKey(nil, name)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key) // of type 0x01, which stands for that of a cosignature
	}
	cosigner, err := f_note.VKeyToCosignatureV1(keys[0])
	if err != nil {
		t.Fatal(err)
	}
	a, b := keys[0]+"@https://w1.example", keys[1]+"@http://127.0.0.1:8085/witness/a@b"
	for text, want := range map[string]string{
		"":                         "",
		" ,\n":                     "",
		a:                          "w1.example https://w1.example/add-checkpoint\n",
		a + "," + b:                "w1.example https://w1.example/add-checkpoint\nop@w2.example/x http://127.0.0.1:8085/witness/a@b/add-checkpoint\n",
		"\t" + b + ", \r\n" + a:    "op@w2.example/x http://127.0.0.1:8085/witness/a@b/add-checkpoint\nw1.example https://w1.example/add-checkpoint\n",
		cosigner + "@https://x/y/": "w1.example https://x/y/add-checkpoint\n",
	} {
		clients, err := ParseWitnesses(text)
		got := ""
		for _, c := range clients {
			got += c.Name() + " " + c.url + "\n"
		}
		if err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"https://w1.example":                                      "want <verifier key>@<url>",
		keys[0]:                                                   "want <verifier key>@<url>",
		keys[0] + "@":                                             "not a URL",
		keys[0] + "@w1.example":                                   "not a URL",
		keys[0] + "@ftp://w1.example":                             "not a URL",
		keys[0] + "@https://u:p@w1.example":                       "not a URL",
		keys[0] + "@https://w1.example?x=y":                       "not a URL",
		keys[0] + "@https://%zz":                                  "not a URL",
		a + " " + cosigner + "@https://x":                         "named twice",
		strings.Replace(a, "w1.", "w9.", 1):                       "its hash",
		strings.Replace(cosigner, "w1.", "w9.", 1) + "@https://x": "its hash",
		"w1.example+00000000+AQ==@https://w1.example":             "not the verifier key",
	} {
		if _, err := ParseWitnesses(b + " " + text); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "witness \"") {
			t.Errorf("%q: %v does not have %q", text, err, says)
		}
	}
	if _, err := ParseWitnesses("one two"); err == nil || !strings.Contains(err.Error(), `"one"`) || !strings.Contains(err.Error(), `"two"`) {
		t.Errorf("not all faults: %v", err)
	}
}

// TestTheExampleOfTheDocumentIsParsed: its key has the right hash.
func TestTheExampleOfTheDocumentIsParsed(t *testing.T) {
	page, err := os.ReadFile("../../docs/witness.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), `QUIRE_WITNESSES="`)
	example, _, _ = strings.Cut(example, `"`)
	clients, err := ParseWitnesses(example)
	if err != nil || len(clients) != 1 || clients[0].url != "https://witness.example/add-checkpoint" {
		t.Errorf("%q: %v, %v", example, clients, err)
	}
}
