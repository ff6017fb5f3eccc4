//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"

	filter "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/require"
)

// profile returns the policy of a sandbox, with the death of the process in the
// place of an error for every system call that it does not name.
type profile func() (filter.Policy, error)

var profiles = map[string]profile{
	"docker":  docker,
	"systemd": systemd,
}

// operations are the runtime specification's, by the names of the filter's
// package. A masked comparison is there with zero only.
var operations = map[specs.LinuxSeccompOperator]filter.Operation{
	specs.OpEqualTo: filter.Equal, specs.OpNotEqual: filter.NotEqual,
	specs.OpGreaterThan: filter.GreaterThan, specs.OpGreaterEqual: filter.GreaterOrEqual,
	specs.OpLessThan: filter.LessThan, specs.OpLessEqual: filter.LessOrEqual,
	specs.OpMaskedEqual: filter.BitsNotSet,
}

// docker is the profile that Docker gives a container which has no capabilities.
func docker() (filter.Policy, error) {
	policy := filter.Policy{DefaultAction: filter.ActionKillProcess}
	known, err := arch.GetInfo("")
	if err != nil {
		return policy, err
	}
	spec := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}
	rules, err := seccomp.GetDefaultProfile(spec)
	if err != nil {
		return policy, err
	}
	for _, rule := range rules.Syscalls {
		group := filter.SyscallGroup{Action: filter.ActionAllow}
		switch rule.Action {
		case specs.ActAllow:
		case specs.ActErrno: // clone3, which C libraries are to do without
			group.Action = filter.ActionErrno | filter.Action(*rule.ErrnoRet)
		default:
			return policy, fmt.Errorf("the action %s", rule.Action)
		}
		conditions, err := dockerConditions(rule.Args)
		if err != nil {
			return policy, err
		}
		for _, name := range rule.Names {
			switch _, ok := known.SyscallNames[name]; {
			case !ok: // another architecture's
			case len(conditions) == 0:
				group.Names = append(group.Names, name)
			default:
				group.NamesWithCondtions = append(group.NamesWithCondtions, filter.NameWithConditions{Name: name, Conditions: conditions})
			}
		}
		if len(group.Names)+len(group.NamesWithCondtions) > 0 {
			policy.Syscalls = append(policy.Syscalls, group)
		}
	}
	return policy, nil
}

func dockerConditions(args []specs.LinuxSeccompArg) (conditions filter.ArgumentConditions, err error) {
	for _, arg := range args {
		operation, ok := operations[arg.Op]
		if !ok || arg.Op == specs.OpMaskedEqual && arg.ValueTwo != 0 {
			return nil, fmt.Errorf("the condition %+v", arg)
		}
		conditions = append(conditions, filter.Condition{Argument: uint32(arg.Index), Operation: operation, Value: arg.Value})
	}
	return conditions, nil
}

// systemd is SystemCallFilter=@system-service, as the installed systemd has it.
func systemd() (filter.Policy, error) {
	policy := filter.Policy{DefaultAction: filter.ActionKillProcess}
	known, err := arch.GetInfo("")
	if err != nil {
		return policy, err
	}
	names, err := testenv.SystemCalls("@system-service")
	if err != nil {
		return policy, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, ok := known.SyscallNames[name]; return !ok })
	slices.Sort(names)
	policy.Syscalls = []filter.SyscallGroup{{Action: filter.ActionAllow, Names: slices.Compact(names)}}
	return policy, nil
}

func forEachProfile(t *testing.T, test func(t *testing.T, name string)) {
	testenv.NeedsTool(t, "systemd-analyze", "systemd")
	for name := range profiles {
		t.Run(name, func(t *testing.T) { test(t, name) })
	}
}

// enter locks the process into a profile.
func enter(name string) error {
	policy, err := profiles[name]()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // it gets no_new_privs, without which the kernel refuses it the filter
	defer runtime.UnlockOSThread()
	return filter.LoadFilter(filter.Filter{NoNewPrivs: true, Flag: filter.FilterFlagTSync, Policy: policy})
}

// TestFiltersKill: the filters are in force.
func TestFiltersKill(t *testing.T) {
	forEachProfile(t, func(t *testing.T, name string) {
		err := tracetest.Child(t, "forbidden", tracetest.WithArgs(name)).Wait(testenv.Patience)
		require.ErrorContains(t, err, "signal: bad system call")
	})
}

// TestSeccomp loads, fires, unloads, loads again and closes where one system call
// more would be the process's death.
func TestSeccomp(t *testing.T) {
	forEachProfile(t, func(t *testing.T, name string) {
		child := tracetest.Child(t, "seccomp", tracetest.WithArgs(name), directory(t))
		require.Contains(t, child.Expect("file ", testenv.Patience), "/stapsdt/")
		require.Contains(t, child.Expect("memory ", testenv.Patience), "/proc/")
		require.NoError(t, child.Wait(testenv.Patience))
	})
}

// TestTracedUnderSeccomp: what the kernel makes of a traced site is no system call
// that the filter sees.
func TestTracedUnderSeccomp(t *testing.T) {
	tracetest.NeedUprobes(t)
	forEachProfile(t, func(t *testing.T, name string) {
		child := tracetest.Child(t, "traced", tracetest.WithArgs(name), directory(t))
		path := child.Expect("loaded ", testenv.Patience)
		notes := tracetest.Must(sdt.ReadFile(path))(t)
		counter := tracetest.Must(tracetest.CountUprobe(path, notes[0].Offset))(t)
		defer counter.Close()
		child.Say("fire")
		child.Expect("fired 1000", testenv.Patience)
		require.NoError(t, child.Wait(testenv.Patience))
		count := tracetest.Must(counter.Count())(t)
		require.EqualValues(t, 1000, count)
	})
}
