//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the manual pages, for packages and for those who install the command by
// hand. It is not for every day, so that the help does not list it.
func (s *session) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write the manual pages into a directory",
		Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("man takes a directory, such as /usr/local/share/man/man1")
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			pages := []*cobra.Command{c.Root()}
			for _, verb := range c.Root().Commands() {
				if verb.IsAvailableCommand() && verb.Name() != "completion" {
					pages = append(pages, verb)
				}
			}
			for _, page := range pages {
				if err := writePage(page, args[0]); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// writePage writes the page of a verb, or of the command.
func writePage(c *cobra.Command, directory string) error {
	var b bytes.Buffer
	if err := doc.GenMan(c, &doc.GenManHeader{Section: "1", Source: "stapsdt " + version()}, &b); err != nil {
		return err
	}
	_, text, _ := strings.Cut(b.String(), "\n.TH ")
	_, text, _ = strings.Cut(text, "\n") // whose date has no day
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	// cobra marks up an option as a paragraph whose second line begins with a tab.
	text = strings.ReplaceAll(strings.ReplaceAll(text, ".PP\n\\fB-", ".TP\n\\fB-"), "\n\t", "\n")
	text = strings.ReplaceAll(text, "\\fBstapsdt-completion(1)\\fP, ", "")
	head := fmt.Sprintf(".TH \"%s\" \"1\" \"%s\" \"stapsdt %s\" \"\"\n", strings.ToUpper(name), time.Now().Format(time.DateOnly), version())
	return os.WriteFile(filepath.Join(directory, name+".1"), []byte(head+text), 0o644)
}
