// Command probe requests a URL and ends with 0 if the answer is 2xx: a health check for containers without a shell.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: probe URL")
		os.Exit(2)
	}
	client := &http.Client{Timeout: 3 * time.Second}
	response, err := client.Get(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		fmt.Fprintln(os.Stderr, response.Status)
		os.Exit(1)
	}
}
