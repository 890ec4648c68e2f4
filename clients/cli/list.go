package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"quire.dev/cli/internal/terminal"
	"quire.dev/client"
)

// listing is a run of `ls`.
type listing struct {
	*app
	kinds  []string
	filter client.ListFilter
	vis    string
	oldest bool
	limit  int
	all    bool
}

func (a *app) list() *cobra.Command {
	l := &listing{app: a}
	cmd := &cobra.Command{
		Use:     "ls [flags]",
		Aliases: []string{"list"},
		Short:   "List your pastes, quick pastes and files",
		Long:    "List your pastes, quick pastes and files, newest first. Free of charge.",
		Example: `  quire paste ls --kind paste,quick --tag release
  quire paste ls --all --json | jq -r 'select(.expiresAt != null) | .url'`,
		Args: None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if l.all && cmd.Flags().Changed("limit") {
				return Usage("--limit and --all are mutually exclusive")
			}
			return l.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&l.kinds, "kind", "k", nil, "paste, quick or file, separated by commas; all by default")
	flags.StringVarP(&l.filter.TitleContains, "search", "s", "", "text in the title or file name")
	flags.StringVar(&l.filter.Tag, flagTag, "", "filter by tag")
	flags.StringVarP(&l.vis, flagVisibility, "v", "", "public, unlisted or private")
	flags.StringVarP(&l.filter.Language, flagLanguage, "l", "", "filter by language")
	flags.BoolVar(&l.oldest, "oldest", false, "oldest first")
	flags.IntVarP(&l.limit, "limit", "n", 30, "maximum number")
	flags.BoolVar(&l.all, "all", false, "list all")
	completeValues(cmd, "kind", "paste", "quick", "file")
	completeValues(cmd, flagVisibility, "public", "unlisted", "private")
	return cmd
}

// listed is a document in a list.
type listed struct {
	id, title, language, visibility, url string
	size                                 int64
	created, expires                     time.Time
	kind                                 kind
	json                                 any
}

func (l *listing) run(ctx context.Context) error {
	if l.limit < 1 {
		return Usage("--limit: must be at least 1")
	}
	if err := checkVisibility(l.vis); err != nil {
		return err
	}
	l.filter.Visibility = client.Visibility(l.vis)
	if l.oldest {
		l.filter.Order = client.OldestFirst
	}
	kinds, err := l.wanted()
	if err != nil {
		return err
	}
	c, as, err := l.connect()
	if err != nil {
		return err
	}
	const page = 100 // the most that one call lists
	l.filter.PageSize = page
	if !l.all {
		l.filter.PageSize = min(page, l.limit)
	}
	sources := make([]iter.Seq2[listed, error], len(kinds))
	for i, k := range kinds {
		sources[i] = l.source(ctx, c, k)
	}
	table := terminal.NewTable(
		terminal.Column{Name: "KIND", Drop: 2}, terminal.Column{Name: "ID"}, terminal.Column{Name: "TITLE", Shorten: true}, terminal.Column{Name: "LANG", Drop: 4},
		terminal.Column{Name: "SIZE", Right: true, Drop: 3}, terminal.Column{Name: "VISIBILITY", Drop: 5}, terminal.Column{Name: "MADE", Drop: 1}, terminal.Column{Name: "EXPIRES", Drop: 6},
	)
	n, more := 0, false
	for d, err := range l.merge(sources) {
		if err != nil {
			return reached(as, err)
		}
		if !l.all && n == l.limit {
			more = true
			break
		}
		n++
		if l.json {
			if err := l.printJSON(d.json); err != nil {
				return err
			}
			continue
		}
		row := cells(string(d.kind), d.id, d.title, d.language, l.size(d.size), d.visibility, l.time(d.created), l.time(d.expires))
		row[1].Colour = terminal.Bold
		if d.expires.IsZero() {
			row[7].Colour = terminal.Dim
		}
		table.Add(row...)
	}
	if !l.json && n > 0 {
		if err := table.Write(l.term, l.term.Out); err != nil {
			return err
		}
	}
	switch {
	case more:
		l.note("There are more: use --all or --limit %d.", 2*l.limit)
	case n == 0:
		l.note("Nothing found.")
	}
	return nil
}

// wanted are the kinds to list. Only texts have a tag and a language.
func (l *listing) wanted() ([]kind, error) {
	all := []kind{kindPaste, kindQuick, kindFile}
	if len(l.kinds) == 0 {
		if l.filter.Tag != "" || l.filter.Language != "" {
			return all[:2], nil
		}
		return all, nil
	}
	var out []kind
	for _, name := range l.kinds {
		if !slices.Contains(all, kind(name)) {
			return nil, Usage("--kind %s: expected paste, quick or file", name)
		}
		if !slices.Contains(out, kind(name)) {
			out = append(out, kind(name))
		}
	}
	return out, nil
}

// source lists the documents of one kind.
func (l *listing) source(ctx context.Context, c *client.Client, k kind) iter.Seq2[listed, error] {
	if k == kindFile {
		return func(yield func(listed, error) bool) {
			for f, err := range c.Files.List(ctx, l.filter) {
				if err != nil {
					yield(listed{}, err)
					return
				}
				if !yield(listed{f.ID, f.Name, "", string(f.Visibility), f.URL, f.Size, f.CreatedAt, f.ExpiresAt, k, fileOf(*f)}, nil) {
					return
				}
			}
		}
	}
	return func(yield func(listed, error) bool) {
		for p, err := range k.texts(c).List(ctx, l.filter) {
			if err != nil {
				yield(listed{}, err)
				return
			}
			if !yield(listed{p.ID, p.Title, p.Language, string(p.Visibility), p.URL, p.Size, p.CreatedAt, p.ExpiresAt, k, textOf(k, *p)}, nil) {
				return
			}
		}
	}
}

// merge joins lists in the order of creation.
func (l *listing) merge(sources []iter.Seq2[listed, error]) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		type head struct {
			next func() (listed, error, bool)
			doc  listed
		}
		var heads []head
		advance := func(h head) bool {
			doc, err, ok := h.next()
			if err != nil {
				yield(listed{}, err)
				return false
			}
			if h.doc = doc; ok {
				heads = append(heads, h)
			}
			return true
		}
		for _, s := range sources {
			next, stop := iter.Pull2(s)
			defer stop()
			if !advance(head{next: next}) {
				return
			}
		}
		for len(heads) > 0 {
			first := 0
			for i, h := range heads {
				before := h.doc.created.After(heads[first].doc.created)
				if l.oldest {
					before = h.doc.created.Before(heads[first].doc.created)
				}
				if before {
					first = i
				}
			}
			h := heads[first]
			if !yield(h.doc, nil) {
				return
			}
			heads = slices.Delete(heads, first, first+1)
			if !advance(h) {
				return
			}
		}
	}
}

// removal is a run of `rm`.
type removal struct {
	*app
	kind string
	yes  bool
}

func (a *app) remove() *cobra.Command {
	r := &removal{app: a}
	cmd := &cobra.Command{
		Use:     "rm [flags] <id|address>…",
		Aliases: []string{"delete"},
		Short:   "Delete pastes, quick pastes and files",
		Long: `Delete pastes, quick pastes and files with all their versions. It asks for confirmation on a terminal.

An id is looked up among pastes, then among quick pastes, then among files. Failed lookups cost nothing. To delete a quick paste
created without a key, set QUIRE_MANAGE_TOKEN to its management token.`,
		Args: atLeastOne,
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args) },
	}
	cmd.Flags().StringVarP(&r.kind, "kind", "k", "", "kind of the items: paste, quick or file")
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "do not ask for confirmation")
	completeValues(cmd, "kind", "paste", "quick", "file")
	return cmd
}

// removedJSON is what rm prints with --json.
type removedJSON struct {
	Kind kind   `json:"kind"`
	ID   string `json:"id"`
	chargeJSON
}

func (r *removal) run(ctx context.Context, args []string) error {
	kinds := []kind{kindPaste, kindQuick, kindFile}
	if r.kind != "" {
		if !slices.Contains(kinds, kind(r.kind)) {
			return Usage("--kind %s: expected paste, quick or file", r.kind)
		}
		kinds = []kind{kind(r.kind)}
	}
	refs := make([]reference, len(args))
	for i, arg := range args {
		var err error
		if refs[i], err = parseReference(arg, kinds...); err != nil {
			return err
		}
	}
	c, as, err := r.connect()
	if err != nil {
		return err
	}
	var options []client.CallOption
	if token := r.term.Env("QUIRE_MANAGE_TOKEN"); token != "" && as.key == "" {
		options = append(options, client.WithManageToken(token))
		for i := range refs {
			refs[i].kinds = []kind{kindQuick}
		}
	}
	if ok, err := r.confirm(ctx, args); err != nil || !ok {
		return err
	}
	for _, ref := range refs {
		gone, k, err := find(ctx, ref, func(ctx context.Context, k kind) (*client.Deleted, error) {
			if k == kindFile {
				return c.Files.Delete(ctx, ref.id, options...)
			}
			return k.texts(c).Delete(ctx, ref.id, options...)
		})
		if err != nil {
			return reached(as, fmt.Errorf("delete %s: %w", ref.id, err))
		}
		if r.json {
			err = r.printJSON(removedJSON{k, gone.ID, chargeOf(gone.Meta)})
		}
		if err != nil {
			return err
		}
		r.note("%s", sentences(fmt.Sprintf("Deleted the %s %s.", k.name(), gone.ID), charge(gone.Meta)))
	}
	return nil
}

// confirm asks for confirmation.
func (r *removal) confirm(ctx context.Context, args []string) (bool, error) {
	if r.yes {
		return true, nil
	}
	what := args[0]
	if len(args) > 1 {
		what = count(len(args), "document")
	}
	yes, err := confirm(ctx, r.term, fmt.Sprintf("Permanently delete %s?", terminal.Visible(what, false)))
	if err == nil && !yes {
		r.note("Nothing was deleted.")
	}
	return yes, err
}
