//go:build unix

package kube

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/outfile"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Question is a question about a pod, as the command line has it.
type Question struct {
	verb string
	// args are the arguments of the verb, and passed its flags, as --name=value.
	args, passed []string
	// pod is [NAMESPACE/]POD[/CONTAINER], and namespace the value of --namespace, or "".
	pod, namespace string
	// values are the values of the verb's flags that are given, by name. The value of via is also set if only the kernel can answer.
	values       map[string]string
	image        string
	agents       string // the namespace of the node agents
	patience     time.Duration
	clusterFlags []string // flags of kubectl
}

// flagValue is the value of a flag. It passes each new value to the question.
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

// pass records a flag of the verb, also for the command in the pod unless it concerns this machine.
func (q *Question) pass(f Flag, text string) {
	q.values[f.Name] = text
	if f.Name != fileFlag && f.Name != sizeFlag {
		q.passed = append(q.passed, "--"+f.Name+"="+text)
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

// newCommand returns the command line, which calls ask with the question.
func newCommand(version string, ask func(*Question) error) *cobra.Command {
	q := &Question{values: map[string]string{}}
	root := &cobra.Command{
		Use:         "kubectl-stapsdt",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl stapsdt"},
		Short:       "Ask a pod about its SDT probes",
		Long: `kubectl stapsdt traces and counts the SDT probes of a container, with the rights that you have in
the cluster. It adds a waiting container to the pod, or asks the agent on its node.

A pod is named [NAMESPACE/]POD[/CONTAINER], and a probe PROVIDER:PROBE, where both may contain *, ? and [a-z].`,
		Version:       version,
		SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return console.Usagef("there is no command %q for pods: see kubectl stapsdt help", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().StringVarP(&q.pod, "pod", "p", "", "the container: `[NAMESPACE/]POD[/CONTAINER]`")
	root.PersistentFlags().StringVar(&q.namespace, "namespace", "", "the `NAMESPACE` of the pod")
	root.PersistentFlags().StringVar(&q.image, "image", "", "the `IMAGE` of the waiting container, which has /stapsdt (default: $STAPSDT_IMAGE, or the node agent's)")
	root.PersistentFlags().StringVar(&q.agents, "agent-namespace", "stapsdt", "the `NAMESPACE` of the node agents")
	root.PersistentFlags().DurationVar(&q.patience, "start-timeout", time.Minute, "how long the waiting container may take to start")
	for _, f := range clusterFlags {
		add(root.PersistentFlags(), f, func(f Flag, text string) { q.clusterFlags = append(q.clusterFlags, "--"+f.Name+"="+text) })
	}
	for _, v := range Verbs {
		c := &cobra.Command{
			Use: v.Use + " -p [NAMESPACE/]POD[/CONTAINER]", Short: v.Short,
			RunE: func(_ *cobra.Command, args []string) error {
				q.verb, q.args = v.Name, args
				if err := q.check(); err != nil {
					return err
				}
				return ask(q)
			},
		}
		for _, f := range v.Flags {
			add(c.Flags(), f, q.pass)
		}
		root.AddCommand(c)
	}
	return root
}

func add(flags *pflag.FlagSet, f Flag, tell func(Flag, string)) {
	added := flags.VarPF(&flagValue{Flag: f, tell: tell}, f.Name, f.Short, f.Usage)
	if f.Value == "" {
		added.NoOptDefVal = "true"
	}
}

// flagError adds to an error where the flags are described.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		switch unknown.GetSpecifiedName() {
		case "a", "all":
			return console.Usagef("-a is for the command on a node: kubectl stapsdt asks one pod, which -p names")
		case "from":
			return console.Usagef("--from is for a file on this machine, which stapsdt reads without a cluster")
		}
	}
	return console.Usagef("%w: see %s --help", err, c.CommandPath())
}

// check returns an error if the question is invalid, as far as this side knows the verb.
func (q *Question) check() error {
	number, file, via := q.values["number"], q.values[fileFlag], q.values["via"]
	isTimeline := q.verb == "trace" && outfile.Timelines[q.values["output"]] != ""
	switch {
	case strings.Trim(number, "0123456789") != "":
		return console.Usagef("-n takes a number here, and not %q: give the namespace as in -p NAMESPACE/POD, or with --namespace", number)
	case q.pod == "":
		return console.Usagef("no pod: give -p [NAMESPACE/]POD[/CONTAINER]")
	case strings.ContainsAny(q.pod, ", *"):
		return console.Usagef("-p takes one pod, and not %q", q.pod)
	case strings.Count(q.pod, "/") > 2, slices.Contains(strings.Split(q.pod, "/"), ""):
		return console.Usagef("-p takes [NAMESPACE/]POD[/CONTAINER], and not %q", q.pod)
	case q.namespace != "" && strings.Count(q.pod, "/") > 1:
		return console.Usagef("--namespace excludes a namespace in -p")
	case file == "" && (q.verb == "record" || isTimeline):
		return console.Usagef("no file: give -O FILE")
	case file != "" && q.verb == "trace" && !isTimeline:
		return console.Usagef("-O is for -o chrome and -o perfetto")
	case via != "" && via != "kernel" && via != "socket":
		return console.Usagef("--via takes kernel or socket, and not %q", via)
	}
	if what := q.kernelOnly(); what != "" {
		if via == "socket" {
			return console.Usagef("%s takes --via kernel", what)
		}
		q.values["via"] = "kernel"
	}
	if len(q.args) == 0 && (q.verb != "list" && q.verb != "top" && q.verb != "tree") {
		return console.Usagef("no probes: give PROVIDER:PROBE, such as 'myapp:*'")
	}
	return nil
}

// kernelOnly returns the part of the question that only the kernel can answer, or "".
func (q *Question) kernelOnly() string {
	if q.values["budget"] != "" {
		return "--budget"
	}
	i := slices.IndexFunc(q.args, func(arg string) bool { return strings.HasPrefix(arg, "go:") })
	if i >= 0 {
		return q.args[i]
	}
	return ""
}
