package client_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"quire.dev/client"
)

// The examples call a server: QUIRE_URL names it, and QUIRE_API_KEY an account of the tier Pro. TestTheGoClientsExamples in
// services/standalone/scenario runs them. Without a server they are compiled only.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("QUIRE_URL") == "" {
		if err := flag.Set("test.skip", "^Example"); err != nil {
			log.Fatal(err)
		}
	}
	os.Exit(m.Run())
}

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c, err := client.New(os.Getenv("QUIRE_API_KEY"), client.WithBaseURL(os.Getenv("QUIRE_URL")))
	if err != nil {
		log.Fatal(err)
	}
	made, err := c.Pastes.Create(ctx, client.NewPaste{Content: "hello\n", Title: "notes", ExpiresIn: "7d"})
	if err != nil {
		log.Fatal(err)
	}
	paste, err := c.Pastes.Get(ctx, made.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s has %d bytes, and was paid by %s\n", paste.Title, paste.Size, paste.ChargeSource)
	// Output: notes has 6 bytes, and was paid by quota
}

func ExamplePastes_Update() {
	ctx := context.Background()
	c, err := client.New(os.Getenv("QUIRE_API_KEY"), client.WithBaseURL(os.Getenv("QUIRE_URL")))
	if err != nil {
		log.Fatal(err)
	}
	made, err := c.Pastes.Create(ctx, client.NewPaste{Content: "draft", Tags: []string{"todo"}})
	if err != nil {
		log.Fatal(err)
	}
	// Set gives a field a value, Reset its default. The other fields stay as they are.
	change := client.PasteChange{Content: client.Set("final"), Tags: client.Reset[[]string]()}
	updated, err := c.Pastes.Update(ctx, made.ID, change, client.IfVersion(made.Version))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("version", updated.Version)

	_, err = c.Pastes.Update(ctx, made.ID, change, client.IfVersion(made.Version))
	var mismatch *client.VersionMismatchError
	fmt.Println("somebody else was faster:", errors.As(err, &mismatch))
	// Output:
	// version 2
	// somebody else was faster: true
}

func ExamplePastes_List() {
	ctx := context.Background()
	c, err := client.New(os.Getenv("QUIRE_API_KEY"), client.WithBaseURL(os.Getenv("QUIRE_URL")))
	if err != nil {
		log.Fatal(err)
	}
	for _, title := range []string{"report 1", "report 2", "report 3"} {
		if _, err := c.QuickPastes.Create(ctx, client.NewPaste{Content: "x", Title: title}); err != nil {
			log.Fatal(err)
		}
	}
	for paste, err := range c.QuickPastes.List(ctx, client.ListFilter{TitleContains: "report", Order: client.OldestFirst}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(paste.Title)
	}
	// Output:
	// report 1
	// report 2
	// report 3
}

func ExampleFiles_Download() {
	ctx := context.Background()
	c, err := client.New(os.Getenv("QUIRE_API_KEY"), client.WithBaseURL(os.Getenv("QUIRE_URL")))
	if err != nil {
		log.Fatal(err)
	}
	uploaded, err := c.Files.Upload(ctx, client.NewFile{Name: "zeros", Content: strings.NewReader(strings.Repeat("0", 1<<20))})
	if err != nil {
		log.Fatal(err)
	}
	var content bytes.Buffer
	percent := int64(0)
	file, err := c.Files.Download(ctx, uploaded.ID, &content, func(done, total int64) { percent = 100 * done / total })
	if err != nil {
		log.Fatal(err) // client.ErrChecksum where other bytes arrived than were uploaded
	}
	fmt.Printf("%d%%, %d bytes of %s\n", percent, content.Len(), file.Name)
	// Output: 100%, 1048576 bytes of zeros
}

func ExampleQuotaExhaustedError() {
	ctx := context.Background()
	c, err := client.New("", client.WithBaseURL(os.Getenv("QUIRE_URL"))) // without an API key: quick pastes only
	if err != nil {
		log.Fatal(err)
	}
	for range 100 {
		_, err := c.QuickPastes.Create(ctx, client.NewPaste{Content: "hello"})
		var quota *client.QuotaExhaustedError
		if errors.As(err, &quota) {
			fmt.Printf("limit of %d reached; more later: %t\n", quota.Limit, quota.ResetAt.After(time.Now()))
			return
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output: limit of 10 reached; more later: true
}

func ExampleAccount_Explain() {
	ctx := context.Background()
	c, err := client.New(os.Getenv("QUIRE_API_KEY"), client.WithBaseURL(os.Getenv("QUIRE_URL")))
	if err != nil {
		log.Fatal(err)
	}
	made, err := c.QuickPastes.Create(ctx, client.NewPaste{Content: "hello"})
	if err != nil {
		log.Fatal(err)
	}
	explanation, err := c.Account.Explain(ctx, made.RequestID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(explanation.QuotaKey, explanation.Decision, explanation.UsedAfter-explanation.UsedBefore)
	// Output: pasteLite.create admitted 1
}
