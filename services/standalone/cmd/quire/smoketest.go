package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quire.dev/cli"
	"quire.dev/client"
	"quire.dev/pkg/admin"
)

// smokeTestTimeout bounds the test, and separately the deletion of its account.
const smokeTestTimeout = time.Minute

func (c *command) smokeTest() *cobra.Command {
	return &cobra.Command{
		Use: "smoke-test <URL>", Short: "Create, read and delete documents at a URL, as a new account", Args: cli.Exactly(1),
		Long: `Create, read and delete a document of each kind at a URL, as a new account with its own API key. Everything read must equal what was
written, and each request must count once. Afterwards the account is deleted, even after a failure: like any account, it disappears after 14 days.

A new account is on the Free plan, which may lack pastes and files. QUIRE_ADMIN_TOKEN, if the URL serves the admin API, puts it on the admin plan.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, _, err := c.settings()
			if err != nil {
				return err
			}
			tokens, err := admin.ParseTokens(cfg.AdminToken.Reveal())
			if err != nil {
				return cli.Usage("QUIRE_ADMIN_TOKEN: %w", err)
			}
			return wrap("smoke-test", smokeTest(cmd.Context(), c.stdout, admin.Client{Base: args[0], Token: tokens.First()}))
		},
	}
}

// smokeTest creates an account at the API's base URL, uses it and deletes it. Without an admin token the account stays on the Free plan.
func smokeTest(ctx context.Context, out io.Writer, api admin.Client) error {
	within, cancel := context.WithTimeout(ctx, smokeTestTimeout)
	defer cancel()
	email, password := "smoke-test-"+strings.ToLower(rand.Text())+"@example.invalid", rand.Text()
	session, err := client.Register(within, email, password, client.WithBaseURL(api.Base))
	if err != nil {
		return fmt.Errorf("create an account: %w", err)
	}
	fmt.Fprintf(out, "account: created %s (%s)\n", session.Profile.Account.ID, email)
	err = useAccount(within, out, api, session)

	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), smokeTestTimeout)
	defer cancel()
	left, failed := session.Client.Account.Delete(after, password)
	if failed != nil {
		return errors.Join(err, fmt.Errorf("delete the account: %w", failed))
	}
	fmt.Fprintf(out, "account: deleted, permanently at %s\n", left.Account.DeletesAt.Format(time.RFC3339))
	return err
}

// useAccount uses each kind of document with a new API key, and compares the number of requests with the account's usage.
func useAccount(ctx context.Context, out io.Writer, api admin.Client, session *client.Session) error {
	if api.Token != "" {
		path := "/api/admin/accounts/" + session.Profile.Account.ID + "/tier"
		if err := api.Change(ctx, http.MethodPut, path, map[string]string{"tier": "admin"}, new(struct{})); err != nil {
			return fmt.Errorf("change the plan: %w", err)
		}
	}
	key, err := session.Client.Keys.Create(ctx, client.NewKey{Name: "smoke test"})
	if err != nil {
		return fmt.Errorf("create an API key: %w", err)
	}
	c, err := client.New(key.APIKey, client.WithBaseURL(api.Base))
	if err != nil {
		return err
	}
	requests := int64(0)
	for _, k := range []documents{pastes("quick paste", c.QuickPastes), pastes("paste", c.Pastes), files(api.Base, c.Files)} {
		switch err := k.try(ctx); {
		case err == nil:
			fmt.Fprintf(out, "%s: created, read, deleted\n", k.name)
			requests += 3
		case errors.As(err, new(*client.PlanUpgradeRequiredError)):
			fmt.Fprintf(out, "%s: not in the account's plan\n", k.name)
		default:
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	usage, err := c.Account.Usage(ctx)
	if err != nil {
		return fmt.Errorf("read the usage: %w", err)
	}
	used := int64(0)
	for _, quota := range usage.Usage {
		used += quota.Used
	}
	if used != requests {
		return fmt.Errorf("%d requests succeeded, and the usage has %d", requests, used)
	}
	fmt.Fprintf(out, "usage: %d requests, each counted once\n", requests)
	return nil
}

// documents are the operations on one kind of document.
type documents struct {
	name   string
	create func(ctx context.Context, content string) (id string, err error)
	read   func(ctx context.Context, id string) (content string, err error)
	remove func(ctx context.Context, id string) error
}

// try makes three requests that succeed, and one that doesn't count.
func (d documents) try(ctx context.Context) error {
	content := "quire smoke-test " + rand.Text()
	id, err := d.create(ctx, content)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	found, err := d.read(ctx, id)
	if err != nil {
		return fmt.Errorf("read %s: %w", id, err)
	}
	if found != content {
		return fmt.Errorf("read %s: got %q, want %q", id, found, content)
	}
	if err := d.remove(ctx, id); err != nil {
		return fmt.Errorf("delete %s: %w", id, err)
	}
	switch _, err := d.read(ctx, id); {
	case err == nil:
		return fmt.Errorf("%s can be read after its deletion", id)
	case !errors.As(err, new(*client.NotFoundError)):
		return fmt.Errorf("read %s after its deletion: %w", id, err)
	}
	return nil
}

func pastes(name string, p *client.Pastes) documents {
	return documents{
		name: name,
		create: func(ctx context.Context, content string) (string, error) {
			created, err := p.Create(ctx, client.NewPaste{Content: content, Visibility: client.Private})
			if err != nil {
				return "", err
			}
			return created.ID, nil
		},
		read: func(ctx context.Context, id string) (string, error) {
			found, err := p.Get(ctx, id)
			if err != nil {
				return "", err
			}
			return found.Content, nil
		},
		remove: func(ctx context.Context, id string) error { _, err := p.Delete(ctx, id); return err },
	}
}

func files(base string, f *client.Files) documents {
	return documents{
		name: "file",
		create: func(ctx context.Context, content string) (string, error) {
			created, err := f.Upload(ctx, client.NewFile{Name: "smoke-test.txt", Content: strings.NewReader(content), Visibility: client.Private})
			if err != nil {
				return "", err
			}
			return created.ID, nil
		},
		read: func(ctx context.Context, id string) (string, error) {
			found, err := f.Get(ctx, id)
			if err != nil {
				return "", err
			}
			return download(ctx, base, found.DownloadURL)
		},
		remove: func(ctx context.Context, id string) error { _, err := f.Delete(ctx, id); return err },
	}
}

// download downloads from a link at another base URL: from inside a cluster, its own may be out of reach.
func download(ctx context.Context, base, link string) (string, error) {
	from, err := url.Parse(link)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+from.RequestURI(), nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answered %s", base, response.Status)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	return string(content), err
}
