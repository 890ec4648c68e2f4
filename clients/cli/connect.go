package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quire.dev/cli/internal/profile"
	"quire.dev/cli/internal/terminal"
	"quire.dev/client"
)

// account is the service and API key that a command uses.
type account struct {
	url, key string
	profile  string // that the key is of; empty: of none
	typed    bool   // the key was typed for a log-in
}

// account finds the service and the key: flags override variables, which override the profile. A profile's key is only for its
// service.
func (a *app) account() (account, error) {
	found := account{url: a.url, key: a.term.Env("QUIRE_API_KEY")}
	if found.url == "" {
		found.url = a.term.Env("QUIRE_URL")
	}
	if found.url != "" && found.key != "" {
		return found, nil
	}
	name := a.profile
	if name == "" {
		name = a.term.Env("QUIRE_PROFILE")
	}
	store, err := a.store()
	if err != nil && name == "" {
		found.url = orDefault(found.url)
		return found, nil
	}
	if err != nil {
		return found, err
	}
	profiles, current, err := store.List()
	if err != nil {
		return found, err
	}
	named := name != ""
	if !named {
		name = current
	}
	kept, ok := profiles[name]
	switch {
	case !ok && named:
		return found, Usage("no profile %q; run quire paste profiles", name)
	case !ok:
		found.url = orDefault(found.url)
		return found, nil
	case found.url != "" && !sameService(found.url, kept.URL):
		if named {
			return found, Usage("the profile %q is for %s, not for %s", name, kept.URL, found.url)
		}
		return found, nil // never send the key elsewhere
	}
	if found.url == "" {
		found.url = kept.URL
	}
	if found.key != "" {
		return found, nil
	}
	kept, found.profile, err = store.Get(name)
	found.key = kept.APIKey
	return found, err
}

func orDefault(address string) string {
	if address == "" {
		return client.DefaultBaseURL
	}
	return address
}

// ProfileFlag adds --profile to a command beside `paste`. The function it returns finds the service and the API key as the commands
// below `paste` do: from the given ones, else from QUIRE_URL and QUIRE_API_KEY, else from the profile. It reads the profile only
// if the key or the URL is missing. The key may be empty.
func ProfileFlag(cmd *cobra.Command, streams Streams) func(address, key string) (string, string, error) {
	a := &app{term: terminal.New(streams.In, streams.Out, streams.Err, streams.Environ)}
	cmd.Flags().StringVar(&a.profile, "profile", "", `profile of "quire paste login" to use instead of the current one`)
	_ = cmd.RegisterFlagCompletionFunc("profile", a.completeProfile) // the flag is there
	return func(address, key string) (string, string, error) {
		a.url = address
		if key != "" {
			a.term = terminal.New(streams.In, streams.Out, streams.Err, append(slices.Clone(streams.Environ), "QUIRE_API_KEY="+key))
		}
		as, err := a.account()
		return as.url, as.key, err
	}
}

// sameService tells whether two URLs are of one service.
func sameService(a, b string) bool { return cleanURL(a) == cleanURL(b) }

// cleanURL is the same for all URLs of a service.
func cleanURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return s
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	return strings.TrimRight(u.String(), "/")
}

// connect returns the client of a command, whose receipts are kept when the command ends.
func (a *app) connect() (*client.Client, account, error) {
	as, err := a.account()
	if err != nil {
		return nil, as, err
	}
	c, err := a.clientOf(as)
	a.connected, a.connectedAs = c, as
	return c, as, err
}

func (a *app) clientOf(as account) (*client.Client, error) {
	c, err := client.New(as.key, client.WithBaseURL(as.url), client.WithUserAgent("quire-cli/"+a.version))
	if err != nil {
		return nil, UsageError{err}
	}
	return c, nil
}

// reached adds the URL to a connection error, and the origin of the API key to the refusal of it.
func reached(as account, err error) error {
	if err == nil {
		return nil
	}
	var failed *client.APIError
	switch {
	case errors.As(err, &failed):
		if failed.Code == "api_key_required" || failed.Code == "invalid_api_key" {
			return &keyError{err, as}
		}
	case Status(context.Background(), err) == ExitUnavailable:
		return &unreachedError{as.url, err}
	}
	return err
}

// keyError is the refusal of a call without an API key, or with a wrong one.
type keyError struct {
	error
	as account
}

// Unwrap is the refusal.
func (e *keyError) Unwrap() error { return e.error }

// hint says what to do about the key that was sent. Two sources of keys are easily confused: a variable hides the profile.
func (e *keyError) hint() string {
	switch {
	case e.as.key == "":
		return "Log in with quire paste login, or set QUIRE_API_KEY."
	case e.as.typed:
		return "Copy the key again, or create one in the console of " + e.as.url + "."
	case e.as.profile == "":
		return "The key is from QUIRE_API_KEY. Correct it, or unset it to use the profile of quire paste login."
	}
	return fmt.Sprintf("The key is from the profile %q. Log in again with quire paste login --profile %s.", e.as.profile, e.as.profile)
}

// unreachedError: no server answers at a URL.
type unreachedError struct {
	address string
	cause   error
}

// Error implements error. It omits the request, which means nothing to a user.
func (e *unreachedError) Error() string {
	cause := e.cause
	var dial *net.OpError
	if errors.As(e.cause, &dial) && dial.Err != nil {
		cause = dial.Err
	}
	var call *os.SyscallError
	if errors.As(cause, &call) {
		cause = call.Err
	}
	return fmt.Sprintf("%s can't be reached: %v. Set another URL with QUIRE_URL, --url or quire paste login", e.address, cause)
}

// Unwrap is the error of the connection.
func (e *unreachedError) Unwrap() error { return e.cause }

// completeProfile completes the names of profiles.
func (a *app) completeProfile(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	store, err := a.store()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	profiles, _, err := store.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return sortedNames(profiles), cobra.ShellCompDirectiveNoFileComp
}

func sortedNames(profiles map[string]profile.Profile) []string {
	names := make([]string, 0, len(profiles))
	for name := range profiles {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
