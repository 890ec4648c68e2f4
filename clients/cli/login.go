package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"quire.dev/cli/internal/profile"
	"quire.dev/cli/internal/terminal"
	"quire.dev/client"
)

func (a *app) login() *cobra.Command {
	plain := false
	cmd := &cobra.Command{
		Use:   "login [flags]",
		Short: "Store an API key for the service",
		Long: `Verify an API key and store it for the service. It prompts for the URL of the service and for the key. If standard input is not
a terminal, it reads the key from there, and the URL is --url or QUIRE_URL.

The key is kept in the system's key ring, or else in a file that only you can read. Use --profile for several accounts or
services; the profile of the last log-in becomes the current one.`,
		Example: `  quire paste login
  quire paste login --profile work --url https://paste.example < key.txt`,
		Args: None,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.logIn(cmd.Context(), plain) },
	}
	cmd.Flags().BoolVar(&plain, "no-keyring", false, "keep the key in the file, not in the system's key ring")
	return cmd
}

// profileJSON is what login and profiles print with --json.
type profileJSON struct {
	Profile  string `json:"profile"`
	URL      string `json:"url"`
	KeyStore string `json:"keyStore"` // keyring or file
	Current  bool   `json:"current"`
}

func (a *app) logIn(ctx context.Context, plain bool) error {
	store, err := a.store()
	if err != nil {
		return err
	}
	as, err := a.askAccount(ctx)
	if err != nil {
		return err
	}
	c, err := a.clientOf(as)
	if err != nil {
		return err
	}
	used, err := c.Account.Usage(ctx)
	if err != nil {
		return reached(as, err)
	}
	name := a.profileName()
	keptIn, err := store.Put(name, as.url, as.key, plain)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(profileJSON{name, as.url, keptIn, true})
	}
	place := store.Path()
	if keptIn == profile.InKeyring {
		place = "the system's key ring"
	}
	a.note("Logged in to %s as %s (%s plan). The API key is in %s.", as.url, terminal.Visible(used.Account.Email, false), used.Account.Tier, place)
	if a.term.Env("QUIRE_API_KEY") != "" {
		a.note("QUIRE_API_KEY is set and overrides this key.")
	}
	return nil
}

// profileName is the profile that log-ins are for.
func (a *app) profileName() string {
	for _, name := range []string{a.profile, a.term.Env("QUIRE_PROFILE")} {
		if name != "" {
			return name
		}
	}
	return profile.Default
}

// askAccount asks for the address and the key.
func (a *app) askAccount(ctx context.Context) (account, error) {
	as := account{url: a.url, typed: true}
	if as.url == "" {
		as.url = a.term.Env("QUIRE_URL")
	}
	people := a.term.Interactive()
	if as.url == "" && people {
		answer, err := a.term.Ask(ctx, fmt.Sprintf("URL of the service [%s]: ", client.DefaultBaseURL))
		if err != nil {
			return as, err
		}
		as.url = answer
	}
	if as.url = orDefault(as.url); !strings.Contains(as.url, "://") {
		as.url = "https://" + as.url
	}
	if _, err := client.New("", client.WithBaseURL(as.url)); err != nil {
		return as, UsageError{err} // before the key is asked for
	}
	var err error
	if people {
		as.key, err = a.term.AskSecret(ctx, "API key (not shown): ")
	} else {
		const longest = 8 << 10 // of a header
		var data []byte
		data, err = terminal.Await(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(a.term.In, longest)) })
		as.key = strings.TrimSpace(string(data))
	}
	switch {
	case err == nil && as.key == "":
		return as, Usage("no API key given")
	case err != nil:
		return as, err
	}
	return as, nil
}

func (a *app) logout() *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "Remove the API key of a profile",
		Long: `Remove the API key of the current profile, or of --profile. The key stays valid: revoke it in the console if others may have
seen it.`,
		Args: None,
		RunE: func(*cobra.Command, []string) error {
			store, err := a.store()
			if err != nil {
				return err
			}
			name := a.profile
			if name == "" {
				name = a.term.Env("QUIRE_PROFILE")
			}
			if name == "" {
				if _, name, err = store.List(); err != nil {
					return err
				}
			}
			if err := store.Delete(name); errors.Is(err, profile.ErrNone) {
				return Usage("no profile %q", name)
			} else if err != nil {
				return err
			}
			a.note("Removed the API key of the profile %q.", name)
			return nil
		},
	}
}

func (a *app) profiles() *cobra.Command {
	return &cobra.Command{
		Use:   "profiles [name]",
		Short: "List the profiles, or switch to one",
		Args:  atMostOne,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return a.completeProfile(cmd, args, toComplete)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			store, err := a.store()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if err := store.Use(args[0]); errors.Is(err, profile.ErrNone) {
					return Usage("no profile %q; run quire paste profiles", args[0])
				} else if err != nil {
					return err
				}
				a.note("The current profile is %q.", args[0])
				return nil
			}
			return a.listProfiles(store)
		},
	}
}

func (a *app) listProfiles(store *profile.Store) error {
	profiles, current, err := store.List()
	if err != nil {
		return err
	}
	table := terminal.NewTable(terminal.Column{Name: ""}, terminal.Column{Name: "PROFILE"}, terminal.Column{Name: "ADDRESS", Shorten: true}, terminal.Column{Name: "KEY IN", Drop: 1})
	for _, name := range sortedNames(profiles) {
		p := profiles[name]
		if a.json {
			if err := a.printJSON(profileJSON{name, p.URL, p.KeyStore, name == current}); err != nil {
				return err
			}
			continue
		}
		mark := ""
		if name == current {
			mark = "*"
		}
		table.Add(cells(mark, name, p.URL, p.KeyStore)...)
	}
	switch {
	case len(profiles) == 0:
		a.note("No profiles. Run quire paste login.")
		return nil
	case a.json:
		return nil
	}
	return table.Write(a.term, a.term.Out)
}
