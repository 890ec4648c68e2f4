package standalone

import (
	"os"
	"path/filepath"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/host"
	"quire.dev/services/standalone/internal/datafolder"
)

// FindRunning returns the URL of the admin API of the process that runs on the settings' data folder, empty where none runs,
// and the first admin token, empty where there is none.
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

// firstToken is the first admin token of text in which there may be several.
func firstToken(text string) string {
	tokens, _ := admin.ParseTokens(text) // who starts on a wrong one is told
	return tokens.First()
}

// HasData tells whether a Quire has run on the folder.
func HasData(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "VERSION"))
	return err == nil
}
