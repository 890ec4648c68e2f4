package developer

import (
	"strings"
	"testing"

	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
	"quire.dev/services/edge/internal/kind"
)

func TestLinksToContentLeadToItsHost(t *testing.T) {
	edge := endpointtest.New(t, endpoint.Config{PublicURL: "https://quire.example", ContentURL: "https://content.example/"})
	s := New(edge.Base, Config{}, Deps{Secret: edge.Secret})
	if link := s.downloadURL("AAAAAAAAAAAA"); !strings.HasPrefix(link, "https://content.example/f/AAAAAAAAAAAA/download?") {
		t.Error(link)
	}
	if urls := string(s.pageURLs(endpoint.Object("{"), kind.Pastes(), "x")); urls != `{"url":"https://quire.example/p/x","rawUrl":"https://content.example/p/x/raw"` {
		t.Error(urls)
	}
}
