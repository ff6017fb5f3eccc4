package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/spf13/cobra"
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

// writePage writes the page of a verb, or of the command.
func writePage(c *cobra.Command, directory string) error {
	date, err := pageDate()
	if err != nil {
		return err
	}
	c.InitDefaultHelpFlag()
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	page := fmt.Sprintf(
		".nh\n.TH %q \"1\" %q \"%s\" \"\"\n.SH NAME\n%s - %s\n.SH SYNOPSIS\n\\fB%s\\fP\n.SH DESCRIPTION\n%s",
		strings.ToUpper(name), date, escaped("stapsdt "+version()), name, escaped(c.Short),
		escaped(c.UseLine()), roff(cmp.Or(c.Long, c.Short)),
	)
	page += ".SH OPTIONS\n"
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" {
			page += roffOption(f)
		}
	})
	if c.Example != "" {
		page += ".SH EXAMPLE\n.EX\n" + escaped(c.Example) + "\n.EE\n"
	}
	var others []string
	if c.HasParent() {
		others = append(others, c.Parent().CommandPath())
	}
	for _, verb := range c.Commands() {
		if verb.IsAvailableCommand() && !verb.IsAdditionalHelpTopicCommand() {
			others = append(others, name+"-"+verb.Name())
		}
	}
	if len(others) > 0 {
		page += ".SH SEE ALSO\n\\fB" + strings.Join(others, "(1)\\fP, \\fB") + "(1)\\fP\n"
	}
	return os.WriteFile(filepath.Join(directory, name+".1"), []byte(page), 0o644)
}

// pageDate returns the date of a page: that of its source if SOURCE_DATE_EPOCH has it, so that a
// package can be built again byte for byte.
func pageDate() (string, error) {
	date := time.Now()
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return "", fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		date = time.Unix(seconds, 0)
	}
	return date.UTC().Format(time.DateOnly), nil
}

// roffOption returns an option with its names, the name of its value, and its default.
func roffOption(f *pflag.Flag) string {
	names := `\fB--` + f.Name + `\fP`
	if f.Shorthand != "" {
		names = `\fB-` + f.Shorthand + `\fP, ` + names
	}
	value, usage := pflag.UnquoteUsage(f)
	if value != "" {
		names += " " + escaped(value)
	}
	if !slices.Contains([]string{"", "false", "[]", "0", "0s"}, f.DefValue) {
		names += " (default " + escaped(f.DefValue) + ")"
	}
	usage = escaped(usage)
	if quoted := "`" + value + "`"; strings.Contains(f.Usage, quoted) {
		usage = strings.Replace(escaped(f.Usage), quoted, `\fB`+value+`\fR`, 1)
	}
	return ".TP\n" + names + "\n" + usage + "\n"
}

// roff returns the text of a help in the language of manual pages. Indented lines are an example or
// a table, and lines that begin with # are headings.
func roff(text string) string {
	text = strings.Replace(text, "Exit statuses:\n", "# EXIT STATUS\n", 1)
	var page strings.Builder
	indented, blank, begins := false, false, true
	for line := range strings.SplitSeq(text, "\n") {
		heading, isHeading := strings.CutPrefix(line, "# ")
		row, isRow := strings.CutPrefix(line, "  ")
		if line == "" {
			blank = true
			continue
		}
		if indented && !isRow {
			page.WriteString(".EE\n")
		}
		switch {
		case isHeading:
			page.WriteString(".SH " + escaped(heading) + "\n")
		case isRow && !indented:
			page.WriteString(".EX\n" + escaped(row) + "\n")
		case isRow && blank:
			page.WriteString("\n" + escaped(row) + "\n")
		case isRow:
			page.WriteString(escaped(row) + "\n")
		case blank && !begins:
			page.WriteString(".PP\n" + escaped(line) + "\n")
		default:
			page.WriteString(escaped(line) + "\n")
		}
		indented, blank, begins = isRow, false, isHeading
	}
	if indented {
		page.WriteString(".EE\n")
	}
	return page.String()
}

// escaped returns a text that begins a line, without the meaning that it could have for roff.
func escaped(text string) string {
	text = strings.ReplaceAll(text, `\`, `\e`)
	text = strings.NewReplacer("\n.", "\n\\&.", "\n'", "\n\\&'").Replace("\n" + text)
	return text[1:]
}
