//go:build linux

package script

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/render"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// ExporterName is what ebpf_exporter's two files are named after, without their extensions.
const ExporterName = "stapsdt"

// exporterHead is what the program begins with, after its comment. The table's name is that of
// the metric, and its key is the number of a probe in the configuration.
const exporterHead = `#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/usdt.bpf.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, %d);
	__type(key, __u32);
	__type(value, __u64);
} stapsdt_probe_events_total SEC(".maps");

static int count(__u32 probe)
{
	__u64 *events, none = 0;
%s
	events = bpf_map_lookup_elem(&stapsdt_probe_events_total, &probe);
	if (!events) {
		bpf_map_update_elem(&stapsdt_probe_events_total, &probe, &none, BPF_NOEXIST);
		events = bpf_map_lookup_elem(&stapsdt_probe_events_total, &probe);
	}
	if (events)
		__sync_fetch_and_add(events, 1);
	return 0;
}
`

// Exporter returns a program in C and the configuration with which Cloudflare's ebpf_exporter,
// from version 2 on, counts the events of each probe. skipped says of the probes that are not
// in the program why libbpf cannot attach them.
func (s *Script) Exporter() (program, config string, skipped []string) {
	var functions, names strings.Builder
	numbers := map[string]int{}
	for i, sites := range s.byName() {
		name := sites[0].Provider + ":" + sites[0].Name
		if why := libbpfObstacle(sites); why != "" {
			skipped = append(skipped, fmt.Sprintf("%s in %s: %s", render.Printable(name), render.Printable(sites[0].File.Path), why))
			continue
		}
		number, known := numbers[name]
		if !known {
			number = len(numbers)
			numbers[name] = number
			key, _ := json.Marshal(name) // a string is JSON, which is YAML
			fmt.Fprintf(&names, "                %d: %s\n", number, key)
		}
		fmt.Fprintf(&functions, "\n// %s\nSEC(\"usdt/%s:%s\")\nint probe%d(struct pt_regs *ctx)\n{\n\treturn count(%d);\n}\n",
			sites[0].describe(), sites[0].File.Path, name, i, number)
	}
	return s.exporterProgram(len(numbers), functions.String()), exporterConfig + names.String(), skipped
}

// exporterConfig is the configuration, which the names of the probes follow.
const exporterConfig = `# Shows what stapsdt.bpf.c counts.
metrics:
  counters:
    - name: stapsdt_probe_events_total
      help: Events of each probe.
      labels:
        - name: probe
          size: 4
          decoders:
            - name: uint
            - name: static_map
              static_map:
`

// exporterProgram returns the program with a function for each probe.
func (s *Script) exporterProgram(probes int, functions string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// Counts the events of %s", render.Printable(s.Specs))
	if len(s.PIDs) > 0 {
		fmt.Fprintf(&b, " of %s", processes(s.PIDs))
	}
	fmt.Fprintf(&b, ", for ebpf_exporter:\n//\n//\tclang -O2 -g -target bpf -D__TARGET_ARCH_x86 -I/usr/include/x86_64-linux-gnu -c %[1]s.bpf.c\n"+
		"//\tebpf_exporter --config.dir . --config.names %[1]s\n//\n// On arm64 it is __TARGET_ARCH_arm64, and aarch64-linux-gnu.\n", ExporterName)
	for _, pid := range s.needed() {
		fmt.Fprintf(&b, "//\n// It finds a probe through process %d, and works as long as this runs.\n", pid)
	}
	var test strings.Builder
	if len(s.PIDs) > 0 {
		var others []string
		for _, pid := range s.PIDs {
			others = append(others, fmt.Sprintf("pid != %d", pid))
		}
		fmt.Fprintf(&test, "\t__u32 pid = bpf_get_current_pid_tgid() >> 32;\n\n\tif (%s)\n\t\treturn 0;", strings.Join(others, " && "))
	}
	fmt.Fprintf(&b, exporterHead, max(probes, 1), test.String())
	b.WriteString(functions + "\nchar LICENSE[] SEC(\"license\") = \"GPL\";\n")
	return b.String()
}

// libbpfArgs is the number of arguments that libbpf accepts in a note.
const libbpfArgs = 12

// libbpfObstacle returns why libbpf cannot attach a probe, or "". It reads the operands of all
// arguments, even for a program that asks for none.
func libbpfObstacle(sites []Site) string {
	for _, name := range []string{sites[0].Provider, sites[0].Name, sites[0].File.Path} {
		if !printable(name) || strings.ContainsAny(name, `:"\?`) {
			return fmt.Sprintf("libbpf has no way to write %s", render.Printable(name))
		}
	}
	for _, site := range sites {
		if len(site.Args) > libbpfArgs {
			return fmt.Sprintf("libbpf reads at most %d arguments, and it has %d", libbpfArgs, len(site.Args))
		}
		for _, a := range site.Args {
			if !libbpfReads(a) {
				return fmt.Sprintf("libbpf does not understand the operand %s; --for tracefs does more", render.Printable(a.String()))
			}
		}
	}
	return ""
}

// libbpfReads reports whether every version of libbpf understands an operand: a register, a
// constant, or memory at a register.
func libbpfReads(a sdt.Arg) bool {
	o := a.Operand
	spelled, _, _ := strings.Cut(a.String(), "@")
	if a.Err != nil || o.Symbol != "" || strings.HasSuffix(spelled, "f") {
		return false
	}
	switch o.Kind {
	case sdt.OperandRegister:
		return o.Base.Shift == 0
	case sdt.OperandConstant:
		return true
	case sdt.OperandMemory:
		return o.Base.Name != "" && o.Index.Name == ""
	}
	return false
}
