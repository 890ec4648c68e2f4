package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"quire.dev/cli/internal/terminal"
	"quire.dev/client"
)

// largestFile is the maximum size of a file in bytes: docs/api.md, Limits.
const largestFile = 50 << 20

// upload is a run of `upload`.
type upload struct {
	*app
	name, contentType, expires, visibility string
	copy, qr                               bool
}

func (a *app) upload() *cobra.Command {
	u := &upload{app: a}
	cmd := &cobra.Command{
		Use:   "upload [flags] <file|->…",
		Short: "Upload files of any kind, up to 50 MB each",
		Long: `Upload files of any kind, up to 50 MB each, and print the URLs of their pages.

Checksums are verified. An interrupted upload stores and costs nothing.`,
		Example: `  quire paste upload photo.jpg
  tar cz src | quire paste upload --name src.tar.gz --expires 7d -`,
		Args: atLeastOne,
		RunE: func(cmd *cobra.Command, args []string) error { return u.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&u.name, "name", "", "file name to use; required for standard input")
	flags.StringVar(&u.contentType, "content-type", "", "media type; by default detected from the bytes")
	flags.StringVarP(&u.expires, flagExpires, "e", "", "expiry: 10m, 1h, 7d, 2w, 1y or never")
	flags.StringVarP(&u.visibility, flagVisibility, "v", "", "public, unlisted or private")
	flags.BoolVar(&u.copy, "copy", false, "copy the URL to the clipboard, also over ssh (OSC 52)")
	flags.BoolVar(&u.qr, "qr", false, "show the URL as a QR code")
	completeValues(cmd, flagVisibility, "public", "unlisted", "private")
	completeValues(cmd, flagExpires, "10m", "1h", "1d", "7d", "2w", "1y", "never")
	return cmd
}

func (u *upload) run(ctx context.Context, files []string) error {
	period, at, err := until(u.expires)
	switch {
	case err != nil:
		return err
	case !at.IsZero():
		return Usage("--%s %s: expected a period such as 7d for a file", flagExpires, u.expires)
	case len(files) > 1 && u.name != "":
		return Usage("--name accepts one file, not %d", len(files))
	}
	if err := checkVisibility(u.visibility); err != nil {
		return err
	}
	for _, file := range files {
		if err := u.check(file); err != nil {
			return err
		}
	}
	c, as, err := u.connect()
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := u.send(ctx, c, file, period); err != nil {
			return reached(as, err)
		}
	}
	return nil
}

// check refuses a file that can't be uploaded, before anything is sent.
func (u *upload) check(file string) error {
	if file == "-" {
		if u.name == "" {
			return Usage("--name is required for standard input")
		}
		return nil
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return readable(err)
	case info.IsDir():
		return Usage("%s is a folder: pack it first, for example with tar", file)
	case info.Mode().IsRegular() && info.Size() == 0:
		return Usage("%s is empty", file)
	case info.Size() > largestFile:
		return Usage("%s has %s; a file can have at most %s", file, terminal.Size(info.Size()), terminal.Size(largestFile))
	}
	return nil
}

// uploadedJSON is what upload prints with --json.
type uploadedJSON struct {
	fileJSON
	chargeJSON
}

func (u *upload) send(ctx context.Context, c *client.Client, file string, period client.Lifetime) error {
	name := u.name
	var content io.Reader
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return readable(err)
		}
		defer f.Close()
		content = f
		if name == "" {
			name = filepath.Base(file)
		}
	} else {
		// A pipe can be read only once; a buffered body can be retried.
		data, err := terminal.Await(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(u.term.In, largestFile+1)) })
		switch {
		case err != nil:
			return err
		case len(data) == 0:
			return Usage("standard input is empty")
		case len(data) > largestFile:
			return Usage("standard input has more than %s", terminal.Size(largestFile))
		}
		content = bytes.NewReader(data)
	}
	bar := u.term.NewBar(name)
	if u.quiet {
		bar.End()
	}
	made, err := c.Files.Upload(ctx, client.NewFile{
		Name: name, Content: content, ContentType: u.contentType, Visibility: client.Visibility(u.visibility), ExpiresIn: period,
		Progress: bar.Set,
	})
	bar.End()
	if err != nil {
		return err
	}
	if u.json {
		err = u.printJSON(uploadedJSON{fileOf(made.FileHead), chargeOf(made.Meta)})
	} else {
		err = u.print(made.URL)
	}
	if err != nil {
		return err
	}
	u.note("%s", sentences(fmt.Sprintf("Uploaded %s, %s.", terminal.Visible(made.Name, false), terminal.Size(made.Size)), expiry(made.ExpiresAt), charge(made.Meta)))
	shown := creation{app: u.app, copy: u.copy, qr: u.qr}
	shown.present(made.URL)
	return nil
}

// download is a run of `download`.
type download struct {
	*app
	output string
	force  bool
}

func (a *app) download() *cobra.Command {
	d := &download{app: a}
	cmd := &cobra.Command{
		Use:   "download [flags] <id|address>",
		Short: "Download a file",
		Long: `Download a file under its name, or to -o. The SHA-256 is verified, and the file appears once it is complete. Broken connections
are resumed.`,
		Example: `  quire paste download https://paste.example/f/8Qw2LkPz0aBc
  quire paste download -o - 8Qw2LkPz0aBc | tar xz`,
		Args: Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVarP(&d.output, "output", "o", "", "file or folder to write to; - is standard output")
	cmd.Flags().BoolVarP(&d.force, "force", "f", false, "replace an existing file")
	return cmd
}

// downloadedJSON is what download prints with --json.
type downloadedJSON struct {
	fileJSON
	Path string `json:"path"` // empty: standard output
	chargeJSON
}

func (d *download) run(ctx context.Context, arg string) error {
	ref, err := parseReference(arg, kindFile)
	if err != nil {
		return err
	}
	folder, name := d.output, ""
	if info, err := os.Stat(d.output); d.output != "" && d.output != "-" && (err != nil || !info.IsDir()) {
		folder, name = filepath.Dir(d.output), filepath.Base(d.output)
		if err := d.free(d.output); err != nil {
			return err
		}
	}
	if d.output == "-" && d.json {
		return Usage("--json and -o - both use standard output")
	}
	c, as, err := d.connect()
	if err != nil {
		return err
	}
	if d.output == "-" {
		return reached(as, d.stream(ctx, c, ref))
	}
	return reached(as, d.save(ctx, c, ref, folder, name))
}

// stream writes a file to standard output.
func (d *download) stream(ctx context.Context, c *client.Client, ref reference) error {
	if terminal.IsTerminal(d.term.Out) {
		return Usage("standard output is a terminal: use -o, or a pipe")
	}
	bar := d.term.NewBar(ref.id)
	defer bar.End()
	if d.quiet {
		bar.End()
	}
	_, err := c.Files.Download(ctx, ref.id, d.term.Out, bar.Set)
	return err
}

// save writes a file to a folder, under the given name or its own. An incomplete download leaves nothing behind.
func (d *download) save(ctx context.Context, c *client.Client, ref reference, folder, name string) (err error) {
	if folder == "" {
		folder = "."
	}
	temporary, err := os.CreateTemp(folder, ".quire-download-*")
	if err != nil {
		return readable(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(temporary.Name())))
		}
	}()
	label := name
	if label == "" {
		label = ref.id
	}
	bar := d.term.NewBar(label)
	if d.quiet {
		bar.End()
	}
	found, err := c.Files.Download(ctx, ref.id, temporary, bar.Set)
	bar.End()
	if err = errors.Join(err, temporary.Chmod(newFileMode), temporary.Close()); err != nil {
		return err
	}
	if name == "" {
		name = safeName(found.Name, found.ID)
	}
	path := filepath.Join(folder, name)
	if err := d.place(temporary.Name(), path); err != nil {
		return err
	}
	if d.json {
		err = d.printJSON(downloadedJSON{fileOf(found.FileHead), path, chargeOf(found.Meta)})
	} else {
		err = d.print(path)
	}
	if err != nil {
		return err
	}
	d.note("%s", sentences(fmt.Sprintf("Downloaded %s.", terminal.Size(found.Size)), charge(found.Meta)))
	return nil
}

// free returns an error if the file exists and must not be replaced.
func (d *download) free(path string) error {
	if _, err := os.Lstat(path); err == nil && !d.force {
		return Usage("%s already exists: use --force to replace it, or -o for another name", path)
	}
	return nil
}

// place gives the downloaded file its name.
func (d *download) place(temporary, path string) error {
	if d.force {
		return os.Rename(temporary, path)
	}
	// A link fails if the name is taken, even by a file created in the meantime.
	err := os.Link(temporary, path)
	switch {
	case errors.Is(err, fs.ErrExist):
		return d.free(path)
	case err != nil: // a file system without links
		if err := d.free(path); err != nil {
			return err
		}
		return os.Rename(temporary, path)
	}
	return os.Remove(temporary)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// safeName makes someone else's file name safe to write: within the folder, not hidden, and without control characters.
func safeName(name, id string) string {
	name = filepath.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if r == '/' || r == ':' || terminal.Visible(string(r), false) != string(r) {
			return '_'
		}
		return r
	}, name)
	if strings.HasPrefix(name, ".") {
		name = "_" + strings.TrimPrefix(name, ".")
	}
	if name == "" || name == "_" {
		return id
	}
	return name
}
