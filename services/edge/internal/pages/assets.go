package pages

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/verifier"
)

//go:embed assets head styles templates
var files embed.FS

// AssetsPath is the URL prefix of the assets.
const AssetsPath = "/assets/"

// VerifierModule is the name of the asset with the bill verifier.
const VerifierModule = "verify.mjs"

// assets are the files of the folder assets, and the bill verifier, by their URL names, <name>.<hash>.<extension>. The hash is
// the file's, so browsers can cache it forever.
type assets struct {
	byAddress map[string]*Kept
	addresses map[string]string // by file name
}

func loadAssets() (*assets, error) {
	out := &assets{byAddress: make(map[string]*Kept), addresses: make(map[string]string)}
	add := func(name string, data []byte) error {
		ext := path.Ext(name)
		contentType, ok := assetTypes()[ext]
		if !ok {
			return fmt.Errorf("asset %s has no known type", name)
		}
		a := KeepText(contentType, data)
		a.immutable = true
		address := strings.TrimSuffix(name, ext) + "." + a.hash + ext
		out.byAddress[address], out.addresses[name] = a, AssetsPath+address
		return nil
	}
	if err := eachFile("assets", add); err != nil {
		return nil, err
	}
	return out, add(VerifierModule, verifier.Program())
}

// assetTypes are the content types of assets, by extension.
func assetTypes() map[string]string {
	return map[string]string{".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".css": "text/css; charset=utf-8"}
}

func eachFile(folder string, do func(name string, data []byte) error) error {
	entries, err := files.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		data, err := fs.ReadFile(files, path.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		if err := do(e.Name(), data); err != nil {
			return err
		}
	}
	return nil
}

// address is the URL path of an asset. An unknown name is a mistake in a template.
func (a *assets) address(name string) (string, error) {
	address, ok := a.addresses[name]
	if !ok {
		return "", fmt.Errorf("there is no asset %q", name)
	}
	return address, nil
}

// Asset answers with the asset of that URL name. It returns false if there is no such asset.
func (p *Pages) Asset(c *fiber.Ctx, name string) (bool, error) {
	a, ok := p.assets.byAddress[name]
	if !ok {
		return false, nil
	}
	return true, a.Answer(c)
}

// accepts reports whether an Accept-Encoding header allows the coding (RFC 9110, 12.5.3). The coding must be named.
func accepts(header, coding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, weight, weighted := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), coding) {
			continue
		}
		if !weighted {
			return true
		}
		q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
		return err == nil && q > 0
	}
	return false
}

// sheet is an inlined style sheet and its source for the policy. Inlining saves a round trip before the first paint, and
// most visits are to one page.
type sheet struct {
	text   template.CSS
	source string
}

// newSheet minifies a style sheet: it drops comments, line breaks, and spaces around braces, semicolons and commas and before
// values. No string in a sheet has braces, semicolons or commas.
func newSheet(text string) sheet {
	text = regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`\s*\n\s*`).ReplaceAllString(text, "\n")
	text = strings.TrimSpace(regexp.MustCompile(`\s*([{};,])\s*`).ReplaceAllString(text, "$1"))
	text = regexp.MustCompile(`([{;][a-z0-9-]+): `).ReplaceAllString(text, "$1:")
	return sheet{text: template.CSS(text), source: hashSource(text)} //nolint:gosec // a file of ours
}

// hashSource is the source of an inlined text in a policy.
func hashSource(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// headScript is the inlined script of every page, which sets the theme before anything is painted.
type headScript struct {
	text   template.JS
	source string
}

func loadHead() (headScript, error) {
	data, err := files.ReadFile("head/theme.js")
	text := strings.TrimSpace(string(data))
	return headScript{text: template.JS(text), source: hashSource(text)}, err //nolint:gosec // a file of ours
}

// loadSheets reads the folder styles, keyed by name without extension.
func loadSheets() (map[string]sheet, error) {
	out := make(map[string]sheet)
	err := eachFile("styles", func(name string, data []byte) error {
		out[strings.TrimSuffix(name, ".css")] = newSheet(string(data))
		return nil
	})
	return out, err
}
