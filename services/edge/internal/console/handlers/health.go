package handlers

import (
	"strconv"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/httperr"
)

func (s *Admins) showAdminHealth(c *endpoint.Call) error {
	shown, err := s.healthShown(c)
	if err != nil {
		return err
	}
	return s.console.AdminHealth(c.Ctx, shown)
}

// showHealthTable answers with the live part of the page.
func (s *Admins) showHealthTable(c *endpoint.Call) error {
	shown, err := s.healthShown(c)
	if err != nil {
		return err
	}
	return s.console.HealthTable(c.Ctx, shown)
}

func (s *Admins) healthShown(c *endpoint.Call) (*console.AdminHealth, error) {
	services, err := s.bus.Health(s.ctx)
	if err != nil {
		return nil, err
	}
	shown := &console.AdminHealth{Admin: s.adminHead(c), Count: len(services[0].Partitions)}
	if text := c.Query("from"); text != "" {
		if shown.First, err = strconv.Atoi(text); err != nil || shown.First < 0 || shown.First >= shown.Count {
			return nil, httperr.InvalidField("from", "must be a partition number")
		}
	}
	for _, service := range services {
		for _, name := range service.Silent {
			shown.Silent = append(shown.Silent, string(service.Service)+" "+name)
		}
		for number, members := range service.Partitions {
			name := string(service.Service) + " " + strconv.Itoa(number)
			if !service.Served(number) {
				shown.Unserved = append(shown.Unserved, name)
			}
			if number < shown.First || number >= shown.First+console.HealthPage {
				continue
			}
			if len(members) == 0 {
				shown.Rows = append(shown.Rows, console.HealthRow{Partition: name})
			}
			for _, m := range members {
				shown.Rows = append(shown.Rows, console.HealthRow{
					Partition: name, Member: m.Name, Serves: m.Serves, Lag: m.Lag, Holds: m.Holds, CanHold: service.Service == event.Billing,
				})
			}
		}
	}
	return shown, nil
}
