package apikey_test

import (
	"testing"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
)

// BenchmarkParse checks a key as the edge does for each request.
func BenchmarkParse(b *testing.B) {
	s, err := apikey.NewSecret([]byte("0123456789abcdef"))
	if err != nil {
		b.Fatal(err)
	}
	k := s.NewKey(event.AccountID(7), []byte("command"))
	k.Version = 1
	key := s.Format(k)
	wrong := key[:len(key)-1] + "A"
	if wrong == key {
		wrong = key[:len(key)-1] + "B"
	}
	for name, c := range map[string]struct {
		key   string
		right bool
	}{"right": {key, true}, "wrong": {wrong, false}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Parse(c.key); (err == nil) != c.right {
					b.Fatal(err)
				}
			}
		})
	}
}
