//go:build linux

package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/record"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/run"
	"github.com/go-stapsdt/stapsdt/internal/recording"

	"github.com/spf13/cobra"
)

func recordCommand(to *console.Console) *cobra.Command {
	var config run.Config
	options := record.Options{Size: 64 << 20}
	c := &cobra.Command{
		Use:   "record SPEC... (-p PID | -a | with FILE in each SPEC) -O FILE",
		Short: "Record events in a file",
		Long: `Record the events of the probes in a file, until Ctrl-C. The other commands read it with --from FILE.

The file has its whole size from the beginning on. When it is full, the oldest events are dropped, and
counted. It can be read at any time, also after this command was killed. An earlier recording of the same
name is renamed.

SPEC is [FILE:]PROVIDER:PROBE. Without a FILE, -p or -a selects the processes.`,
		Example: `  stapsdt record -p 1234 'myapp:*' -O myapp.rec
  stapsdt record -a 'http:*' -w 'status >= 500' -O errors.rec --size 256M -d 1h
  stapsdt trace --from myapp.rec`,
		RunE: func(c *cobra.Command, args []string) error {
			config.Specs = args
			return record.Run(c.Context(), to, config, options)
		},
	}
	runFlags(c, &config)
	verboseFlag(c, &config)
	c.Flags().StringVarP(&options.Path, "output-file", "O", "", "the `FILE`")
	c.Flags().Var((*byteSize)(&options.Size), "size", "how many `BYTES` of events the file has room for, such as 64M")
	c.Flags().Uint64VarP(&options.Limit, "number", "n", 0, "end after `N` events")
	c.Flags().IntVar(&options.TextSize, "strlen", 256, fmt.Sprintf("record at most `N` bytes of a text, up to %d", record.MaxText))
	return c
}

// byteSize is the value of a flag: a number of bytes, with K, M or G for 2^10, 2^20 or 2^30.
type byteSize int64

func (b *byteSize) Type() string { return "BYTES" }

func (b *byteSize) String() string {
	n, unit := int64(*b), ""
	for _, larger := range []string{"K", "M", "G"} {
		if n < 1<<10 || n%(1<<10) != 0 {
			break
		}
		n, unit = n>>10, larger
	}
	return strconv.FormatInt(n, 10) + unit
}

func (b *byteSize) Set(text string) error {
	if *b = byteSize(recording.ParseSize(text)); *b <= 0 {
		return errors.New("takes a number of bytes, such as 65536, 64M or 1G")
	}
	return nil
}
