package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"quire.dev/cli"
	"quire.dev/client"
	"quire.dev/pkg/event"
	"quire.dev/pkg/wait"
)

const (
	listenWait    = 30 * time.Second // how long a call waits for an event
	listenTimeout = 45 * time.Second // of a call, including retries
	forwardTime   = 10 * time.Second // for a response, as for a webhook
)

// listener forwards an account's events to an address, signed like webhooks, so that a service on a laptop receives the same.
type listener struct {
	account        *client.Account
	to             string
	signer         *standardwebhooks.Webhook
	receiver       *http.Client
	stdout, stderr io.Writer
}

// listen is the command `listen`.
func (c *command) listen() *cobra.Command {
	var to, key, base, secret string
	listen := &cobra.Command{
		Use: "listen --forward-to <url>", Short: "Forward an account's events to an address, as a webhook", Args: cli.None,
		Long: `Forward an account's events to an address, as a webhook, and print them.

A service on your own machine receives what it would receive as a webhook. The account needs a webhook subscribed to the events.

The API key and the URL of the service come from the flags, from QUIRE_API_KEY and QUIRE_URL, or else from the profile of
"quire paste login".`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			service, err := client.New(key, client.WithBaseURL(base), client.WithUserAgent("quire-listen"))
			if err != nil {
				return cli.Usage("listen: %w", err)
			}
			l := &listener{
				account: service.Account, to: to, stdout: c.stdout, stderr: c.stderr,
				receiver: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
			}
			return l.run(cmd.Context(), secret)
		},
	}
	listen.Flags().StringVar(&to, "forward-to", "", "address that events are posted to")
	listen.Flags().StringVar(&key, "key", "", "API key of the account, without scopes; QUIRE_API_KEY is the default, else the profile's")
	listen.Flags().StringVar(&base, "url", "", "address of the service; QUIRE_URL is the default, else the profile's, else "+client.DefaultBaseURL)
	listen.Flags().StringVar(&secret, "secret", "", "secret that signs; QUIRE_WEBHOOK_SECRET is the default, else one is drawn")
	account := cli.ProfileFlag(listen, c.streams())
	listen.PreRunE = func(*cobra.Command, []string) error {
		secret = cmp.Or(secret, c.variable("QUIRE_WEBHOOK_SECRET"))
		var err error
		if base, key, err = account(base, key); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		for _, flag := range [][2]string{{"--forward-to", to}, {"--url", base}} {
			u, err := url.Parse(flag[1])
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return cli.Usage("listen: %s has to be an address like http://127.0.0.1:3000/hooks", flag[0])
			}
		}
		if key == "" {
			return cli.Usage("listen: no API key for %s: run quire paste login, or set --key or QUIRE_API_KEY to a key without scopes", base)
		}
		return nil
	}
	return listen
}

// variable returns an environment variable.
func (c *command) variable(name string) string {
	for _, v := range c.environ {
		if value, found := strings.CutPrefix(v, name+"="); found {
			return value
		}
	}
	return ""
}

// run forwards new events until ctx ends or the service refuses the key.
func (l *listener) run(ctx context.Context, secret string) error {
	if secret == "" {
		drawn := make([]byte, 32)
		rand.Read(drawn)
		secret = "whsec_" + base64.StdEncoding.EncodeToString(drawn)
	}
	var err error
	if l.signer, err = standardwebhooks.NewWebhook(secret); err != nil {
		return cli.Usage("listen: --secret has to be whsec_ and base64")
	}
	page, err := l.events(ctx, "")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintf(l.stderr, "Events go to %s from now on, signed with %s\n", l.to, secret)
	retry := wait.Backoff{Initial: time.Second, Max: 30 * time.Second}
	last := page.Last
	for {
		page, err = l.events(ctx, last)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !passes(err) {
			return fmt.Errorf("listen: %w", err)
		}
		if err != nil {
			pause := retry.Next()
			fmt.Fprintf(l.stderr, "%v; retrying in %s\n", err, pause.Round(time.Second))
			if !wait.For(ctx, pause) {
				return ctx.Err()
			}
			continue
		}
		retry.Reset()
		last = page.Last
		for _, e := range page.Events {
			l.forward(ctx, e)
		}
	}
}

// passes reports whether a retry may succeed.
func passes(err error) bool {
	if failed := new(client.APIError); errors.As(err, &failed) {
		return failed.Status >= http.StatusInternalServerError || failed.Status == http.StatusTooManyRequests
	}
	status := cli.Status(context.Background(), err)
	return status == cli.ExitUnavailable || status == cli.ExitUnknown
}

// events waits for the events after one of them. Without it the answer holds the newest position.
func (l *listener) events(ctx context.Context, after string) (*client.Events, error) {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	query := client.EventsQuery{After: after}
	if after != "" {
		query.Wait = listenWait
	}
	return l.account.Events(ctx, query)
}

// forward posts an event once, and prints it with the answer's status.
func (l *listener) forward(ctx context.Context, e *client.Event) {
	fmt.Fprintln(l.stdout, event.FormatTime(e.Timestamp.UnixMilli()), e.Type, e.ID, string(e.Data))
	status, err := l.post(ctx, e)
	if err != nil {
		fmt.Fprintf(l.stderr, "%s was not accepted: %v\n", e.ID, err)
		return
	}
	fmt.Fprintf(l.stderr, "%s: %s\n", e.ID, status)
}

// posted is the body that webhooks get of an event, byte for byte.
type posted struct {
	Type      string          `json:"type"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

func (l *listener) post(ctx context.Context, e *client.Event) (status string, err error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTime)
	defer cancel()
	body, err := json.Marshal(posted{e.Type, event.FormatTime(e.Timestamp.UnixMilli()), e.Data})
	if err != nil {
		return "", err
	}
	now := time.Now()
	signature, err := l.signer.Sign(e.ID, now, body)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.to, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Quire-Webhooks/1")
	request.Header.Set(standardwebhooks.HeaderWebhookID, e.ID)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	response, err := l.receiver.Do(request)
	if err != nil {
		return "", err
	}
	return response.Status, response.Body.Close()
}
