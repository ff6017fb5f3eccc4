package main

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kube/inpod"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/postmortem"

	"github.com/spf13/cobra"
)

func postmortemCommand(to *console.Console) *cobra.Command {
	var options postmortem.Options
	c := &cobra.Command{
		Use:   "postmortem [FILE | NAME | UNIT | POD]",
		Short: "Show what a program was doing when it ended, from its recording",
		Long: `Show on one screen what a recording tells about the end of a program: how and when it ended,
as far as the recording, systemd, the journal and the kernel know; the operations that were open,
the longest first; the trees of the three oldest; the last errors; the rates of the last minute
beside those before; the last events of the goroutines with open operations; and the commands that
show more.

FILE is a recording, or a directory with recordings. NAME is the name of a program or a PID, UNIT a
unit of systemd, such as shop.service, and POD a pod of this node, NAMESPACE/POD[/CONTAINER]. Their
newest recording that was not closed is shown, or without an argument that of the machine. Of a
process that is alive, it shows what the process is doing now.

A program records if it was started with STAPSDT_RECORD=FILE, and calls probeenv.Load or uses the C
library.`,
		Example: `  stapsdt postmortem
  stapsdt postmortem shop.service
  stapsdt postmortem /dev/shm/shop.rec
  stapsdt postmortem /dev/shm/shop.rec -o json
  kubectl stapsdt postmortem shop-0`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				options.Of = args[0]
			}
			return postmortem.Run(c.Context(), to, options)
		},
	}
	outputFlag(c, &options.Format)
	c.Flags().Var(recordingList{&options.From}, "from", "the recording `FILE`")
	c.Flags().StringVar(&options.Container, inpod.Container, "", "what Kubernetes tells about the container, as `JSON`")
	_, _ = c.Flags().MarkHidden("from"), c.Flags().MarkHidden(inpod.Container)
	c.ValidArgsFunction = completeFile
	return c
}
