package load

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"quire.dev/tools/cluster/scrape"
)

var holdsLine = regexp.MustCompile(`(?m)^quire_billing_state\{.*of="open_holds".*\} (\S+)$`)

// OpenHolds returns the number of open holds, for Settled. bases are the base URLs of the billing processes' /metrics. A
// partition with two replicas counts twice. It is an error if a process exports no count.
func OpenHolds(ctx context.Context, bases ...string) (int64, error) {
	var open int64
	for _, base := range bases {
		metrics, err := scrape.Get(ctx, base+"/metrics")
		if err != nil {
			return 0, err
		}
		lines := holdsLine.FindAllSubmatch(metrics, -1)
		if len(lines) == 0 {
			return 0, fmt.Errorf("%s exports no open holds", base)
		}
		for _, line := range lines {
			n, err := strconv.ParseFloat(string(line[1]), 64)
			if err != nil {
				return 0, err
			}
			open += int64(n)
		}
	}
	return open, nil
}
