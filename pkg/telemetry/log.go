// Package telemetry gives a process its logger, its metrics and the HTTP paths for operators.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"quire.dev/pkg/config"
)

// LogConfig configures a logger. The zero value logs JSON from level info up.
type LogConfig struct {
	Service string // value of the attribute "service"; omitted if empty
	Level   slog.Level
	Text    bool // key=value lines, for people
}

// NewLogger returns a logger that writes to w and masks secrets (see Mask).
func NewLogger(w io.Writer, c LogConfig) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.Level, ReplaceAttr: Mask}
	var handler slog.Handler = slog.NewJSONHandler(w, options)
	if c.Text {
		handler = slog.NewTextHandler(w, options)
	}
	log := slog.New(handler)
	if c.Service != "" {
		log = log.With("service", c.Service)
	}
	return log
}

// Mask is a slog.HandlerOptions.ReplaceAttr. It hides the values of attributes and groups with a secret's name
// (config.IsSecretName), and the credentials of URLs in texts, errors and messages. It does not look into other values, such as
// structs: secrets there should be of type config.Secret.
func Mask(groups []string, attr slog.Attr) slog.Attr {
	// "password": true only says that a password is set.
	secret := config.IsSecretName(attr.Key) || slices.ContainsFunc(groups, config.IsSecretName)
	if secret && attr.Value.Kind() != slog.KindBool {
		return slog.String(attr.Key, config.Hidden)
	}
	switch attr.Value.Kind() {
	case slog.KindString:
		return redactAttr(attr, attr.Value.String())
	case slog.KindAny:
		switch value := attr.Value.Any().(type) {
		case error:
			return redactAttr(attr, value.Error())
		case fmt.Stringer: // *url.URL among others
			if text := value.String(); strings.Contains(text, "://") {
				return redactAttr(attr, text)
			}
		}
	}
	return attr
}

func redactAttr(attr slog.Attr, text string) slog.Attr {
	if strings.Contains(text, "://") {
		return slog.String(attr.Key, config.Redact(text))
	}
	return attr
}
