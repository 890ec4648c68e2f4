package witness

import (
	"errors"
	"fmt"
	"strings"
)

// ParseWitnesses parses the setting QUIRE_WITNESSES: entries separated by spaces, line ends or commas, each
//
//	<verifier key>@<url>
//
// such as witness.example/w1+edde4101+BGyod3tF…@https://witness.example. The key ends at the first @ after its second +: a name has
// no + and base64 no @, while a name may have an @. Names and URLs have no commas; write %2C in a URL. An empty text is no witness.
// Errors name each faulty entry.
func ParseWitnesses(text string) ([]*Client, error) {
	var clients []*Client
	var faults []error
	named := map[string]bool{}
	for _, entry := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || strings.ContainsRune(" \t\r\n", r) }) {
		c, err := parseWitness(entry)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("witness %q: %w", entry, err))
		// Two cosignatures of one witness would count as two witnesses.
		case named[c.id()]:
			faults = append(faults, fmt.Errorf("witness %q: its key is named twice", entry))
		default:
			named[c.id()] = true
			clients = append(clients, c)
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return clients, nil
}

func parseWitness(entry string) (*Client, error) {
	fields := strings.SplitN(entry, "+", 3)
	if len(fields) == 3 {
		if encoded, address, found := strings.Cut(fields[2], "@"); found {
			return NewClient(fields[0]+"+"+fields[1]+"+"+encoded, address)
		}
	}
	return nil, errors.New("want <verifier key>@<url>, such as name+hash+base64@https://witness.example")
}

// id identifies the key.
func (c *Client) id() string { return fmt.Sprintf("%s+%08x", c.key.Name(), c.key.KeyHash()) }
