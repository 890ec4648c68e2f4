package standalone

import (
	"os"
	"path/filepath"

	"quire.dev/pkg/host"
	"quire.dev/services/standalone/internal/datafolder"
)

// FindRunning returns the URL of the process that runs on the settings' data folder, empty where none runs,
// and the admin token, empty where there is none.
func FindRunning(cfg host.Settings) (url, adminToken string, err error) {
	adminToken = cfg.AdminToken.Reveal()
	if adminToken == "" {
		// The folder may not exist, or its process may have its token from the settings.
		adminToken, _ = datafolder.AdminToken(cfg.Data)
	}
	holder, running, err := datafolder.Running(cfg.Data)
	if err != nil || !running {
		return "", adminToken, err
	}
	return holder.URL, adminToken, nil
}

// HasData tells whether a Quire has run on the folder.
func HasData(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "VERSION"))
	return err == nil
}
