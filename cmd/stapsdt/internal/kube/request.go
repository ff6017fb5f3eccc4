//go:build unix

package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/outfile"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Request is a command for a pod, parsed from the command line.
type Request struct {
	verb string
	// args are the arguments of the verb, and passed its flags, as --name=value.
	args, passed []string
	selection    selection
	// values are the values of the verb's flags that are given, by name. The value of via is also
	// set if only the kernel can serve the request.
	values       map[string]string
	image        string
	agents       string // the namespace of the node agents
	patience     time.Duration
	clusterFlags []string // flags of kubectl
}

// flagValue is the value of a flag. It passes each new value to the request.
type flagValue struct {
	Flag
	tell func(f Flag, text string)
}

func (f *flagValue) Type() string { return f.Value }

func (f *flagValue) String() string { return "" }

func (f *flagValue) Set(text string) error {
	f.tell(f.Flag, text)
	return nil
}

// pass records a flag of the verb, and passes it to the command in the pod unless it concerns this
// machine.
func (r *Request) pass(f Flag, text string) {
	r.values[f.Name] = text
	if !slices.Contains(ownFlags, f.Name) {
		r.passed = append(r.passed, "--"+f.Name+"="+text)
	}
}

// clusterFlags are the flags of kubectl that select the cluster and the user.
var clusterFlags = []Flag{
	{"context", "", "NAME", "the context of the kubeconfig"},
	{"kubeconfig", "", "FILE", "the kubeconfig"},
	{"cluster", "", "NAME", "the cluster of the kubeconfig"},
	{"user", "", "NAME", "the user of the kubeconfig"},
	{"as", "", "USER", "the user to impersonate"},
	{"as-group", "", "GROUP", "the group to impersonate; may be given several times"},
	{"as-uid", "", "UID", "the UID to impersonate"},
}

// newCommand returns the command line, which calls execute with the request.
func newCommand(version string, execute func(*Request) error) *cobra.Command {
	r := &Request{values: map[string]string{}}
	root := &cobra.Command{
		Use:         "kubectl-stapsdt",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl stapsdt"},
		Short:       "List, trace and count the SDT probes of pods",
		Long: `kubectl stapsdt traces and counts the SDT probes of containers, with the rights that
you have in the cluster. It adds a waiting container to each pod, or uses the agent on its node.

TARGET is POD, pod/POD, or TYPE/NAME of a workload, such as deploy/web: deployment, statefulset,
daemonset, replicaset, job and cronjob. A probe is named PROVIDER:PROBE, where both may contain *, ?
and [a-z].`,
		Version:       version,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return query.Usagef("there is no command %q for pods: see kubectl stapsdt help", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	r.selection.addFlags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&r.image, "image", "", "the `IMAGE` of the waiting container, which has /stapsdt (default: $STAPSDT_IMAGE, or the node agent's)")
	root.PersistentFlags().StringVar(&r.agents, "agent-namespace", "stapsdt", "the `NAMESPACE` of the node agents")
	root.PersistentFlags().DurationVar(&r.patience, "start-timeout", time.Minute, "how long the waiting container may take to start")
	for _, f := range clusterFlags {
		add(root.PersistentFlags(), f, func(f Flag, text string) {
			r.clusterFlags = append(r.clusterFlags, "--"+f.Name+"="+text)
		})
	}
	root.AddCommand(versionCommand(version))
	for _, v := range Verbs {
		c := &cobra.Command{
			Use: strings.Replace(v.Use, v.Name, v.Name+" TARGET", 1), Short: v.Short,
			RunE: func(_ *cobra.Command, args []string) (err error) {
				r.verb = v.Name
				if r.args, err = r.selection.take(args); err != nil {
					return err
				}
				if err := r.check(); err != nil {
					return err
				}
				return execute(r)
			},
		}
		for _, f := range v.Flags {
			add(c.Flags(), f, r.pass)
		}
		root.AddCommand(c)
	}
	completeNames(root, r)
	return root
}

// versionCommand returns the command that prints the version of the plugin.
func versionCommand(version string) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this plugin", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "kubectl stapsdt version %s\n", version)
			return err
		},
	}
}

func add(flags *pflag.FlagSet, f Flag, tell func(Flag, string)) {
	added := flags.VarPF(&flagValue{Flag: f, tell: tell}, f.Name, f.Short, f.Usage)
	if f.Value == "" {
		added.NoOptDefVal = "true"
	}
}

// flagError adds a reference to the description of the flags to an error.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		switch unknown.GetSpecifiedName() {
		case "a", "all":
			return query.Usagef("-a is for the command on a node: give POD, TYPE/NAME such as deploy/web, or -l SELECTOR")
		}
	}
	return query.Usagef("%w: see %s --help", err, c.CommandPath())
}

// check returns an error if the request is invalid, as far as the plugin can tell.
func (r *Request) check() error {
	number, file, via := r.values["number"], r.values[fileFlag], r.values["via"]
	if err := r.selection.check(via); err != nil {
		return err
	}
	isTimeline := r.verb == "trace" && outfile.Timelines[r.values["output"]] != ""
	switch {
	case !isNumber(number):
		return query.Usagef("--number takes a number, not %q", number)
	case file == "" && (r.verb == "record" || isTimeline):
		return query.Usagef("no file: give -O FILE")
	case file != "" && r.verb == "trace" && !isTimeline:
		return query.Usagef("-O is for -o chrome and -o perfetto")
	case r.verb == postmortemVerb && (r.selection.several() || len(r.args) > 0):
		return query.Usagef("postmortem is for a recording of one pod: give POD, and --from to select the recording")
	case r.selection.several() && r.readsRecording():
		return query.Usagef("--from and --kept are for the recordings of one pod: give POD")
	case r.selection.several() && r.waits():
		return query.Usagef("--wait is for one pod: leave it out, because the pods of %v join when they start", &r.selection)
	case r.values[fromFlag] != "" && via != "":
		return query.Usagef("--from reads a recording, which takes no --via")
	case r.isKept() && len(r.args) > 0:
		return query.Usagef("--kept fetches a recording as it is: leave out %s", strings.Join(r.args, " "))
	case via != "" && via != "kernel" && via != "socket":
		return query.Usagef("--via takes kernel or socket, not %q", via)
	}
	if what := r.kernelOnly(); what != "" {
		if via == "socket" {
			return query.Usagef("%s takes --via kernel", what)
		}
		r.values["via"] = "kernel"
	}
	if len(r.args) == 0 && !r.readsRecording() && (r.verb != "list" && r.verb != "top" && r.verb != "tree") {
		return query.Usagef("no probes: give PROVIDER:PROBE, such as 'myapp:*'")
	}
	return nil
}

// kernelOnly returns the part of the request that only the kernel can serve, or "".
func (r *Request) kernelOnly() string {
	if r.values["budget"] != "" {
		return "--budget"
	}
	i := slices.IndexFunc(r.args, func(arg string) bool { return strings.HasPrefix(arg, "go:") })
	if i >= 0 {
		return r.args[i]
	}
	return ""
}
