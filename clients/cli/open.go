package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"time"

	"github.com/cli/browser"
	"github.com/spf13/cobra"
)

// openedJSON is what open prints with --json.
type openedJSON struct {
	URL string `json:"url"`
}

func (a *app) open() *cobra.Command {
	kindName, printOnly := "", false
	cmd := &cobra.Command{
		Use:   "open [flags] [id|address]",
		Short: "Open the page of a paste or file in the browser",
		Long: `Open the page of a paste or file in the browser (set BROWSER to choose one), and print its URL. Without an argument it opens the
console.`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			as, err := a.account()
			if err != nil {
				return err
			}
			address, err := url.JoinPath(as.url, "console")
			if err != nil {
				return UsageError{err}
			}
			if len(args) == 1 {
				kinds := []kind{kindPaste, kindQuick, kindFile}
				if kindName != "" {
					kinds = []kind{kind(kindName)}
				}
				ref, err := parseReference(args[0], kinds...)
				if err != nil {
					return err
				}
				if address, err = page(cmd.Context(), as, ref); err != nil {
					return err
				}
			}
			if a.json {
				err = a.printJSON(openedJSON{address})
			} else {
				err = a.print(address)
			}
			if err != nil || printOnly {
				return err
			}
			return a.openBrowser(address)
		},
	}
	cmd.Flags().StringVarP(&kindName, "kind", "k", "", "kind of the item: paste, quick or file")
	cmd.Flags().BoolVar(&printOnly, "print", false, "only print the URL")
	completeValues(cmd, "kind", "paste", "quick", "file")
	return cmd
}

// page is the URL of a document's page. For an id without a kind it sends HEAD to each kind's page, which costs and burns nothing. A
// page that requires a session may be of any kind, and is taken for a paste's.
func page(ctx context.Context, as account, ref reference) (string, error) {
	var first string
	for _, k := range ref.kinds {
		address, err := url.JoinPath(as.url, k.path(), ref.id) //nolint:gosec // parseReference has checked the id
		if err != nil {
			return "", UsageError{err}
		}
		if first == "" {
			first = address
		}
		if len(ref.kinds) == 1 {
			break
		}
		const patience = 10 * time.Second
		limited, cancel := context.WithTimeout(ctx, patience)
		request, err := http.NewRequestWithContext(limited, http.MethodHead, address, nil)
		if err != nil {
			cancel()
			return "", UsageError{err}
		}
		response, err := http.DefaultClient.Do(request)
		cancel()
		if err != nil {
			return "", reached(as, err)
		}
		_ = response.Body.Close() // a head has none
		if response.StatusCode == http.StatusOK {
			return address, nil
		}
	}
	return first, nil
}

// openBrowser opens a URL in the user's browser.
func (a *app) openBrowser(address string) error {
	var err error
	if program := a.term.Env("BROWSER"); program != "" && runtime.GOOS != "windows" {
		command := exec.Command("sh", "-c", program+` "$@"`, program, address)
		command.Stdout, command.Stderr, command.Env = a.term.Err, a.term.Err, a.term.Environ()
		err = command.Run()
	} else {
		browser.Stdout, browser.Stderr = a.term.Err, a.term.Err // standard output is for results
		err = browser.OpenURL(address)
	}
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("open the browser: none found; set BROWSER: %w", err)
	}
	if err != nil {
		return fmt.Errorf("open the browser: %w", err)
	}
	return nil
}
