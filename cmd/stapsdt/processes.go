package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// processList is the value of -p: the name of a process, or PIDs or names of processes, or patterns
// of them, or names of pods, separated by commas or white space, as pgrep prints them.
type processList struct {
	*query.Target
	// words are the parts of the value, and err is the error of a name that no process has, or that
	// several have. With -a it is none.
	words *[]string
	err   *error
}

func (processList) Type() string { return "PID" }

func (l processList) String() string {
	if l.Target == nil {
		return ""
	}
	var all []string
	for _, pid := range l.PIDs {
		all = append(all, strconv.Itoa(pid))
	}
	for _, pod := range l.Pods {
		all = append(all, pod.String())
	}
	return strings.Join(all, ",")
}

// Set looks the processes up.
func (l processList) Set(text string) error {
	err := l.set(text)
	if errors.Is(err, query.ErrLinux) || !isNoProcess(err) && !isAmbiguous(err) {
		return err
	}
	*l.err = cmp.Or(*l.err, err)
	return nil
}

func (l processList) set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			*l.words = append(*l.words, word)
		}
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if len(words) == 0 {
		return errors.New("takes the PID or the name of a process, but is empty")
	}
	whole := strings.TrimSpace(text) // a name may have spaces and commas
	isName := func(word string) bool { return !isNumber(word) }
	named := len(words) > 1 && slices.ContainsFunc(words, isName)
	if named {
		if err := l.addCalled(whole); !isNoProcess(err) {
			return err
		}
	}
	for _, word := range words {
		err := l.addWord(word)
		if named && isNoProcess(err) {
			return fmt.Errorf("%w, nor %q", err, whole)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// addWord adds the process or the pods that a word names.
func (l processList) addWord(word string) error {
	if !strings.Contains(word, "/") {
		pid, err := processOf(word)
		return l.addOr(word, pid, err)
	}
	if !hasPods() { // then it can only be the name of a process
		if err := l.addCalled(word); !isNoProcess(err) {
			return err
		}
	}
	pod, err := query.ParsePodPattern(word)
	if err == nil {
		l.Pods = append(l.Pods, pod)
	}
	return err
}

// addCalled adds the process with a name, or else the processes whose names match it as a pattern.
func (l processList) addCalled(name string) error {
	pid, err := processCalled(name)
	return l.addOr(name, pid, err)
}

// addOr adds a process or, if the error means that there is none, those whose names match a
// pattern.
func (l processList) addOr(pattern string, pid int, err error) error {
	pids := []int{pid}
	if isNoProcess(err) && strings.ContainsAny(pattern, "*?[") {
		pids, err = processesLike(pattern)
	}
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if !slices.Contains(l.PIDs, pid) {
			l.PIDs = append(l.PIDs, pid)
		}
	}
	return nil
}

// processOf returns the process that a word names: its PID, or a name that no other process has.
func processOf(word string) (int, error) {
	pid, err := strconv.ParseInt(word, 10, 32)
	switch {
	case err != nil && !isNumber(strings.TrimLeft(word, "+-")):
		return processCalled(word)
	case err != nil || pid <= 0:
		return 0, fmt.Errorf("takes the PID of a process, not %s", word)
	}
	return int(pid), nil
}

// isNumber reports whether a word consists of digits.
func isNumber(word string) bool { return word != "" && strings.Trim(word, "0123456789") == "" }

// areNumbers reports whether a text consists of numbers, as pgrep prints them.
func areNumbers(text string) bool {
	isName := func(word string) bool { return !isNumber(word) }
	return !slices.ContainsFunc(strings.Fields(text), isName)
}

func newProcessList(t *query.Target) processList {
	return processList{t, new([]string), new(error)}
}

// settleTarget decides what -p and -a select together: with -a, -p gives patterns of names, which
// also select later processes. A verb that looks only once takes those that match now.
func settleTarget(c *cobra.Command) error {
	flag := c.Flags().Lookup("pid")
	if flag == nil || !flag.Changed {
		return nil
	}
	l, ok := flag.Value.(processList)
	switch {
	case !ok:
		return nil
	case !l.All:
		return processError(flag, *l.err)
	case len(l.Pods) > 0 || slices.ContainsFunc(*l.words, areNumbers):
		return l.Check()
	}
	l.PIDs = nil
	for _, name := range *l.words {
		if err := checkName(name); err != nil {
			return processError(flag, err)
		}
	}
	if c.Flags().Lookup("wait") != nil {
		l.Names = *l.words
		return nil
	}
	l.All = false
	for _, name := range *l.words {
		pids, err := processesLike(name)
		if err != nil {
			return processError(flag, err)
		}
		l.PIDs = append(l.PIDs, pids...)
	}
	return nil
}

// processError returns the error for the value of -p.
func processError(flag *pflag.Flag, err error) error {
	switch {
	case err == nil:
		return nil
	case isNoProcess(err):
		return fmt.Errorf("%s: %w", flagName(flag), err)
	}
	return query.Usagef("%s %w", flagName(flag), err)
}

// targetFlags adds the flags that select the processes in which a command looks for probes.
func targetFlags(c *cobra.Command, t *query.Target) {
	c.Flags().VarP(newProcessList(t), "pid", "p", "the process `PID`, or its name if no other has it, or every process that a name with * matches, or several as pgrep prints them, with their shared libraries; or NAMESPACE/POD[/CONTAINER], with * for any, on a node of Kubernetes")
	c.Flags().BoolVarP(&t.All, "all", "a", false, "every process on the machine, in containers too; with a name in -p, every one that the name matches, also later")
	_ = c.RegisterFlagCompletionFunc("pid", completePID)
}
