//go:build linux

package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/nearest"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// otherName: the process has probes, but not of this name.
func otherName(f *Facts) []Finding {
	if f.Spec == nil || len(f.Images) == 0 || f.likely() != nil {
		if f.Spec != nil && f.Spec.File != "" && f.Named.Err == nil && !f.Named.HasProbe {
			return []Finding{fault(StatusNothing,
				fmt.Sprintf("%s has no probe %s:%s.", f.Spec.File, f.Spec.Provider, f.Spec.Probe), "List its probes: stapsdt list "+f.Spec.File+".")}
		}
		return nil
	}
	if errors.Is(f.Named.Err, sdt.ErrNoProbes) {
		return nil // otherFile says so
	}
	asked := f.Spec.Provider + ":" + f.Spec.Probe
	names := f.nearest()
	says := fmt.Sprintf("Process %d has no probe %s. The nearest name is %s", f.PID, asked, names[0])
	if rest := names[1:min(len(names), 5)]; len(rest) > 0 {
		says += "; it also has " + strings.Join(rest, ", ")
		if more := len(names) - 5; more > 0 {
			says += fmt.Sprintf(" and %d others", more)
		}
	}
	return []Finding{fault(StatusNothing, says+".", fmt.Sprintf("Use %s, or list the names: stapsdt list -p %d.", names[0], f.PID))}
}

// nearest returns the names of all probes, beginning with those that resemble the one that was
// asked for.
func (f *Facts) nearest() (names []string) {
	far := map[string]int{}
	for _, im := range f.Images {
		for _, n := range im.Probes {
			if _, known := far[n.String()]; !known {
				names = append(names, n.String())
			}
			far[n.String()] = nearest.Distance(f.Spec.Provider, n.Provider) + nearest.Distance(f.Spec.Probe, n.Probe)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(far[a]-far[b], cmp.Compare(a, b)) })
	return names
}

// characters: not every tracer takes every name.
func characters(f *Facts) (all []Finding) {
	var quoted, perf, digit string
	for _, im := range f.selected() {
		for _, n := range im.Probes {
			if !f.selects(n) {
				continue
			}
			others := strings.TrimFunc(n.Provider+n.Probe, plain)
			switch {
			case others == "":
			case strings.IndexFunc(others, func(r rune) bool { return !plain(r) && !strings.ContainsRune("-.+", r) }) >= 0:
				quoted = cmp.Or(quoted, n.String())
			default:
				perf = cmp.Or(perf, n.String())
			}
			if last := n.Provider[max(0, len(n.Provider)-1):]; last >= "0" && last <= "9" {
				digit = cmp.Or(digit, n.String())
			}
		}
	}
	const cure = "Use letters, digits and underscores, and let a provider's name end in a letter."
	if quoted != "" {
		provider, probe, _ := strings.Cut(quoted, ":")
		all = append(all, limit(
			fmt.Sprintf("bpftrace takes the name %s in quotes only: usdt:*:%q:%q. perf does not take it.", quoted, provider, probe), cure))
	}
	if perf != "" {
		all = append(all, limit(fmt.Sprintf("perf does not take the name %s, which has other characters than letters, digits and underscores.", perf), cure))
	}
	if digit != "" {
		all = append(all, note(fmt.Sprintf("DTrace cannot trace %s, because the name of the provider ends in a digit.", digit), cure))
	}
	return all
}

// plain reports whether every tracer takes a character in a name.
func plain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
}

// sameNames: bpftrace 0.17 attaches twice to one of two images.
func sameNames(f *Facts) []Finding {
	files := map[Name]string{}
	for _, im := range f.selected() {
		for _, n := range im.Probes {
			if other, ok := files[n]; ok && f.selects(n) {
				return []Finding{limit(
					fmt.Sprintf("Two images have %v: %s and %s. With -p, bpftrace 0.17 attaches twice to one of them, and not to the other.", n, other, im.Path),
					"With bpftrace 0.17, attach to the path of each, without -p.")}
			}
			files[n] = im.Path
		}
	}
	return nil
}

// traced: a tracer is attached, so that the rest is up to the program.
func traced(f *Facts) []Finding {
	if !f.Trial.Known || !f.Trial.Before {
		return nil
	}
	return []Finding{note(
		fmt.Sprintf("A tracer is attached to %v in process %d now. If it shows nothing, the code does not fire, or a filter is never true.", f.Trial.Name, f.PID), "")}
}
