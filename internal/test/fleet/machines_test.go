//go:build linux && (amd64 || arm64)

package fleet

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// machine makes network and PID namespaces, and returns how to run something there, and its
// address. The number tells machines apart.
func machine(t testing.TB, number int) (in inside, addr string) {
	t.Helper()
	unshare := testenv.NeedsTool(t, "unshare", "util-linux")
	nsenter := testenv.NeedsTool(t, "nsenter", "util-linux")
	ip := testenv.NeedsTool(t, "ip", "iproute2")
	p := tracetest.Command(t, exec.Command(unshare, "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", "echo ready; cat"))
	p.Expect("ready", testenv.Patience)
	ns := fmt.Sprintf("/proc/%d/ns/", p.PID())
	in = inside{nsenter, "--net=" + ns + "net", "--pid=" + ns + "pid_for_children", "--mount=" + ns + "mnt", "--"}
	run := func(cmd *exec.Cmd) {
		t.Helper()
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", cmd.Args, out)
	}
	// The addresses are those that RFC 2544 keeps for tests of networks.
	cable := fmt.Sprintf("sdt%d", p.PID())
	run(exec.Command(ip, "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(p.PID())))
	run(exec.Command(ip, "address", "add", fmt.Sprintf("198.18.%d.1/30", number), "dev", cable))
	run(exec.Command(ip, "link", "set", cable, "up"))
	addr = fmt.Sprintf("198.18.%d.2", number)
	run(in.command(ip, "address", "add", addr+"/30", "dev", "eth0"))
	run(in.command(ip, "link", "set", "eth0", "up"))
	return in, addr
}

// TestMachines: of two exporters in network and PID namespaces of their own, each counts what was
// fired on its machine, and Prometheus adds that up.
func TestMachines(t *testing.T) {
	needs(t, "it starts Prometheus")
	const provider = "fleet_machines"
	var addrs []string
	var programs []*tracetest.Process
	for number := range 2 {
		in, addr := machine(t, number)
		addr += ":9964"
		programs = append(programs, in.fires(t, provider))
		in.exports(t, provider, rules, addr)
		addrs = append(addrs, addr)
	}
	p := StartPrometheus(t, addrs...)
	p.Gives(map[string]float64{fmt.Sprintf("{instance=%q}", addrs[0]): 7, fmt.Sprintf("{instance=%q}", addrs[1]): 7}, "sum by (instance) (stapsdt_attached_sites)")
	does(programs[0], "storm 3000 4", "level 5", "begin 2")
	does(programs[1], "storm 300 2", "level 6", "begin 3")
	for metric, want := range map[string][2]float64{
		"said_total": {12000, 600}, "said_size_bytes_sum": {24000, 1200}, "level": {5, 6}, "jobs_in_flight": {2, 3},
	} {
		p.Gives(map[string]float64{fmt.Sprintf("{instance=%q}", addrs[0]): want[0], fmt.Sprintf("{instance=%q}", addrs[1]): want[1]}, "sum by (instance) ("+metric+")")
		p.Gives(map[string]float64{"{}": want[0] + want[1]}, "sum("+metric+")")
	}
	p.Gives(map[string]float64{`{text="storm0"}`: 4200, `{text="storm1"}`: 4200, `{text="storm2"}`: 4200}, "sum by (text) (said_total)")
}
