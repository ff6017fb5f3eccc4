//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand returns the command that writes the manual pages, for packages and for manual
// installation.
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

// documented returns the verbs that have a page: all except cobra's own.
func documented(root *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(root.Commands()), func(c *cobra.Command) bool {
		return !c.IsAvailableCommand() || c.Name() == "completion"
	})
}

// newPage returns the page of a verb, or of the command, from the texts of its --help, in the
// language of man(7). cobra's own generator reads them as Markdown, which NAME__start is not.
func newPage(c *cobra.Command, name string) string {
	var p strings.Builder
	section := func(title string, body ...string) {
		fmt.Fprintf(&p, ".SH %s\n%s\n", title, strings.Join(body, "\n"))
	}
	// With SOURCE_DATE_EPOCH, a package does not depend on the time of its build.
	at := time.Now()
	if seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		at = time.Unix(seconds, 0)
	}
	fmt.Fprintf(&p, ".TH %s 1 %s %q \"\"\n", strings.ToUpper(name), at.UTC().Format(time.DateOnly), "stapsdt "+version())
	section("NAME", escaped(name)+` \- `+escaped(c.Short))
	usage, verbs, seeAlso := strings.TrimPrefix(c.UseLine(), c.CommandPath()), []string(nil), []string{`\fBstapsdt\fP(1)`}
	if !c.HasParent() {
		usage, seeAlso = " COMMAND [ARGUMENT...] [flags]", nil
		for _, verb := range documented(c) {
			verbs = append(verbs, item(`\fB`+escaped(verb.Name())+`\fP`, verb.Short))
			seeAlso = append(seeAlso, `\fBstapsdt\-`+verb.Name()+`\fP(1)`)
		}
	}
	section("SYNOPSIS", `\fB`+escaped(c.CommandPath())+`\fP`+escaped(usage))
	text, _, _ := strings.Cut(c.Long, "\n\n"+statusHelp())
	section("DESCRIPTION", paragraphs(text))
	if len(verbs) > 0 {
		section("COMMANDS", verbs...)
	}
	section("OPTIONS", options(c)...)
	if !c.HasParent() {
		for _, topic := range topics() {
			section(strings.ToUpper(topic.Name()), paragraphs(topic.Long))
		}
	}
	if c.HasExample() {
		section("EXAMPLES", paragraphs(c.Example))
	}
	var statuses []string
	for _, s := range statusMeanings {
		if s.only == "" || s.only == c.Name() || !c.HasParent() {
			statuses = append(statuses, item(strconv.Itoa(s.status), s.meaning))
		}
	}
	section("EXIT STATUS", statuses...)
	section("SEE ALSO", strings.Join(seeAlso, ",\n"))
	return p.String()
}

// item returns an item of a list: a term, which is already escaped, and a text about it.
func item(term, text string) string { return ".TP\n" + term + "\n" + escaped(text) }

// paragraphs returns the paragraphs of a text. An indented paragraph is an example.
func paragraphs(text string) string {
	all := strings.Split(text, "\n\n")
	for i, paragraph := range all {
		all[i] = escaped(paragraph)
		if strings.HasPrefix(paragraph, " ") {
			all[i] = ".EX\n" + all[i] + "\n.EE"
		}
	}
	return strings.Join(all, "\n.PP\n")
}

// options returns an item for each flag of --help.
func options(c *cobra.Command) (all []string) {
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := `\fB\-\-` + escaped(f.Name) + `\fP`
		if f.Shorthand != "" {
			name = `\fB\-` + f.Shorthand + `\fP, ` + name
		}
		if value != "" {
			name += ` \fI` + escaped(value) + `\fP`
		}
		if !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		all = append(all, item(name, usage))
	})
	return all
}

var initial = regexp.MustCompile(`(?m)^[.']`)

// escaped returns a text so that man(7) shows it as it is.
func escaped(text string) string {
	return initial.ReplaceAllString(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), `\&$0`)
}
