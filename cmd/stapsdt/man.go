package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// manCommand returns the command that writes the manual pages, for packages and for manual
// installation.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write the manual pages into a directory",
		Long:    "Write a manual page for each command into a directory, which is made if it does not exist.",
		Example: `  sudo stapsdt man /usr/local/share/man/man1`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return query.Usagef("man takes a directory, such as /usr/local/share/man/man1")
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := c.Root()
			for _, topic := range topics() {
				root.Long += "\n\n# " + strings.ToUpper(topic.Name()) + "\n" + topic.Long
			}
			root.Long += "\n\n# COMMANDS\n"
			for _, verb := range root.Commands() {
				// the pages do not refer to it
				verb.Hidden = verb.Hidden || verb.Name() == "completion"
				if !verb.IsAvailableCommand() {
					continue
				}
				root.Long += fmt.Sprintf("  %-10s  %s\n", verb.Name(), verb.Short)
				verb.Long += "\n\n" + statusHelp()
				if err := writePage(verb, args[0]); err != nil {
					return err
				}
			}
			root.Use += " COMMAND [ARGUMENT...]"
			root.InitDefaultVersionFlag()
			return writePage(root, args[0])
		},
	}
}

// writePage writes the page of a verb, or of the command, by cobra's generator.
func writePage(c *cobra.Command, directory string) error {
	c.Use, c.Long = markdown(c.Use), markdown(c.Long)
	values := map[string]string{} // the names of the options' values, and their defaults
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if value, _ := pflag.UnquoteUsage(f); value != "" {
			values[f.Name] = " " + value
		}
		if !slices.Contains([]string{"", "false", "[]", "0", "0s"}, f.DefValue) {
			values[f.Name] += " (default " + f.DefValue + ")"
		}
		f.Usage = markdown(f.Usage)
	})
	header := &doc.GenManHeader{Source: "stapsdt " + version()}
	var page bytes.Buffer
	if err := doc.GenMan(c, header, &page); err != nil {
		return err
	}
	// mandoc wants a day in the date, and a tag in place of a tab.
	text := strings.Replace(
		page.String(), header.Date.Format("Jan 2006"), header.Date.UTC().Format(time.DateOnly), 1,
	)
	text = option.ReplaceAllStringFunc(text, func(found string) string {
		m := option.FindStringSubmatch(found)
		return ".TP\n" + m[1] + values[m[2]] + "\n"
	})
	return os.WriteFile(
		filepath.Join(directory, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"),
		[]byte(text),
		0o644,
	)
}

var (
	// option matches an option as the generator writes it, with its names and its default.
	option  = regexp.MustCompile(`(?m)^(?:\.PP\n)?(\\fB-.*?--?([^\\]+)\\fP).*\n\t`)
	special = regexp.MustCompile(`(?m)^  .*|[_*<\[\]]`)
)

// markdown returns a text of the help as the generator reads it. An indented line is a part of an
// example or of a table.
func markdown(text string) string {
	text = strings.Replace(text, "Exit statuses:\n", "# EXIT STATUS\n", 1)
	return special.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "  ") {
			return "  " + found
		}
		return `\` + found
	})
}
