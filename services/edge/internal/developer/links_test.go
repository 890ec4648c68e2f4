package developer

import (
	"strings"
	"testing"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
)

func TestLinksToContentLeadToItsHost(t *testing.T) {
	secret, err := apikey.NewSecret([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.New(journaltest.Start(t).Conn(t), bus.Config{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	base := endpoint.New(endpoint.Config{PublicURL: "https://quire.example", ContentURL: "https://content.example/"}, endpoint.Deps{Bus: b, Secret: secret})
	s := New(base, Config{}, Deps{Secret: secret})
	if link := s.downloadURL("AAAAAAAAAAAA"); !strings.HasPrefix(link, "https://content.example/f/AAAAAAAAAAAA/download?") {
		t.Error(link)
	}
	if urls := string(s.pageURLs(endpoint.Object("{"), PasteKind(), "x")); urls != `{"url":"https://quire.example/p/x","rawUrl":"https://content.example/p/x/raw"` {
		t.Error(urls)
	}
}
