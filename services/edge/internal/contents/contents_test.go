package contents

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"quire.dev/services/edge/internal/endpoint"
)

func FuzzAnswersAreTheStringsTheyWereMadeOf(f *testing.F) {
	for _, seed := range []string{"", "plain", "\"\\\n\r\t\x00\x1f\x7f", "ünï\u2028😀", "a\xffb\xc3", "\xf0\x9f\x98"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(endpoint.AppendString(nil, s), &got); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if utf8.ValidString(s) && got != s {
			t.Errorf("%q came back as %q", s, got)
		}
		if !utf8.ValidString(s) {
			return
		}
		stream := NewEscapingReader([]byte(`"`), io.NopCloser(iotest.OneByteReader(strings.NewReader(s))), int64(len(s)), []byte(`"`))
		streamed, err := io.ReadAll(stream)
		if err != nil || string(streamed) != string(endpoint.AppendString(nil, s)) {
			t.Errorf("%q streamed as %q, %v", s, streamed, err)
		}
	})
}

func TestAStreamThatEndsEarlyIsAnError(t *testing.T) {
	stream := NewEscapingReader(nil, io.NopCloser(strings.NewReader("abc")), 4, nil)
	if _, err := io.ReadAll(stream); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}

func TestDamagedContentNeverEndsWell(t *testing.T) {
	content := []byte(strings.Repeat("content ", 20_000))
	sum := sha256.Sum256(content)
	damaged := bytes.Clone(content)
	damaged[len(damaged)/2] ^= 1
	for name, c := range map[string]struct {
		stored []byte
		whole  bool
	}{
		"as stored": {content, true}, "a changed bit": {damaged, false},
		"cut short": {content[:len(content)-1], false}, "longer": {append(bytes.Clone(content), 'x'), false},
	} {
		r := &checkedReader{ReadCloser: io.NopCloser(bytes.NewReader(c.stored)), hash: sha256.New(), left: int64(len(content)), want: sum[:]}
		got, err := io.ReadAll(r)
		if c.whole && (err != nil || !bytes.Equal(got, content)) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if !c.whole && (!errors.Is(err, errDamaged) || len(got) >= len(content)) {
			t.Errorf("%s: %d of %d bytes, %v", name, len(got), len(content), err)
		}
	}
}
