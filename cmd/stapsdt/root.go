//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/probes"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/text"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/sdt"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// errUsage means that the command line is wrong.
var errUsage = errors.New("usage")

// session is what the commands write to.
type session struct {
	stdout, stderr io.Writer
}

// warn prints a line for people. Nothing that a program reads is there. Texts from traced programs
// may be in it: their control characters are not printed, and what follows a line break is
// indented, so that no program can write a line that looks like one of these.
func (s *session) warn(format string, args ...any) {
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	for i, line := range lines {
		lines[i] = text.Printable(strings.TrimPrefix(line, "\t"))
	}
	fmt.Fprintf(s.stderr, "stapsdt: %s\n", strings.Join(lines, "\n\t"))
}

func usagef(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errUsage}, args...)...)
}

// run runs the command and returns its exit status.
func run(args []string, stdout, stderr io.Writer) int {
	// The end of a reader ("| head") is an error of Write, not a signal.
	signal.Ignore(unix.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	s := &session{stdout, stderr}
	root := s.command()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil || errors.Is(err, unix.EPIPE) {
		return 0
	}
	return s.fail(err)
}

// fail prints an error and returns its exit status.
func (s *session) fail(err error) int {
	var refused *rights.Error
	var wrong *expr.Error
	var status statusError
	if errors.As(err, &status) {
		return int(status)
	}
	said := strings.TrimPrefix(err.Error(), errUsage.Error()+": ")
	switch {
	case errors.Is(err, errUsage), errors.As(err, &wrong):
		s.warn("%s", said)
		return exitUsage
	case errors.As(err, &refused):
		s.warn("%s; a program that mounts debugprobe shows its probes without", said)
		return exitRights
	case errors.Is(err, probes.ErrNothing), errors.Is(err, sdt.ErrNoProbes), errors.Is(err, target.ErrNoProcess), errors.Is(err, fs.ErrNotExist):
		s.warn("%s", said)
		return exitNothing
	}
	s.warn("%s", said)
	if status, ok := remoteStatus(err); ok {
		return status
	}
	return exitFailure
}

func (s *session) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "stapsdt",
		Short: "List, trace and count the SDT probes of any program",
		Long: `stapsdt lists, traces and counts the SDT probes (USDT probes) of any program, and exports
them as metrics and spans.

A probe is named [FILE:]PROVIDER:PROBE. The provider and the probe may contain *, ? and [a-z].

` + statusHelp(),
		Version:           build(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		// Without a command it prints the help, and a word that is no command is an error.
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q: see stapsdt help", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		return errors.Join(checkStrayPID(c, args), checkStrayAddress(c, args))
	}
	root.AddCommand(s.listCommand(), s.traceCommand(), s.countCommand(), s.histCommand(), s.latencyCommand(), s.stackCommand(), s.scriptCommand(), s.exportCommand())
	root.AddCommand(s.generateCommand(), s.doctorCommand(), s.cleanCommand(), s.manCommand(), s.versionCommand())
	completeSpecs(root)
	return root
}
