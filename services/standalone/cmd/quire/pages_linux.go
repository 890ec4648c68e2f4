package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// forgetStart makes the kernel unmap the pages of the program's file read so far, half of which only the start needs. Pages
// needed again are mapped again, from the page cache. A failure only costs memory.
func forgetStart() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	mappings, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer func() { _ = mappings.Close() }() // read only
	var from, to uintptr                    // current mapping, if it is a read-only part of the program
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
		// A page written before the mapping became read-only exists nowhere else.
		if kind, amount, _ := strings.Cut(line, ":"); kind == "Anonymous" && strings.TrimSpace(amount) == "0 kB" && to > from {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED)
		}
	}
}
