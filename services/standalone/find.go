package standalone

import (
	"os"
	"path/filepath"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/host"
	"quire.dev/services/standalone/internal/datafolder"
)

// FindRunning returns the URL of the admin API of the process running on the settings' data folder, or "", and the first admin
// token, or "".
func FindRunning(cfg host.Settings) (url, adminToken string, err error) {
	text := cfg.AdminToken.Reveal()
	if text == "" {
		// The folder may not exist, or its process may have its token from the settings.
		text, _ = datafolder.AdminToken(cfg.Data)
	}
	adminToken = firstToken(text)
	holder, running, err := datafolder.Running(cfg.Data)
	if err != nil || !running {
		return "", adminToken, err
	}
	return holder.AdminURL, adminToken, nil
}

// firstToken returns the first of the admin tokens in text.
func firstToken(text string) string {
	tokens, _ := admin.ParseTokens(text) // the start reports an invalid one
	return tokens.First()
}

// HasData reports whether a Quire has ever run on the folder.
func HasData(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "VERSION"))
	return err == nil
}
