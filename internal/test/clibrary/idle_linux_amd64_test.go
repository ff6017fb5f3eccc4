package clibrary

import (
	"debug/elf"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestIdleInstructions: an idle fire reads the address of its site and the site's first byte, and nothing else, and executes no instruction more
// than one of a library without recordings. Where it is inlined, it makes no call. The instructions are those that a processor has executed, from the function's first one to its return.
func TestIdleInstructions(t *testing.T) {
	testenv.NotEmulated(t, "it traces a program")
	testenv.NeedsTool(t, "objdump", "binutils")
	program := build(t) + "/idle"
	executed := execute(t, program)
	for _, function := range []string{"Fire", "FireV", "IsEnabled"} {
		ours, plain := executed["probe"+function], executed["plain"+function]
		t.Logf("probe%s: %d instructions, %d without recordings:\n%s", function, len(ours), len(plain), strings.Join(ours, "\n"))
		require.NotEmpty(t, plain, function)
		require.LessOrEqual(t, len(ours), len(plain), function)
		require.Len(t, loads(ours), 2, "%s: %s", function, loads(ours))
		require.Regexp(t, `^ret`, ours[len(ours)-1])
		inlined := executed["inlined"+function]
		t.Logf("inlined: %d instructions:\n%s", len(inlined), strings.Join(inlined, "\n"))
		require.LessOrEqual(t, len(inlined), 12, function)
		require.Len(t, loads(inlined), 2, "%s: %s", function, loads(inlined))
		require.NotRegexp(t, `(?m)^(call|j.*<probe)`, strings.Join(inlined, "\n"))
		require.Regexp(t, `^ret`, inlined[len(inlined)-1])
	}
}

// execute steps through the program, and returns the instructions that it has executed of each function.
func execute(t *testing.T, program string) map[string][]string {
	functions, instructions := symbols(t, program), disassemble(t, program)
	runtime.LockOSThread() // that traces
	defer runtime.UnlockOSThread()
	cmd := exec.Command(program)
	cmd.Env = append(cmd.Environ(), "STAPSDT_RECORD=", "STAPSDT_SOCKET=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	testenv.Needs(t, "ptrace", cmd.Start())
	defer cmd.Process.Kill()
	wait := func() {
		var status unix.WaitStatus
		_, err := unix.Wait4(cmd.Process.Pid, &status, 0, nil)
		require.NoError(t, err)
		require.True(t, status.Stopped() && status.StopSignal() == unix.SIGTRAP, "%#x", status)
	}
	wait() // for its first instruction
	require.NoError(t, unix.PtraceCont(cmd.Process.Pid, 0))
	wait() // for its breakpoint
	executed := map[string][]string{}
	for range 10_000 {
		var regs unix.PtraceRegs
		require.NoError(t, unix.PtraceGetRegs(cmd.Process.Pid, &regs))
		for name, f := range functions {
			if regs.Rip-f.Value < f.Size {
				executed[name] = append(executed[name], instructions[regs.Rip])
			}
		}
		if len(executed["finished"]) > 0 {
			return executed
		}
		require.NoError(t, unix.PtraceSingleStep(cmd.Process.Pid))
		wait()
	}
	require.Fail(t, "the program does not come to its end")
	return nil
}

// symbols returns the functions of the program that begin with probe, plain or inlined, and the one called finished.
func symbols(t *testing.T, program string) map[string]elf.Symbol {
	f, err := elf.Open(program)
	require.NoError(t, err)
	defer f.Close()
	all, err := f.Symbols()
	require.NoError(t, err)
	found := map[string]elf.Symbol{}
	for _, s := range all {
		if regexp.MustCompile(`^(probe|plain|inlined)[A-Z]\w*$|^finished$`).MatchString(s.Name) {
			found[s.Name] = s
		}
	}
	return found
}

// disassemble returns the instructions by their addresses.
func disassemble(t *testing.T, program string) map[uint64]string {
	out, err := exec.Command("objdump", "-d", "--no-show-raw-insn", program).Output()
	require.NoError(t, err)
	instructions := map[uint64]string{}
	for _, m := range regexp.MustCompile(`(?m)^ +([0-9a-f]+):\t(.*)$`).FindAllStringSubmatch(string(out), -1) {
		address, err := strconv.ParseUint(m[1], 16, 64)
		require.NoError(t, err)
		instructions[address] = strings.Join(strings.Fields(m[2]), " ")
	}
	return instructions
}

// loads returns the instructions that read memory, except those that restore the registers of the caller and return.
func loads(instructions []string) (found []string) {
	for _, i := range instructions {
		name, operands, _ := strings.Cut(i, " ")
		isAddress := strings.HasPrefix(name, "lea") || strings.HasPrefix(name, "nop")
		isStore := strings.HasPrefix(name, "mov") && regexp.MustCompile(`,[^,(]*\([^)]*\)$`).MatchString(operands)
		if strings.Contains(operands, "(") && !isAddress && !isStore {
			found = append(found, i)
		}
	}
	return found
}
