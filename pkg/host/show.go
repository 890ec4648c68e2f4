package host

import (
	"fmt"
	"io"
	"strings"
)

// programs returns the elements of a set, in the order of their constants.
func (p Program) programs() (all []Program) {
	for one := Edge; one <= Provision; one <<= 1 {
		if p&one != 0 {
			all = append(all, one)
		}
	}
	return all
}

// names returns the set in words.
func (p Program) names() string {
	switch p {
	case everything | Provision:
		return "all"
	case everything:
		return "all but provision"
	case services | Provision:
		return "all but quire"
	case services:
		return "all services"
	}
	var names []string
	for _, one := range p.programs() {
		names = append(names, one.String())
	}
	return strings.Join(names, ", ")
}

// defaults returns the default of each reader: "all but quire: 16; quire: 1".
func (s setting) defaults() string {
	var order []string // values, in the order of the programs
	of := map[string]Program{}
	for _, program := range s.readers.programs() {
		value := s.defaultOf(program)
		switch {
		case s.needed&program != 0 && s.instead != "":
			value = "must be set unless " + s.instead + " is"
		case s.needed&program != 0:
			value = "must be set"
		case value == "":
			value = "none"
		}
		if of[value] == 0 {
			order = append(order, value)
		}
		of[value] |= program
	}
	if len(order) == 1 {
		return order[0]
	}
	for i, value := range order {
		order[i] = of[value].names() + ": " + value
	}
	return strings.Join(order, "; ")
}

// ShowSettings prints all settings for people at a terminal.
func ShowSettings(w io.Writer) error {
	var text strings.Builder
	text.WriteString("Settings are environment variables. An invalid or misspelled one stops startup. Programs ignore the settings of other programs.\n")
	for _, row := range new(Settings).table() {
		secret := ""
		if row.secret {
			secret = "; secret"
		}
		fmt.Fprintf(&text, "\n%s (%s%s)\n  %s\n  %s\n  default: %s\n", row.name, row.readers.names(), secret,
			strings.ReplaceAll(row.meaning, "`", ""), row.value.Allowed, row.defaults())
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// page is docs/settings.md.
func page() string {
	var text strings.Builder
	text.WriteString(`# Settings

<!-- Made from pkg/host/settings.go by go test ./pkg/host -update. Do not edit. -->

Environment variables, read at the start. An invalid or misspelled one stops startup; one message lists every error. Each
program ignores the settings that only others read, so one environment may serve all. An empty one counts as unset. ` +
		"`quire help settings` shows the same.\n\n" + `"quire" is the process with all services in it, "provision" the job that makes the journals. A secret is shown in no message and no log.

| Setting | Read by | Default | Value | Meaning |
|---|---|---|---|---|
`)
	for _, row := range new(Settings).table() {
		value := row.value.Allowed
		if row.secret {
			value += "; secret"
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s | %s |\n", row.name, row.readers.names(), row.defaults(), value, row.meaning)
	}
	return text.String()
}
