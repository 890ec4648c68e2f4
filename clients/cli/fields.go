package cli

import (
	"context"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quire.dev/client"
)

// fields are the flags of create and edit that are fields of a paste.
type fields struct {
	title, language, expires, visibility string
	burn, password                       bool
	tags                                 []string
}

// Names of the flags.
const (
	flagTitle      = "title"
	flagLanguage   = "lang"
	flagExpires    = "expires"
	flagVisibility = "visibility"
	flagBurn       = "burn"
	flagPassword   = "password"
	flagTag        = "tag"
)

func (f *fields) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.title, flagTitle, "t", "", "title; by default the file's name")
	flags.StringVarP(&f.language, flagLanguage, "l", "", "language for highlighting, such as go; detected by default (auto); see quire paste languages")
	flags.StringVarP(&f.expires, flagExpires, "e", "", `expiry: 10m, 1h, 7d, 2w, 1y, "never", or a time such as 2026-12-31T18:00:00Z`)
	flags.StringVarP(&f.visibility, flagVisibility, "v", "", "public, unlisted or private")
	flags.BoolVar(&f.burn, flagBurn, false, "delete after the first read by someone else")
	flags.BoolVar(&f.password, flagPassword, false, "protect it with a password, prompted for or from QUIRE_PASSWORD")
	flags.StringSliceVar(&f.tags, flagTag, nil, "tag; repeat it, or separate several with commas")
	_ = cmd.RegisterFlagCompletionFunc(flagLanguage, completeLanguage) // the flag is there
	completeValues(cmd, flagVisibility, "public", "unlisted", "private")
	completeValues(cmd, flagExpires, "10m", "1h", "1d", "7d", "2w", "1y", "never")
}

// paste is a new paste with these fields, but for the password, which is prompted for.
func (f *fields) paste(content string) (client.NewPaste, error) {
	period, at, err := until(f.expires)
	return client.NewPaste{
		Content: content, Title: f.title, Language: f.language, Visibility: client.Visibility(f.visibility),
		ExpiresIn: period, ExpiresAt: at, BurnAfterRead: f.burn, Tags: f.tags,
	}, err
}

// change is an edit of the fields whose flags are given, but for the password.
func (f *fields) change(given func(flag string) bool) (client.PasteChange, error) {
	var c client.PasteChange
	if given(flagTitle) {
		c.Title = client.Set(f.title)
	}
	if given(flagLanguage) {
		c.Language = resettable(f.language)
	}
	if given(flagVisibility) {
		c.Visibility = resettable(client.Visibility(f.visibility))
	}
	if given(flagBurn) {
		c.BurnAfterRead = client.Set(f.burn)
	}
	if given(flagTag) {
		c.Tags = client.Set(f.tags)
		if len(f.tags) == 0 {
			c.Tags = client.Reset[[]string]()
		}
	}
	if given(flagExpires) {
		period, at, err := until(f.expires)
		if err != nil {
			return c, err
		}
		if c.ExpiresIn = resettable(period); !at.IsZero() {
			c.ExpiresIn, c.ExpiresAt = client.Change[client.Lifetime]{}, client.Set(at)
		}
	}
	return c, nil
}

// resettable sets a field, and resets it where the value is empty.
func resettable[T ~string](value T) client.Change[T] {
	if value == "" {
		return client.Reset[T]()
	}
	return client.Set(value)
}

// completeValues completes the values of a flag, which cmd has.
func completeValues(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// lifetime is a period as the service takes it.
var lifetime = regexp.MustCompile(`^([0-9]+[smhdwy]?|never)$`)

// instant is a time as the service takes it: RFC 3339, of which time.Parse takes more.
var instant = regexp.MustCompile(`^[^Tt]+[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

// until reads the flag --expires: as a period, or as a time.
func until(value string) (client.Lifetime, time.Time, error) {
	if value == "" || lifetime.MatchString(value) {
		return client.Lifetime(value), time.Time{}, nil
	}
	if at, err := time.Parse(time.DateOnly, value); err == nil {
		return "", at, nil
	}
	if at, err := time.Parse(time.RFC3339, strings.ToUpper(value)); err == nil && instant.MatchString(value) {
		return "", at.UTC(), nil
	}
	return "", time.Time{}, Usage("--%s %s: expected a period such as 10m, 1h, 7d, 2w or 1y, never, or a time such as 2026-12-31T18:00:00Z", flagExpires, value)
}

func checkVisibility(value string) error {
	switch client.Visibility(value) {
	case "", client.Public, client.Unlisted, client.Private:
		return nil
	}
	return Usage("--%s %s: expected public, unlisted or private", flagVisibility, value)
}

// newPassword is the password that a paste is to be protected with.
func (a *app) newPassword(ctx context.Context) (string, error) {
	if password := a.term.Env("QUIRE_PASSWORD"); password != "" {
		return password, nil
	}
	if !a.term.Interactive() {
		return "", Usage("--%s: cannot prompt: not a terminal. Set QUIRE_PASSWORD.", flagPassword)
	}
	password, err := a.term.AskSecret(ctx, "Password of the paste: ")
	if err != nil {
		return "", err
	}
	again, err := a.term.AskSecret(ctx, "Repeat the password: ")
	switch {
	case err != nil:
		return "", err
	case password == "":
		return "", Usage("the password is empty")
	case password != again:
		return "", Usage("the passwords do not match")
	}
	return password, nil
}

// readable is the error of a file that can't be read, as one of the command's input.
func readable(err error) error {
	if os.IsNotExist(err) || os.IsPermission(err) {
		return UsageError{err}
	}
	return err
}
