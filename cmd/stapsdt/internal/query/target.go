package query

// Target selects the processes in which a command looks for probes.
type Target struct {
	// PIDs select processes and what they have forked, earlier or later.
	PIDs []int
	// Pods select the processes of pods, including later ones.
	Pods []PodPattern
	All  bool
	// Names are patterns of path.Match for the names of processes. With All, they select the
	// processes, including later ones, and what those have forked.
	Names []string
	// DebugFiles are files with the debug information of the processes' programs.
	DebugFiles []string
	// Sources are directories with the source of the processes' programs.
	Sources []string
}

// Given reports whether the target selects any processes.
func (t *Target) Given() bool { return t.All || len(t.PIDs)+len(t.Pods) > 0 }

// Check returns an error if the options cannot be combined.
func (t *Target) Check() error {
	switch {
	case t.All && len(t.PIDs)+len(t.Pods) > 0:
		return Usagef("-p and -a can be combined for names only, which then select later processes too")
	case len(t.PIDs) > 0 && len(t.Pods) > 0:
		return Usagef("-p takes processes or pods, not both")
	}
	return nil
}
