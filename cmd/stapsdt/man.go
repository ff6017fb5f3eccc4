//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand writes the manual pages, for packages and for those who install the command by
// hand.
func manCommand(to *console.Console) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write the manual pages into a directory",
		Long:    "Write a manual page for each command into a directory, which is made if it does not exist.",
		Example: `  sudo stapsdt man /usr/local/share/man/man1`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return console.Usagef("man takes a directory, such as /usr/local/share/man/man1")
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			for _, c := range append(documented(c.Root()), c.Root()) {
				name := strings.ReplaceAll(c.CommandPath(), " ", "-")
				if err := os.WriteFile(filepath.Join(args[0], name+".1"), []byte(newPage(c, name)), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// documented returns the verbs that have a page: those that are not cobra's.
func documented(root *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(root.Commands()), func(c *cobra.Command) bool {
		return !c.IsAvailableCommand() || c.Name() == "completion"
	})
}

// page is a manual page in the language of man(7).
type page struct{ strings.Builder }

// newPage returns the page of a verb, or of the command, from the texts of its --help.
func newPage(c *cobra.Command, name string) string {
	p := &page{}
	p.line(".TH %s 1 %s %q \"\"", strings.ToUpper(name), pageDate(), "stapsdt "+version())
	p.line(".SH NAME\n%s \\- %s", escaped(name), escaped(c.Short))
	usage := strings.TrimPrefix(c.UseLine(), c.CommandPath())
	if !c.HasParent() {
		usage = " COMMAND [ARGUMENT...] [flags]"
	}
	p.line(".SH SYNOPSIS\n\\fB%s\\fP%s", escaped(c.CommandPath()), escaped(usage))
	text, _, _ := strings.Cut(c.Long, "\n\n"+statusHelp())
	p.line(".SH DESCRIPTION")
	p.text(text)
	if !c.HasParent() {
		p.line(".SH COMMANDS")
		for _, verb := range c.Commands() {
			if verb.IsAvailableCommand() {
				p.line(".TP\n\\fB%s\\fP\n%s", escaped(verb.Name()), escaped(verb.Short))
			}
		}
	}
	p.options(c)
	if !c.HasParent() {
		for _, topic := range topics() {
			p.line(".SH %s", strings.ToUpper(topic.Name()))
			p.text(topic.Long)
		}
	}
	if c.HasExample() {
		p.line(".SH EXAMPLES\n.EX\n%s\n.EE", escaped(c.Example))
	}
	p.line(".SH EXIT STATUS")
	for _, s := range statusMeanings {
		if s.only == "" || s.only == c.Name() || !c.HasParent() {
			p.line(".TP\n%d\n%s", s.status, escaped(s.meaning))
		}
	}
	p.line(".SH SEE ALSO")
	if c.HasParent() {
		p.line("\\fBstapsdt\\fP(1)")
		return p.String()
	}
	var all []string
	for _, verb := range documented(c) {
		all = append(all, "\\fBstapsdt\\-"+verb.Name()+"\\fP(1)")
	}
	p.line("%s", strings.Join(all, ",\n"))
	return p.String()
}

// pageDate returns the date of the pages: that of $SOURCE_DATE_EPOCH, by which a package is the
// same whenever it is built, or today.
func pageDate() string {
	at := time.Now()
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		at = time.Unix(seconds, 0)
	}
	return at.UTC().Format(time.DateOnly)
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// text writes paragraphs. An indented one is an example.
func (p *page) text(text string) {
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			p.line(".PP")
		}
		if strings.HasPrefix(paragraph, " ") {
			p.line(".EX\n%s\n.EE", escaped(paragraph))
		} else {
			p.line("%s", escaped(paragraph))
		}
	}
}

// options writes what --help shows of the flags.
func (p *page) options(c *cobra.Command) {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	p.line(".SH OPTIONS")
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "\\fB\\-\\-" + escaped(f.Name) + "\\fP"
		if f.Shorthand != "" {
			name = "\\fB\\-" + f.Shorthand + "\\fP, " + name
		}
		if value != "" {
			name += " \\fI" + escaped(value) + "\\fP"
		}
		if !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		p.line(".TP\n%s\n%s", name, escaped(usage))
	})
}

// escaped returns a text so that man(7) shows it as it is.
func escaped(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
