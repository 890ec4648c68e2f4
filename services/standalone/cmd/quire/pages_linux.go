package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// forgetStart has the kernel unmap the pages of the program's file that were read so far, half of which only a start needs.
// Those that are needed again are mapped again, from the page cache. What fails here costs memory and nothing else.
func forgetStart() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	mappings, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer func() { _ = mappings.Close() }() // it was only read
	var from, to uintptr                    // of the mapping whose lines are read, where it is of the program and can't be written
	for lines := bufio.NewScanner(mappings); lines.Scan(); {
		line := lines.Text()
		var first, end uintptr
		var rights string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &first, &end, &rights); n == 3 { // "00400000-01bae000 r-xp 00000000 fe:00 1234   /usr/bin/quire"
			from, to = 0, 0
			if strings.HasSuffix(line, " "+self) && !strings.Contains(rights, "w") {
				from, to = first, end
			}
			continue
		}
		// A page that was written before the mapping became read-only is nowhere else.
		if kind, amount, _ := strings.Cut(line, ":"); kind == "Anonymous" && strings.TrimSpace(amount) == "0 kB" && to > from {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED)
		}
	}
}
