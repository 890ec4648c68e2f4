package main

import (
	"errors"

	"github.com/spf13/cobra"

	"quire.dev/cli"
	"quire.dev/pkg/host"
	"quire.dev/services/standalone/internal/doctor"
)

func (c *command) doctor() *cobra.Command {
	var asJSON bool
	var monitors []string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Examine what quire runs on, and change nothing", Args: cli.None,
		Long: `Examine what quire runs on, and change nothing: the data folder, and the servers that the settings name. It runs before the
first start and at any time. Each finding is ok, warn (a risk) or fail (quire does not start, or loses data), with what to do.
The exit status is 1 if one is fail.

It reads the same settings as quire up: see quire help settings. To examine a cluster, set the same URLs as its services.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := host.ReadSettings(host.Quire, c.environ)
			if err != nil {
				return cli.Usage("%v", err)
			}
			findings := doctor.Examine(cmd.Context(), doctor.Config{Settings: settings, NATSMonitors: monitors})
			print := doctor.Print
			if asJSON {
				print = doctor.PrintJSON
			}
			if err := print(c.stdout, findings); err != nil {
				return err
			}
			if doctor.Failed(findings) {
				return errors.New("a check has failed")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, `print {"findings": [{"check", "result", "detail", "advice"}]}`)
	cmd.Flags().StringSliceVar(&monitors, "nats-monitor", nil, "base URL of the monitoring of a NATS server, such as http://nats-0.nats:8222; repeatable")
	return cmd
}
