package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
	"github.com/go-stapsdt/stapsdt/internal/nearest"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// recordingList is the value of --from, which may be given several times.
type recordingList struct{ *replay.From }

func (recordingList) Type() string { return "FILE" }

func (l recordingList) String() string {
	if l.From == nil {
		return ""
	}
	return strings.Join(l.Paths, ",")
}

func (l recordingList) Set(path string) error {
	l.Paths = append(l.Paths, path)
	return nil
}

// recordingsOf returns the value of --from of a verb, or nil if it has no such flag.
func recordingsOf(c *cobra.Command) *replay.From {
	flag := c.Flags().Lookup("from")
	if flag == nil {
		return nil
	}
	list, _ := flag.Value.(recordingList)
	return list.From
}

// debugFlag adds the flag of the commands that read the debug information of programs.
func debugFlag(c *cobra.Command, t *query.Target) {
	c.Flags().StringArrayVar(&t.DebugFiles, debugFile, nil, "a `FILE` with the debug information that was separated from a program or library; may be given several times")
	_ = c.RegisterFlagCompletionFunc(debugFile, completeFile)
	c.Flags().StringArrayVar(&t.Sources, sources, nil, "a `DIR` with the source of a Go program, for the variables at its lines; may be given several times")
	_ = c.RegisterFlagCompletionFunc(sources, completeDirectory)
}

const (
	debugFile = "debug-file"
	sources   = "source"
)

// completeDirectory completes the name of a directory.
func completeDirectory(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completeFile completes the name of a file.
func completeFile(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// checkDebugFile returns an error if debug files or sources are given for anything but programs of
// this machine.
func checkDebugFile(c *cobra.Command, args []string) error {
	for _, name := range []string{debugFile, sources} {
		elsewhere := c.Flags().Changed("from") || slices.ContainsFunc(args, spec.IsAddress)
		if elsewhere && c.Flags().Changed(name) {
			return query.Usagef("--%s is for the programs of processes, not for recordings and addresses", name)
		}
	}
	return nil
}

// runFlags adds the flags of the commands that attach to probes. They take a COMMAND after two
// dashes.
func runFlags(c *cobra.Command, to *console.Console, config *query.Config) {
	launches(c, to, config)
	targetFlags(c, &config.Target)
	debugFlag(c, &config.Target)
	c.Flags().StringVarP(&config.Where, "where", "w", "", "only events for which the Go expression `EXPR` is true, such as 'status >= 500'")
	c.Flags().DurationVarP(&config.Duration, "duration", "d", 0, "end after this time, such as 10s")
	c.Flags().BoolVar(&config.Await, "wait", false, "wait for probes that no process or file has yet, such as those of a library that a process loads later")
	c.Flags().BoolVar(&config.Single, "single", false, "attach to each site on its own, as on kernels before 6.6")
	_ = c.Flags().MarkHidden("single")
	viaFlag(c, &config.Via, "the program's socket if it can do all that is asked, or else the kernel")
	c.Flags().Func("budget", "detach from the most expensive probes if all together take more than `PERCENT` of the processes' time, such as 1%", func(text string) (err error) {
		config.Budget, err = query.ParseShare(text)
		return err
	})
	_ = c.RegisterFlagCompletionFunc("budget", cobra.NoFileCompletions)
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if config.Duration == 0 && c.Flags().Changed("duration") {
			return query.Usagef("a duration of 0 would count nothing: leave out -d to go on until Ctrl-C")
		}
		return nil
	}
}

// choiceFlag defines a flag with a fixed set of values. now is the default, for which set is not
// called.
func choiceFlag(
	c *cobra.Command, set func(string), name, short, now, usage string, words ...string,
) {
	c.Flags().FuncP(name, short, usage, func(word string) error {
		if !slices.Contains(words, word) {
			return fmt.Errorf("takes %s, not %q", text.List(words, "or"), word)
		}
		set(word)
		return nil
	})
	c.Flags().Lookup(name).DefValue = now
	_ = c.RegisterFlagCompletionFunc(
		name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp),
	)
}

// viaFlag adds the flag of the commands that read events from the kernel or from sockets.
func viaFlag(c *cobra.Command, via *string, otherwise string) {
	usage := "what delivers the events: `ROUTE`, which is kernel or socket (default: " + otherwise + ")"
	set := func(to string) { *via = to }
	choiceFlag(c, set, "via", "", "", usage, query.ViaKernel, query.ViaSocket)
}

// keyFlag adds the flag of the commands that pair events. otherwise is the end of its description.
func keyFlag(c *cobra.Command, key *[]string, otherwise string) {
	c.Flags().StringArrayVar(key, "key", nil, "what a start and its end have in common: `EXPR,...`, Go expressions of the arguments of both, or goroutine, or thread"+otherwise)
}

// verboseFlag adds the flag of the commands that can report the source of the events.
func verboseFlag(c *cobra.Command, config *query.Config) {
	c.Flags().BoolVarP(&config.Verbose, "verbose", "v", false, "report whether the events come from the kernel or from sockets, and when a process is watched by its socket")
}

// fromFlag adds the flags of the commands that can read recordings instead of processes.
func fromFlag(c *cobra.Command, from *replay.From) {
	c.Flags().StringVar(&from.Since, "since", "", "with --from, only events from this `TIME` on, such as 17:28:50, or from that long before the last event on, such as 10s")
	c.Flags().StringVar(&from.Until, "until", "", "with --from, only events until this `TIME`")
	for _, name := range []string{"since", "until"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	c.Flags().Var(recordingList{from}, "from", "read the recording `FILE` in place of processes; may be given several times")
	_ = c.RegisterFlagCompletionFunc("from", completeFile)
}

// sourceFlags adds the flags of the commands that can read events from recordings and from the page
// of a program.
func sourceFlags(c *cobra.Command, from *replay.From) {
	fromFlag(c, from)
	c.Flags().BoolVar(&from.Follow, "follow", false, "with --from, go on with what is written from now on, until Ctrl-C")
}

// parseSpecs parses SPECs.
func parseSpecs(words []string) ([]spec.Choice, error) {
	specs, err := spec.ParseChoices(words)
	if err != nil {
		return nil, query.Usagef("%w", err)
	}
	return specs, nil
}

// cutAddress removes the address of a page from the arguments, if it is the first one.
func cutAddress(args []string, from *replay.From) []string {
	if len(args) > 0 && spec.IsAddress(args[0]) {
		from.Address = args[0]
		return args[1:]
	}
	return args
}

// checkWindow returns an error if a flag about recordings is given without --from.
func checkWindow(c *cobra.Command) error {
	for _, name := range []string{"since", "until", "follow"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed && !c.Flags().Changed("from") {
			return query.Usagef("--%s is for recordings: give --from FILE", name)
		}
	}
	return nil
}

// outputFlag adds the flag of the commands that print text or JSON.
func outputFlag(c *cobra.Command, format *query.Format) {
	set := func(to string) { *format = formatOf(to) }
	text, objects := query.Text.Word(), query.JSON.Word()
	choiceFlag(c, set, "output", "o", text, "`FORMAT`: text, or json for one object per line", text, objects)
}

// formatOf returns the format that a word names.
func formatOf(word string) query.Format {
	if word == query.Text.Word() {
		return query.Text
	}
	return query.Format(word)
}

// checkStrayPID returns an error if the first argument is the PID or the name of a process and
// should belong to -p, as in -p $(pgrep NAME) without quotes.
func checkStrayPID(c *cobra.Command, args []string) error {
	flag := c.Flags().Lookup("pid")
	if flag == nil || len(args) == 0 {
		return nil
	}
	given := slices.ContainsFunc([]string{"pid", "all", "from"}, c.Flags().Changed)
	switch isNumber := isNumber(args[0]); {
	case !isNumber && (given || strings.ContainsAny(args[0], ":/")):
		return nil
	case c.Name() == "list" && !given:
		return checkStrayFile(args[0])
	case !given && isNumber:
		return query.Usagef("%q is not [FILE:]PROVIDER:PROBE: for the process with this PID, give -p %s", args[0], args[0])
	case !given:
		return query.Usagef("%q is not [FILE:]PROVIDER:PROBE: for the process of this name, give -p %s", args[0], args[0])
	}
	if pids, ok := flag.Value.(processList); ok && len(pids.PIDs) > 0 {
		return query.Usagef("-p takes several processes as one value, as in -p %v,%s or -p \"$(pgrep -x NAME)\" with the quotes", pids, args[0])
	}
	return nil
}

// checkStrayFile returns an error if list is to list a file that does not exist and has the PID or
// the name of a process.
func checkStrayFile(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if _, err := exec.LookPath(path); err == nil {
		return nil // as target.Locate finds it
	}
	if _, err := processCalled(path); !isNumber(path) && err != nil && !isAmbiguous(err) {
		return nil
	}
	return query.Usagef("there is no file %s; -p %s lists the probes of a process", path, path)
}

// schemeless matches an address without http://. No probe has a name of digits.
var schemeless = lazyregexp.New(`^[A-Za-z0-9.-]+:[0-9]{1,5}(/.*)?$`)

// isReader reports whether a command takes recordings, and the address of a page.
func isReader(c *cobra.Command) bool {
	from := c.Flags().Lookup("from")
	return from != nil && !from.Hidden
}

// readers returns the names of the commands that isReader reports, for a message.
func readers() string {
	var names []string
	for _, c := range rootCommand(&console.Console{}).Commands() {
		if isReader(c) {
			names = append(names, c.Name())
		}
	}
	return text.List(names, "and")
}

// checkStrayAddress returns an error if an argument is the address of a page of probes and the
// command cannot read pages, or if the address lacks the scheme.
func checkStrayAddress(c *cobra.Command, args []string) error {
	for _, arg := range args {
		switch {
		case schemeless().MatchString(arg):
			return query.Usagef("%s is not a SPEC: the address of a page of probes begins with http://, as in http://%s", arg, arg)
		case spec.IsAddress(arg) && !isReader(c):
			return query.Usagef("%s does not read events from a page, such as the one at %s: %s do", c.Name(), arg, readers())
		}
	}
	return nil
}

// flagError rewords an error of a flag for users, who should not see errors of packages strconv
// and time.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var valueless *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &invalid) && errors.Is(invalid.Unwrap(), query.ErrLinux):
		return invalid.Unwrap()
	case errors.As(err, &invalid):
		return query.Usagef("%s %s", flagName(invalid.GetFlag()), invalidValue(invalid))
	case errors.As(err, &valueless):
		return query.Usagef("%s needs a value: see %s --help", flagName(valueless.GetFlag()), c.CommandPath())
	case errors.As(err, &unknown):
		name, near := "--"+unknown.GetSpecifiedName(), nearest.To("--"+unknown.GetSpecifiedName())
		if unknown.GetSpecifiedShortnames() != "" {
			name, near = "-"+unknown.GetSpecifiedName(), nearest.To("")
		}
		c.Flags().VisitAll(func(f *pflag.Flag) { near.See("--" + f.Name) })
		hint := near.Hint()
		ours := c.Flags().Lookup(otherFlags[strings.TrimPrefix(name, "--")])
		if ours != nil && hint == "" {
			hint = "; the flag for that is " + flagName(ours)
		}
		return query.Usagef("there is no flag %s%s: see %s --help", name, hint, c.CommandPath())
	}
	return query.Usagef("%w", err)
}

// singleDash matches a long flag with one dash.
var singleDash = lazyregexp.New(`^-([a-z][a-z-]+)(=|$)`)

// checkDashes returns an error if a long flag has one dash: -output would be -o with the value
// utput.
func checkDashes(root *cobra.Command, args []string) error {
	c, _, err := root.Find(args)
	if err != nil {
		return nil // of another word
	}
	for _, arg := range args {
		if arg == "--" {
			break
		}
		found := singleDash().FindStringSubmatch(arg)
		if found != nil && c.Flags().Lookup(found[1]) != nil {
			return query.Usagef("%s has one dash, but this flag has two: give -%s", arg, arg)
		}
	}
	return nil
}

// otherFlags maps flags of other tools to flags of this command.
var otherFlags = map[string]string{
	"json": "output", "format": "output", "limit": "number", "count": "number", "max": "number",
	"filter": "where", "group-by": "by", "timeout": "duration", "time": "duration",
	"fields": "show", "process": "pid", "file": "from", "rules": "config",
}

// flagName returns the short name of a flag, if it has one, or else its long name.
func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}

// invalidValue describes the values that a flag takes, in the error for an invalid value.
func invalidValue(e *pflag.InvalidValueError) string {
	value, cause := e.GetValue(), e.Unwrap()
	switch kind := e.GetFlag().Value.Type(); {
	case kind == "duration" && isNumber(strings.TrimLeft(value, "+-")):
		return fmt.Sprintf("takes a duration, but %s has no unit: give %ss for seconds, or %sms for milliseconds", value, value, value)
	case kind == "duration":
		return fmt.Sprintf("takes a duration such as 10s, 500ms or 1m30s, not %q", value)
	case errors.Is(cause, strconv.ErrRange):
		return fmt.Sprintf("takes a number, but %s is too large", value)
	case strings.HasPrefix(kind, "uint"):
		return fmt.Sprintf("takes a whole number that is not negative, not %q", value)
	case strings.HasPrefix(kind, "int"):
		return fmt.Sprintf("takes a whole number, not %q", value)
	case strings.HasPrefix(kind, "bool") && errors.Is(cause, strconv.ErrSyntax):
		return fmt.Sprintf("is true or false, not %q", value)
	}
	return cause.Error()
}
