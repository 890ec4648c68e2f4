// Command cmd prints the users.conf of the NATS servers for a number of partitions.
package main

import (
	"flag"
	"fmt"
	"os"

	"quire.dev/deploy/natsconf"
)

func main() {
	partitions := flag.Int("partitions", 16, "number of partitions of each journal, as in QUIRE_PARTITIONS")
	flag.Parse()
	if *partitions < 1 || *partitions > 256 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "natsconf: -partitions must be from 1 to 256")
		os.Exit(2)
	}
	fmt.Print(natsconf.Write(natsconf.Config{Partitions: *partitions}))
}
