package client

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

const fileText = "0123456789abcdefghij"

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// fileService knows one file. It sends its bytes by answers, each from where it was asked to begin.
func fileService(t *testing.T, sum string, answers ...func(w http.ResponseWriter, rest string)) *service {
	t.Helper()
	var s *service
	list := []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
		answerWith(200, fmt.Sprintf(`{"success":true,"remaining":1,"file":{"id":"f","size":%d,"sha256":%q,"downloadUrl":"%s/signed"}}`, len(fileText), sum, s.URL))(w, nil)
	}}
	for _, answer := range answers {
		list = append(list, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				t.Error("the link's host got the API key")
			}
			from := 0
			if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
				w.Header().Set("Content-Length", fmt.Sprint(len(fileText)-from))
				w.WriteHeader(http.StatusPartialContent)
			}
			answer(w, fileText[from:])
		})
	}
	s = newService(t, list...)
	return s
}

func whole(w http.ResponseWriter, rest string) { fmt.Fprint(w, rest) }

func part(n int) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, rest string) {
		if w.Header().Get("Content-Length") == "" {
			w.Header().Set("Content-Length", fmt.Sprint(len(rest)))
		}
		fmt.Fprint(w, rest[:n])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

func TestADownloadGoesOnWhereItBroke(t *testing.T) {
	s := fileService(t, sumOf(fileText), part(3), part(0), part(5), whole)
	var got bytes.Buffer
	var told []int64
	file, err := s.client(t).Files.Download(t.Context(), "f", &got, func(done, total int64) {
		if told = append(told, done); total != int64(len(fileText)) {
			t.Errorf("%d bytes in all", total)
		}
	})
	if err != nil || got.String() != fileText || file.SHA256 != sumOf(fileText) || len(s.keys) != 5 {
		t.Errorf("%q, %v after %d calls", got.String(), err, len(s.keys))
	}
	if fmt.Sprint(told) != "[3 8 20]" {
		t.Errorf("progress %d", told)
	}
}

func TestADownloadIsComparedWithItsChecksum(t *testing.T) {
	s := fileService(t, sumOf("other bytes"), whole)
	if _, err := s.client(t).Files.Download(t.Context(), "f", io.Discard, nil); !errors.Is(err, ErrChecksum) {
		t.Errorf("%v", err)
	}
}

func TestADownloadThatDoesNotGetOnEnds(t *testing.T) {
	s := fileService(t, sumOf(fileText), part(3), part(0))
	if _, err := s.client(t, WithRetries(2)).Files.Download(t.Context(), "f", io.Discard, nil); err == nil || len(s.keys) != 7 {
		t.Errorf("%v after %d calls", err, len(s.keys))
	}
}

func TestAnUploadIsRepeatedWhereItsContentCanBe(t *testing.T) {
	stored := answerWith(201, fmt.Sprintf(`{"success":true,"id":"f","sha256":%q,"remaining":1}`, sumOf(fileText)))
	s := newService(t, failWith(503, "unavailable"), drop, stored)
	content := strings.NewReader("skip" + fileText)
	if _, err := content.Seek(4, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	up, err := s.client(t).Files.Upload(t.Context(), NewFile{Name: "f", Content: content})
	if err != nil || up.ID != "f" || len(s.bodies) != 3 || s.bodies[2] != fileText {
		t.Errorf("%v, bodies %q", err, s.bodies)
	}
	s = newService(t, failWith(503, "unavailable"), stored)
	_, err = s.client(t).Files.Upload(t.Context(), NewFile{Name: "f", Content: io.MultiReader(strings.NewReader(fileText))})
	if err == nil || len(s.bodies) != 1 || !strings.Contains(err.Error(), "second time") {
		t.Errorf("%v after %d calls", err, len(s.bodies))
	}
	s = newService(t, answerWith(201, fmt.Sprintf(`{"success":true,"id":"f","sha256":%q,"remaining":1}`, sumOf("other"))))
	if _, err := s.client(t).Files.Upload(t.Context(), NewFile{Name: "f", Content: strings.NewReader(fileText)}); !errors.Is(err, ErrChecksum) {
		t.Errorf("%v", err)
	}
	if _, err := s.client(t).Files.Upload(t.Context(), NewFile{Name: "f"}); err == nil {
		t.Error("a file without content was sent")
	}
}
