// Package telemetry gives a process its logger, its metrics and the HTTP paths by which operators look at it.
package telemetry

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"quire.dev/pkg/config"
)

// LogConfig says what is logged and how. Its zero value is good.
type LogConfig struct {
	Service string // the value of the attribute "service"; left out where empty
	Level   string // debug, info, warn or error; info where empty
	Format  string // json or text; json where empty
}

// NewLogger returns a logger that writes to w and masks secrets (see Mask), or an error with all that is wrong with c.
func NewLogger(w io.Writer, c LogConfig) (*slog.Logger, error) {
	level, ok := map[string]slog.Level{
		"": slog.LevelInfo, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}[c.Level]
	var errs []error
	if !ok {
		errs = append(errs, fmt.Errorf("log level %q is none of debug, info, warn, error", c.Level))
	}
	if c.Format != "" && c.Format != "json" && c.Format != "text" {
		errs = append(errs, fmt.Errorf("log format %q is neither json nor text", c.Format))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: Mask}
	var handler slog.Handler = slog.NewJSONHandler(w, options)
	if c.Format == "text" {
		handler = slog.NewTextHandler(w, options)
	}
	log := slog.New(handler)
	if c.Service != "" {
		log = log.With("service", c.Service)
	}
	return log, nil
}

// Mask is a slog.HandlerOptions.ReplaceAttr. It hides the values of attributes and groups with a secret's name
// (config.IsSecretName), and the credentials of URLs in texts, errors and messages. It does not look into other values,
// such as structs: secrets there should be of the type config.Secret.
func Mask(groups []string, attr slog.Attr) slog.Attr {
	// "password": true says that there is a password, and is no secret.
	secret := config.IsSecretName(attr.Key) || slices.ContainsFunc(groups, config.IsSecretName)
	if secret && attr.Value.Kind() != slog.KindBool {
		return slog.String(attr.Key, config.Hidden)
	}
	switch attr.Value.Kind() {
	case slog.KindString:
		return redacted(attr, attr.Value.String())
	case slog.KindAny:
		switch value := attr.Value.Any().(type) {
		case error:
			return redacted(attr, value.Error())
		case fmt.Stringer: // *url.URL among others
			if text := value.String(); strings.Contains(text, "://") {
				return redacted(attr, text)
			}
		}
	}
	return attr
}

func redacted(attr slog.Attr, text string) slog.Attr {
	if strings.Contains(text, "://") {
		return slog.String(attr.Key, config.Redact(text))
	}
	return attr
}
