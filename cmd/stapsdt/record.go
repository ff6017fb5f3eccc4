//go:build linux

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/record"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/spf13/cobra"
)

func recordCommand(to *console.Console) *cobra.Command {
	var config query.Config
	options := record.Options{Size: 64 << 20}
	increments, alternatives := false, map[string]spec.Spec{}
	c := &cobra.Command{
		Use:   "record SPEC... -O FILE (-p PID | -a | with FILE in each SPEC | -- COMMAND)",
		Short: "Record events in a file",
		Long: `Record the events of the probes in a file, until Ctrl-C. The other commands read it with --from FILE.

The file has its full size from the beginning. When it is full, the oldest events are dropped and
counted. It can be read at any time, even after this command was killed. An earlier recording of
the same name is renamed.

SPEC is [FILE:]PROVIDER:PROBE. Without a FILE, -p or -a selects the processes, or they are COMMAND,
which is started, and what it starts.`,
		Example: `  stapsdt record -p 1234 'myapp:*' -O myapp.rec
  stapsdt record -a 'http:*' -w 'status >= 500' -O errors.rec --size 256M -d 1h
  stapsdt trace --from myapp.rec`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if config.Specs, err = parseSpecs(args); err != nil {
				return err
			}
			for i, text := range args {
				config.Specs[i].Other = alternatives[text]
			}
			if increments {
				options.Increments = to.Out
			}
			return record.Run(c.Context(), to, config, options)
		},
	}
	runFlags(c, to, &config)
	verboseFlag(c, &config)
	c.Flags().StringVarP(&options.Path, "output-file", "O", "", "the `FILE`")
	c.Flags().Func("size", "how many `BYTES` of events the file has room for, such as 64M", func(text string) error {
		if options.Size = recording.ParseSize(text); options.Size <= 0 {
			return errors.New("takes a number of bytes, such as 65536, 64M or 1G")
		}
		return nil
	})
	c.Flags().Lookup("size").DefValue = "64M"
	c.Flags().Uint64VarP(&options.Limit, "number", "n", 0, "end after `N` events")
	c.Flags().IntVar(&options.TextSize, "strlen", 256, fmt.Sprintf("record at most `N` bytes of a text, up to %d", record.MaxText))
	c.Flags().BoolVar(&increments, inpod.Increments, false, "send the recording to standard output while it is made")
	c.Flags().Func(inpod.Alternative, "also select the probes of the second `SPEC=SPEC`", func(text string) (err error) {
		one, other, _ := strings.Cut(text, "=")
		alternatives[one], err = spec.Parse(other)
		return err
	})
	for _, name := range []string{inpod.Increments, inpod.Alternative} {
		_ = c.Flags().MarkHidden(name)
	}
	return c
}
