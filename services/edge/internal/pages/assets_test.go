package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/gofiber/fiber/v2"

	"quire.dev/verifier"
)

// TestAnAssetIsKeptForEver holds every asset, in each coding, to its address, type and headers.
func TestAnAssetIsKeptForEver(t *testing.T) {
	p := New()
	if len(p.assets.addresses) == 0 {
		t.Fatal("no assets")
	}
	for file, address := range p.assets.addresses {
		want, err := files.ReadFile("assets/" + file)
		if file == VerifierModule {
			want, err = verifier.Program(), nil
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(want)
		if !strings.Contains(address, "."+hex.EncodeToString(sum[:8])+".") {
			t.Errorf("%s is at %s, which has not the hash of its bytes", file, address)
		}
		serve := func(c *fiber.Ctx) error {
			found, err := p.Asset(c, strings.TrimPrefix(address, AssetsPath))
			if !found {
				t.Errorf("%s is not found", address)
			}
			return err
		}
		tags, codings := make(map[string]bool), 3
		if len(want) < minCompressBytes {
			codings = 1
		}
		for accept, coding := range map[string]string{
			"": "", "identity": "", "br;q=0, gzip;q=0": "", "gzip": "gzip", "br;q=0, gzip;q=0.5": "gzip", "gzip, deflate, br, zstd": "br",
		} {
			if codings == 1 {
				coding = ""
			}
			res := answerOf(t, serve, "Accept-Encoding", accept)
			body := []byte(bodyOf(t, res))
			if got := decode(t, res.Header.Get("Content-Encoding"), body); !bytes.Equal(got, want) {
				t.Errorf("%s with %q: %d bytes, want %d", file, accept, len(got), len(want))
			}
			for field, want := range map[string]string{
				"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff",
				"Cross-Origin-Resource-Policy": "same-origin", "Content-Encoding": coding,
			} {
				if got := res.Header.Get(field); got != want {
					t.Errorf("%s with %q: %s is %q, want %q", file, accept, field, got, want)
				}
			}
			if kind := res.Header.Get("Content-Type"); strings.HasSuffix(file, "js") != strings.HasPrefix(kind, "text/javascript") {
				t.Errorf("%s is of type %s", file, kind)
			}
			tags[res.Header.Get("ETag")] = true
			again := answerOf(t, serve, "Accept-Encoding", accept, "If-None-Match", res.Header.Get("ETag"))
			if again.StatusCode != http.StatusNotModified || bodyOf(t, again) != "" {
				t.Errorf("%s with its tag: %d", file, again.StatusCode)
			}
		}
		if len(tags) != codings {
			t.Errorf("%s has the tags %v for %d codings", file, tags, codings)
		}
	}
}

// decode undoes a content coding.
func decode(t *testing.T, coding string, data []byte) []byte {
	t.Helper()
	var r io.Reader = bytes.NewReader(data)
	switch coding {
	case "gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		r = z
	case "br":
		r = brotli.NewReader(r)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestVendoredScriptsAreTheirReleases holds scripts of others to what was released: the checksums of the files in the npm packages.
func TestVendoredScriptsAreTheirReleases(t *testing.T) {
	for file, want := range map[string]string{
		"htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130", // htmx.org 4.0.1
	} {
		data, err := files.ReadFile("assets/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not the release: %x", file, sum)
		}
	}
}

func TestOnlyEmbeddedNamesAreAssets(t *testing.T) {
	p := New()
	for _, name := range []string{"", "quire.svg", "quire.0000000000000000.svg", "..", "../pages.go", "%2e%2e/pages.go"} {
		answerOf(t, func(c *fiber.Ctx) error {
			found, err := p.Asset(c, name)
			if found || err != nil {
				t.Errorf("%q: %v %v", name, found, err)
			}
			return nil
		})
	}
}

func TestAPageIsCompressedUnlessItShowsASecret(t *testing.T) {
	p := New()
	for _, secret := range []bool{false, true} {
		show := func(c *fiber.Ctx) error {
			return p.Render(c, &Page{Template: "failure", Title: "x", Secret: secret, Data: Failure{Status: 404, Reason: hostile}})
		}
		plain := bodyOf(t, answerOf(t, show, "Accept-Encoding", "br"))
		res := answerOf(t, show, "Accept-Encoding", "gzip, br")
		coding := res.Header.Get("Content-Encoding")
		if (coding == "gzip") == secret || res.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("secret %v: %v", secret, res.Header)
		}
		nonce := regexp.MustCompile(`nonce="[^"]*"`)
		if got := string(decode(t, coding, []byte(bodyOf(t, res)))); nonce.ReplaceAllString(got, "") != nonce.ReplaceAllString(plain, "") {
			t.Errorf("secret %v: the pages differ", secret)
		}
	}
}

func TestAPageWithAnUnknownSheetOrScriptIsAnError(t *testing.T) {
	p := New()
	for _, page := range []*Page{
		{Template: "failure", Data: Failure{}, Styles: []string{"none"}},
		{Template: "failure", Data: Failure{}, Scripts: []string{"none.js"}},
		{Template: "none"},
	} {
		answerOf(t, func(c *fiber.Ctx) error {
			if err := p.Render(c, page); err == nil {
				t.Errorf("%+v is rendered", page)
			}
			return nil
		})
	}
}
