//go:build unix

package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/spf13/pflag"
)

// selection names the pods of a request, as the command line does.
type selection struct {
	// namespace is the value of -n, or "" for the current namespace, and container the value of -c,
	// or "" for the container that kubectl would choose.
	namespace, container string
	// pod is [NAMESPACE/]POD[/CONTAINER]. It is "" if the other fields select the pods.
	pod string
	// kind and workload name an object that owns pods.
	kind     *objectKind
	workload string
	// labels is the value of -l. everywhere means that the pods may be in any namespace.
	labels     string
	everywhere bool
}

func (s *selection) addFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&s.pod, "pod", "p", "", "the container: `[NAMESPACE/]POD[/CONTAINER]`, in place of TARGET")
	flags.StringVarP(&s.namespace, "namespace", "n", "", "the `NAMESPACE` of the pods")
	flags.StringVarP(&s.container, "container", "c", "", "the `CONTAINER` of each pod (default: the one that kubectl would choose)")
	flags.StringVarP(&s.labels, "selector", "l", "", "the pods whose labels match `SELECTOR`, in place of TARGET")
	flags.BoolVarP(&s.everywhere, "all-namespaces", "A", false, "with -l, the pods of all namespaces")
}

// objectKind is a kind of objects that kubectl names in TYPE/NAME.
type objectKind struct {
	name  string   // as in ownerReferences
	names []string // as kubectl takes them; the first one asks for all objects of the kind
}

var (
	podKind        = &objectKind{"Pod", []string{"pods", "pod", "po"}}
	deploymentKind = &objectKind{"Deployment", []string{"deployments", "deployment", "deploy"}}
	replicaSetKind = &objectKind{"ReplicaSet", []string{"replicasets", "replicaset", "rs"}}
	jobKind        = &objectKind{"Job", []string{"jobs", "job"}}
	cronJobKind    = &objectKind{"CronJob", []string{"cronjobs", "cronjob", "cj"}}
	kinds          = []*objectKind{
		podKind, deploymentKind, replicaSetKind, jobKind, cronJobKind,
		{"StatefulSet", []string{"statefulsets", "statefulset", "sts"}},
		{"DaemonSet", []string{"daemonsets", "daemonset", "ds"}},
	}
)

// kindNamed returns the kind of a TYPE, such as deploy or deployment.apps, or nil.
func kindNamed(name string) *objectKind {
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	i := slices.IndexFunc(kinds, func(k *objectKind) bool { return slices.Contains(k.names, name) })
	if i < 0 {
		return nil
	}
	return kinds[i]
}

// several reports whether the selection may have several pods.
func (s *selection) several() bool { return s.pod == "" }

func (s *selection) String() string {
	switch {
	case s.pod != "":
		return "the pod " + s.pod
	case s.kind != nil:
		return fmt.Sprintf("the %s %s", s.kind.name, s.workload)
	case s.labels != "":
		return "the selector " + s.labels
	}
	return "-A"
}

// take takes the target from the arguments, if the first one is a target: a SPEC has a colon.
func (s *selection) take(args []string) (rest []string, err error) {
	if len(args) == 0 || strings.Contains(args[0], ":") {
		return args, nil
	}
	target := args[0]
	switch {
	case s.pod != "":
		return nil, query.Usagef("%q is neither a PROVIDER:PROBE nor the pod, which -p %s names", target, s.pod)
	case s.labels != "" || s.everywhere:
		return nil, query.Usagef("%q cannot be combined with -l or -A, which select pods too; a probe is named PROVIDER:PROBE", target)
	}
	typ, name, isTyped := strings.Cut(target, "/")
	switch k := kindNamed(typ); {
	case !isTyped || k == nil:
		s.pod = target
	case name == "" || strings.Contains(name, "/"):
		return nil, query.Usagef("%q is not TYPE/NAME: select a container with -c", target)
	case k == podKind:
		s.pod = name
	default:
		s.kind, s.workload = k, name
	}
	return args[1:], nil
}

// check returns an error if the selection is invalid. via is the route that the request demands.
func (s *selection) check(via string) error {
	parts := strings.Split(s.pod, "/")
	switch {
	case s.namespace != "" && isNumber(s.namespace):
		return query.Usagef("-n takes a namespace, as in kubectl: for %s events, rows or screens, give --number %s", s.namespace, s.namespace)
	case s.everywhere && s.namespace != "":
		return query.Usagef("-A selects all namespaces, and cannot be combined with -n")
	case s.everywhere && (s.pod != "" || s.kind != nil):
		return query.Usagef("-A is for -l SELECTOR: select the namespace of %v with -n", s)
	case s.everywhere && s.labels == "" && via != "kernel":
		return query.Usagef("-A alone would add a container to every pod of the cluster: give -l SELECTOR, or --via kernel, which asks the node agents")
	case s.labels != "" && s.pod != "":
		return query.Usagef("-l cannot be combined with -p")
	case !s.everywhere && s.labels == "" && s.kind == nil && s.pod == "":
		return query.Usagef("no pod: give POD, TYPE/NAME such as deploy/web, or -l SELECTOR")
	case strings.ContainsAny(s.pod, ", *"):
		return query.Usagef("-p takes one pod, not %q: -l SELECTOR and TYPE/NAME select several", s.pod)
	case s.pod != "" && (len(parts) > 3 || slices.Contains(parts, "")):
		return query.Usagef("-p takes [NAMESPACE/]POD[/CONTAINER], not %q", s.pod)
	case s.namespace != "" && len(parts) > 2:
		return query.Usagef("-n cannot be combined with a namespace in -p")
	case s.container != "" && len(parts) > 2:
		return query.Usagef("-c cannot be combined with a container in -p")
	}
	return nil
}

func isNumber(text string) bool { return strings.Trim(text, "0123456789") == "" }

// object is an object of the cluster that owns pods or other objects.
type object struct {
	Kind     string   `json:"kind"`
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Selector *labelSelector `json:"selector"`
	} `json:"spec"`
}

// metadata holds the fields of an object's metadata that this package reads.
type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Annotations map[string]string `json:"annotations"`
	Owners      []ownerReference  `json:"ownerReferences"`
	Deletion    string            `json:"deletionTimestamp"`
}

type ownerReference struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Controller bool   `json:"controller"`
}

// owners are objects of a kind. Workloads may select pods by the same labels, but a pod has at most
// one controller.
type owners struct {
	kind  *objectKind
	names []string
}

// have reports whether one of the owners is the controller of an object.
func (o *owners) have(m *metadata) bool {
	return slices.ContainsFunc(m.Owners, func(one ownerReference) bool {
		return one.Controller && one.Kind == o.kind.name && slices.Contains(o.names, one.Name)
	})
}

// labelSelector is the selector of an object.
type labelSelector struct {
	MatchLabels      map[string]string `json:"matchLabels"`
	MatchExpressions []struct {
		Key      string   `json:"key"`
		Operator string   `json:"operator"`
		Values   []string `json:"values"`
	} `json:"matchExpressions"`
}

// String returns the selector as -l of kubectl takes it.
func (l *labelSelector) String() string {
	var all []string
	for key, value := range l.MatchLabels {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	for _, e := range l.MatchExpressions {
		values := "(" + strings.Join(e.Values, ",") + ")"
		switch e.Operator {
		case "In":
			all = append(all, e.Key+" in "+values)
		case "NotIn":
			all = append(all, e.Key+" notin "+values)
		case "Exists":
			all = append(all, e.Key)
		case "DoesNotExist":
			all = append(all, "!"+e.Key)
		}
	}
	return strings.Join(all, ",")
}

// pods returns the pods of a selection that may have several, whatever their phase.
func (k *kubectl) pods(ctx context.Context, s *selection) ([]pod, error) {
	if s.kind == nil {
		return k.list(ctx, s, podKind, s.labels, nil)
	}
	var workload object
	args := append([]string{s.kind.names[0], s.workload}, s.scope()...)
	if err := k.get(ctx, &workload, args...); err != nil {
		return nil, err
	}
	own := &owners{s.kind, []string{s.workload}}
	labels := ""
	switch selector := workload.Spec.Selector; {
	case selector != nil:
		labels = selector.String()
	case s.kind != cronJobKind:
		return nil, fmt.Errorf("%v has no selector", s)
	}
	// A Deployment owns ReplicaSets, which own its pods. A CronJob owns Jobs, and has no selector.
	switch s.kind {
	case deploymentKind:
		own = &owners{kind: replicaSetKind}
	case cronJobKind:
		own = &owners{kind: jobKind}
	}
	if own.kind != s.kind {
		between, err := k.list(ctx, s, own.kind, labels, &owners{s.kind, []string{s.workload}})
		if err != nil || len(between) == 0 {
			return nil, err
		}
		for i := range between {
			own.names = append(own.names, between[i].Metadata.Name)
		}
	}
	if s.kind == cronJobKind {
		labels = "job-name in (" + strings.Join(own.names, ",") + ")"
	}
	return k.list(ctx, s, podKind, labels, own)
}

// list returns the objects of a kind that labels select, or all if labels is "", as far as some
// objects own them, or all if own is nil. Objects that are not pods only have metadata.
func (k *kubectl) list(
	ctx context.Context, s *selection, of *objectKind, labels string, own *owners,
) ([]pod, error) {
	var list struct {
		Items []pod `json:"items"`
	}
	args := append([]string{of.names[0]}, s.scope()...)
	if labels != "" {
		args = append(args, "--selector="+labels)
	}
	if err := k.get(ctx, &list, args...); err != nil {
		return nil, err
	}
	isOthers := func(p pod) bool { return own != nil && !own.have(&p.Metadata) }
	return slices.DeleteFunc(list.Items, isOthers), nil
}

// scope returns the flags of kubectl for the namespace of the selection.
func (s *selection) scope() []string {
	switch {
	case s.everywhere:
		return []string{"--all-namespaces"}
	case s.namespace != "":
		return []string{"--namespace=" + s.namespace}
	}
	return nil
}

// running returns the running pods of a selection that may have several.
func (k *kubectl) running(ctx context.Context, s *selection) ([]pod, error) {
	all, err := k.pods(ctx, s)
	return slices.DeleteFunc(all, func(p pod) bool {
		return p.Status.Phase != "Running" || p.Metadata.Deletion != ""
	}), err
}
