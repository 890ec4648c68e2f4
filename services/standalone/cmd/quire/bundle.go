package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"quire.dev/cli"
	"quire.dev/services/standalone"
)

// maxOps is the maximum number of --ops.
const maxOps = 64

func (c *command) debugBundle() *cobra.Command {
	o := standalone.BundleOptions{Version: version, Environ: c.environ}
	path := ""
	cmd := &cobra.Command{
		Use: "debug-bundle", Short: "Collect what helps to find a fault, without secrets", Args: cli.None,
		Long: `Write a .tar.gz archive with what helps to find a fault: version, findings of quire doctor, settings, states of the streams,
sizes of the data folder's files, and readiness, metrics and profiles of the process that serves QUIRE_OPS_LISTEN, or of those
named by --ops. With --log also the last 4 MiB of a log.

Secrets of the settings and of the data folder, and whatever looks like a key, a token or an email address, are replaced by ***.
Nothing is changed. What can't be had is listed as missing.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.Ops) > maxOps {
				return cli.Usage("--ops is given %d times; at most %d are possible", len(o.Ops), maxOps)
			}
			for _, base := range o.Ops {
				if u, err := url.Parse(base); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
					return cli.Usage("--ops must be a URL such as http://10.0.0.7:9090")
				}
			}
			return wrap("debug-bundle", c.writeBundle(cmd.Context(), cmp.Or(path, "quire-debug-"+time.Now().UTC().Format("20060102T150405Z")+".tar.gz"), o))
		},
	}
	cmd.Flags().StringVarP(&path, "output", "o", "", "file to create (default: quire-debug-<time>.tar.gz)")
	cmd.Flags().StringSliceVar(&o.Ops, "ops", nil, "base URL of a process's QUIRE_OPS_LISTEN, such as http://10.0.0.7:9090; repeatable")
	cmd.Flags().StringVar(&o.Log, "log", "", "log file whose end to include")
	return cmd
}

// writeBundle creates the file, only for its owner, and removes it if it can't be completed.
func (c *command) writeBundle(ctx context.Context, path string, o standalone.BundleOptions) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already: name another file with -o", path)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	contents, err := standalone.WriteBundle(ctx, file, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "%s:\n", path)
	return contents.Print(c.stdout)
}
